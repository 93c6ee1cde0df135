"""What a rollout holds in advance and settles in batches: nothing of it is lost, counted twice, or beyond a limit."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import Client, rollout
from acs_jupyter.errors import BudgetRefused, LedgerFailed
from acs_jupyter.ledger import ledger, report, resolve
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.local.ledger import read_log
from acs_jupyter.machine.patience import Busy
from acs_jupyter.rollouts import holds
from acs_jupyter.rollouts.holds import AHEAD
from acs_jupyter.rollouts.run import prepared
from acs_jupyter.secret import Secret
from tests.conftest import UNHURRIED
from tests.support.desks import until
from tests.support.player import DONE, HANG, Player, frames, stream
from tests.support.rollouts import NO_LIST
from tests.support.servers import environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Running

KEY = "acs-bm-testtest-key-of-held-rollouts"
WIDE = 4
UNENDING = 300.0
CHILD = """
import sys
from acs_jupyter import Client, rollout
base, key, path, count, name = sys.argv[1:]
prompts = [f"#scripted ttft=0.02 tokens=3\\n{name} {number}" for number in range(int(count))]
with Client(base, key, model="scripted") as client:
    made = rollout(prompts, into=path, client=client, max_tokens=3, in_flight=4, starts=0, progress=False)
print(made.outcome)
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    with serving("--scripted", *UNHURRIED, "--key", KEY, "--data", str(tmp_path / "served")) as server:
        yield server


def child(server: Running, path: str, count: int, name: str = "word") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, server.base, KEY, path, str(count), name]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)


def held_by(book: Any) -> dict[str, int]:
    """Entries that are held, by run."""
    return dict(book.store.rows("SELECT run, id FROM entries WHERE state = 'held'"))


def standing(path: str) -> dict[str, tuple[int, int]]:
    """State and tokens of each request of a journal, by run."""
    query = "SELECT key, state, prompt_tokens + completion_tokens FROM requests"
    with closing(sqlite3.connect(path)) as db:
        return {key.hex()[:12]: (state, tokens) for key, state, tokens in db.execute(query)}


def unnoted(path: str, held: dict[str, int], stands: dict[str, tuple[int, int]]) -> set[int]:
    """Holds made in the moment before the kill, which the journal had no time to note: they stay."""
    with closing(sqlite3.connect(path)) as db:
        row = db.execute("SELECT value FROM about WHERE name = 'holds'").fetchone()
    noted = {entry for entry, *_ in json.loads(row[0])[1]} if row else set()
    found = {entry for run, entry in held.items() if entry > max(noted, default=0)}
    assert all(stands[run][0] < 2 for run, entry in held.items() if entry in found)  # none of them has ended
    assert len(found) <= AHEAD
    return found


def killed(server: Running, path: str, count: int) -> None:
    """Begin, or go on, and be killed somewhere in the middle."""
    before = done(path)
    process = child(server, path, count)
    until(lambda: done(path) >= before + 7 or process.poll() is not None, 60)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def done(path: str) -> int:
    if not Path(path).exists():
        return 0
    with closing(sqlite3.connect(path)) as db:
        try:
            return int(db.execute("SELECT count(*) FROM requests WHERE state = 2").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_process_killed_in_the_middle_of_a_batch_loses_no_end(
    served: Running, tmp_path: Path, by_hand: bool
) -> None:
    """Ends that the ledger has not got are told by the journal; holds that were never sent are given back. Only what
    was in flight stays held, once for each kill."""
    book, flying, unwritten, unsent = ledger(), set[int](), 0, 0
    for _ in range(4):
        killed(served, "run.acs.db", 200)
        held, stands = held_by(book), standing("run.acs.db")
        flying |= {entry for run, entry in held.items() if stands[run][0] == 1}
        flying |= unnoted("run.acs.db", held, stands)
        unwritten += sum(stands[run][0] == 2 for run in held)
        unsent += sum(stands[run][0] == 0 for run in held)
        if by_hand:  # somebody is quicker than the next call, and counts all of it at its most
            resolve.resolve(book)
    assert unwritten > 0
    assert unsent > 0
    assert child(served, "run.acs.db", 200).communicate()[0].strip() == "done"
    entries = book.store.rows(
        "SELECT id, run, source, prompt_tokens + completion_tokens FROM entries WHERE state = 'settled'"
    )
    told = {run: tokens for _, run, source, tokens in entries if source == "usage"}
    assert told == {run: tokens for run, (state, tokens) in standing("run.acs.db").items() if state == 2}
    assert len([1 for *_, source, _ in entries if source == "usage"]) == len(told) == 200
    if by_hand:
        assert {entry for entry, _, source, _ in entries if source != "usage"} == flying
    else:
        assert set(held_by(book).values()) == flying
    log = [row for row in read_log(tmp_path / "served") if row.completion_tokens]
    assert (
        0
        <= sum(row.prompt_tokens + row.completion_tokens for row in log) - sum(told.values())
        <= len(flying) * 40
    )


def test_two_rollouts_race_for_one_limit_and_neither_passes_it(served: Running, tmp_path: Path) -> None:
    book = ledger()
    key = KeyMeter(Secret(KEY), served.base).key
    limit = 1500
    book.set_month_limit(key, limit)
    racers = [child(served, f"{name}.acs.db", 200, name) for name in ("one", "two")]
    most = 0
    while any(racer.poll() is None for racer in racers):
        month = book.month(key)
        most = max(most, month.used + month.held)
        time.sleep(0.005)
    assert [racer.communicate()[0].strip() for racer in racers] == ["budget", "budget"]
    month = book.month(key)
    spent = sum(row.prompt_tokens + row.completion_tokens for row in read_log(tmp_path / "served"))
    assert (month.held, month.used) == (0, spent)
    assert 0 < most <= limit
    assert month.left is not None
    assert month.left < 50  # nobody gave up for what was only held in advance
    assert min(done("one.acs.db"), done("two.acs.db")) > 0


def test_what_is_held_in_advance_is_given_back_when_it_stops() -> None:
    slow = stream(0.05, *frames(["a", "b"]), DONE)
    with Player([slow], NO_LIST) as server, Client(server.base, KEY, model="m") as client:
        made = rollout(
            [f"word {i}" for i in range(400)],
            client=client,
            into="run.acs.db",
            max_tokens=4,
            in_flight=2,
            starts=0,
            progress=False,
            bg=True,
        )
        until(lambda: len(held_by(ledger())) > 4)  # more than is in flight
        made.stop()
        made.wait()
        until(lambda: not held_by(ledger()))
        counted = [e for e in report.entries(ledger()) if e["prompt_tokens"] + e["completion_tokens"]]
        assert len(counted) == len(server.requests) == made.stats.done
        assert ledger().session.spent == made.stats.tokens


def test_a_journal_settles_nothing_in_another_ledger(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries are numbers: without the file they belong to they would be somebody else's."""
    killed(served, "run.acs.db", 100)
    first = held_by(ledger())
    assert len(first) > WIDE
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "other.sqlite3"))
    assert child(served, "run.acs.db", 100).communicate()[0].strip() == "done"
    assert held_by(ledger()) == {}
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "ledger" / "ledger.sqlite3"))
    assert held_by(ledger()) == first


def refused(*_: Any) -> None:
    raise LedgerFailed("The budget ledger cannot be used: disk I/O error.")


@pytest.mark.parametrize("between", ["another ledger", "no ledger", "a ledger that cannot be written"])
def test_ends_wait_for_the_ledger_they_belong_to(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    killed(served, "run.acs.db", 100)
    first, stood = held_by(ledger()), standing("run.acs.db")
    flying = {entry for run, entry in first.items() if stood[run][0] == 1}
    flying |= unnoted("run.acs.db", first, stood)
    assert len(first) > len(flying)
    used = ledger().store.rows("SELECT sum(used) FROM accounts WHERE kind = 'month'")[0][0]
    own = str(tmp_path / "ledger" / "ledger.sqlite3")
    elsewhere = {"another ledger": str(tmp_path / "other.sqlite3"), "no ledger": "off"}
    if between in elsewhere:
        monkeypatch.setenv("ACS_LEDGER", elsewhere[between])
        assert child(served, "run.acs.db", 100).communicate()[0].strip() == "done"
        monkeypatch.setenv("ACS_LEDGER", own)
        assert held_by(ledger()) == first
    else:
        with monkeypatch.context() as patch:
            patch.setattr(KeyMeter, "end_known", refused)
            with Client(served.base, KEY, model="scripted") as client:
                prompts = [f"#scripted ttft=0.02 tokens=3\nword {number}" for number in range(100)]
                work = prepared(prompts, into="run.acs.db", client=client, max_tokens=3)._work
                assert work is not None
                work.journal.close()
    assert child(served, "run.acs.db", 100).communicate()[0].strip() == "done"
    assert set(held_by(ledger()).values()) == flying
    late = {run: stood[run][1] for run, entry in first.items() if stood[run][0] == 2}
    if between in elsewhere:
        now = ledger().store.rows("SELECT sum(used) FROM accounts WHERE kind = 'month'")[0][0]
        assert now == used + sum(late.values())


def test_many_variants_hold_no_more_in_advance_than_one(served: Running) -> None:
    """Thirty-two seeds are thirty-two variants; as many requests are held at once all the same."""
    most = 0
    with Client(served.base, KEY, model="scripted") as client:
        prompts = [f"#scripted ttft=0.02 tokens=2\nmany {number}" for number in range(4)]
        run = rollout(
            prompts, seeds=range(32), into="many.acs.db", client=client, max_tokens=2, in_flight=WIDE,
            starts=0, progress=False, bg=True,
        )  # fmt: skip
        while run.outcome == "open":
            most = max(most, len(held_by(ledger())))
            time.sleep(0.002)
        run.wait()
    assert run.outcome == "done"
    assert 1 < most <= WIDE + AHEAD


def test_what_is_held_in_advance_is_given_back_though_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request takes long; others may have what those behind it would take."""
    monkeypatch.setattr(holds, "LONGEST", 2.0)
    quick, slow = stream(*frames(["a"]), DONE), stream(*frames(["a"], None), HANG)
    with Player([quick, slow], NO_LIST) as server, Client(server.base, KEY, model="m", retries=0) as client:
        options: dict[str, Any] = {"max_tokens": 40, "in_flight": 1, "starts": 0, "progress": False}
        run = rollout(["Hi"] * 60, client=client, into=tmp_path / "run.db", bg=True, **options)
        until(lambda: len(held_by(ledger())) == AHEAD)
        until(lambda: len(held_by(ledger())) == 1)
        assert not run.done
        assert len(server.requests) == 2
        run.stop(drop=True)
        run.wait(20)
    assert held_by(ledger()) == {}


@pytest.mark.parametrize("problem", [None, BudgetRefused("no room"), LedgerFailed("locked"), Busy()])
def test_holds_are_made_while_answers_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception | None
) -> None:
    """The first request waits for its own, and the last; where nothing can be held then, every fourth one waits."""
    asked: list[int] = []
    hold, reserve = holds.Holds._hold, KeyMeter.reserve_several
    now = False

    def in_front(self: holds.Holds, *args: Any) -> None:
        nonlocal now
        asked.append(1)
        now = True
        try:
            hold(self, *args)
        finally:
            now = False

    def reserving(self: KeyMeter, requests: Any, **options: Any) -> Any:
        if problem is not None and not now:
            raise problem
        return reserve(self, requests, **options)

    monkeypatch.setattr(holds, "AHEAD", 4)
    monkeypatch.setattr(holds.Holds, "_hold", in_front)
    monkeypatch.setattr(KeyMeter, "reserve_several", reserving)
    answer = stream(0.06, *frames(["a"]), DONE)
    with Player([answer], NO_LIST) as server, Client(server.base, KEY, model="m", retries=0) as client:
        options: dict[str, Any] = {"max_tokens": 40, "in_flight": 1, "starts": 0, "progress": False}
        made = rollout(["Hi"] * 24, client=client, into=tmp_path / "run.db", **options)
    assert (made.outcome, made.stats.done) == ("done", 24)
    assert len(asked) <= 3 if problem is None else len(asked) >= 24 // 4
    assert held_by(ledger()) == {}


@pytest.mark.parametrize("way", resolve.WAYS)
def test_what_is_settled_by_hand_during_a_run_is_counted_once(
    served: Running, tmp_path: Path, way: str
) -> None:
    """By somebody in another container, who cannot see that it runs, again and again."""
    prompts = [f"#scripted ttft=0.02 tokens=3\n{number}" for number in range(150)]
    assert ledger().session.spent == 0  # this process is in the file
    with ledger().store.writing() as db:
        db.execute("UPDATE processes SET machine = 'another'")
    with Client(served.base, KEY, model="scripted") as client:
        options: dict[str, Any] = {"max_tokens": 3, "in_flight": WIDE, "starts": 0, "progress": False}
        run = rollout(prompts, client=client, into="run.acs.db", bg=True, **options)
        settled = 0
        while not run.done:
            settled += len(resolve.resolve(ledger(), way, out_of_sight=True))
            time.sleep(0.01)
        run.wait()
    assert settled > 0
    log = read_log(tmp_path / "served")
    paid = sum(row.prompt_tokens + row.completion_tokens for row in log)
    assert len(log) == 150
    assert sum(e["prompt_tokens"] + e["completion_tokens"] for e in report.entries(ledger())) == paid
    assert held_by(ledger()) == {}


@pytest.mark.parametrize("width", [2, 280])
def test_nothing_large_beside_what_is_left_is_held_in_a_lull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """One request takes long, and others may have all the rest meanwhile."""
    monkeypatch.setattr(holds, "LONGEST", UNENDING)
    lulls: list[int] = []
    ahead = holds.Holds._ahead

    def held_ahead(self: holds.Holds, feed: Any) -> None:
        ahead(self, feed)
        lulls.append(len(self._next))

    monkeypatch.setattr(holds.Holds, "_ahead", held_ahead)
    prompts = ["Hi", "Hi", "x" * width, *["Hi"] * 20]
    bound = len("Hi") + 1 + 40
    quick, slow = stream(*frames(["a"]), DONE), stream(*frames(["a"], None), HANG)
    with Player([quick, slow], NO_LIST) as server, Client(server.base, KEY, model="m", retries=0) as client:
        month = KeyMeter(Secret(KEY), server.base).key
        ledger().set_month_limit(month, 17 * bound)  # room for one in advance, when nothing was used
        options: dict[str, Any] = {"max_tokens": 40, "in_flight": 1, "starts": 0, "progress": False}
        run = rollout(prompts, client=client, into=tmp_path / "run.db", bg=True, **options)
        until(lambda: len(server.requests) == 2 and bool(lulls))
        assert (lulls, ledger().month(month).held) == ([0], bound)
        run.stop(drop=True)
        run.wait(20)
    assert held_by(ledger()) == {}


def test_several_models_hold_no_more_in_advance_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    note = holds.Holds._note

    def noting(self: holds.Holds) -> None:
        nonlocal most
        most = max(most, len(self._next))
        note(self)

    monkeypatch.setattr(holds.Holds, "_note", noting)
    answer = stream(0.06, *frames(["a"]), DONE)
    with Player([answer], NO_LIST) as server, Client(server.base, KEY, model="m", retries=0) as client:
        options: dict[str, Any] = {"max_tokens": 4, "in_flight": 3, "per_model": 1, "starts": 0}
        made = rollout(
            ["Hi"] * 40, models=["a", "b", "c"], client=client, into=tmp_path / "run.db", progress=False, **options
        )  # fmt: skip
    assert (made.outcome, made.stats.done) == ("done", 120)
    assert 1 < most <= AHEAD
