"""A loom's windows without a browser: what their intents lead to, what is shared, what stays in the notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Client, Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.keeping.record import KEY, unpack_run
from acs_jupyter.log.events import Piece, Revised, Written
from acs_jupyter.looms.desk import desk_of
from acs_jupyter.widgets.loom_static import MOST_NODES, bundle
from acs_jupyter.widgets.snapshot import most_saved
from acs_jupyter.widgets.tinted import on_file
from tests.support.hands import Hands, quiet, until
from tests.support.servers import Running
from tests.support.trees import grown

SIX = "#scripted tokens=6 alternatives=3\nOnce"


@pytest.fixture
def hands(scripted_server: Running) -> Iterator[Hands]:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(SIX, client=client, max_tokens=6, seed=5)
        yield Hands(loom)
        desk = desk_of(loom)
        if desk._own is not None:
            desk._own[1].close()


def test_a_window_grows_and_undoes(hands: Hands) -> None:
    loom = hands.loom
    (root,) = loom.roots
    hands.ask("Grow", node=root, n=3, fields={"temperature": "0.25"})
    until(lambda: len(loom.children(root)) == 3 and quiet(loom))
    request = loom.session.runs[loom.node(loom.children(root)[0]).run].request
    assert (request["temperature"], request["n"], request["max_tokens"], request["seed"]) == (0.25, 3, 6, 5)
    assert request["model"] == "scripted"  # the id, and not the name that stands in answers
    assert loom.marks(root)["sampling"]["temperature"] == 0.25
    hands.ask("Undo")
    assert (loom.children(root), hands.words("said")) == ([], ["Undid: grow."])
    hands.ask("Redo")
    first, *_ = loom.children(root)
    hands.ask("Fork", node=first, token=2, text=next(iter(loom.node(first).top[2] or {})))
    until(lambda: len(loom.children(root)) == 4 and quiet(loom))
    branch = loom.children(root)[-1]
    assert hands.words("look")[-1] == branch
    hands.ask("Undo")
    assert len(loom.children(root)) == 3  # a branch is a step too


def test_an_alternative_in_a_split_text_is_a_branch(hands: Hands) -> None:
    loom = hands.loom
    first, *_ = loom.grow(loom.roots[0], 1)
    head = loom.split(first, token=4)
    other = next(text for text in loom.node(head).top[2] or {} if text != loom.node(head).tokens[2])
    hands.ask("Fork", node=head, token=2, text=other)
    until(lambda: len(loom.nodes) == 5 and quiet(loom))
    made = hands.words("look")[0]
    assert loom.own_text(made) == "".join(loom.node(head).tokens[:2]) + other
    assert len(loom.children(made)) == 1


def test_each_intent_is_done_and_each_refusal_one_line(hands: Hands) -> None:
    loom = hands.loom
    (root,) = loom.roots
    hands.ask("Write", text=" one two", parent=root)
    (child,) = loom.children(root)
    hands.ask("Write", text=" three", beside=child)
    hands.ask("Write", text="other")
    hands.ask("Rewrite", node=child, text=" one")
    hands.ask("Split", node=child, at=4)
    hands.ask("Shift", node=loom.children(root)[0], by=1)
    hands.ask("Move", node=loom.children(root)[-1], parent=loom.roots[1])
    hands.ask("Mark", node=root, tags=["a"], note="n", bookmark=True, rating=3)
    hands.ask("Fold", node=root, folded=True)
    hands.ask("Hoist", node=root)
    hands.ask("Visit", node=child)
    assert hands.refusals() == [], "it was split: whoever rests on what is gone asks for nothing"
    assert loom.marks(root) == {"tags": ["a"], "note": "n", "bookmark": True, "rating": 3, "folded": True}
    assert (loom.hoisted, len(loom.roots)) == (root, 2)
    assert [loom.own_text(node) for node in loom.below(loom.roots[1])] == ["other", " three"]
    assert sorted(loom.own_text(node) for node in loom.below(root)[1:]) == [" one", " one", " two"]
    before = len(loom.session)
    refused: list[tuple[str, dict[str, Any]]] = [
        ("Merge", {"node": root}),
        ("Grow", {"node": "nobody"}),
        ("Grow", {"node": root, "fields": {"temperature": "hot"}}),
        ("Delete", {"nodes": ["nobody"]}),
        ("Store", {"path": "/nowhere/at/all.loom"}),
    ]
    for kind, fields in refused:
        told = len(hands.refusals())
        hands.ask(kind, **fields)
        assert len(hands.refusals()) == told + 1
        assert "\n" not in hands.refusals()[-1]
    for wrong in ({"n": 17}, {"n": 0}, {"n": True}, {"more": 1}):
        hands.ask("Grow", node=root, **wrong)  # what is no intent is nothing
    assert len(loom.session) == before


def test_what_was_typed_comes_back_when_it_is_refused(hands: Hands) -> None:
    loom = hands.loom
    gone = loom.new_root("gone")
    loom.delete(gone)
    hands.ask("Rewrite", node=gone, text="typed")
    hands.ask("Write", parent=gone, text="a child")
    hands.ask("Mark", node=gone, note="noted")
    hands.ask("Mark", node=gone, tags=["a", "b"])
    hands.ask("Mark", node=gone, bookmark=True)
    assert [word["text"] for word in hands.words("refused")] == ["typed", "a child", "noted", "a b"]
    assert all("was deleted; undo brings it back" in word["line"] for word in hands.words("refused"))
    assert len(hands.refusals()) == 5


def test_a_reader_s_rest_on_a_node_that_is_gone_is_nothing(hands: Hands) -> None:
    loom = hands.loom
    gone = loom.new_root("gone")
    loom.delete(gone)
    for node in (gone, "nobody"):
        hands.ask("Visit", node=node)
    assert (hands.refusals(), loom.selected) == ([], [])


def test_search_answers_with_nodes_or_a_line(hands: Hands) -> None:
    loom = hands.loom
    loom.new_child(loom.roots[0], " needle")
    hands.ask("Search", text="NEEDLE")
    hands.ask("Search", text="depth == 1", predicate=True)
    hands.ask("Search", text="__import__('os')", predicate=True)
    text, predicate, refused = hands.words("found")
    assert text["nodes"] == predicate["nodes"] == loom.nodes[1:]
    assert (refused["nodes"], "refused" in refused) == ([], True)


def test_windows_and_code_share_a_selection(hands: Hands) -> None:
    loom = hands.loom
    child = loom.new_child(loom.roots[0], " x")
    other = desk_of(loom).window({}, 400)
    assert loom.selected == []
    hands.ask("Visit", node=child)
    assert loom.selected == [child]
    hands.ask("Light", nodes=[loom.roots[0]])
    assert (loom.selected, other.lit) == (loom.roots, loom.roots)
    loom.select(loom.frame().query("depth == 1"))
    assert hands.window.lit == other.lit == [child]
    with pytest.raises(InvalidRequest, match="no node 'nobody'"):
        loom.select("nobody")
    loom.select()
    assert loom.selected == [child]


def test_a_loom_to_look_at_is_not_changed() -> None:
    loom = Loom("x")
    loom.read_only = True
    hands = Hands(loom)
    before = len(loom.session)
    hands.ask("Visit", node=loom.roots[0])
    hands.ask("Grow", node=loom.roots[0])
    hands.ask("Write", text="y")
    assert (len(loom.session), loom.selected, len(hands.refusals())) == (before, loom.roots, 2)
    assert hands.window.frozen


def test_a_closed_loom_says_so_in_its_windows(tmp_path: Path) -> None:
    loom = Loom("x")
    hands = Hands(loom)
    path = loom.keep(tmp_path / "a.loom")
    assert hands.window.file == str(path)
    loom.close()
    assert hands.window.file == ""
    assert hands.window.trouble == f"closed: {path} does not keep it any more."
    assert desk_of(loom).window({}, 400).trouble == hands.window.trouble
    before = len(loom.session)
    hands.ask("Visit", node=loom.roots[0])
    hands.ask("Fold", node=loom.roots[0], folded=True)
    assert hands.refusals() == []
    hands.ask("Write", text="y")
    assert len(loom.session) == before
    assert hands.refusals()[-1].startswith("This loom is closed")
    hands.ask("Store", path=str(tmp_path / "b.loom"))
    assert (hands.window.trouble, hands.window.file) == ("", str(tmp_path / "b.loom"))
    hands.ask("Write", text="y")
    assert len(loom.roots) == 2
    loom.close()


def test_a_window_s_lines_name_no_ids_and_no_codes(hands: Hands) -> None:
    loom = hands.loom
    (root,) = loom.roots
    child = loom.new_child(root, " one")
    hands.ask("Merge", node=root)
    hands.ask("Move", node=root, parent=child)
    hands.ask("Split", node=child, at=99)
    hands.ask("Measure", what="trie", node=child)
    loom.delete(child)
    hands.ask("Rewrite", node=child, text="x")
    lines = [*hands.refusals(), hands.words("measured")[-1]["line"]]
    assert len(lines) == 5
    for line in lines:
        assert root not in line
        assert child not in line
        assert "invalid_request" not in line
        assert line.startswith("This node")


@pytest.mark.parametrize(("nodes", "tokens"), [(12, 30), (60, 100)])
def test_what_stays_in_the_notebook_keeps_to_its_bound(nodes: int, tokens: int) -> None:
    session = grown(nodes, tokens)
    content, metadata = bundle(session)
    saved = sum(map(on_file, content.values())) + len(json.dumps(metadata))
    assert saved <= most_saved(nodes * tokens)
    assert "<script" not in content["text/html"]
    assert "&lt;b&gt;" in content["text/html"]
    assert content["text/html"].count("<details") == content["text/html"].count("</details>")
    assert len(metadata[KEY]) == nodes
    assert unpack_run(metadata[KEY][-1]).text == session.nodes[f"n{nodes - 1}"].text


def test_a_large_tree_leaves_a_part_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acs_jupyter.widgets.loom_static.LARGEST", 4000)
    monkeypatch.setattr("acs_jupyter.widgets.loom_static.MOST_RECORDS", 20)
    content, metadata = bundle(grown(60, 20))
    shown = content["text/html"].count("<pre")
    assert f"{61 - shown} nodes are not in this copy" in content["text/html"]
    assert 4 < shown < 61
    assert metadata == {}


def test_the_copy_of_a_deep_tree_is_no_deeper_than_browsers_are() -> None:
    loom = Loom("x")
    node = loom.roots[0]
    for _ in range(400):
        loom.new_child(node, " side")
        node = loom.new_child(node, " down")
    content, _ = bundle(loom.session)
    depth = most = 0
    for tag in content["text/html"].split("<"):
        depth += tag.startswith("details") - tag.startswith("/details")
        most = max(most, depth)
    assert (depth, most) == (0, 31)
    assert content["text/html"].count(" down</pre>") == 400
    assert content["text/plain"].endswith(" down")


def chain(depth: int) -> Loom:
    """Nodes one below the other."""
    loom = Loom("x")
    node = Written("n0", next(iter(loom.session.runs)), loom.roots[0], (Piece(text="x"),))
    below = [Written(f"n{n}", node.run, f"n{n - 1}", node.pieces) for n in range(1, depth - 1)]
    loom.session.apply([Revised("write", written=(node, *below))])
    return loom


def test_a_number_in_the_copy_is_short_however_deep_the_node() -> None:
    sizes = {}
    for depth in (500, 1000, 6000, 12000):
        content, _ = bundle(chain(depth).session)
        sizes[depth] = {name: len(content[name]) for name in ("text/html", "text/plain")}
    for name in ("text/html", "text/plain"):
        assert sizes[1000][name] < 2.2 * sizes[500][name]
        assert sizes[12000][name] < sizes[6000][name] + 100, "a part is shown"
    assert "9000 nodes are not in this copy; the loom has them. ---" in content["text/plain"].replace(",", "")
    assert "--- 1.1.1.1.1.1.1.1 ---\nx\n--- level 9: 1 ---\nx" in content["text/plain"]
    assert content["text/html"].count("<pre") == MOST_NODES
