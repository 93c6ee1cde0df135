"""The pure parts of a rollout: plan and keys, items, flow, answers, packed results."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import h11
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acs_jupyter.errors import InvalidRequest
from acs_jupyter.exchange import Exchange
from acs_jupyter.log.session import Session
from acs_jupyter.rollouts.answer import Body, BrokenAnswer, Head
from acs_jupyter.rollouts.gathered import Gathered
from acs_jupyter.rollouts.items import items_of
from acs_jupyter.rollouts.outcomes import bound, results_of
from acs_jupyter.rollouts.packed import from_bytes, restore, to_bytes
from acs_jupyter.rollouts.plan import Plan, content_key, differences, make_plan, prompt_digest, variant_digest
from tests.support.player import DONE, frames

FEW = settings(max_examples=60, deadline=None)


# Plan


def plan(**fields: Any) -> Plan:
    options = {name: fields.pop(name) for name in ("models", "seeds", "grid") if name in fields}
    return make_plan(fields, default_model="m", **options)


def test_a_plan_is_every_combination_of_models_grid_and_seeds() -> None:
    made = plan(
        models=["a", "b"], seeds=range(2), grid={"temperature": [0.5, 1.0], "top_p": [0.9]}, max_tokens=4
    )
    assert len(made.variants) == 8
    assert made.variants[1].fields == {"max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "seed": 1}
    assert made.variants[1].varied == {"temperature": 0.5, "top_p": 0.9, "seed": 1}
    assert Plan.restored(json.loads(json.dumps(made.described()))) == made


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seeds": 5}, "such as range(5)"),
        ({"seeds": [1], "seed": 2}, "both given"),
        ({"seeds": [1, 1]}, "same value twice"),
        ({"grid": {"temperature": [0, 0.0]}}, "same value twice"),
        ({"grid": {"top_p": [1, 0.5, 1.0]}}, "same value twice"),
        ({"grid": {"stop": ["a", ["a"]]}}, "same value twice"),
        ({"grid": {"temprature": [1]}}, "Did you mean temperature"),
        ({"grid": {"top_p": []}}, "empty"),
        ({"grid": {"top_p": 1}}, "list of values"),
        ({"grid": {"top_p": [0.5]}, "top_p": 1.0}, "given twice"),
        ({"grid": {"model": ["a"]}}, "models="),
        ({"grid": {"top_p": [0.5, 7]}}, "top_p=7"),
        ({"n": 3}, "max_tokens must be set"),
        ({"models": []}, "models=[]"),
        ({"stream": True}, "no field 'stream'"),
    ],
)
def test_a_bad_plan_is_told_in_one_line(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=r".") as caught:
        plan(**options)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_difference_is_told_by_field() -> None:
    before, now = plan(temperature=0.7, max_tokens=4), plan(temperature=0.9, max_tokens=4, models=["m", "k"])
    assert differences(before, before) == []
    assert differences(before, now) == ['models: "m" -> "m", "k"', "temperature: 0.7 -> 0.9"]
    assert differences(before, plan(max_tokens=4)) == ["temperature: 0.7 -> not sent"]


@FEW
@given(
    st.lists(st.tuples(st.text(), st.floats(0, 2), st.integers(0, 9)), min_size=2, max_size=6, unique=True)
)
def test_keys_tell_all_contents_apart_and_nothing_else(rows: list[tuple[str, float, int]]) -> None:
    def key(text: str, temperature: float, twin: int) -> bytes:
        one = {"max_tokens": 3, "temperature": temperature}
        other = dict(reversed(one.items()))  # the order of fields is no content
        digests = [variant_digest(make_plan(f, default_model="m").variants[0]) for f in (one, other)]
        assert digests[0] == digests[1]
        return content_key(digests[0], prompt_digest(text), twin)

    usable = [row for row in rows if row[0].isprintable()]
    assert len({key(*row) for row in usable}) == len({(t, float(f), n) for t, f, n in usable})


# Items


def test_items_come_from_lists_series_frames_mappings_generators_and_lines(tmp_path: Path) -> None:
    assert [i.prompt for i in items_of(["a", [1, 2], (3,)])] == ["a", [1, 2], [3]]
    assert [i.prompt for i in items_of(x for x in "ab")] == ["a", "b"]
    named = pd.Series(["a"], index=["x"])
    assert [tuple(i) for i in items_of(named)] == [("a", '{"row":"x"}')]
    frame = pd.DataFrame(
        {"text": ["a\n", " b"], "k": [1, 2], "when": pd.to_datetime(["2026-01-01", "2026-01-02"])}
    )
    found = list(items_of(frame, "text"))
    assert [i.prompt for i in found] == ["a\n", " b"]
    assert json.loads(found[0].meta) == {"k": 1, "when": "2026-01-01T00:00:00"}
    lines = tmp_path / "x.jsonl"
    lines.write_text('{"prompt": "a", "k": [1]}\n\n"b"\n')
    assert [tuple(i) for i in items_of(lines)] == [("a", '{"k":[1]}'), ("b", "{}")]
    assert [i.prompt for i in items_of(str(lines))] == ["a", "b"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("one prompt", "put it into a list"),
        (["a", None], "Item 1"),
        ([["a", "b"]], "Item 0"),
        ([[]], "empty"),
        ([{"text": "a"}], "no 'prompt'"),
        (pd.DataFrame({"promt": ["a"]}), "Did you mean promt"),
        (pd.Series(["a", float("nan")]), "Row 1"),
        ({"a": 1}, "not dict"),
        (5, "not int"),
        (Path("nowhere.jsonl"), "cannot be read"),
    ],
)
def test_what_is_no_prompt_is_told_with_its_place(source: Any, told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        list(items_of(source))
    assert told in str(caught.value)


def test_a_broken_line_is_told_by_its_number(tmp_path: Path) -> None:
    lines = tmp_path / "x.jsonl"
    lines.write_text('"a"\n{"prompt": \n')
    with pytest.raises(InvalidRequest, match=r"x\.jsonl, line 2, is not JSON"):
        list(items_of(lines))


# Answers


BODY = b"data: {}\n\n" * 3
CHUNKED = b"a\r\ndata: {}\n\n\r\n14;x=y\r\ndata: {}\n\ndata: {}\n\n\r\n0\r\nx-trailer: 1\r\n\r\n"


@FEW
@given(st.lists(st.integers(0, 200), max_size=12), st.sampled_from(["chunked", "length", "close"]))
def test_any_slicing_of_an_answer_reads_as_h11_reads_it(cuts: list[int], framing: str) -> None:
    head = {
        "chunked": b"Transfer-Encoding: chunked",
        "length": b"Content-Length: %d" % len(BODY),
        "close": b"Connection: close",
    }[framing]
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-Two: a\r\nx-two:  b \r\n" + head + b"\r\n\r\n"
    raw += CHUNKED if framing == "chunked" else BODY
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in pairwise(places)]
    top, body, found = Head(), None, b""
    for piece in pieces:
        data = piece
        if body is None:
            top.feed(piece)
            if not top.whole:
                continue
            body, data = Body(top.headers, top.status), top.rest
        found += body.feed(data) if data else b""
    assert body is not None
    assert body.whole == (framing != "close")
    body.close()
    assert (top.status, found, body.whole, body.rest) == (200, BODY, True, b"")
    assert top.headers["x-two"] == "a, b"
    theirs = h11.Connection(h11.CLIENT)
    theirs.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    theirs.send(h11.EndOfMessage())
    theirs.receive_data(raw)
    theirs.receive_data(b"")
    events = []
    while not isinstance(events[-1] if events else None, h11.EndOfMessage):
        events.append(theirs.next_event())
    assert b"".join(bytes(e.data) for e in events if isinstance(e, h11.Data)) == found


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/2 200\r\n\r\n",
        b"<html>\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    def read() -> None:
        head = Head()
        head.feed(raw)
        Body(head.headers, head.status).feed(head.rest)

    with pytest.raises(BrokenAnswer):
        read()


def test_an_answer_that_is_cut_does_not_end() -> None:
    for headers in ({"transfer-encoding": "chunked"}, {"content-length": "9"}):
        body = Body(headers, 200)
        body.feed(b"3\r\nab")
        with pytest.raises(BrokenAnswer, match="in the middle"):
            body.close()


# Results


def carried(prompt: Any, pieces: list[bytes], **fields: Any) -> tuple[Exchange, Gathered, Session]:
    """An exchange that is over, what a rollout keeps of it, and a session of the same events."""
    request = plan(max_tokens=8, **fields).variants[0].request(prompt)
    exchange, session = Exchange(request, run="r", retries=0), Session()
    session.apply(exchange.open())
    answer = Gathered(exchange)
    exchange.begin()
    steps = [exchange.head(200, {"content-type": "text/event-stream", "x-request-id": "q"})]
    steps += [exchange.feed(piece) for piece in pieces]
    for events in (*steps, exchange.end()):
        session.apply(events)
        answer.apply(events)
    return exchange, answer, session


LOGPROBS = (
    b'data: {"id":"c","model":"m","choices":[{"index":1,"text":" a","finish_reason":"stop","stop_reason":7,"logprobs":'
    b'{"tokens":[" a"],"token_logprobs":[-0.5],"top_logprobs":[{" a":-0.5," b":-1.25}]}}]}\n\n'
)
SCORED = (
    b'{"id":"c","model":"m","choices":[{"index":0,"text":"x","finish_reason":"length","prompt_logprobs":'
    b'[null,{"5":{"logprob":-2.5,"rank":3,"decoded_token":"q"}}]}],"usage":{"prompt_tokens":2,"completion_tokens":1}}'
)
REFUSED = b'data: {"error":{"code":"queue_full","message":"Full.","retryable":true}}\n\n'


@pytest.mark.parametrize(
    ("pieces", "fields"),
    [
        ([*frames([" a", "\u2028b", ""]), DONE], {}),
        ([*frames(["x"], index=0), LOGPROBS, DONE], {"n": 2, "logprobs": 1}),
        ([SCORED], {"prompt_logprobs": 1}),
        (frames(["x", "y"], finish=None), {}),
        ([REFUSED], {}),
        ([], {}),
    ],
)
def test_a_result_comes_back_as_a_session_of_its_events(pieces: list[bytes], fields: dict[str, Any]) -> None:
    exchange, answer, session = carried("pro\nmpt", pieces, **fields)
    back = restore(from_bytes(to_bytes(answer.packed())), exchange.request)
    before, after = session.state(), back.state()
    for state in (before, after):
        run = state["runs"]["r"]
        run["opened_at"] = run["first_token_at"] = run["closed_at"] = None
    assert after == before
    assert before["runs"]["r"]["outcome"] != "open"


def test_a_batch_is_dealt_out_and_what_was_finished_stays_done() -> None:
    pieces = [*frames(["x", "y"], index=0), *frames(["z"], finish=None, index=1)]
    exchange, answer, _ = carried(["a", "b"], pieces)
    first, second = results_of(exchange, answer, 2)
    assert (first.outcome, first.error, first.choices[0].text) == ("done", None, "xy")
    assert (second.outcome, second.choices[0].text) == ("interrupted", "z")
    assert (first.prompt_tokens, first.completion_tokens) == (3, 2)
    assert (second.prompt_tokens, second.completion_tokens) == (3, 8)  # the most that one that was cut can be
    assert exchange.usage is not None
    assert exchange.usage.prompt_tokens == 6


def test_the_worst_case_counts_bytes_and_every_choice() -> None:
    assert bound(plan(max_tokens=10, n=3).variants[0].request("é")) == 2 + 1 + 30
    assert bound(plan(max_tokens=10).variants[0].request([[1, 2], [3]])) == 3 + 20
    assert bound(plan().variants[0].request([1])) == 1 + 32_000
