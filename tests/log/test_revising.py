"""Changes to a tree: what each does, what is refused, undo and redo, and that no byte of a text ever changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from acs_jupyter.errors import InvalidRequest
from acs_jupyter.log import events as ev
from acs_jupyter.log import revising as rv
from acs_jupyter.log import standing
from acs_jupyter.log.arrangement import sampled
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.packing import pack
from tests import make_golden as golden
from tests.support.moves import MOVES, Player

if TYPE_CHECKING:
    from pathlib import Path

BASES = ["stream_continuous_logprobs_5", "stream_plain", "echo_logprobs_2", "tokens_one"]


def as_json(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def visible(session: Session) -> list[Any]:
    """What a person sees, in reading order; where somebody looked is no part of it."""
    marks = session.arrangement.marks
    rows: list[Any] = [marks.get("", {})]
    waiting = [*reversed(standing.alive(session, None))]
    while waiting:
        node = session.nodes[waiting.pop()]
        own = {k: v for k, v in marks.get(node.id, {}).items() if k not in ("visited", "unread")}
        rows.append([node.id, node.parent, node.text, node.tokens, node.logprobs, own])
        waiting += reversed(standing.alive(session, node.id))
    return as_json(rows)


def reloaded(session: Session, folder: Path) -> Session:
    session.save(folder / "s.jsonl")
    return Session.load(folder / "s.jsonl")


def texts(session: Session) -> dict[str, bytes]:
    return {node.id: node.text.encode() for node in session.nodes.values()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(base="stream_continuous_logprobs_5", seed=230, reload_at=0)  # a fork of a text that begins a tree
@given(base=st.sampled_from(BASES), seed=st.integers(0, 2**32), reload_at=st.integers(0, 39))
def test_any_sequence_gives_the_same_tree_after_loading(
    tmp_path: Path, base: str, seed: int, reload_at: int
) -> None:
    session = golden.session_of(golden.events_of(base))
    first = visible(session)
    player = Player(session, seed)
    for step in range(40):
        before = texts(player.session)
        if step == reload_at:
            player.session = reloaded(player.session, tmp_path)
        player.move()
        after = texts(player.session)
        written = {node for node in before if after[node] != before[node]}
        assert all(after[node].startswith(before[node]) for node in written)
        assert len(written) <= 1  # what is written to goes on; nothing else changes
    player.settle()
    session = player.session
    assert as_json(reloaded(session, tmp_path).state()) == as_json(session.state())
    assert as_json(session.copy().state()) == as_json(session.state())
    last, steps = visible(session), len(session.arrangement.done)
    for _ in range(steps):
        session.apply([rv.undone(session)])
    assert visible(session) == first
    session = reloaded(session, tmp_path)  # what can be done again survives too
    for _ in range(steps):
        session.apply([rv.redone(session)])
    assert visible(session) == last


def test_the_sequences_make_every_move() -> None:
    made = {
        event.what
        for name in golden.LOOMS
        for event in golden.all_events(name)
        if isinstance(event, ev.Revised)
    }
    kinds = {
        event.kind
        for name in golden.LOOMS
        for event in golden.all_events(name)
        if isinstance(event, ev.Revised)
    }
    assert kinds == {"step", "view", "undo", "redo"}
    assert made >= {
        "grow",
        "edit",
        "split",
        "merge",
        "move",
        "reorder",
        "delete",
        "hoist",
        "new root",
        "visit",
    }
    assert len(MOVES) == 17


@pytest.fixture
def tree() -> Session:
    """A prompt, one continuation of tokens with logprobs, and a child of it."""
    session = Session(clock=lambda: 0.0)
    session.apply([ev.RunOpened("g", {"prompt": "Hi", "model": "m"}), ev.NodeOpened("p", "g", text="Hi")])
    session.apply([ev.NodeOpened("a", "g", "p", 0)])
    tops = tuple({t: -float(i), " no": -0.5} for i, t in enumerate((" one", "", "\u00e9", " three"), 1))
    tokens = (" one", "", "\u00e9", " three")
    session.apply([ev.TokensArrived("a", "".join(tokens), tokens, (-1.0, -2.0, -3.0, -4.0), tops)])
    session.apply([ev.Finished("a", "length"), ev.RunClosed("g", "done")])
    session.apply([rv.added(session, " end", "a", "g", lambda: "c")])
    return session


def test_split_and_merge_keep_paths_tokens_and_logprobs(tree: Session) -> None:
    path = tree.text_to("c")
    tree.apply([rv.split(tree, "a", token=3)])
    _, head, tail, child = tree.path("c")
    assert (head.tokens, tail.tokens, tail.logprobs, child.id) == (
        [" one", "", "\u00e9"],
        [" three"],
        [-4.0],
        "c",
    )
    assert tree.text_to("c") == path
    assert tail.finish_reason == "length"
    assert standing.alive(tree, "p") == [head.id]
    tree.apply([rv.merged(tree, tail.id)])
    whole = tree.nodes["c"].parent
    assert whole is not None
    assert tree.nodes[whole].tokens == tree.nodes["a"].tokens
    assert tree.nodes[whole].top == tree.nodes["a"].top
    assert tree.text_to("c") == path
    for _ in range(2):
        tree.apply([rv.undone(tree)])
    assert tree.nodes["c"].parent == "a"
    assert standing.alive(tree, "p") == ["a"]


def test_parts_of_a_generated_text_are_still_of_that_sample(tree: Session) -> None:
    tree.apply([rv.split(tree, "a", token=1)])
    (head,) = standing.alive(tree, "p")
    (tail,) = standing.alive(tree, head)
    marks = tree.arrangement
    assert [marks.mark(node, "sample") for node in (head, tail)] == ["a", "a"]
    assert [sampled(marks, tree.nodes[node]) for node in ("p", "a", head, tail)] == [False, True, True, True]
    assert tree.nodes[head].finish_reason is None
    assert tree.nodes[tail].finish_reason == tree.nodes["a"].finish_reason
    assert tree.nodes[tail].stop_reason == tree.nodes["a"].stop_reason
    assert tree.nodes[tail].run == tree.nodes["a"].run
    tree.apply([rv.merged(tree, tail)])
    (whole,) = standing.alive(tree, "p")
    assert marks.mark(whole, "sample") == "a"
    tree.apply([rv.edited(tree, whole, tree.own_text(tree.nodes[whole]) + " mine", lambda: "e")])
    assert not sampled(marks, tree.nodes["e"])


def test_edit_is_a_sibling_and_keeps_what_both_begin_with(tree: Session) -> None:
    tree.apply([rv.edited(tree, "a", " one\u00e9 two", lambda: "b")])
    assert standing.alive(tree, "p") == ["a", "b"]
    assert tree.nodes["b"].tokens == [" one", "", "\u00e9", " two"]
    assert tree.nodes["b"].logprobs == [-1.0, -2.0, -3.0, None]
    assert tree.nodes["a"].children == ["c"]
    assert tree.arrangement.mark("b", "made_of") == ["a"]


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda s: rv.split(s, "a", token=2), "in the middle of a character"),
        (lambda s: rv.split(s, "a", at=2), "within a token"),
        (lambda s: rv.split(s, "a", token=9), "4 tokens"),
        (lambda s: rv.split(s, "p", token=1), "say the character with at="),
        (lambda s: rv.merged(s, "p"), "is a root"),
        (lambda s: rv.moved(s, "p", "c"), "below itself"),
        (lambda s: rv.moved(s, "c", "p", "c"), "not another child"),
        (lambda s: rv.moved(s, "x", "p"), "no node 'x'"),
        (lambda s: rv.edited(s, "c", " end"), "nothing was changed"),
        (lambda s: rv.added(s, "\ud800", "c", "g"), "surrogate"),
        (rv.redone, "nothing to redo"),
        (lambda s: rv.deleted(s, []), "No node"),
    ],
)
def test_what_cannot_be_done_is_one_line(tree: Session, ask: Any, line: str) -> None:
    before = as_json(tree.state())
    with pytest.raises(InvalidRequest, match=line) as told:
        tree.apply([ask(tree)])
    assert "\n" not in str(told.value)
    assert as_json(tree.state()) == before


def test_a_busy_subtree_is_left_alone(tree: Session) -> None:
    opened = ev.NodeOpened("r.0", "r", "c", 0)
    tree.apply([ev.RunOpened("r", {"prompt": ""}), opened, rv.grown([opened])])
    asked = [
        lambda: rv.deleted(tree, ["a"]),
        lambda: rv.moved(tree, "c", None),
        lambda: rv.split(tree, "a", token=1),
        lambda: rv.merged(tree, "c"),
        lambda: rv.edited(tree, "r.0", "x"),
        lambda: rv.undone(tree),
    ]
    for ask in asked:
        with pytest.raises(InvalidRequest, match="still being generated: stop it, or wait"):
            ask()
    tree.apply([rv.edited(tree, "c", " other")])  # a sibling of the node above takes nothing from it
    tree.apply([ev.RunClosed("r", "done")])
    tree.apply([rv.undone(tree)])
    tree.apply([rv.undone(tree)])
    assert standing.alive(tree, "c") == []


@pytest.mark.parametrize(
    "changes",
    [
        [ev.Change("p", "place", ["c", None])],
        [ev.Change("c", "note", "kept?"), ev.Change("x", "note", "y")],
        [ev.Change("c", "note", "kept?"), ev.Change("c", "strange", 1)],
        [ev.Change("c", "rating", float("nan"))],
        [ev.Change("c", "place", ["x", None])],
    ],
)
def test_an_event_that_cannot_be_folded_leaves_nothing(tree: Session, changes: list[ev.Change]) -> None:
    before, length = as_json(tree.state()), len(tree)
    written = ev.Written("w", "g", "c", (ev.Piece("a", 0, 2),))
    with pytest.raises((ValueError, KeyError)):
        tree.apply([ev.Revised("bad", written=(written,), changes=tuple(changes))])
    assert (as_json(tree.state()), len(tree)) == (before, length)


def test_echoed_text_stays_below_its_prompt() -> None:
    session = golden.session_of(golden.events_of("echo_logprobs_2"))
    (node,) = session.runs["g"].nodes
    path = session.text_to(node)
    with pytest.raises(InvalidRequest, match="only be below its prompt"):
        rv.moved(session, node, None)
    session.apply([rv.merged(session, node, lambda: "m")])
    assert session.nodes["m"].text == path


def test_marks_and_visits(tree: Session) -> None:
    for change in ({"tags": ["a"]}, {"rating": 0}, {"bookmark": True}, {"unread": True}):
        event = rv.marked(tree, "c", **change)
        assert event is not None
        tree.apply([event])
        assert rv.marked(tree, "c", **change) is None
    assert rv.marked(tree, "c", folded=False) is None
    seen = rv.visited(tree, "c")
    assert seen is not None
    tree.apply([seen])
    assert tree.arrangement.mark("a", "visited") == "c"
    assert tree.arrangement.marks["c"] == {"tags": ["a"], "rating": 0, "bookmark": True}
    assert rv.visited(tree, "c") is None
    assert tree.arrangement.done[-1].what == "unread"  # looking is no step


def test_a_session_that_nobody_arranged_says_nothing_of_it() -> None:
    session = golden.session_of(golden.events_of("plain"))
    assert set(session.state()) == {"roots", "nodes", "runs"}
    assert "loom" not in pack(session.state(), 0, 0.0)
