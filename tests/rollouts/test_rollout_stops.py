"""How a rollout stops: at an interrupt, a budget, a refusal, a burst of failures; and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from acs_jupyter import Client, Rollout, rollout_async
from acs_jupyter.errors import BudgetRefused
from tests.support.desks import OWN, Counter, counter, until
from tests.support.interrupts import after, interrupted
from tests.support.rollouts import FREE, SLOW, run

if TYPE_CHECKING:
    from collections.abc import Iterator


# Stopping


@contextmanager
def interrupted_after(*seconds: float) -> Iterator[pytest.ExceptionInfo[KeyboardInterrupt]]:
    with interrupted(after(*seconds)) as caught:
        yield caught


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    with counter(tmp_path_factory.mktemp("desk"), FREE) as running:
        yield running


@pytest.fixture
def desk_client(served: Counter) -> Iterator[Client]:
    with Client(served.base, OWN, model="scripted") as made:
        yield made


def test_an_interrupt_finishes_what_is_in_flight(served: Counter, desk_client: Client) -> None:
    with interrupted_after(0.4) as caught:
        run(desk_client, SLOW, max_tokens=12, in_flight=4)
    [line] = caught.value._render_traceback_()  # type: ignore[attr-defined]  # what a notebook shows
    assert line.startswith('KeyboardInterrupt: Stopped; what came is kept: Rollout("run.acs.db") reads it.')
    assert re.search(r"Run the cell again to send the \d+ that are left\.$", line)
    states = Rollout("run.acs.db").frame(pending=True).state.value_counts()
    assert set(states.index) == {"done", "pending"}
    assert all(entry.status == 200 for entry in served.quiet())
    made = run(desk_client, SLOW, max_tokens=12)
    assert made.stats.done == len(SLOW)
    assert len(served.quiet()) == len(SLOW)  # nothing was sent twice
    assert made.stats.tokens == served.used(OWN)


def test_a_second_interrupt_drops_it_and_frees_the_server(served: Counter, desk_client: Client) -> None:
    endless = [f"#scripted rate=20\n{i}" for i in range(6)]
    with interrupted_after(0.8, 1.2):
        run(desk_client, endless, max_tokens=2000, in_flight=4)
    log = served.quiet()
    assert [entry.status for entry in log] == [499] * 4
    left = Rollout("run.acs.db")
    assert left.outcome == "stopped"
    assert list(left.frame(pending=True).state) == ["pending"] * 6
    assert left.stats.tokens == served.used(OWN) > 4  # the server has said what each of them cost


def test_in_the_background_it_can_be_watched_and_stopped(served: Counter, desk_client: Client) -> None:
    made = run(desk_client, SLOW, max_tokens=12, in_flight=4, bg=True)
    assert made.outcome == "open"
    until(lambda: made.stats.done >= 4)
    assert len(made.frame()) >= 4
    made.stop()
    made.wait()
    assert made.outcome == "stopped"
    assert 4 <= made.stats.done < len(SLOW)
    assert made.stats.in_flight == 0


def test_a_cancelled_task_drops_what_is_in_flight(served: Counter, desk_client: Client) -> None:
    async def main() -> None:
        work = asyncio.create_task(
            rollout_async(
                SLOW, client=desk_client, max_tokens=12, into="run.acs.db", progress=False, in_flight=4
            )
        )
        await asyncio.sleep(0.5)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    served.quiet()
    assert run(desk_client, SLOW, max_tokens=12, seed=None).stats.done == len(SLOW)


def test_dropped_in_any_turn_of_its_loop_it_knows_what_was_sent(served: Counter, desk_client: Client) -> None:
    prompts = [f"#scripted rate=1000 tokens=2\n{i}" for i in range(200)]

    async def dropped(turn: int) -> Rollout:
        into = f"{turn}.db"
        work = asyncio.create_task(
            rollout_async(
                prompts, client=desk_client, max_tokens=2, into=into, progress=False, in_flight=8, starts=0
            )
        )
        while len(served.desk.ledger.entries()) < before + 20:  # noqa: ASYNC110  # no bell rings
            await asyncio.sleep(0.001)
        for _ in range(turn):
            await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return Rollout(into)

    for turn in range(12):
        before = len(served.quiet())
        left = asyncio.run(dropped(turn))
        sent = len(served.quiet()) - before
        assert 20 <= sent < len(prompts)
        with contextlib.closing(sqlite3.connect(left.path)) as file:
            assert file.execute("SELECT sum(attempts), max(state = 1) FROM requests").fetchone() == (sent, 0)


def test_it_stops_before_the_budget_could_be_passed_and_goes_on_with_more(
    served: Counter, desk_client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(desk_client, budget=90)
    assert made.outcome == "budget"
    assert 0 < made.stats.done < 20
    assert served.used(OWN) == made.stats.tokens <= 90
    assert "stopped at the budget" in capsys.readouterr().err
    assert run(desk_client, budget=90).stats.tokens == made.stats.tokens  # nothing fits any more
    assert run(desk_client, budget=2000).stats.done == 20


def test_a_budget_of_the_key_stops_it(served: Counter) -> None:
    with Client(served.base, served.new_key(budget=60), model="scripted") as client:
        made = run(client, in_flight=1)
    assert made.outcome == "budget"
    assert "budget_exceeded" in made.reason
    assert made.stats.failed == 0
    assert set(made.frame(pending=True).state) == {"done", "pending"}


def test_a_wrong_key_stops_it_with_everything_still_to_do(served: Counter) -> None:
    with Client(served.base, "acs-bm-0123abcd-wrong", model="scripted") as client:
        made = run(client)
    assert (made.outcome, made.stats.done, made.stats.failed) == ("refused", 0, 0)
    assert "wrong" not in made.reason


def test_a_server_that_only_fails_stops_it(client: Client) -> None:
    broken = [f"#scripted fault=upstream_server_error retry_after=0\n{i}" for i in range(30)]
    made = run(client, broken, burst=10)
    assert made.outcome == "failures"
    assert made.stats.done == 0
    assert set(made.frame(pending=True).state) <= {"pending", "failed"}


class Allowance:
    """A meter that lets so many requests pass at a time, and so many in all."""

    def __init__(self, at_once: int, total: int) -> None:
        self.at_once, self.left, self.held, self.spent = at_once, total, 0, 0

    def reserve(self, request: Any, run: str) -> str:
        if self.held >= self.at_once or not self.left:
            raise BudgetRefused("Nothing is left.")
        self.held += 1
        self.left -= 1
        return run

    def settle(self, ticket: str, prompt_tokens: int, completion_tokens: int, source: str) -> None:
        self.held -= 1
        self.spent += prompt_tokens + completion_tokens

    def release(self, ticket: str) -> None:
        self.held -= 1


def test_a_meter_is_asked_for_each_request_and_its_no_is_waited_out(client: Client) -> None:
    client.meter = meter = Allowance(3, 12)
    made = run(client)
    assert (made.outcome, made.stats.done, made.stats.tokens) == ("budget", 12, meter.spent)
    assert "Nothing is left" in made.reason
    meter.left = 100
    assert run(client).stats.done == 20


# Counted by the server


def test_a_batch_gives_the_same_answers_in_fewer_requests(served: Counter, desk_client: Client) -> None:
    alone = run(desk_client, logprobs=1).frame()
    count = len(served.quiet())
    together = run(desk_client, logprobs=1, into="batch.db", batch=8).frame()
    assert len(served.quiet()) - count == 3
    same = ["text", "finish_reason", "prompt_tokens", "completion_tokens", "logprob", "item"]
    pd.testing.assert_frame_equal(together[same], alone[same])
    greedy = [run(desk_client, temperature=0, into=f"{b}.db", batch=b).frame()[same] for b in (1, 7)]
    pd.testing.assert_frame_equal(*greedy)
