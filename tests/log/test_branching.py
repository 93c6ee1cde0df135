"""Branches as plans and as words: what is kept, what is sent, what is known of a seam, how all of it is saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from acs_jupyter import Completion, Session, load
from acs_jupyter.checks import build_request
from acs_jupyter.keeping.record import pack_run, unpack_run
from acs_jupyter.log import events as ev
from acs_jupyter.log.branching import descendants, plan, retokenised, road, root_of
from acs_jupyter.log.intents import Edit, Fork, Resample, decode_intent
from acs_jupyter.token_ids import LEADS, Unknown, differing, found, probes
from acs_jupyter.widgets.feed import Feed
from acs_jupyter.widgets.roads import branch_name, leaving_words, seam_words
from acs_jupyter.widgets.snapshot import mimebundle
from acs_jupyter.wire import request_fields

WORDS = [" the", " sea", " was", " still"]


def arrived(node: str, *tokens: str) -> ev.TokensArrived:
    tops = tuple({token: -0.5, " a": -1.5, " no": -2.5} for token in tokens)
    return ev.TokensArrived(node, "".join(tokens), tokens, (-0.5,) * len(tokens), tops)


def session(**fields: Any) -> Session:
    """One finished run, ``r``, of four tokens over a prompt that was counted as three."""
    made = Session(clock=lambda: 5.0)
    request = build_request({"prompt": "Far out", "model": "m", "logprobs": 2, "max_tokens": 4, **fields})
    made.apply([*ev.opening("r", request), arrived("r.0", *WORDS)])
    made.apply([ev.Finished("r.0", "length"), ev.Spent("r", 3, 4), ev.RunClosed("r", "done")])
    return made


def grow(made: Session, run: str, intent: Fork | Resample | Edit, *tokens: str, prompt: int = 0) -> str:
    """Carry an intent out, as a server that counts ``prompt`` tokens would answer it."""
    fork = plan(made, intent)
    made.apply(ev.opening(run, fork.request, parents=fork.parents, origin=fork.origin))
    made.apply([arrived(f"{run}.0", *tokens), ev.Finished(f"{run}.0", "stop")])
    made.apply([ev.Spent(run, prompt, len(tokens)), ev.RunClosed(run, "done")])
    return run


@pytest.mark.parametrize(
    "junk",
    [
        {"type": "Fork", "node": "r.0", "token": -1, "text": "a"},
        {"type": "Fork", "node": "r.0", "token": 1, "text": ""},
        {"type": "Fork", "node": "r.0", "token": "1", "text": "a"},
        {"type": "Fork", "node": "r.0", "token": 1, "text": "a", "exact": 1},
        {"type": "Resample", "node": "r.0"},
        {"type": "Edit", "node": "r.0", "text": "a", "exact": True},
        {"type": "Edit", "node": 7, "text": "a"},
    ],
)
def test_intents_are_read_strictly(junk: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Expected|missing|unknown"):
        decode_intent(junk)


def test_a_plan_keeps_the_parameters_and_makes_one_choice() -> None:
    made = session(n=1, temperature=0.7, top_p=0.9, stop=["\n"])
    fork = plan(made, Fork("r.0", 2, " no"))
    assert fork.request.prompt == "Far out the sea no"
    assert (fork.request.temperature, fork.request.top_p, fork.request.stop) == (0.7, 0.9, ["\n"])
    assert fork.parents == ["r.p0"]
    assert fork.origin == ev.Origin("r.0", 2, " no")
    several = session(n=3, prompt_logprobs=2)
    assert plan(several, Resample("r.2", 0)).request.choice_count == 1
    assert "prompt_logprobs" not in request_fields(plan(several, Resample("r.2", 0)).request)


def test_a_seed_moves_on_so_that_a_branch_is_not_the_same_text_again() -> None:
    made = session(seed=7)
    seeds = []
    for run in "abc":
        intent = Resample("r.0", 1)
        seeds.append(plan(made, intent).request.seed)
        grow(made, run, intent, " new")
    assert seeds == [8, 9, 10]
    assert plan(made, Fork("r.0", 1, " no")).request.seed == 7


def test_an_edit_keeps_the_tokens_it_did_not_touch() -> None:
    made = session()
    grow(made, "b", Edit("r.0", " the sea is wide"), ",")
    new = made.nodes["b.0"]
    assert new.tokens == [" the", " sea", " is wide", ","]
    assert new.top[0] == made.nodes["r.0"].top[0]
    assert made.runs["b"].request["prompt"] == "Far out the sea is wide"
    assert new.text == " the sea is wide,"
    same = plan(made, Edit("r.0", " the sea"))
    assert same.origin == ev.Origin("r.0", 2, "")
    assert plan(made, Edit("r.0", "!", token=2)).origin == ev.Origin("r.0", 2, "!")


def test_places_where_no_branch_can_leave_are_told_in_a_line() -> None:
    made = Session()
    made.apply(ev.opening("e", build_request({"prompt": "Hi", "echo": True, "logprobs": 0, "max_tokens": 3})))
    made.apply([ev.TokensArrived("e.0", "Hi é", ("Hi", " ", "", "é"), (None,) * 4, (None,) * 4)])
    for intent, words in (
        (Fork("e.0", 0, "x"), "belongs to the prompt"),
        (Resample("e.0", 3), "middle of a character"),
        (Resample("gone.0", 1), "run its cell again"),
        (Fork("e.p0", 0, "x"), "run its cell again"),
    ):
        with pytest.raises(ValueError, match=words):
            plan(made, intent)
    with pytest.raises(IndexError, match="no token 9"):
        plan(made, Resample("e.0", 9))


def test_a_family_its_names_and_its_road() -> None:
    made = session()
    grow(made, "a", Fork("r.0", 1, " no"), " wind", prompt=5)
    grow(made, "b", Resample("r.0", 2), " wind", prompt=5)
    grow(made, "c", Fork("a.0", 2, " a"), " wind", prompt=6)
    made.apply(ev.opening("x", build_request({"prompt": "Other"})))
    assert descendants(made, "r") == ["a", "b", "c"]
    assert road(made, "c") == ["r", "a", "c"]
    assert root_of(made, "c") == "r"
    assert [branch_name(made, run) for run in "racx"] == ["original", "branch 1", "branch 3", "original"]
    assert [leaving_words(made, run) for run in "abc"] == [
        "token 2 “·no”",
        "token 3 sampled again",
        "token 3 “·a”",
    ]
    completion = Completion(made, "r")
    assert [branch.run for branch in completion.branches] == ["a", "b"]
    assert completion.origin is None
    assert completion.branches[0].branches[0].origin == ev.Origin("a.0", 2, " a")
    assert completion.branches[0].branches[0].source.run == "a"  # type: ignore[union-attr]


def test_what_the_count_of_prompt_tokens_tells_of_a_seam() -> None:
    made = session()
    grow(made, "a", Fork("r.0", 2, " no"), " wind", prompt=6)  # 3 + 2 + 1
    grow(made, "b", Fork("r.0", 2, " no"), " wind", prompt=5)
    grow(made, "c", Edit("r.0", " the sea so very wide"), " wind", prompt=9)
    grow(made, "d", Fork("a.0", 3, " a"), " wind", prompt=7)  # 6 + 0 + 1
    grow(made, "e", Fork("a.0", 1, " a"), " wind", prompt=4)  # 3 + 1 + 1, not 4
    assert [retokenised(made, run) for run in "abcde"] == [None, (6, 5), None, None, (5, 4)]
    assert "counted the tokens that were written" in seam_words(made, "a")
    assert "read 5 tokens where 6 were written" in seam_words(made, "b")
    assert "not known" in seam_words(made, "c")
    made.apply([ev.SeamSought("b.0", 1, 9)])
    assert "first at token 2" in seam_words(made, "b")
    assert unpack_run(pack_run(made, "r")).branches[1].origin.seam == 1  # type: ignore[union-attr]
    made.runs["b"].usage_source = "estimate"
    assert "not known" in seam_words(made, "b")


# -- windows --------------------------------------------------------------------------------------


def test_a_window_that_grows_follows_branches_and_nothing_else() -> None:
    made, sent = session(), []
    feed = Feed(made, ["r"], sent.append, grows=True)
    plain = Feed(made, ["r"], lambda message: None)
    second = Feed(made, ["r"], lambda message: None, grows=True)
    made.apply(ev.opening("x", build_request({"prompt": "Other"})))
    grow(made, "a", Fork("r.0", 1, " no"), " wind")
    made.apply(
        ev.opening("y", plan(made, Resample("r.0", 1)).request, parents=["r.0"])
    )  # goes on, is no branch
    grow(made, "b", Fork("a.0", 1, " a"), " wind")
    assert feed.runs == second.runs == ["r", "a", "b"]
    assert plain.runs == ["r"]
    events = [event for message in sent for event in message.get("events", ())]
    assert [e["run"] for e in events if e["type"] == "RunOpened"] == ["a", "b"]
    assert [m["seq"] for m in sent] == list(range(1, len(sent) + 1))
    made.apply([ev.SeamSought("b.0", 0, 7)])  # after the end of all
    state = json.loads(feed.packed())["state"]
    assert state["nodes"]["b.0"]["origin"] == {
        "node": "a.0", "tokens": 1, "text": " a", "exact": False, "seam": 0, "cost": 7,
    }  # fmt: skip


def test_a_window_of_a_branch_alone_begins_with_its_own_copy() -> None:
    made, sent = session(), []
    feed = Feed(made, ["a"], sent.append, grows=True)
    grow(made, "a", Fork("r.0", 1, " no"), " wind")
    packed = json.loads(feed.packed())
    assert packed["state"]["nodes"]["a.0"]["count"] == 3
    assert "r" not in packed["state"]["runs"]


# -- saved ----------------------------------------------------------------------------------------


def test_a_record_holds_the_family_and_load_gives_it_back(tmp_path: Path) -> None:
    made = session()
    grow(made, "a", Fork("r.0", 1, " no"), " wind", prompt=5)
    grow(made, "b", Edit("a.0", " the end"), ".", prompt=5)
    record = json.loads(json.dumps(pack_run(made, "r")))
    assert pack_run(made, "b")["record"] == record["record"]
    bare = pack_run(session(), "r")
    assert len(record["record"]) < 2.5 * len(bare["record"])
    output = nbformat.v4.new_output("display_data", {"text/plain": "x"}, metadata={"acs_jupyter": record})
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[output])])
    path = tmp_path / "x.ipynb"
    nbformat.write(book, path)
    kept = load(path)
    assert [one.text for one in kept] == [" the sea was still", " the no wind", " the end."]
    assert [one.origin for one in kept] == [None, ev.Origin("r.0", 1, " no"), ev.Origin("a.0", 1, " end")]
    assert kept[2].session is kept[0].session
    assert [t.text for t in kept[1].tokens] == [" the", " no", " wind"]
    assert kept[1].tokens[1].logprob == pytest.approx(-2.5)
    assert kept[1].choices[0].kept == 2
    assert kept[1].choices[0].kept_text == " the no"
    assert kept[1].usage.prompt_tokens == 5
    assert unpack_run(record).branches[0].branches[0].text == " the end."


def test_text_that_has_no_tokens_is_recorded_with_its_branch() -> None:
    made = Session()
    made.apply(ev.opening("t", build_request({"prompt": "Hi"})))
    made.apply([ev.TokensArrived("t.0", " there"), ev.RunClosed("t", "done")])
    fork = plan(made, Edit("t.0", " the"))
    made.apply(ev.opening("b", fork.request, parents=fork.parents, origin=fork.origin))
    made.apply([ev.TokensArrived("b.0", "y"), ev.RunClosed("b", "done")])
    again = plan(made, Resample("t.0", 0))
    assert again.request.prompt == "Hi"
    kept = unpack_run(pack_run(made, "t"))
    assert kept.branches[0].text == " they"
    assert kept.branches[0].choices[0].kept_text == " the"


def test_the_static_copy_shows_every_branch_under_its_name() -> None:
    made = session()
    grow(made, "a", Fork("r.0", 1, " no"), " <wind>", prompt=5)
    bundle = mimebundle(made, "r")
    assert bundle["text/plain"] == (
        "--- continuation 1 of 1 ---\n the sea was still\n"
        "--- branch 1, from original: token 2 “·no” ---\n the no <wind>"
    )
    html = bundle["text/html"]
    assert "branch 1, from original: token 2 “·no”" in html
    assert "&lt;wind&gt;" in html
    assert '<span style="opacity:.65"> the</span>' in html
    assert mimebundle(session(), "r")["text/plain"] == " the sea was still"


# -- ids ------------------------------------------------------------------------------------------


def reading(start: int | None, ids: dict[str, int], *prompts: list[str]) -> list[list[Any]]:
    """Scores of prompts, each given as its tokens, by a server with (``start``) or without a start token."""
    answers = []
    for prompt in prompts:
        entries = [[(ids[token], token, -1.0, 1)] for token in prompt]
        answers.append([None, *(entries if start is not None else entries[1:])])
    return answers


IDS = {
    text: 100 + i for i, text in enumerate(["\n", ".", "a", "Far", " out", " the", " no", "F", "ar", "<s>"])
}
NAMES = [["x"], ["x"], ["<s>"], ["x"], ["x"]]  # BOS_TEXTS, of which one is a token here


@pytest.mark.parametrize("start", [None, 109])
def test_ids_are_found_with_and_without_a_start_token(start: int | None) -> None:
    text = ["Far", " out", " the"]
    assert probes("Far out the", " no")[0] == "Far out the"
    prompts = [text, *([lead, *text] for lead in LEADS), *NAMES, *([lead, " no"] for lead in LEADS)]
    scores = reading(start, {**IDS, "x": 1}, *prompts)
    got = found("Far out the", " no", scores, [" the"])
    assert got.ids == ([109] if start else []) + [103, 104, 105]
    assert got.after == [106]
    assert got.differs is None
    assert found("Far out the", "", scores[:9], [" t", "he"]).differs == 0


def test_what_the_server_does_not_tell_is_not_guessed() -> None:
    text = ["Far", " out"]
    merged = {**IDS, "x": 1, "\nFar": 2, ".Far": 3, "aFar": 4, "\n no": 5, ". no": 6, "a no": 7}
    heads = [[lead, *text] for lead in LEADS]
    good = [text, *heads, *NAMES]
    with pytest.raises(Unknown, match="' no' as no single token"):
        found("Far out", " no", reading(None, merged, *good, *([f"{lead} no"] for lead in LEADS)))
    with pytest.raises(Unknown, match="first token"):
        found("Far out", "", reading(None, merged, text, *([f"{lead}Far", " out"] for lead in LEADS), *NAMES))
    with pytest.raises(Unknown, match="start token"):
        found("Far out", "", reading(109, merged, text, *heads, *[["x"]] * 5))
    with pytest.raises(Unknown, match="gaps"):
        found("Far out", "", [[], *reading(None, merged, *good)[1:]])
    with pytest.raises(Unknown, match="no text"):
        probes("", " no")


@pytest.mark.parametrize(
    ("read", "written", "expected"),
    [
        ([" th", "e"], [" th", "e"], None),
        ([" the"], [" th", "e"], 0),
        (["x", " the", " end"], [" the", " end"], None),
        (["x the", " end"], ["he", " end"], 0),
        ([" a", " the", " end"], [" a", " th", "e", " end"], 1),
        (["\ufffd", " end"], ["🦊", " end"], None),
        (["x"], [], None),
        (["x", "🦊"], ["", "", "🦊"], None),
    ],
)
def test_where_a_server_reads_other_tokens(read: list[str], written: list[str], expected: int | None) -> None:
    assert differing(read, written) == expected
