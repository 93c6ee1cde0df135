"""The ledger among others: other kernels, forks, event loops, locked files, and an interrupt at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, errors
from acs_jupyter.ledger import ledger, report, resolve
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.ledger.rows import RESOLVED, End, end_entry
from acs_jupyter.ledger.words import brief, settled
from acs_jupyter.machine.patience import aside
from acs_jupyter.secret import Secret
from tests.support.desks import until
from tests.support.ledger_others import KEY, OK, OK_STREAM, locked, month
from tests.support.player import DONE, Player, frames, stream, whole
from tests.support.servers import environment

# -- processes that cannot be seen ----------------------------------------------------------------


def test_a_hold_out_of_sight_is_settled_when_asked_or_after_a_day() -> None:
    book = ledger()
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    meter.reserve(_request("Hi", 10), "old")
    meter.reserve(_request("Hi", 20), "young")
    with book.store.writing() as db:  # of another boot, or another container
        db.execute("UPDATE processes SET machine = 'another 1'")
        db.execute("UPDATE entries SET at = at - ? WHERE run = 'old'", (resolve.LONGEST_LIFE + 60,))
    assert {hold.words for hold in resolve.holds(book)} == {"held (process out of sight)"}
    told = brief(report.glance(book), [], resolve.holds(book), 0)
    assert "settle --elsewhere" in told
    assert "from before a restart" in told
    ended = resolve.resolve(book)
    assert [hold.held for hold in ended] == [13]  # no request lives that long
    left = resolve.holds(book)
    assert "not known" in settled(ended, left, "held", 0)
    assert "--elsewhere" in settled(ended, left, "held", 0)
    assert [hold.held for hold in resolve.resolve(book, out_of_sight=True)] == [23]
    assert month() == (36, 0)


def test_one_that_comes_back_after_all_has_the_last_word() -> None:
    book = ledger()
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    ticket = meter.reserve(_request("Hi", 10), "run")
    with book.store.writing() as db:
        db.execute("UPDATE processes SET machine = 'another 1'")
    resolve.resolve(book, out_of_sight=True)
    assert month() == (13, 0)
    meter.settle(ticket, 2, 4, "usage")
    assert month() == (6, 0)


# -- one idempotency key, several submissions -----------------------------------------------------


def test_a_key_that_is_used_for_more_holds_the_larger_one_or_is_refused() -> None:
    book = ledger()
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    book.set_month_limit(meter.key, 500)
    small = meter.reserve_job(_request("Hi", 100), "K")
    with pytest.raises(errors.BudgetRefused, match="may take 4,003"):
        meter.reserve_job(_request("Hi", 4000), "K")
    assert month() == (0, 103)
    larger = meter.reserve_job(_request("Hi", 400), "K")
    assert (larger.entry, larger.found, larger.held, month()) == (small.entry, True, 403, (0, 403))
    assert meter.reserve_job(_request("Hi", 5), "K").held == 403  # never less than what may run
    meter.settle(larger, 3, 97, "usage")
    assert month() == (100, 0)
    with pytest.raises(errors.BudgetRefused):  # paid, and asked for again with more: that is another job
        meter.reserve_job(_request("Hi", 420), "K")
    book.set_month_limit(
        meter.key, 503
    )  # the server may have forgotten the job that was paid: room for another
    again = meter.reserve_job(_request("Hi", 400), "K")
    assert (again.before.entry, again.before.settled, month()) == (small.entry, True, (100, 403))
    meter.withdraw(again)
    assert month() == (100, 0)


SUBMITTING = """
import sys
from acs_jupyter import Client
from acs_jupyter.errors import AcsError
with Client(sys.argv[1], sys.argv[2], model="m", retries=0) as client:
    try:
        job = client.jobs.submit("Hi", max_tokens=100)
        print("job", job.id, flush=True)
        if sys.argv[3] == "wait":
            sys.stdin.readline()
            print(client.jobs.wait(job).usage.completion_tokens, flush=True)
    except AcsError as error:
        print(error.code, flush=True)
"""


@pytest.mark.parametrize("first", ["refused", "found"])
def test_two_kernels_submit_one_job_and_the_hold_lasts(tmp_path: Path, first: str) -> None:
    """The first one's submission is answered last, by a refusal or by the other one's job; nothing is given back."""
    busy = whole({"error": {"code": "job_limit_reached", "message": "8 active"}}, "429 Too Many Requests")
    late = busy if first == "refused" else whole({"id": "j1", "status": "queued"})
    new = whole({"id": "j1", "status": "queued"}, "202 Accepted")
    with Player([[2.5, *late], new, OK], {"/j1": whole({"id": "j1", "status": "succeeded"})}) as server:
        one = _python(SUBMITTING, server.base, KEY, "go", ACS_JOURNAL=str(tmp_path / "one"))
        try:
            until(lambda: len(server.requests) == 1)
            other = _python(SUBMITTING, server.base, KEY, "wait", ACS_JOURNAL=str(tmp_path / "other"))
            assert other.stdout.readline() == "job j1\n"
            assert one.stdout.readline() == ("job_limit_reached\n" if first == "refused" else "job j1\n")
            assert one.wait(20) == 0
            assert month() == (0, 103)
            print("now", file=other.stdin, flush=True)
            assert other.stdout.readline() == "1\n"
            assert other.wait(20) == 0
        finally:
            for child in (one, other):
                child.kill()
                child.communicate()
    assert month() == (4, 0)


def _submitted_at_once(base: str, count: int) -> list[str]:
    async def go() -> list[str]:
        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            several = [client.jobs.submit("Hi", max_tokens=100) for _ in range(count)]
            return [job.id for job in await asyncio.gather(*several)]

    return asyncio.run(go())


NEW, FOUND = whole({"id": "j1", "status": "queued"}, "202 Accepted"), whole({"id": "j1", "status": "queued"})
LOST: list[bytes | float] = [b""]


@pytest.mark.parametrize("before", ["held", "paid", "settled by hand", "paid, and its answer lost"])
def test_a_job_that_several_submit_again_at_once_is_counted_once(before: str) -> None:
    first = {"held": [NEW], "paid": [NEW, OK], "settled by hand": [LOST]}.get(before, [NEW, OK, LOST])
    with Player([*first, [0.3, *FOUND]], {"/j1": FOUND}) as server:
        with Client(server.base, KEY, model="m", retries=0) as client:
            for place in range(len(first)):
                if first[place] is OK:
                    client.jobs.result("j1")
                elif first[place] is LOST:
                    with pytest.raises(errors.ConnectionFailed):
                        client.jobs.submit("Hi", max_tokens=100)
                else:
                    client.jobs.submit("Hi", max_tokens=100)
        if before == "settled by hand":
            [hold] = resolve.holds(ledger())
            with ledger().store.writing() as db:
                end_entry(db, hold.entry, End(3, 100, RESOLVED), ledger().clock())
        assert _submitted_at_once(server.base, 3) == ["j1"] * 3
        assert month() == {"held": (0, 103), "settled by hand": (103, 0)}.get(before, (4, 0))
        with Client(server.base, KEY, model="m", retries=0) as client:
            server.answers = [OK]
            client.jobs.result("j1")
    assert month() == (4, 0)
    [total] = report.sums(ledger(), ("month",))
    assert (total.requests, total.tokens) == (1, 4)
    assert [entry["job"] for entry in report.entries(ledger())] == ["j1"]


def test_a_hold_that_was_given_back_and_has_become_a_job_is_held_again() -> None:
    """Another submission found the job that was there; this one's made a new one, since it was forgotten then."""
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    first = meter.reserve_job(_request("Hi", 100), "K")
    meter.name_job(first, "j1")
    second, third = (meter.reserve_job(_request("Hi", 100), "K") for _ in range(2))
    meter.name_job(second.before, "j1")
    meter.withdraw(second)
    assert month() == (0, 103)
    meter.name_job(third, "j2")
    assert month() == (0, 206)
    for job in ("j1", "j2"):
        meter.settle(meter.job(job), 3, 1, "usage")
    assert month() == (8, 0)


def test_a_submission_that_never_left_holds_nothing() -> None:
    with (
        Client("http://127.0.0.1:9/v1", KEY, model="m", retries=0) as client,
        pytest.raises(errors.ConnectionFailed),
    ):
        client.jobs.submit("Hi", max_tokens=100)
    assert month() == (0, 0)


# -- event loops ----------------------------------------------------------------------------------


def test_a_locked_ledger_holds_up_no_event_loop(own_ledger: Path) -> None:
    """A stream, its beginning and its end, while somebody else has the file: the loop goes on all the time."""
    first, second, last = frames(["a", "a", "a"], "stop")
    slow = stream(first, 0.3, second, 1.2, last, DONE)
    worst = 0.0

    async def go(base: str) -> None:
        nonlocal worst

        async def beat() -> None:
            nonlocal worst
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.02)
                worst = max(worst, time.monotonic() - before)

        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            await client.complete("a", max_tokens=3)  # so that it is open
            with locked(own_ledger) as other:
                beating = asyncio.create_task(beat())
                begun = asyncio.create_task(client.complete("b", max_tokens=3))
                await asyncio.sleep(1.0)
                assert len(server.requests) == 1  # nothing is sent that is not held
                other.execute("ROLLBACK")
                await asyncio.to_thread(until, lambda: len(server.requests) == 2)
                other.execute("BEGIN IMMEDIATE")
                done = await begun  # its running usage and its end cannot be written now
                assert done.text == "aaa"
                await asyncio.sleep(0.2)
                assert ledger().open == {}
                other.execute("ROLLBACK")
            beating.cancel()

    with Player([OK_STREAM, slow]) as server:
        asyncio.run(go(server.base))
        until(lambda: month() == (4 + 6, 0))
    assert worst < 1.0  # it had been 15 s


def test_cancelled_while_the_ledger_is_locked_it_holds_nothing(own_ledger: Path) -> None:
    async def go(base: str) -> None:
        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            await client.complete("a", max_tokens=3)
            with locked(own_ledger):
                task = asyncio.create_task(client.complete("b", max_tokens=3))
                await asyncio.sleep(0.3)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    with Player([OK_STREAM]) as server:
        asyncio.run(go(server.base))
        assert len(server.requests) == 1
    until(lambda: month() == (4, 0))


def test_jobs_on_an_event_loop_wait_beside_it(own_ledger: Path) -> None:
    async def go(base: str) -> None:
        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            await client.complete("a", max_tokens=3)
            with locked(own_ledger) as other:
                task = asyncio.create_task(client.jobs.submit("Hi", max_tokens=3))
                ticks = 0
                while ticks < 20:
                    await asyncio.sleep(0.02)
                    ticks += 1
                assert not task.done()
                other.execute("ROLLBACK")
                job = await task
            assert month() == (4, 6)
            assert (await client.jobs.result(job)).text == "yes"

    with Player([OK_STREAM, whole({"id": "j", "status": "queued"}, "202 Accepted"), OK]) as server:
        asyncio.run(go(server.base))
    assert month() == (8, 0)


def test_what_is_undone_follows_what_was_done() -> None:
    done: list[str] = []

    def act() -> None:
        time.sleep(0.2)
        done.append("act")

    async def go() -> None:
        task = asyncio.create_task(aside(act, lambda: done.append("undo")))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    until(lambda: done == ["act", "undo"])


# -- forks ----------------------------------------------------------------------------------------


def _in_child(act: Any) -> int:
    """The exit code of a forked child that does something, within 20 seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            act()
            code = 0
        except BaseException as error:  # noqa: BLE001  # told to the parent by its code
            os.write(2, repr(error).encode())
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def test_a_fork_in_the_middle_of_a_stream_leaves_the_stream_to_the_parent() -> None:
    first, last = frames(["a", "b"], "stop")
    answer = stream(first, 0.5, last, DONE)
    with Player([answer, OK]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        coming = client.stream("Hi", max_tokens=40)
        tokens = iter(coming)
        next(tokens)
        assert _in_child(coming.close) == 0  # what a child does at its end, garbage or exit
        assert month() == (0, 43)
        assert (
            _in_child(lambda: client.complete("Hi", max_tokens=4, stream=False)) == 0
        )  # over sockets of its own
        assert len(list(tokens)) == 1
    assert len({request.connection for request in server.requests}) == 2
    assert month() == (5 + 4, 0)


def test_a_child_is_held_up_by_no_lock_of_its_parent() -> None:
    """Threads of the parent are in the middle of holding and settling whenever it forks."""
    with Player([OK]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        client.complete("Hi", max_tokens=4, stream=False)
        stop = threading.Event()

        def churn() -> None:
            meter = KeyMeter(Secret(KEY), server.base)
            while not stop.is_set():
                meter.settle(meter.reserve(_request("Hi", 1), "r"), 1, 0, "usage")

        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()

        def several() -> None:
            errors_found: list[BaseException] = []

            def one() -> None:
                try:
                    client.complete("Hi", max_tokens=4, stream=False)
                except BaseException as error:  # noqa: BLE001
                    errors_found.append(error)

            mine = [threading.Thread(target=one) for _ in range(4)]
            for thread in mine:
                thread.start()
            for thread in mine:
                thread.join()
            assert errors_found == []

        try:
            codes = [_in_child(several) for _ in range(12)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert codes == [0] * 12
    assert ledger().store.rows("PRAGMA integrity_check") == [("ok",)]
    assert month()[1] == 0
    assert ledger().store.rows("SELECT count(*) FROM entries WHERE held = 7") == [(1 + 12 * 4,)]


# -- interrupts -----------------------------------------------------------------------------------

INTERRUPTED = """
import random, signal, sys, threading, os, time
from acs_jupyter import Client
from acs_jupyter.ledger import ledger
signal.signal(signal.SIGINT, signal.default_int_handler)
draw = random.Random(int(sys.argv[3]))
caught = 0
with Client(sys.argv[1], sys.argv[2], model="m", retries=0) as client:
    client.complete("Hi", max_tokens=4, stream=False)
    for _ in range(120):
        clock = threading.Timer(draw.uniform(0, 0.012), os.kill, (os.getpid(), signal.SIGINT))
        try:
            clock.start()
            client.complete("Hi", max_tokens=4, stream=False)
            while clock.is_alive():
                time.sleep(0.001)
            time.sleep(0.03)  # it comes here at the latest
        except KeyboardInterrupt:
            caught += 1
        clock.join()
    client.complete("Hi", max_tokens=4, stream=False)
print(caught, ledger().store.rows("SELECT count(*) FROM entries WHERE state = 'held'")[0][0], len(ledger().open))
"""


def test_an_interrupt_at_any_moment_leaves_nothing_held() -> None:
    with Player([OK]) as server:
        ran = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, server.base, KEY, "3"],
            env=environment(), capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert ran.stderr == ""
    caught, held, still_open = map(int, ran.stdout.split())
    assert caught > 20
    assert (held, still_open) == (0, 0)


def _request(prompt: str, most: int) -> Any:
    from acs_jupyter.checks import build_request

    return build_request({"prompt": prompt, "model": "m", "max_tokens": most})


def _python(code: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment(**env), **pipes)  # type: ignore[call-overload,no-any-return]
