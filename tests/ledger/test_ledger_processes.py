"""The ledger of many processes: races, kills, threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter.ledger import ledger, report, resolve
from acs_jupyter.ledger.book import Ledger
from acs_jupyter.machine import processes
from acs_jupyter.secret import Secret
from tests.support.ledgers import BASE, KEY, hold
from tests.support.servers import environment

# -- many processes -------------------------------------------------------------------------------

RACER = """
import sys
from acs_jupyter.errors import BudgetRefused
from acs_jupyter.ledger import ledger
from acs_jupyter.ledger.rows import Origin
from acs_jupyter.ledger.terms import Worst
book = ledger()
rounds, won = int(sys.argv[1]), []
print("ready", flush=True)
for number in range(rounds):
    sys.stdin.readline()
    run = book.scope("rollout", f"race {number}")
    try:
        with run:
            book.hold(Origin(1, "m", "r"), Worst(0, 60, True))
        won.append(number)
    except BudgetRefused:
        pass
    print(number, flush=True)
print(*won, flush=True)
"""


def python(code: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment(), **pipes, **more)


def test_two_kernels_race_200_times_and_one_wins_each(own_ledger: Path) -> None:
    book = ledger()
    book.key(Secret(KEY), "host")
    for number in range(200):
        book.scope("rollout", f"race {number}", limit=100)
    racers = [python(RACER, "200") for _ in range(2)]
    try:
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for number in range(200):
            for racer in racers:
                racer.stdin.write("go\n")
                racer.stdin.flush()
            for racer in racers:
                assert racer.stdout.readline() == f"{number}\n"
        won = [set(map(int, racer.stdout.readline().split())) for racer in racers]
    finally:
        for racer in racers:
            racer.stdin.close()
            racer.wait(10)
            racer.stdout.close()
    assert won[0] | won[1] == set(range(200))
    assert won[0] & won[1] == set()
    assert all(book.scope("rollout", f"race {number}").held == 60 for number in range(200))


DYING = """
import sys, time
from acs_jupyter.checks import build_request
from acs_jupyter.ledger import meter_for
from acs_jupyter.secret import Secret
meter = meter_for(Secret(sys.argv[1]), sys.argv[2])
first = meter.reserve(build_request({"prompt": [1, 2, 3], "max_tokens": 100}), "a")
first.noted = 0.0
meter.running(first, 3, 20)
meter.reserve(build_request({"prompt": "x" * 39, "max_tokens": 100}), "b")
job = meter.reserve_job(build_request({"prompt": [1], "max_tokens": 9}), "key")
meter.name_job(job, "job_7")
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("way", "spent"), [("estimate", 23 + 10), ("held", 103 + 140), ("nothing", 0)])
def test_a_killed_process_leaves_its_holds_to_be_settled(own_ledger: Path, way: str, spent: int) -> None:
    child = python(DYING, KEY, BASE)
    try:
        assert child.stdout.readline() == "held\n"
        book = ledger()
        assert [one.state for one in resolve.holds(book)] == ["running", "running", "job"]
        assert resolve.resolve(book) == []  # it lives: nothing of it is touched
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()
    assert [one.words for one in resolve.holds(book)] == ["held (process gone)"] * 2 + ["held (job)"]
    seen = report.glance(book, 1)
    assert seen.spent == 23
    # One state has the same numbers wherever it is told.
    assert [(one.tokens, one.held) for one in report.sums(book, ("month", "key"))] == [(23, seen.held)] * 2
    ended = resolve.resolve(book, way)
    assert len(ended) == 2
    assert resolve.resolve(book, way) == []
    assert (book.month(1).used, book.month(1).held) == (spent, 10)  # the job goes on without its process
    assert {e["source"] for e in report.entries(book)} == {"resolved", ""}
    assert len(resolve.resolve(book, "nothing", jobs=True)) == 1
    late = book.job(1, "job_7")
    assert late is not None
    book.end(late, 1, 2, "usage")  # the job's own number comes after all
    assert (book.month(1).used, book.month(1).held) == (spent + 3, 0)


def test_a_pid_that_is_used_again_is_not_taken_for_the_old_process(book: Ledger) -> None:
    hold(book, 5)
    assert [one.state for one in resolve.holds(book)] == ["running"]
    me = processes.this_process()
    assert processes.is_gone(me) is False
    assert processes.is_gone(processes.Process(me.machine, me.pid, me.began + "1")) is True
    assert processes.is_gone(processes.Process(me.machine, 2**22 + 5, me.began)) is True
    assert processes.is_gone(processes.Process("elsewhere", me.pid, me.began)) is None
    with book.store.writing() as db:
        db.execute("UPDATE processes SET began = '1'")
    assert [one.words for one in resolve.holds(book)] == ["held (process gone)"]
    with book.store.writing() as db:
        db.execute("UPDATE processes SET machine = 'another'")
    assert [one.words for one in resolve.holds(book)] == ["held (process out of sight)"]
    assert resolve.resolve(book) == []


def test_threads_share_one_book(book: Ledger) -> None:
    hold(book, 1)

    def work() -> None:
        for _ in range(25):
            book.end(hold(book, 3), 1, 1, "usage")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (book.month(1).used, book.month(1).held) == (200, 1)
