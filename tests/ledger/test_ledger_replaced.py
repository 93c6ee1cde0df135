"""The ledger's file deleted or replaced while a kernel lives, and clocks that go wrong beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acs_jupyter import errors
from acs_jupyter.checks import build_request
from acs_jupyter.ledger import ledger
from acs_jupyter.ledger.book import KEEP_SECONDS, Ledger
from acs_jupyter.ledger.meter import server_of
from acs_jupyter.ledger.store import Store
from acs_jupyter.machine.folder import setting
from tests.support.ledgers import BASE, meter

if TYPE_CHECKING:
    from acs_jupyter.ledger.rows import Ticket

SIDES = ("", "-wal", "-shm")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "led.sqlite3"
    monkeypatch.setenv("ACS_LEDGER", str(where))
    return where


def reserve(tokens: int = 40) -> Ticket:
    return meter().reserve(build_request({"prompt": "x", "max_tokens": tokens}), "run")


def elsewhere(code: str) -> str:
    """What another process prints that uses the same file."""
    code = f"from tests.support.ledgers import meter\nfrom acs_jupyter.ledger import ledger\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="what is open cannot be deleted there")
@pytest.mark.parametrize("gone", [SIDES, SIDES[:1]], ids=["all", "only"])
def test_a_ledger_that_was_deleted_is_a_new_one_for_every_process(file: Path, gone: tuple[str, ...]) -> None:
    first = reserve()
    for side in gone:
        Path(f"{file}{side}").unlink()
    elsewhere("ledger().set_month_limit(meter().key, 50)")
    assert elsewhere("print(ledger().month(meter().key).most)") == "50"
    with pytest.raises(errors.BudgetRefused, match="leaves 50 of 50"):
        reserve(60)
    theirs = reserve(10)  # the first hold of the new file, as the other one was of the old file
    meter().settle(first, 1, 30, "usage")
    month = ledger().month(meter().key)
    assert (month.used, month.held) == (0, theirs.held)
    meter().settle(theirs, 2, 5, "usage")
    assert ledger().month(meter().key).used == 7
    assert elsewhere("print(ledger().month(meter().key).used)") == "7"
    assert ledger().store.rows("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.skipif(sys.platform == "win32", reason="what is open cannot be deleted there")
def test_limits_of_a_living_process_go_along_into_the_new_file(file: Path) -> None:
    book = ledger()
    book.scope("session", book.session.state.name, limit=100)
    scope = book.scope("rollout", "mine", limit=30)
    for side in SIDES:
        Path(f"{file}{side}").unlink(missing_ok=True)
    elsewhere("ledger().scope('rollout', 'theirs', limit=1); ledger().scope('rollout', 'mine')")
    with scope, pytest.raises(errors.BudgetRefused, match="rollout 'mine' leaves 30 of 30"):
        reserve(40)
    with pytest.raises(errors.BudgetRefused, match="this session leaves 100 of 100"):
        reserve(200)
    reserve(90)
    assert (book.session.held, scope.held) == (92, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="what is open cannot be replaced there")
def test_a_copy_put_in_the_place_of_the_file_is_gone_on_with(file: Path, tmp_path: Path) -> None:
    ticket = reserve()
    copy = tmp_path / "copy"
    ledger().store.rows("SELECT 1")
    with ledger().store._here() as db:
        db.execute("VACUUM INTO ?", (str(copy),))
    for side in SIDES[1:]:
        Path(f"{file}{side}").unlink()
    os.replace(copy, file)
    meter().settle(ticket, 1, 2, "usage")
    assert (ledger().month(meter().key).used, ledger().month(meter().key).held) == (3, 0)


def test_a_clock_far_ahead_forgets_no_limit_of_a_process_that_lives(file: Path) -> None:
    book = ledger()
    session = book.scope("session", book.session.state.name, limit=60)
    used = book.scope("rollout", "used", limit=50)
    unused = book.scope("rollout", "unused", limit=20)
    with used:
        meter().settle(reserve(5), 1, 4, "usage")
    late = Ledger(Store(str(file)), clock=lambda: book.clock() + 2 * KEEP_SECONDS)
    late.close()
    assert book.store.rows("SELECT count(*) FROM entries") == [(0,)]
    assert (session.state.most, session.spent) == (60, 5)
    assert (used.limit, used.spent) == (50, 5)
    with unused, pytest.raises(errors.BudgetRefused, match="'unused' leaves 20 of 20"):
        reserve(30)
    assert unused.limit == 20
    with pytest.raises(errors.LedgerFailed, match="does not know that limit"):
        book.account(7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_relative_name_is_one_file_whatever_folder_is_changed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{tmp_path.name}.sqlite3"  # no other test of this process has asked for it
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.setenv("ACS_LEDGER", name)
    monkeypatch.setenv("ACS_JOURNAL", f"jobs-{name}")
    jobs = setting("ACS_JOURNAL", "jobs.sqlite3")
    ledger().set_month_limit(meter().key, 10)
    monkeypatch.chdir(tmp_path / "b")
    assert jobs == setting("ACS_JOURNAL", "jobs.sqlite3") == tmp_path / "a" / f"jobs-{name}"
    child = os.fork()
    if child == 0:
        try:
            reserve(30)
        except errors.BudgetRefused:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert os.listdir(tmp_path / "b") == []


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:9/v1",
        "http://[::1]:9/v1",
        "LocalHost:9",
        "http://localhost.:9",
        "http://u@0.0.0.0:9/x",
    ],
)
def test_this_machine_is_one_server_however_it_is_written(url: str) -> None:
    assert server_of(url) == server_of(BASE) == "127.0.0.1:9"
    assert server_of("https://[2001:db8::1]/v1") == "[2001:db8::1]"
    assert server_of("https://h.example:443/v1") == server_of("h.example") != server_of("http://h.example:9")
