"""A place in flight is given away when the last byte of an answer is here, before that answer is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import Client, rollout
from acs_jupyter.exchange import Exchange
from acs_jupyter.rollouts.dispatch import Attempt
from acs_jupyter.rollouts.driver import Driver
from acs_jupyter.rollouts.line import Line
from acs_jupyter.rollouts.lines import Arrived, BatchClient
from tests.support.desks import until
from tests.support.player import DONE, HANG, Player, Step, frames, stream
from tests.support.rollouts import NO_LIST

if TYPE_CHECKING:
    from acs_jupyter import Rollout

PROMPTS = [f"word {number}" for number in range(6)]
REFUSAL = b'data: {"error": {"code": "internal", "message": "no"}}\n\n'


def at_once(*pieces: bytes) -> list[Step]:
    """A stream whose last byte comes with its first, as that of a quick server does."""
    return [b"".join(stream(*pieces))]  # type: ignore[arg-type]


GOOD = at_once(*frames(["a", "b"]), DONE)


def run(server: Player, **options: Any) -> Rollout:
    fields: dict[str, Any] = {"max_tokens": 4, "starts": 0, "progress": False, "into": "run.acs.db"}
    with Client(server.base, "key", model="m", retries=0) as client:
        return rollout(PROMPTS, client=client, **(fields | options))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What happened, in order: ``sent``, and ``read`` when somebody looked at an answer."""
    found: list[str] = []
    send, feed = Line.send, Exchange.feed

    async def sending(line: Line, request: bytes) -> None:
        if request.startswith(b"POST"):
            found.append("sent")
        await send(line, request)

    def feeding(exchange: Exchange, data: bytes) -> Any:
        found.append("read")
        return feed(exchange, data)

    monkeypatch.setattr(Line, "send", sending)
    monkeypatch.setattr(Exchange, "feed", feeding)
    return found


def test_the_next_request_is_sent_before_an_answer_is_read(steps: list[str]) -> None:
    with Player([GOOD], NO_LIST) as server:
        made = run(server, in_flight=1)
        assert len({request.connection for request in server.requests}) == 1  # and on the same line
    assert steps == ["sent", *["sent", "read"] * (len(PROMPTS) - 1), "read"]
    assert (made.outcome, made.stats.done, made.stats.tokens) == ("done", 6, 6 * 5)
    assert made.frame()["text"].tolist() == ["ab"] * 6


@pytest.mark.parametrize(
    "options", [{"cache": "kept.db", "seed": 1}, {"in_flight": 1, "per_model": {"m": 1}}]
)
def test_a_place_is_never_taken_twice(steps: list[str], options: dict[str, Any]) -> None:
    """With a cache each answer is read first: the next prompt may be an equal one."""
    with Player([GOOD], NO_LIST) as server:
        assert run(server, **{"in_flight": 1, **options}).outcome == "done"
    flying = most = 0
    for step in steps:
        flying += 1 if step == "sent" else -1
        most = max(most, flying)
    assert most == (1 if "cache" in options else 2)  # one in flight, and one that is here and not read yet


def test_after_a_failure_each_answer_is_read_first(steps: list[str]) -> None:
    with Player([GOOD, at_once(*frames(["a"], None), REFUSAL)], NO_LIST) as server:
        made = run(server, in_flight=1, burst=2)
        assert len(server.requests) == 3
    assert steps == ["sent", "sent", "read", "sent", "read", "read"]
    assert (made.outcome, made.stats.done) == ("failures", 1)


def test_an_answer_that_is_here_when_a_rollout_is_dropped_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    last = BatchClient._last
    dropped = []

    async def dropping(
        client: BatchClient, exchange: Exchange, sink: Any, data: bytes, arrived: Arrived
    ) -> None:
        if not dropped:
            dropped.append(exchange.run)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        await last(client, exchange, sink, data, arrived)

    monkeypatch.setattr(BatchClient, "_last", dropping)
    with Player([GOOD], NO_LIST) as server:
        made = run(server, in_flight=1)
        assert len(server.requests) == len(PROMPTS)
    assert (made.outcome, made.stats.done, made.stats.in_flight) == ("done", 6, 0)


def test_an_end_waits_for_no_other_request() -> None:
    """It is in the file at once, though nothing starts in its place and the other answer takes forever."""
    with Player([GOOD, stream(*frames(["a"], None), HANG)], NO_LIST) as server:
        made = run(server, in_flight=1, bg=True)
        until(lambda: len(server.requests) == 2 and len(made.frame()) == 1, 5)
        assert made.stats.done == 1
        made.stop(drop=True)
        made.wait(20)


def test_the_budget_of_a_run_counts_what_is_here_and_not_read() -> None:
    """No request starts in the place of one whose hold it needs; when that is read, there is room."""
    bound = len(PROMPTS[0].encode()) + 1 + 4
    with Player([GOOD], NO_LIST) as server:
        made = run(server, in_flight=1, budget=bound + 5)
        assert made.outcome == "budget"
        assert made.stats.done == 2
        assert made.stats.tokens == 2 * 5


def test_what_is_dropped_in_the_turn_in_which_it_was_to_begin_was_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawn = Driver._spawn

    def spawning(driver: Driver, attempt: Attempt) -> None:
        spawn(driver, attempt)
        if attempt.rows[0].number == 2:
            asyncio.get_running_loop().call_soon(partial(driver.stop, drop=True))
            for task in driver._tasks:  # as a stop from another thread does in that moment
                task.cancel()

    monkeypatch.setattr(Driver, "_spawn", spawning)
    with Player([GOOD], NO_LIST) as server:
        made = run(server, in_flight=1)
        assert (made.outcome, made.stats.done) == ("stopped", 2)
        assert len(server.requests) == 2
        assert made.frame(pending=True)["attempts"].tolist() == [1, 1, 0, 0, 0, 0]
        monkeypatch.setattr(Driver, "_spawn", spawn)
        assert run(server, in_flight=1).stats.tokens == 6 * 5
    assert len(server.requests) == 6
