"""The ledger's rules on a real file: what is held, counted, refused, remembered and resolved."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import errors, processes
from acs_jupyter.checks import build_request, unchecked
from acs_jupyter.ledger import close, ledger, meter_for, place, report, resolve
from acs_jupyter.ledger.book import Ledger
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.ledger.rows import Origin
from acs_jupyter.ledger.store import STEPS, Store
from acs_jupyter.ledger.terms import Worst, projected, shown_key, worst_case
from acs_jupyter.secret import Secret
from tests.support.servers import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "acs-bm-0123abcd-do-not-show-me-anywhere"
BASE = "http://127.0.0.1:9/v1"


class Clock:
    def __init__(self, *date: int) -> None:
        self.now = datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=Clock(2026, 11, 17, 12))
    yield made
    made.close()


def hold(book: Ledger, tokens: int, key: int = 1, **more: Any) -> Any:
    if not book.store.rows("SELECT 1 FROM keys"):
        book.key(Secret(KEY), "host")
    return book.hold(Origin(key, "m", "r", **more), Worst(0, tokens, exact=True))


def meter() -> KeyMeter:
    made = meter_for(Secret(KEY), BASE)
    assert made is not None
    return made


# -- what a request can cost ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "prompt", "completion", "exact"),
    [
        ({"prompt": "Hello", "max_tokens": 7}, 6, 7, False),
        ({"prompt": "é🎉", "max_tokens": 1}, 7, 1, False),
        ({"prompt": [1, 2, 3], "max_tokens": 10, "n": 4}, 3, 40, True),
        ({"prompt": ["a", "bb"], "max_tokens": 5, "n": 3}, 5, 30, False),
        ({"prompt": [[1], [2, 3]], "max_tokens": 5}, 3, 10, True),
        ({"prompt": "x"}, 2, 32_000, False),
    ],
)
def test_the_worst_case_of_a_request(
    fields: dict[str, Any], prompt: int, completion: int, exact: bool
) -> None:
    worst = worst_case(build_request(fields))
    assert (worst.prompt, worst.completion, worst.exact) == (prompt, completion, exact)
    assert worst.total == prompt + completion


def test_what_nobody_judged_is_held_too() -> None:
    assert worst_case(unchecked({"prompt": "ab", "max_tokens": 10**30})).completion == 10**15
    assert worst_case(unchecked({"prompt": "ab", "max_tokens": -3})).total == 3
    assert worst_case(unchecked({"prompt": 7, "max_tokens": "many"})).completion == 32_000


def test_a_projection_is_what_the_month_comes_to_at_this_pace() -> None:
    assert projected(100, "2026-11", Clock(2026, 11, 16)()) == 200
    assert projected(100, "2026-11", Clock(2026, 11, 1, 0, 5)()) == 3000  # less than a day counts as one
    assert projected(100, "2026-11", Clock(2026, 12, 5)()) == 100


# -- holds and limits -----------------------------------------------------------------------------


def test_a_hold_becomes_what_was_used(book: Ledger) -> None:
    ticket = hold(book, 100)
    assert (book.month(1).used, book.month(1).held, book.session.held) == (0, 100, 100)
    book.end(ticket, 8, 5, "usage")
    book.end(ticket, 8, 5, "usage")  # a second end counts nothing
    assert (book.month(1).used, book.month(1).held) == (13, 0)
    assert (book.session.spent, book.session.held) == (13, 0)
    other = hold(book, 100)
    book.end(other)
    assert (book.month(1).used, book.month(1).held) == (13, 0)
    states = [(e["state"], e["source"], e["prompt_tokens"]) for e in report.entries(book)]
    assert states == [("settled", "usage", 8), ("released", "", 0)]


def test_over_a_limit_one_line_says_what_is_left_asked_and_to_do(book: Ledger) -> None:
    first = hold(book, 600)
    book.set_month_limit(1, 1000)
    with pytest.raises(errors.BudgetExceeded) as caught:
        hold(book, 401)
    line = str(caught.value)
    assert "\n" not in line
    assert "acs-bm-0123abcd for 2026-11 leaves 400 of 1,000 tokens (0 spent, 600 held)" in line
    assert "may take 401" in line
    assert "%acs budget --limit N" in line
    book.end(first, 500, 0, "usage")
    second = hold(book, 500)  # exactly what is left
    book.end(second, 600, 0, "usage")  # more than was held: the truth counts, and left is never below 0
    assert (book.month(1).used, book.month(1).left) == (1100, 0)
    book.set_month_limit(1, None)
    hold(book, 10**9)


def test_session_cell_and_rollout_have_limits_of_their_own(book: Ledger) -> None:
    book.scope("session", book.session.state.name, 1000)
    with book.scope("cell", "n [3]", 50) as cell:
        kept = hold(book, 50)
        with pytest.raises(errors.BudgetRefused, match="--budget of this cell leaves 0 of 50"):
            hold(book, 1)
        book.end(kept, 20, 0, "usage")
    assert (cell.spent, cell.held, cell.left, cell.limit) == (20, 0, 30, 50)
    run = book.scope("rollout", "r", limit=100)
    book.end(book.hold(Origin(1, "m", "x"), Worst(0, 90, exact=True), (run.account,)), 90, 0, "usage")
    again = book.scope("rollout", "r")
    assert (again.spent, again.left) == (90, 10)
    with pytest.raises(errors.BudgetRefused, match="limit of rollout 'r' leaves 10"), again:
        hold(book, 11)
    assert cell.spent == 20  # what began outside is not the cell's
    with pytest.raises(errors.BudgetRefused, match="limit of this session leaves 890"):
        hold(book, 891)
    assert book.scope("rollout", "r", limit=0).limit is None


def test_a_refused_request_is_held_against_none_of_its_limits(book: Ledger) -> None:
    book.scope("session", book.session.state.name, 10)
    with book.scope("cell", "c", 1000) as cell, pytest.raises(errors.BudgetRefused):
        hold(book, 20)
    assert (cell.held, book.session.held) == (0, 0)
    assert book.month(1).held == 0


def test_scopes_reach_tasks_and_not_threads(book: Ledger) -> None:
    import asyncio

    async def inside() -> None:
        await asyncio.create_task(asyncio.to_thread(hold, book, 5))

    with book.scope("cell", "c") as cell:
        asyncio.run(inside())
        thread = threading.Thread(target=hold, args=(book, 7))
        thread.start()
        thread.join()
    assert cell.held == 5


def test_a_month_begins_anew_on_the_1st_utc(tmp_path: Path) -> None:
    clock = Clock(2026, 11, 30, 23, 59)
    book = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=clock)
    ticket = hold(book, 100)
    book.set_month_limit(1, 100)
    book.exhaust(1, "2026-11")
    with pytest.raises(errors.BudgetRefused):
        hold(book, 1)
    clock.now += 120
    assert (book.month(1).name, book.month(1).left) == ("2026-12", 100)
    book.end(hold(book, 60), 60, 0, "usage")
    book.end(ticket, 30, 0, "usage")  # belongs to the month it began in
    assert book.month(1).used == 60
    months = {s.name: s.tokens for s in report.sums(book, ("month",))}
    assert months == {"2026-12": 60, "2026-11": 30}
    clock.now += 500 * 86_400
    book.close()
    later = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=clock)
    assert report.entries(later) == []  # rows go in time; the sums of months stay
    assert later.store.rows("SELECT used FROM accounts WHERE kind = 'month' ORDER BY name")[:2] == [
        (30,),
        (60,),
    ]
    later.close()


def test_a_servers_no_is_believed_until_told_otherwise(book: Ledger) -> None:
    hold(book, 1)
    book.exhaust(1, "2026-11")
    with pytest.raises(
        errors.BudgetRefused, match=r"server said .* acs-bm-0123abcd for 2026-11 is used up"
    ) as no:
        hold(book, 1)
    assert "--reset" in str(no.value)
    other = book.key(Secret("another key that is long"), "host")
    hold(book, 1, key=other)
    assert report.glance(book, 1).level == "over"
    assert resolve.reset(book, 1)
    assert not resolve.reset(book, 1)
    hold(book, 1)


def test_running_usage_is_spent_while_it_streams(book: Ledger) -> None:
    ticket = hold(book, 100)
    book.set_month_limit(1, 1000)
    book.running(ticket, 10, 5)
    seen = report.glance(book, 1)
    assert (seen.spent, seen.held, seen.left, seen.running) == (15, 85, 900, 1)
    assert book.store.rows("SELECT seen_prompt FROM entries") == [(None,)]  # not in the file at every token
    ticket.noted = 0.0
    book.running(ticket, 10, 6)
    assert book.store.rows("SELECT seen_prompt, seen_completion FROM entries") == [(10, 6)]


def test_a_job_that_is_submitted_again_is_held_once(book: Ledger) -> None:
    first = hold(book, 50, kind="job")
    again = hold(book, 50, kind="job")
    assert (again.entry, again.found, again.settled) == (first.entry, True, False)
    assert book.month(1).held == 50
    book.name_job(again, "job_1")
    found = book.job(1, "job_1")
    assert found is not None
    book.end(found, 4, 3, "usage")
    assert book.job(1, "job_1") is None
    book.set_month_limit(1, 7)
    later = hold(book, 50, kind="job")  # its result can be read although nothing is left
    assert later.settled
    anew = hold(book, 50, kind="job", anew=True)
    assert (anew.entry != first.entry, book.month(1).held) == (True, 50)


# -- the file -------------------------------------------------------------------------------------


def test_the_file_is_private_and_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "folder" / "l.sqlite3"
    monkeypatch.setenv("ACS_LEDGER", str(file))
    made = meter()
    made.settle(
        made.reserve(build_request({"prompt": "secret words", "max_tokens": 2}), "run"), 1, 1, "usage"
    )
    assert ledger().store.rows("PRAGMA journal_mode") == [("wal",)]
    for name in file.parent.iterdir():
        assert stat.S_IMODE(name.stat().st_mode) == 0o600, name
        assert b"do-not-show-me" not in name.read_bytes()
        assert b"secret words" not in name.read_bytes()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert ledger().store.rows("SELECT prefix, length(hash) FROM keys") == [("acs-bm-0123abcd", 32)]
    assert KEY not in repr(made) + repr(vars(ledger()))
    assert shown_key("sk-abcdefghijklmnopqrstuvwxyz") == ""


def test_the_same_key_is_another_mark_in_another_file(tmp_path: Path) -> None:
    marks = set()
    for name in "ab":
        book = Ledger(Store(str(tmp_path / name)))
        assert book.key(Secret(KEY), "h") == book.key(Secret(KEY), "h") == 1
        assert book.key(Secret(KEY), "other server") == 2
        marks |= set(book.store.rows("SELECT hash FROM keys"))
        book.close()
    assert len(marks) == 4


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "l")
    db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    db.close()
    with pytest.raises(errors.LedgerFailed, match="newer version"):
        Store(str(tmp_path / "l"))


def test_what_is_no_ledger_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "l").write_text("not a database, and quite a bit longer than a header of one" * 9)
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "l"))
    with pytest.raises(errors.LedgerFailed, match="not a database") as caught:
        ledger()
    assert "ACS_LEDGER" in str(caught.value)
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "l" / "below"))
    with pytest.raises(errors.LedgerFailed, match="cannot be written"):
        ledger()
    monkeypatch.setenv("ACS_LEDGER", "off")
    assert meter_for(Secret(KEY), BASE) is None
    with pytest.raises(errors.LedgerFailed, match="switched off"):
        ledger()


def test_a_default_folder_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACS_LEDGER", "")
    monkeypatch.setattr(place, "_default", lambda: str(tmp_path / "file" / "ledger.sqlite3"))
    with pytest.warns(UserWarning, match="kept in memory"):
        book = ledger()
    hold(book, 5)
    assert book.month(1).held == 5
    close()


def test_a_settlement_that_cannot_be_written_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acs_jupyter.ledger.store.BUSY_SECONDS", 0.05)
    book = Ledger(Store(str(tmp_path / "l")))
    ticket = hold(book, 100)
    blocker = sqlite3.connect(tmp_path / "l", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    book.end(ticket, 4, 4, "usage")
    with pytest.raises(errors.LedgerFailed, match="locked"):
        hold(book, 1)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert book.month(1).held == 100
    book.end(hold(book, 1))
    assert (book.month(1).used, book.month(1).held) == (8, 0)
    book.close()


def test_a_forked_child_is_a_process_of_its_own(book: Ledger) -> None:
    hold(book, 10)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ticket = hold(book, 20)
            book.end(ticket, 3, 0, "usage")
            code = 0 if len(book.open) == 0 and book.session.spent == 3 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert (book.month(1).used, book.month(1).held, book.session.held) == (3, 10, 10)
    assert len({e["pid"] for e in report.entries(book)}) == 2


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
    assert report.glance(book, 1).spent == 23
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


# -- reports --------------------------------------------------------------------------------------


def test_sums_by_everything_there_is(book: Ledger, tmp_path: Path) -> None:
    token = place.cell.set("[4]")
    book.end(hold(book, 30), 4, 6, "usage")
    place.cell.reset(token)
    book.end(hold(book, 30), 1, 1, "estimate")
    hold(book, 50)
    found = {(s.by, s.name): (s.requests, s.tokens, s.held, s.estimated) for s in report.sums(book)}
    everything = (3, 12, 50, 2)
    assert found["month", "2026-11"] == found["today", "2026-11-17"] == found["model", "m"] == everything
    assert found["key", "acs-bm-0123abcd @ host"] == everything
    cells = {name: value for (by, name), value in found.items() if by == "cell"}
    assert [value for name, value in cells.items() if name.endswith("[4]")] == [(1, 10, 0, 0)]
    assert [value for name, value in cells.items() if name.endswith("(no cell)")] == [(2, 2, 50, 2)]
    from acs_jupyter.budget_command import export

    for suffix in ("csv", "jsonl"):
        told = export(book, str(tmp_path / f"out.{suffix}"))
        assert told.startswith("3 entries")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["prompt_tokens"] for row in rows] == ["4", "1", "0"]
    assert [line["source"] for line in lines] == ["usage", "estimate", ""]
    assert rows[0]["at"].startswith("2026-11-17T12:00:00")
    with pytest.raises(errors.InvalidRequest, match=r"\.csv or \.jsonl"):
        export(book, str(tmp_path / "out.txt"))


def test_a_warning_from_80_percent_on(book: Ledger) -> None:
    from acs_jupyter.budget_words import one_line

    book.end(hold(book, 79), 79, 0, "usage")
    book.set_month_limit(1, 100)
    assert report.glance(book, 1).level == "ok"
    hold(book, 1)
    assert report.glance(book, 1).level == "warn"
    assert "80% of the limit" in one_line(report.glance(book, 1))
    hold(book, 20)
    assert report.glance(book, 1).level == "over"
    assert "the limit is reached" in one_line(report.glance(book, 1))
    assert report.glance(book).limit is None


def test_importing_and_making_a_client_opens_nothing(own_ledger: Path) -> None:
    from acs_jupyter import Client

    with Client(BASE, KEY) as client:
        assert client.meter is not None
    assert not own_ledger.exists()


def test_an_interrupt_leaves_no_transaction_open(tmp_path: Path) -> None:
    """One that comes while another process holds the file is raised just after the begin has succeeded."""
    code = """
import os, signal, sqlite3, threading
from acs_jupyter.ledger import ledger
book = ledger()
other = sqlite3.connect(os.environ["ACS_LEDGER"], isolation_level=None, check_same_thread=False)
caught = 0
for _ in range(8):
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Timer(0.2, other.execute, ("COMMIT",)).start()
    try:
        with book.store.writing():
            threading.Event().wait(0.3)
    except KeyboardInterrupt:
        caught += 1
    with book.store.writing() as db:
        db.execute("SELECT 1")
other.execute("BEGIN IMMEDIATE")
print(caught)
"""
    environment = {**os.environ, "ACS_LEDGER": str(tmp_path / "l.sqlite3")}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout.strip(), ran.stderr) == ("8", "")


@pytest.mark.parametrize(
    ("prompt", "completion", "request_id"),
    [(2**70, 1, "r"), (2**63, 2**63, "r"), (-50_000, 2, "r"), (1, 1, "half \ud800")],
)
def test_what_no_file_can_take_jams_nothing(prompt: int, completion: int, request_id: str) -> None:
    meter = KeyMeter(Secret(KEY), "http://127.0.0.1:1/v1")
    request = build_request({"prompt": "x", "max_tokens": 4})
    ticket = meter.reserve(request, "run")
    ticket.facts["request_id"] = request_id
    meter.settle(ticket, prompt, completion, "usage")
    again = meter.reserve(request, "another")
    meter.settle(again, 2, 3, "usage")
    first, second = report.entries(ledger())
    assert (second["prompt_tokens"], second["completion_tokens"], second["state"]) == (2, 3, "settled")
    assert first["state"] == "settled"
    assert first["prompt_tokens"] >= 0
    assert first["prompt_tokens"] == min(max(prompt, 0), 10**15)
