"""What was used: one row a request, and the sum a key and month.

Owns these two tables and the calendar. Rows hold counts and ids, never text. It must not know budgets or HTTP.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from .holds import drop
from .store import Store

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("acs_jupyter.local")

Source = Literal["usage", "cut", "none", "held"]
"""Where counts come from: the engine's end, what it had made when it was cut (or said nothing), nothing to count,
all that was held."""
_MOST = 10**12
"""Tokens of one request that a row can hold: far above any, and small enough for sums."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One metered request. ``status`` is the HTTP status, 499 when the client left, a frame's own when it failed.

    ``month`` is the UTC month it is charged to (that of its start), ``at`` the time of its end.
    """

    request_id: str
    key_id: str
    prefix: str
    endpoint: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    status: int
    source: Source
    month: str
    at: float


_COLUMNS = ", ".join(item.name for item in fields(Entry))
_MARKS = ", ".join("?" for _ in fields(Entry))


class Ledger:
    """Adds entries and sums. What cannot be written now is kept, counted, and written with the next one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unwritten: list[tuple[Entry, int | None]] = []

    def add(self, entry: Entry, hold: int | None = None) -> None:
        """Take an entry in place of the hold with that number.

        Never fails, since what it counts has already happened.
        """
        self._unwritten.append((_writable(entry), hold))
        try:
            with self._store.writing() as db:
                for each, number in self._unwritten:
                    _write(db, each)
                    if number is not None:
                        drop(db, number)
        except sqlite3.Error as problem:
            log.error("the ledger cannot be written: %s", type(problem).__name__)
            return
        self._unwritten.clear()

    def forget(self, before: float) -> None:
        """Drop rows that ended before a time, now or another day; the sums stay."""
        with suppress(sqlite3.Error), self._store.writing() as db:
            db.execute("DELETE FROM requests WHERE at < ?", (before,))

    def used(self, key_id: str, month: str) -> int:
        """Prompt and completion tokens of a key in a month."""
        query = "SELECT prompt_tokens + completion_tokens FROM usage WHERE key_id = ? AND month = ?"
        written: int = sum(count for (count,) in self._store.rows(query, key_id, month))
        late = [each for each, _ in self._unwritten if (each.key_id, each.month) == (key_id, month)]
        return written + sum(each.prompt_tokens + each.completion_tokens for each in late)

    def of_request(self, request_id: str, key_id: str) -> tuple[int, int] | None:
        """Prompt and completion tokens of a key's request, by its id; ``None`` when there is no such row."""
        for each, _ in self._unwritten:
            if (each.request_id, each.key_id) == (request_id, key_id):
                return each.prompt_tokens, each.completion_tokens
        query = (
            "SELECT prompt_tokens, completion_tokens FROM requests WHERE request_id = ? AND key_id = ?"
            " ORDER BY number DESC LIMIT 1"
        )
        return next(iter(self._store.rows(query, request_id, key_id)), None)

    def callers(self) -> dict[str, str]:
        """Ids of all keys that ever used something, with the prefix each was known by."""
        rows = self._store.rows("SELECT key_id, prefix FROM requests GROUP BY key_id ORDER BY min(number)")
        return dict(rows)

    def entries(self) -> list[Entry]:
        """The whole log, oldest first."""
        return [Entry(*row) for row in self._store.rows(f"SELECT {_COLUMNS} FROM requests ORDER BY number")]


def read_log(folder: Path) -> list[Entry]:
    """The log in a data folder, oldest first; a server may be writing it at the same time."""
    store = Store(folder)
    try:
        return Ledger(store).entries()
    finally:
        store.close()


def month_of(seconds: float) -> str:
    """The UTC month of a time, as ``2026-01``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m")


def _writable(entry: Entry) -> Entry:
    # One row that the file cannot take would keep all that follow from being written.
    values: dict[str, Any] = {}
    for name in ("prompt_tokens", "completion_tokens"):
        values[name] = max(0, min(_MOST, int(getattr(entry, name))))
    for name in ("request_id", "key_id", "prefix", "endpoint", "model"):
        values[name] = getattr(entry, name).encode("utf-8", "replace").decode()
    return replace(entry, **values)


def _write(db: sqlite3.Connection, entry: Entry) -> None:
    db.execute(f"INSERT INTO requests ({_COLUMNS}) VALUES ({_MARKS})", astuple(entry))
    db.execute(
        "INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " prompt_tokens = prompt_tokens + excluded.prompt_tokens,"
        " completion_tokens = completion_tokens + excluded.completion_tokens",
        (entry.key_id, entry.month, entry.prompt_tokens, entry.completion_tokens),
    )
