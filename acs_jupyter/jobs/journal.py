"""The journal of submitted jobs: one SQLite file for all kernels of this machine.

Owns the file and its tables. It must not know HTTP or IPython, nor what an entry means. A row is written before its
submission is sent, so that a lost answer can be found again; it holds the request, which is needed to find the job
again and to show it, and no key: whose it is stands there as base URL, public prefix and a salted hash. A request
goes when the service has forgotten the job too, the row some weeks later.

``ACS_JOURNAL=FILE`` names the file, ``ACS_JOURNAL=off`` keeps none; else it is ``jobs.sqlite3`` in the user's folder.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..machine import forking
from ..machine.folder import mark, new_salt, private, setting
from ..machine.forking import Lock
from ..machine.transactions import transaction
from .entry import Entry

if TYPE_CHECKING:
    from pathlib import Path

    from ..secret import Secret

VARIABLE = "ACS_JOURNAL"
FILE = "jobs.sqlite3"
BUSY_SECONDS = 5.0
DAY = 86_400.0
REQUEST_KEPT = 8 * DAY
"""The service forgets a job seven days after its end."""
ROW_KEPT = 60 * DAY

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
  number INTEGER PRIMARY KEY, base TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
  job TEXT, open INTEGER NOT NULL, held INTEGER NOT NULL, changed REAL NOT NULL, entry BLOB NOT NULL, request BLOB,
  UNIQUE (base, owner, key, digest));
CREATE INDEX IF NOT EXISTS jobs_by_id ON jobs (job);
"""

_entry = msgspec.json.Decoder(Entry)


class Row(NamedTuple):
    """An entry and the number of its row."""

    number: int
    entry: Entry


class Journal:
    """The open file; any thread may use it. ``path=None`` keeps everything in memory, for this process only."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.quiet = threading.Lock()
        """Held while the connection is used."""
        place = ":memory:" if path is None else str(private(path))
        self._db = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # what was sent is known after a power cut too
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.executescript(_SCHEMA)
            self._forget()
            with self._writing():
                self._db.execute("INSERT OR IGNORE INTO facts VALUES ('salt', ?)", (new_salt(),))
            [(self.salt,)] = self._db.execute("SELECT value FROM facts WHERE name = 'salt'").fetchall()
        except BaseException:
            self._db.close()
            raise
        forking.tell(self)

    def forked(self) -> None:
        """See :class:`acs_jupyter.forking.Forked`; the child opens a journal of its own."""
        self.quiet = threading.Lock()

    def close(self) -> None:
        """Close the file."""
        with self.quiet:
            self._db.close()

    def begin(self, base: str, owner: str, digest: str, entry: Entry, request: bytes) -> Row:
        """The row of a request that is about to be sent: a new one, or the one it has."""
        with self.quiet, self._writing():
            self._db.execute(
                "INSERT INTO jobs VALUES (NULL, ?, ?, ?, ?, NULL, 1, 0, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET request = excluded.request",
                (base, owner, entry.key, digest, self._clock(), msgspec.json.encode(entry), request),
            )
            where = "base = ? AND owner = ? AND key = ? AND digest = ?"
            return self._select(where, base, owner, entry.key, digest)[0]

    def change(self, number: int, how: Callable[[Entry], Entry]) -> Entry | None:
        """Change a row by what it is now; ``None`` when it is gone."""
        with self.quiet, self._writing():
            found = self._select("number = ?", number)
            if not found:
                return None
            before, after = found[0].entry, how(found[0].entry)
            if after != before:
                self._db.execute(
                    "UPDATE jobs SET entry = ?, job = ?, open = ?, held = ?, changed = ? WHERE number = ?",
                    (
                        msgspec.json.encode(after),
                        after.job,
                        after.open,
                        after.usage_pending,
                        self._clock(),
                        number,
                    ),
                )
            return after

    def of_job(self, base: str, owner: str, job: str) -> Row | None:
        """The row of a job."""
        with self.quiet:
            found = self._select("base = ? AND owner = ? AND job = ?", base, owner, job)
        return found[-1] if found else None

    def rows(self, base: str | None = None, owner: str | None = None) -> list[Row]:
        """All rows, of one owner at one server or of all, newest first."""
        mine = base is not None
        with self.quiet:
            found = self._select("base = ? AND owner = ?", base, owner) if mine else self._select("1")
        return sorted(found, key=_newest_first)

    def request(self, number: int) -> bytes | None:
        """The request as JSON; ``None`` when it has been dropped."""
        with self.quiet:
            found = self._db.execute("SELECT request FROM jobs WHERE number = ?", (number,)).fetchone()
        return found[0] if found else None

    def _select(self, where: str, *values: Any) -> list[Row]:
        found = self._db.execute(f"SELECT number, entry FROM jobs WHERE {where} ORDER BY number", values)
        return [Row(number, _entry.decode(entry)) for number, entry in found]

    def _forget(self) -> None:
        now = self._clock()
        with self._writing():
            self._db.execute(
                "UPDATE jobs SET request = NULL WHERE changed < ? AND request IS NOT NULL AND NOT held",
                (now - REQUEST_KEPT,),
            )
            self._db.execute("DELETE FROM jobs WHERE changed < ?", (now - ROW_KEPT,))

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._db)


def _newest_first(row: Row) -> tuple[float, int]:
    return -(row.entry.created_at or row.entry.submitted_at), -row.number


class Pages:
    """The part of a journal that belongs to one key at one server."""

    def __init__(self, journal: Journal, base: str, secret: Secret) -> None:
        self.journal, self.base = journal, base
        self.owner = mark(secret, journal.salt)

    def begin(self, digest: str, entry: Entry, request: bytes) -> Row:
        """See :meth:`Journal.begin`."""
        return self.journal.begin(self.base, self.owner, digest, entry, request)

    def of_job(self, job: str) -> Row | None:
        """See :meth:`Journal.of_job`."""
        return self.journal.of_job(self.base, self.owner, job)

    def rows(self) -> list[Row]:
        """This key's rows, newest first."""
        return self.journal.rows(self.base, self.owner)


_open: dict[tuple[Path, int], Journal] = {}
_lock = Lock()


def journal() -> Journal | None:
    """This process's journal, opened on first use; ``None`` when it is switched off.

    Raises ``OSError`` or ``sqlite3.Error`` when the file cannot be used.
    """
    path = setting(VARIABLE, FILE)
    if path is None:
        return None
    with _lock:
        here = (path, os.getpid())  # a file that was open before a fork belongs to the parent
        if here not in _open:
            _open[here] = Journal(path)
        return _open[here]


def close() -> None:
    """Close what this process has open; the next use opens it again."""
    with _lock:
        while _open:
            _open.popitem()[1].close()
