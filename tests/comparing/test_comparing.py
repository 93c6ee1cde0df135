"""Lanes side by side without a browser: independent, refused one by one, run again, saved, and told as a frame."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Client, Compare, Session, ledger
from acs_jupyter.comparing.lanes import different, grid
from acs_jupyter.errors import BudgetRefused, InvalidRequest
from acs_jupyter.keeping.record import pack_run, unpack_run
from acs_jupyter.notebook.root import Notebook
from acs_jupyter.widgets.lanes import bundle
from acs_jupyter.widgets.snapshot import most_saved
from acs_jupyter.widgets.tinted import on_file
from tests.support.player import Player, whole
from tests.support.servers import Running

FAST = "#scripted tokens=12 alternatives=2"
SLOW = "#scripted tokens=5000 rate=100"
BROKEN = "#scripted tokens=9 fault=cut after=3"


@pytest.fixture
def notebook(scripted_server: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("ACS_API_BASE", scripted_server.base)
    monkeypatch.setenv("ACS_API_KEY", scripted_server.key)
    made = Notebook(make_view=lambda: None)  # type: ignore[arg-type,return-value]
    yield made
    made.close()


def until(true: Any) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_bad_lanes_harm_no_other(notebook: Notebook) -> None:
    board = Compare(
        FAST,
        [{"temperature": 0}, {"top_p": 3}, {"prompt": BROKEN}, {"temperatur": 1}, {"n": 2}, {"model": "none"}],
        notebook=notebook, max_tokens=20,
    ).run().wait(20)  # fmt: skip
    assert not board.running
    frame = board.frame()
    assert frame["lane"].tolist() == ["A", "B", "C", "D", "E", "E", "F"]
    assert frame["outcome"].tolist() == ["done", "failed", "interrupted", "failed", "done", "done", "failed"]
    assert frame["error"].isna().tolist() == [True, False, False, False, True, True, False]
    told = dict(zip(frame["lane"], frame["error"], strict=True))
    assert "top_p=3" in told["B"]
    assert "temperatur" in told["D"]
    assert "none" in told["F"]
    assert all("\n" not in line for line in told.values() if isinstance(line, str))
    assert frame["text"][2] != ""  # what came before the break is kept
    assert frame["completion_tokens"].tolist()[1] == 0
    same = frame["text"][0] == frame["text"][4]
    assert frame["shared"][4] == len(frame["text"][0]) or not same
    assert frame["shared"][0] == len(frame["text"][0])
    assert frame["model"][0] == "scripted/deterministic"
    assert (frame["prompt"] == FAST).sum() == 6


def test_a_lane_has_a_budget_check_of_its_own(notebook: Notebook) -> None:
    board = Compare(FAST, [{"max_tokens": 5}, {"max_tokens": 4000}], notebook=notebook)
    with ledger.ledger().scope("cell", "board", 500):
        board.run()
    board.wait(20)
    small, large = board.completions
    assert small is not None
    assert large is not None
    assert (small.outcome, large.outcome) == ("done", "failed")
    assert large.error is not None
    assert large.error["code"] == BudgetRefused.code
    assert large.usage.total_tokens == 0


def test_one_is_stopped_and_run_again_while_another_goes_on(notebook: Notebook, tmp_path: Path) -> None:
    board = Compare(
        SLOW, ["scripted", {"temperature": 0.5, "name": "warm"}], notebook=notebook, max_tokens=5000
    )
    board.run()
    until(lambda: all(one is not None and one.text for one in board.completions))
    with pytest.raises(InvalidRequest, match="Still running: B"):
        board.run("warm")
    board.stop("B")
    until(lambda: board["B"].outcome == "stopped")
    assert board["A"].outcome == "open"
    first = board["B"]
    board.run("B")
    until(lambda: board["B"].run != first.run and board["B"].text)
    assert first.text
    board.stop()
    board.wait(10)
    assert [one.outcome for one in (board["A"], board[1], first)] == ["stopped"] * 3
    every = board.frame(every=True)
    assert every[["lane", "round"]].values.tolist() == [["A", 1], ["B", 1], ["B", 2]]
    assert board.frame()["run"].tolist() == [board["A"].run, board["B"].run]

    board.session.save(tmp_path / "s.jsonl")
    again = Compare(session=Session.load(tmp_path / "s.jsonl"), notebook=notebook)
    assert again.frame(every=True).equals(every)
    assert [lane["name"] for lane in again.lanes] == [lane["name"] for lane in board.lanes]
    assert again.prompt == SLOW
    with pytest.raises(InvalidRequest, match="lanes of its own"):
        Compare("x", ["m"], session=again.session, notebook=notebook)


def test_the_window_asks_and_is_told(notebook: Notebook) -> None:
    board = Compare(FAST, [{"temperature": 0}, {"prompt": FAST + " "}], notebook=notebook)
    said: list[Any] = []
    board.send = lambda content, buffers=None: said.append(content)
    other = "#scripted tokens=3"
    board._received(board, {"type": "RunLanes", "prompt": other}, [])
    board.wait(20)
    assert [one.prompt for one in board.completions if one] == [other, FAST + " "]
    assert board.prompt == other
    board._received(board, {"type": "RunLanes", "prompt": "a\ud800", "lane": 0}, [])
    board._received(board, {"type": "RunLanes", "prompt": "x", "lane": 7}, [])
    refused = [one["refused"]["message"] for one in said if "refused" in one]
    assert "lone surrogate" in refused[0]
    assert "lane=7 is none of A" in refused[1]
    assert sum("ran" in one for one in said) == 1
    marks = [event for one in said for event in one.get("events", ()) if event["type"] == "Revised"]
    assert marks[-1]["changes"][0]["value"]["compare"]["runs"][board[1].run] == [1, 1, "its own prompt"]


def test_a_lane_is_edited_and_run_again(notebook: Notebook, tmp_path: Path) -> None:
    """What was not touched stays as it was given, also what no form shows; what was run keeps the name of then."""
    board = Compare(
        FAST,
        [{"temperature": 0}, {"temperature": 1.0, "echo": True}, {"name": "own", "prompt": FAST + " "}],
        notebook=notebook, max_tokens=20,
    )  # fmt: skip
    said: list[Any] = []
    board.send = lambda content, buffers=None: said.append(content)
    board.run().wait(20)
    drafts = [dict(one) for one in board.drafts]
    assert [one["fields"] for one in drafts] == [{"temperature": "0"}, {"temperature": "1.0"}, {}]
    assert board.common["max_tokens"] == "20"
    drafts[1] = {"fields": {"temperature": "0.25", "stop": "x\\n"}, "prompt": None}
    drafts[2] = {"fields": {"max_tokens": "3"}, "prompt": "#scripted tokens=2"}
    board._received(board, {"type": "RunLanes", "prompt": FAST, "drafts": drafts}, [])
    board.wait(20)
    _, second, third = (one.request for one in board.completions if one)
    assert (second["temperature"], second["stop"], second["echo"]) == (0.25, ["x\n"], True)
    assert (third["max_tokens"], third["prompt"]) == (3, "#scripted tokens=2")
    assert [lane["name"] for lane in board.lanes] == [
        "temperature 0",
        "temperature 0.25 · echo True · stop ['x\\n']",
        "own",
    ]
    every = board.frame(every=True)
    assert every[every["lane"] == "B"]["name"].tolist() == [
        "temperature 1.0 · echo True",
        board.lanes[1]["name"],
    ]
    assert [one.lane.name for one in board.completions if one and one.lane] == [
        one["name"] for one in board.lanes
    ]

    runs = len(board.session.runs)
    drafts[0] = {"fields": {"temperature": "warm"}, "prompt": None}
    board._received(board, {"type": "RunLanes", "prompt": FAST, "drafts": drafts}, [])
    [refused] = [one["refused"]["message"] for one in said if "refused" in one]
    assert refused.startswith("Lane A: temperature=")
    assert len(board.session.runs) == runs
    drafts[0] = {"fields": {"temperature": "0.125"}, "prompt": None}
    drafts[2] = {"fields": {"max_tokens": "4"}, "prompt": FAST}
    board._received(board, {"type": "RunLanes", "prompt": FAST, "lane": 2, "drafts": drafts}, [])
    board.wait(20)
    assert board["own"].request["max_tokens"] == 4
    assert board.lanes[0]["name"] == "temperature 0"  # what is not run keeps what stands in its form
    assert board.drafts[0]["fields"] == {"temperature": "0.125"}
    board.drafts = [{"fields": 3}]
    with pytest.raises(InvalidRequest, match="drafts must have"):
        board.run()

    board.session.save(tmp_path / "s.jsonl")
    again = Compare(session=Session.load(tmp_path / "s.jsonl"), notebook=notebook)
    again.drafts = [{"fields": {"temperature": "0.75"}, "prompt": None}, *again.drafts[1:]]
    again.run("A").wait(20)
    assert again.lanes[0]["name"] == "temperature 0.75"
    assert again["A"].request["temperature"] == 0.75


def test_a_lane_at_a_server_of_its_own(notebook: Notebook, tmp_path: Path) -> None:
    key = "acs-bm-0123abcd-of-a-lane"
    answer = {
        "id": "c",
        "model": "elsewhere",
        "choices": [{"index": 0, "text": " there", "finish_reason": "stop"}],
    }
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    with (
        Player([whole({**answer, "usage": usage})]) as server,
        Client(server.base, key, model="far") as client,
    ):
        lanes: list[Any] = [{"name": "here"}, {"name": "there", "client": client, "stream": False}]
        board = Compare(FAST, lanes, notebook=notebook, max_tokens=12).run().wait(20)
        [sent] = server.requests
        assert (sent.json["model"], sent.json["prompt"]) == ("far", FAST)  # type: ignore[index]
        assert board.frame()["model"].tolist() == ["scripted/deterministic", "elsewhere"]
        assert board["there"].text == " there"
        assert f"at {server.base}" in board.lanes[1]["settings"]
        board.session.save(tmp_path / "s.jsonl")
        assert key not in (tmp_path / "s.jsonl").read_text()
        assert key not in json.dumps([board.lanes, board.drafts, pack_run(board.session, board["B"].run)])

        again = Compare(session=Session.load(tmp_path / "s.jsonl"), notebook=notebook).run("B").wait(20)
        assert again["B"].outcome == "failed"
        assert f"was at {server.base}: give Compare a client" in again["B"].error["message"]  # type: ignore[index]
        given = Compare(session=again.session, notebook=notebook, clients={"B": client}).run("B").wait(20)
        assert given["B"].text == " there"
        board.close()
        given.close()
    with pytest.raises(InvalidRequest, match="clients has 'X'; the lanes are A"):
        Compare(FAST, [{}], notebook=notebook, clients={"X": client})
    with pytest.raises(InvalidRequest, match="client must be a Client"):
        Compare(FAST, [{"client": "http://x"}], notebook=notebook)


def test_a_record_names_its_lane(notebook: Notebook) -> None:
    board = Compare(FAST, [{"temperature": 0}, {"temperature": 0.5}], notebook=notebook, max_tokens=9)
    board.run().wait(20)
    kept = unpack_run(pack_run(board.session, board["B"].run))
    assert kept.lane is not None
    assert (kept.lane.letter, kept.lane.name, kept.lane.round) == ("B", "temperature 0.5", 1)
    assert kept.text == board["B"].text
    afresh = Compare(
        "x", [{}], session=kept.session, notebook=notebook
    )  # one run of many is no comparison to go on
    assert [lane["name"] for lane in afresh.lanes] == ["as given"]
    with notebook.pump().client.same(Client) as client:
        assert client.complete(FAST, max_tokens=2).lane is None


def test_the_copy_is_script_free_and_within_the_bound(notebook: Notebook) -> None:
    hostile = '#scripted say="</script><img src=x onerror=alert(1)>" alternatives=2'
    board = Compare(
        "#scripted tokens=400 alternatives=5",
        [{"temperature": value / 10} for value in range(5)] + [{"prompt": hostile, "name": "<b>"}],
        notebook=notebook, max_tokens=400, logprobs=5,
    ).run().wait(30)  # fmt: skip
    session = board.session
    spent = sum(len(json.dumps(pack_run(session, run))) for run in session.runs) + board.weight
    tokens = sum(len(node.tokens) for node in session.nodes.values())
    drawn = bundle(session, board.prompt, board._strands(), tokens=tokens, spent=spent, line="")
    whole = spent + sum(map(on_file, drawn.values()))
    assert whole <= most_saved(tokens), (whole, tokens)
    page = drawn["text/html"]
    assert not re.search(r"<script|<img|onerror=[^&]*>\s*<", page)
    assert "&lt;b&gt;" in page
    assert page.count(" title=") > 300
    for one in board.completions:
        assert one is not None
        assert one.text in drawn["text/plain"]
    assert str(board) == drawn["text/plain"]


def test_names_tell_what_differs() -> None:
    prompt, lanes = grid("p", ["m", "o"], [0, 1])
    assert prompt == "p"
    assert different(lanes, [None] * 4) == [
        "m · temperature 0", "m · temperature 1", "o · temperature 0", "o · temperature 1",
    ]  # fmt: skip
    assert grid(["a", "b"])[1] == [{"prompt": "a"}, {"prompt": "b"}]
    assert different([{"n": 1}, {"n": 1}], ["a", "b"]) == ["prompt 1", "prompt 2"]
    assert different([{"n": 1}], [None]) == ["as given"]
    assert different([{}, {}], [None, "b"]) == ["as given", "its own prompt"]
    with pytest.raises(InvalidRequest, match="18 lanes"):
        grid(["a", "b"], ["m", "n", "o"], [0, 1, 2])


@pytest.mark.parametrize(
    ("prompt", "lanes", "word"),
    [
        ("p", [], "0; give a list of 1 to 6"),
        ("p", [{}] * 7, "7; give a list"),
        ("p", "model", "1; give a list"),
        ("p", [3], r"lanes\[0\] must be"),
        (["p"], [{}], "must be a text"),
        ("a\udc00", [{}], "lone surrogate"),
        ("p", [{"prompt": [1, 2]}], "must be a text"),
    ],
)
def test_what_are_no_lanes_is_told_at_once(notebook: Notebook, prompt: Any, lanes: Any, word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        Compare(prompt, lanes, notebook=notebook)
