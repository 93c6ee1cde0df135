"""What the ledger takes from others' words: months, names of servers and models, files that are there."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Client, errors
from acs_jupyter.ledger import ledger, report
from acs_jupyter.ledger.command import export
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.secret import Secret
from tests.support.ledger_others import ANSWER, KEY, month
from tests.support.player import Player, whole

# -- the turn of the month ------------------------------------------------------------------------


MONTHLY, DAILY = "Monthly token budget exhausted", "Daily token budget exhausted"


@pytest.mark.parametrize(
    ("message", "begun", "ends", "free"),
    [
        (MONTHLY, (2026, 1, 31, 23, 59, 59), 3600, True),
        (MONTHLY, (2026, 1, 31, 12), 3600, False),
        (DAILY, (2026, 1, 30, 12), 60, False),
        (DAILY, (2026, 1, 30, 12), 86_400, True),
        (MONTHLY, (2026, 1, 30, 12), 86_400, False),
    ],
)
def test_a_servers_no_counts_for_the_month_or_day_of_the_request(
    monkeypatch: pytest.MonkeyPatch, message: str, begun: tuple[int, ...], ends: int, free: bool
) -> None:
    book = ledger()
    now = datetime(*begun, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]
    monkeypatch.setattr(book, "clock", lambda: now)
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    ticket = meter.reserve(_request("Hi", 4), "run")
    now += ends
    meter.note(ticket, request_id=None, headers={}, error=errors.BudgetExceeded(message))
    meter.release(ticket)
    if free:
        meter.reserve(_request("Hi", 4), "run")
    else:
        with pytest.raises(errors.BudgetRefused, match="server said"):
            meter.reserve(_request("Hi", 4), "run")


def test_a_late_word_about_a_month_that_is_over_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    book = ledger()
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    book.exhaust(meter.key, "2026-02")
    book.exhaust(meter.key, "2026-01")
    book.exhaust(meter.key, "2026-02-03")
    assert book.store.rows("SELECT exhausted FROM keys") == [("2026-02",)]


# -- files and names ------------------------------------------------------------------------------


def test_one_server_has_one_book_however_it_is_written() -> None:
    keys = {
        KeyMeter(Secret(KEY), base).key
        for base in ("http://localhost:8000/v1", "HTTP://LOCALHOST:8000/v1", "localhost:8000")
    }
    assert len(keys) == 1
    assert KeyMeter(Secret(KEY), "http://h:80/v1").key == KeyMeter(Secret(KEY), "http://H/v1").key
    assert KeyMeter(Secret(KEY), "https://h:443/v1").key == KeyMeter(Secret(KEY), "https://h/v1").key


def test_a_database_of_something_else_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.db"
    with closing(sqlite3.connect(mine)) as db:
        db.execute("CREATE TABLE precious (x)")
    mine.chmod(0o644)
    before = mine.read_bytes()
    monkeypatch.setenv("ACS_LEDGER", str(mine))
    with pytest.raises(errors.LedgerFailed, match="no budget ledger"):
        ledger()
    assert mine.read_bytes() == before
    assert stat.S_IMODE(mine.stat().st_mode) == 0o644
    assert [one.name for one in tmp_path.iterdir()] == ["mine.db"]


def test_a_ledger_of_somebody_else_keeps_its_mode(own_ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from acs_jupyter.ledger import close

    ledger()
    close()
    own_ledger.chmod(0o664)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    ledger()
    assert stat.S_IMODE(own_ledger.stat().st_mode) == 0o664
    close()
    monkeypatch.undo()
    monkeypatch.setenv("ACS_LEDGER", str(own_ledger))
    ledger()
    assert stat.S_IMODE(own_ledger.stat().st_mode) == 0o600


def test_an_older_file_is_grown(own_ledger: Path) -> None:
    from acs_jupyter.ledger.store import s0001_start

    own_ledger.parent.mkdir()
    with closing(sqlite3.connect(own_ledger)) as db:
        s0001_start(db)
        db.execute("PRAGMA user_version = 1")
        db.commit()
    meter = KeyMeter(Secret(KEY), "http://h/v1")
    meter.withdraw(meter.reserve_job(_request("Hi", 4), "K"))
    assert month() == (0, 0)


def test_an_export_replaces_nothing_unless_told(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    file.write_text("precious")
    with pytest.raises(errors.InvalidRequest, match="--overwrite"):
        export(ledger(), str(file))
    assert file.read_text() == "precious"
    assert export(ledger(), str(file), overwrite=True).startswith("0 entries")
    with pytest.raises(errors.InvalidRequest, match="null"):
        export(ledger(), "a\0.csv")


def test_the_model_that_answered_is_booked_where_none_was_named() -> None:
    listed = {"object": "list", "data": [{"id": "base", "served_model_name": "org/base", "default": True}]}
    answer = whole({**ANSWER, "model": "org/base"})
    with Player([answer], {"/models": whole(listed)}) as server, Client(server.base, KEY) as client:
        client.complete("Hi", max_tokens=1, stream=False)
        client.models()
        client.complete("Hi", max_tokens=1, stream=False)
    assert [entry["model"] for entry in report.entries(ledger())] == ["org/base", "base"]


def _request(prompt: str, most: int) -> Any:
    from acs_jupyter.checks import build_request

    return build_request({"prompt": prompt, "model": "m", "max_tokens": most})
