"""What is counted where the server has not said it: never less than it bills, and flagged."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter import Client, errors, rollout
from acs_jupyter.checks import build_request
from acs_jupyter.exchange import Exchange
from acs_jupyter.ledger import ledger, report
from acs_jupyter.local.ledger import read_log
from acs_jupyter.rollouts.dispatch import Attempt
from acs_jupyter.rollouts.feed import Row
from tests.conftest import UNHURRIED
from tests.support.desks import until
from tests.support.player import CLOSE, DONE, Player, Step, frames, head, stream, whole
from tests.support.servers import serving

KEY = "acs-bm-0123abcd-do-not-show-me-anywhere"
NO_LIST = {"/models": whole({"error": {"code": "not_found", "message": "none"}}, "404 Not Found")}


def frame(text: str, finish: str | None = None, index: int = 0, usage: dict[str, int] | None = None) -> bytes:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
    said = {"id": "c", "model": "m", "choices": [choice], **({"usage": usage} if usage else {})}
    return b"data: " + json.dumps(said).encode() + b"\n\n"


def counted(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def booked() -> list[tuple[int, int, str]]:
    return [(e["prompt_tokens"], e["completion_tokens"], e["source"]) for e in report.entries(ledger())]


@pytest.mark.parametrize(
    ("answer", "fields", "expected"),
    [
        ([CLOSE], {}, (3, 40, "estimate")),  # nothing came: it may all have been made
        ([head(length=999), b'{"choices": [{"te', CLOSE], {"stream": False}, (3, 40, "estimate")),
        (stream(frame("yes"), end=False), {}, (3, 40, "estimate")),
        (stream(frame("yes", "length"), DONE), {}, (3, 4, "estimate")),  # a byte a token, and its end
        (stream(frame("\u00e9", "stop"), DONE), {"stop": "---"}, (3, 6, "estimate")),
        (stream(frame("yes", "length"), end=False), {"n": 2}, (3, 44, "estimate")),
        (stream(frame("yes", usage=counted(2, 5)), end=False), {}, (2, 40, "estimate")),
        (stream(frame("yes", usage=counted(2, 40)), end=False), {}, (2, 40, "estimate")),
        (stream(frame("yes", usage=counted(2, 5)), end=False), {"n": 3}, (2, 120, "estimate")),
        (stream(frame("yes", "stop", usage=counted(2, 5)), end=False), {}, (2, 5, "continuous")),
        (stream(frame("yes", "stop", usage=counted(2, 5)), end=False), {"n": 2}, (2, 45, "estimate")),
        (stream(frame("a", usage=counted(2, 1)), frame("bc", "stop"), DONE), {}, (2, 5, "estimate")),
        (stream(frame("x" * 99, "length"), DONE), {}, (3, 40, "estimate")),
    ],
    ids=[
        "nothing",
        "half a body",
        "a stream",
        "whole",
        "a stop",
        "one of two",
        "a running count",
        "all there can be",
        "one count of three",
        "ended with its count",
        "one of two ended with its count",
        "an old count",
        "long",
    ],
)
def test_a_request_without_usage_is_counted_at_the_most_it_can_be(
    answer: list[Step], fields: dict[str, Any], expected: tuple[int, int, str]
) -> None:
    with Player([answer]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        try:
            client.complete("Hi", max_tokens=40, **fields)
        except errors.AcsError as error:
            shown = error.completion.usage
            assert shown.completion_tokens <= 43 * fields.get("n", 1)
    assert booked() == [expected]


def test_a_prompt_of_a_batch_that_nobody_counted_is_bounded() -> None:
    answer = stream(frame("yes", usage=counted(2, 5)), end=False)
    with (
        Player([answer]) as server,
        Client(server.base, KEY, model="m", retries=0) as client,
        pytest.raises(errors.Interrupted),
    ):
        client.complete(["Hi", "a long one"], max_tokens=40)
    assert booked() == [(2 + 11, 80, "estimate")]


def test_what_was_counted_before_an_error_is_paid_and_not_sent_again() -> None:
    """A blank token is a token: the engine has begun, so nothing is tried again and nothing is forgotten."""
    error = b'data: {"error": {"code": "server_restarting", "message": "r", "retryable": true}}\n\n'
    broken = stream(frame("", usage=counted(5, 3)), error, end=False)
    with Player([broken, stream(*frames(["a"]), DONE)]) as server:
        with Client(server.base, KEY, model="m", retries=2) as client, pytest.raises(errors.AcsError):
            client.complete("Hi", max_tokens=40)
        assert len(server.requests) == 1
    assert booked() == [(5, 40, "estimate")]


def told(**counts: object) -> bytes:
    """A usage that counts for the whole answer."""
    return b"data: " + json.dumps({"id": "c", "choices": [], "usage": counts}).encode() + b"\n\n"


HALVES: list[dict[str, object]] = [
    {},
    {"total_tokens": 52},
    {"prompt_tokens": 2},
    {"completion_tokens": 5},
    {"prompt_tokens": 2, "completion_tokens": None},
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": 2, "completion_tokens": 0},
    {"prompt_tokens": 0, "completion_tokens": 5},
    {"prompt_tokens": -2, "completion_tokens": 5},
    {"prompt_tokens": 2, "completion_tokens": 10**15},
    {"prompt_tokens": 10**15, "completion_tokens": 5},
]
PIECES = [frame("ab ")] * 20


@pytest.mark.parametrize("usage", HALVES, ids=json.dumps)
@pytest.mark.parametrize("how", ["tail", "running", "body"])
def test_half_a_usage_is_no_bill(usage: dict[str, Any], how: str) -> None:
    choice = {"index": 0, "text": "ab " * 20, "finish_reason": "length"}
    answer = {
        "tail": stream(*PIECES, frame("z", "length"), told(**usage), DONE),
        "running": stream(*[frame("ab ", usage=usage)] * 20, frame("z", "length", usage=usage), DONE),
        "body": whole({"id": "c", "model": "m", "choices": [choice], "usage": usage}),
    }[how]
    with Player([answer]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        client.complete("Hi", max_tokens=40, stream=how != "body")
    assert booked() == [(3, 40, "estimate")]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (stream(told(**counted(2, 0)), *PIECES, end=False), (3, 40, "estimate")),
        (stream(told(**counted(2, 1)), *PIECES, frame("z", "length"), DONE), (3, 40, "estimate")),
        (stream(frame("a"), told(**counted(2, 1)), frame("b"), told(**counted(2, 2)), end=False), (3, 40, "estimate")),
        (stream(frame("a", "stop"), told(**counted(2, 1)), frame("b" * 9, "stop"), DONE), (3, 11, "estimate")),
        (stream(frame("a"), told(**counted(2, 1)), frame("", "stop"), told(**counted(2, 2)), DONE), (2, 2, "usage")),
    ],
    ids=["at the start, then cut", "at the start", "in between, then cut", "and then more", "at the end"],
)  # fmt: skip
def test_a_usage_before_the_end_is_no_bill(answer: list[Step], expected: tuple[int, int, str]) -> None:
    with (
        Player([answer]) as server,
        Client(server.base, KEY, model="m", retries=0) as client,
        contextlib.suppress(errors.Interrupted),
    ):
        client.complete("Hi", max_tokens=40)
    assert booked() == [expected]


def gateway(status: str, body: object = b"<html><h1>Sorry</h1></html>") -> list[Step]:
    return whole(body, status, "text/html")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "page",
    [
        gateway("504 Gateway Time-out"),
        gateway("502 Bad Gateway"),
        gateway("524 A Timeout Occurred"),
        gateway("500 Oops", b""),
        gateway("503 Service Unavailable", {"object": "error", "message": "m", "code": 503}),
        gateway("408 Request Timeout"),
    ],
    ids=["504", "502", "524", "empty", "an engine's own", "408"],
)
def test_a_gateways_failure_may_hide_a_request_that_ran(page: list[Step], streamed: bool) -> None:
    with Player([page]) as server, Client(server.base, KEY, model="m", retries=2) as client:
        with pytest.raises(errors.ApiError, match="may have run and been billed"):
            client.complete("Hi", max_tokens=40, stream=streamed)
        assert len(server.requests) == 1
    assert booked() == [(3, 40, "estimate")]


def test_what_the_service_or_a_gateways_doorman_refuses_costs_nothing() -> None:
    own = whole({"error": {"code": "upstream_deadline", "message": "m"}}, "504 Gateway Timeout")
    new = whole({"error": {"code": "new", "message": "m", "retryable": False}}, "503 Service Unavailable")
    with Player([own, new, gateway("429 Too Many"), gateway("413 Large")]) as server:
        with Client(server.base, KEY, model="m", retries=0) as client:
            for _ in range(4):
                with pytest.raises(errors.ApiError):
                    client.complete("Hi", max_tokens=40)
        assert len(server.requests) == 4
    assert booked() == [(0, 0, "")] * 4


def test_a_rollout_counts_what_a_gateway_hid_and_does_not_send_it_again(tmp_path: Any) -> None:
    with (
        Player([gateway("504 Gateway Time-out")], NO_LIST) as server,
        Client(server.base, KEY, model="m") as client,
    ):
        made = rollout(["a", "b"], into=tmp_path / "r.db", client=client, max_tokens=40, progress=False)
        assert len(server.requests) == 2
    assert made.stats.failed == 2
    assert made.stats.tokens == sum(sum(entry[:2]) for entry in booked()) == 2 * (2 + 40)


def test_a_limit_cannot_be_passed_by_answers_that_break_off() -> None:
    """The server bills everything it could have made; the limit holds all the same."""
    billed = 0
    cut = [head(length=9999), b'{"choices": [{"text": "a', CLOSE]
    with Player([cut]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        ledger().set_month_limit(client.meter.key, 2000)
        for _ in range(60):
            try:
                client.complete("Hi", max_tokens=200, stream=False)
            except errors.BudgetRefused:
                break
            except errors.AcsError:
                billed += 3 + 200
    assert len(server.requests) == 9
    assert billed <= 2000


def test_streams_left_early_cost_what_the_server_says_and_keep_the_limit(tmp_path: Any) -> None:
    """The engine is far ahead of what was read: the server tells how far, and the books are equal to the token."""
    data = tmp_path / "server"
    with (
        serving("--scripted", *UNHURRIED, "--data", str(data)) as server,
        Client(server.base, server.key, model="scripted", retries=0) as client,
    ):

        def taste() -> None:
            for _token in client.stream("#scripted tokens=1000", max_tokens=1000):
                break

        for _ in range(27):
            taste()
        until(lambda: len(read_log(data)) == 27)
        billed = [(row.prompt_tokens, row.completion_tokens, "usage") for row in read_log(data)]
        assert booked() == billed
        spent = ledger().month(client.meter.key).used
        ledger().set_month_limit(client.meter.key, spent + 3000)
        with contextlib.suppress(errors.BudgetRefused):
            for _ in range(3000):
                taste()
            pytest.fail("the limit never stopped it")
        left = len(booked())
        until(lambda: len(read_log(data)) == left)
        used = ledger().month(client.meter.key).used
    assert sum(row.prompt_tokens + row.completion_tokens for row in read_log(data)) == used <= spent + 3000
    assert {source for *_, source in booked()} == {"usage"}


def test_a_rollouts_budget_cannot_be_passed_by_answers_that_break_off(tmp_path: Any) -> None:
    cut = [head(length=9999), b'{"choices": [{"text": "a', CLOSE]
    with Player([cut], NO_LIST) as server, Client(server.base, KEY, model="m") as client:
        made = rollout(
            [f"prompt {i:02}" for i in range(30)], into=tmp_path / "r.db", client=client, max_tokens=100,
            prompt_logprobs=0, budget=1000, progress=False, in_flight=2, retries=0, burst=1000,
        )  # fmt: skip
        assert made.outcome == "budget"
        assert len(server.requests) * 110 <= 1000 < (len(server.requests) + 1) * 110
    assert made.stats.tokens == len(server.requests) * 110
    assert (
        sum(e["prompt_tokens"] + e["completion_tokens"] for e in report.entries(ledger()))
        == made.stats.tokens
    )


tokens = st.lists(st.sampled_from(["a", " the", "\u00e9", "", "\U0001f600", "long word"]), max_size=8)


@given(st.lists(tokens, min_size=1, max_size=3), st.booleans(), st.booleans(), st.integers(0, 30))
def test_no_bound_is_below_the_bill(choices: list[list[str]], usage: bool, ends: bool, lost: int) -> None:
    """Whatever comes of a stream, the bound is at least the tokens that came and those lost on the way."""
    most = max(map(len, choices)) + lost
    fields = {"model": "m", "max_tokens": max(1, most), "n": len(choices), "stream": True}
    exchange = Exchange(build_request({"prompt": "Hi there", **fields}))
    exchange.open()
    exchange.begin()
    exchange.head(200, {"content-type": "text/event-stream"})
    made = 0
    for index, texts in enumerate(choices):
        for place, text in enumerate(texts):
            finish = "length" if ends and place == len(texts) - 1 else None
            told = counted(4, place + 1) if usage else None
            exchange.feed(frame(text, finish, index, told))
            made += bool(text) or usage
    exchange.lost("cut")
    spent = exchange.most_spent
    assert spent is not None
    assert spent.completion_tokens >= made
    assert spent.prompt_tokens >= 4 or not usage
    if not usage and not ends:
        assert spent.completion_tokens == len(choices) * max(1, most)
    assert spent.source == "estimate" or (usage and all(texts for texts in choices) and ends)
    if not ends:
        assert spent.completion_tokens == len(choices) * max(1, most)


def test_a_choice_that_ended_without_text_has_begun(tmp_path: Any) -> None:
    """The first of three ends at once; then the batch breaks off. It is done, and nothing is sent again."""
    error = b'data: {"error": {"code": "server_restarting", "message": "r", "retryable": true}}\n\n'
    broken = stream(frame("", "stop"), error, end=False)
    with Player([broken], NO_LIST) as server, Client(server.base, KEY, model="m") as client:
        made = rollout(
            ["aaaa", "bbbb", "cccc"],
            into=tmp_path / "r.db",
            client=client,
            max_tokens=5,
            batch=3,
            progress=False,
        )
        assert len(server.requests) == 1
    assert (made.stats.done, made.stats.failed) == (1, 2)
    assert [entry[2] for entry in booked()] == ["estimate"]


def test_the_shares_of_a_batch_are_all_of_its_hold() -> None:
    rows = [Row(number, b"", b"", 1, 0) for number in (7, 8, 9)]
    shares = Attempt(None, rows, 0.0, 103).shares  # type: ignore[arg-type]
    assert [number for number, _ in shares] == [7, 8, 9]
    assert sum(held for _, held in shares) == 103


def test_what_is_dropped_while_the_ledger_is_waited_for_was_never_sent(tmp_path: Any) -> None:
    """Another kernel has the file; a budget that would have sufficed suffices still."""
    answer = stream(0.5, frame("x", "length"), told(**counted(2, 1)), DONE)
    options: dict[str, Any] = {"into": tmp_path / "r.db", "max_tokens": 1, "progress": False, "in_flight": 1}
    with Player([answer], NO_LIST) as server, Client(server.base, KEY, model="m") as client:
        made = rollout(["a", "b", "c"], client=client, bg=True, budget=9, **options)
        until(lambda: len(server.requests) == 1)
        with contextlib.closing(sqlite3.connect(ledger().store.where, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            until(lambda: made.stats.done == 1)
            made.stop(drop=True)
            other.execute("COMMIT")
        made.wait(30)
        assert (made.outcome, len(server.requests)) == ("stopped", 1)
        again = rollout(["a", "b", "c"], client=client, budget=9, **options)
        assert (again.outcome, again.stats.done, len(server.requests)) == ("done", 3, 3)
