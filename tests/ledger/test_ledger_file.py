"""The ledger's file: its mode, its steps, and what happens when it cannot be used."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from acs_jupyter import errors
from acs_jupyter.checks import build_request
from acs_jupyter.ledger import close, ledger, meter_for, place, report
from acs_jupyter.ledger.book import Ledger
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.ledger.store import STEPS, Store
from acs_jupyter.ledger.terms import shown_key
from acs_jupyter.secret import Secret
from tests.support.ledgers import BASE, KEY, hold, meter

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
    from acs_jupyter.ledger.command import export

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
    from acs_jupyter.ledger.words import one_line

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
signal.signal(signal.SIGINT, signal.default_int_handler)
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
