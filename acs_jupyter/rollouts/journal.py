"""The journal of a rollout: one SQLite file, one row a request, written before it is sent and when it has ended.

Owns the file, its tables, and the lock that lets one process write. It must not know sockets, nor what an answer
means. Commits are safe against the death of the process at any moment (write-ahead log); a power cut may take the last
few back, and their requests are then sent again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import InvalidRequest
from ..machine.transactions import transaction
from .filling import compare, fill
from .items import Item
from .lock import FileLock
from .opening import MARK, VERSION, cannot_write, check, connect
from .plan import Plan
from .sender import Sender, sent_elsewhere

PENDING, SENT, DONE, FAILED = range(4)
"""A request's state: still to be sent, sent and not known to have ended, answered, failed for good."""

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE items (item INTEGER PRIMARY KEY, prompt BLOB, digest BLOB, meta TEXT);
CREATE INDEX twins ON items (digest);
CREATE TABLE requests (
  number INTEGER PRIMARY KEY, key BLOB UNIQUE, model INTEGER, state INTEGER DEFAULT 0, attempts INTEGER DEFAULT 0,
  sent_at REAL, ended_at REAL, hold INTEGER DEFAULT 0, lost INTEGER DEFAULT 0, prompt_tokens INTEGER DEFAULT 0,
  completion_tokens INTEGER DEFAULT 0, code TEXT, cached INTEGER DEFAULT 0);
CREATE TABLE results (number INTEGER PRIMARY KEY, data BLOB);
"""


_ENDED = (
    "UPDATE requests SET state=?, ended_at=?, prompt_tokens=prompt_tokens+?, completion_tokens=completion_tokens+?,"
    " code=?, cached=?, attempts=attempts-?, hold=0 WHERE number=?"
)
_SENT = "UPDATE requests SET state=1, attempts=attempts+1, sent_at=?, hold=? WHERE number=?"


class Unwritable(Exception):  # a reason to wait, not an error of anybody's
    """The file cannot be written now: another program has it, or the disk is full."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended: the row's new state, what it cost, and the packed result (``None`` when it goes on).

    ``unsent``: it was written down as sent and was not; then it was no attempt.
    """

    number: int
    state: int
    at: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    code: str | None = None
    cached: bool = False
    data: bytes | None = None
    unsent: bool = False


class Noted(NamedTuple):
    """An entry of the ledger, and what it is held for: the ``attempt``-th (from 1) of request ``number``."""

    entry: int
    number: int
    attempt: int


HoldEnd = tuple[int, str, int, int, str, str | None]
"""How a hold of the ledger has ended: entry, run, prompt and completion tokens, their source, the server's id of it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How the journal stands. ``spent``: tokens by the server's count; ``lost``: held for ends that are not known."""

    total: int
    done: int
    failed: int
    spent: int
    lost: int


class Journal:
    """The writing side. One process (and one rollout in it) has a file at a time. ``made``: it was not there;
    ``note``: what its user should know, if anything."""

    def __init__(
        self, path: Path, lock: FileLock, db: sqlite3.Connection, *, made: bool, note: str = ""
    ) -> None:
        self.path = path
        self.made = made
        self.note = note
        self._lock = lock
        self._db = db

    @classmethod
    def open(
        cls,
        path: Path,
        plan: Plan,
        items: Iterable[Item],
        *,
        resume: bool | None = None,
        sender: Sender | None = None,
    ) -> Journal:
        """Open the file for this plan, or make it. Raises :class:`InvalidRequest` in one line when it cannot be.

        ``resume=True``: it must be there; ``False``: it must not. A file of another plan is refused, untouched.
        """
        there = path.exists() and path.stat().st_size > 0
        if resume is False and there:
            raise InvalidRequest(
                f"{path} exists already; name another file, or leave resume out to go on with it."
            )
        if resume is True and not there:
            raise InvalidRequest(
                f"{path} does not exist: there is nothing to resume. Check the name, or leave resume out."
            )
        if not path.parent.is_dir():
            raise InvalidRequest(f"{path}: its folder does not exist: make it, or name another.")
        path = path.resolve()  # by another name it is the same file
        lock = FileLock(path.with_name(path.name + ".lock"))
        made = not path.exists()
        try:
            db = connect(path)
            try:
                _prepare(db, plan, items, path)
                note = sent_elsewhere(db, path, sender) if sender is not None else ""
            except BaseException as problem:
                db.close()
                if made:
                    _remove(path)
                if isinstance(problem, sqlite3.OperationalError):
                    raise cannot_write(path, problem) from None
                raise
        except BaseException:
            lock.release()
            raise
        return cls(path, lock, db, made=made, note=note)

    def close(self, *, refused: bool = False) -> None:
        """Give the file back. ``refused``: nothing was sent; a file that was made for it is taken away again."""
        self._db.close()
        if refused and self.made:
            _remove(self.path)
        self._lock.release()

    def record(
        self, ended: Sequence[Ended] = (), sent: Sequence[tuple[int, int]] = (), at: float = 0.0
    ) -> None:
        """Write down, in one transaction, what has ended and what is about to be sent (number, tokens held).

        Raises :class:`Unwritable`; then nothing of it is written.
        """
        rows = [
            (e.state, e.at, e.prompt_tokens, e.completion_tokens, e.code, e.cached, e.unsent, e.number)
            for e in ended
        ]
        results = [(e.number, e.data) for e in ended if e.data is not None]
        with self._writing() as db:
            if rows:
                db.executemany(_ENDED, rows)
                db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", results)
            db.executemany(_SENT, [(at, hold, number) for number, hold in sent])

    def recover(self, *, retry_failed: bool = False) -> None:
        """Make requests that were in flight when their process died pending again; failed ones too, when asked.

        What such a request may have cost stays counted as ``lost``.
        """
        with self._writing() as db:
            db.execute("UPDATE requests SET state=0, lost=lost+hold, hold=0 WHERE state=1")
            if retry_failed:
                db.execute("UPDATE requests SET state=0, code=NULL WHERE state=3")

    def note_holds(self, ledger: str, noted: list[Noted]) -> None:
        """Write down which entries of a ledger are held for which requests, in place of those noted before.

        Raises :class:`Unwritable`.
        """
        with self._writing() as db:
            data = msgspec.json.encode([ledger, noted])
            db.execute("INSERT OR REPLACE INTO about VALUES ('holds', ?)", (data,))

    def noted_holds(self) -> tuple[str, list[Noted]]:
        """What :meth:`note_holds` wrote down last, since :meth:`keep_ends`."""
        row = self._db.execute("SELECT value FROM about WHERE name='holds'").fetchone()
        return _noted(row[0]) if row else ("", [])

    def kept_ends(self) -> dict[str, list[HoldEnd]]:
        """What :meth:`keep_ends` wrote down last."""
        row = self._db.execute("SELECT value FROM about WHERE name='ends'").fetchone()
        return _kept(row[0]) if row else {}

    def keep_ends(self, ends: dict[str, list[HoldEnd]]) -> None:
        """Write down how holds that a process has left have ended, by ledger, in place of what :meth:`note_holds` and
        this wrote: until the ledger is there that they belong to. Raises :class:`Unwritable`."""
        with self._writing() as db:
            db.execute("DELETE FROM about WHERE name IN ('holds', 'ends')")
            if ends:
                db.execute("INSERT INTO about VALUES ('ends', ?)", (msgspec.json.encode(ends),))

    def standing(self, number: int) -> tuple[bytes, int, int, bytes | None]:
        """Key, state, attempts and result of a request."""
        query = (
            "SELECT key, state, attempts, data FROM requests LEFT JOIN results USING (number) WHERE number=?"
        )
        key, state, attempts, data = self._db.execute(query, (number,)).fetchone()
        return key, state, attempts, data

    def pending(self, model: int, after: int, count: int) -> list[tuple[int, bytes, bytes, int]]:
        """The next pending requests of a model: number, key, prompt as JSON, attempts."""
        return self._db.execute(
            "SELECT number, key, prompt, attempts FROM requests JOIN items ON item = number / ?"
            " WHERE state = 0 AND model = ? AND number > ? ORDER BY number LIMIT ?",
            (self.variants, model, after, count),
        ).fetchall()

    @property
    def mark(self) -> str:
        """A short name of this journal: equal requests of two files are not one to the server."""
        row = self._db.execute(
            "SELECT value FROM about WHERE name IN ('mark', 'made_at') ORDER BY name DESC"
        ).fetchone()
        return hashlib.blake2b(str(row[0]).encode(), digest_size=3).hexdigest()

    @property
    def variants(self) -> int:
        """Requests an item."""
        return int(_value(self._db, "variants"))

    def starts_since(self, moment: float) -> list[float]:
        """When the latest requests were sent, oldest first: another process may have been that quick."""
        query = "SELECT sent_at FROM requests WHERE sent_at > ? ORDER BY sent_at"
        return [at for (at,) in self._db.execute(query, (moment,))]

    def counts(self) -> Counts:
        """How it stands."""
        return counts(self._db)

    def hurry(self, seconds: float) -> None:
        """From here on a file that others have locked is waited for this long; an event loop has no more time."""
        self._db.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with transaction(self._db):
                yield self._db
        except sqlite3.OperationalError as problem:
            raise Unwritable(f"{self.path.name} cannot be written ({problem}).") from problem


_kept = msgspec.json.Decoder(dict[str, list[HoldEnd]]).decode
_noted = msgspec.json.Decoder(tuple[str, list[Noted]]).decode


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def stored_plan(db: sqlite3.Connection) -> Plan:
    """The plan a journal was made for."""
    return Plan.restored(msgspec.json.decode(_value(db, "plan")))


def counts(db: sqlite3.Connection) -> Counts:
    """How a journal stands."""
    return Counts(
        *db.execute(
            "SELECT count(*), coalesce(sum(state=2),0), coalesce(sum(state=3),0),"
            " coalesce(sum(prompt_tokens+completion_tokens),0), coalesce(sum(lost),0) FROM requests"
        ).fetchone()
    )


def failures(db: sqlite3.Connection) -> dict[str, int]:
    """Failed requests by code, the most frequent first."""
    query = "SELECT code, count(*) FROM requests WHERE state=3 GROUP BY code ORDER BY 2 DESC"
    return dict(db.execute(query).fetchall())


def _value(db: sqlite3.Connection, name: str) -> Any:
    return db.execute("SELECT value FROM about WHERE name=?", (name,)).fetchone()[0]


def _prepare(db: sqlite3.Connection, plan: Plan, items: Iterable[Item], path: Path) -> None:
    there = check(db, path)
    if there and db.execute("SELECT count(*) FROM requests WHERE attempts > 0 OR state > 0").fetchone()[0]:
        compare(db, stored_plan(db), plan, items, path)
        return
    db.execute("PRAGMA journal_mode=WAL")
    with transaction(db):
        if there:  # nothing was ever sent: the plan may still be put right
            for table in ("about", "items", "requests", "results"):
                db.execute(f"DROP TABLE {table}")
        for statement in filter(str.strip, _SCHEMA.split(";")):
            db.execute(statement)
        db.execute("INSERT INTO about VALUES ('plan', ?)", (msgspec.json.encode(plan.described()),))
        db.execute("INSERT INTO about VALUES ('variants', ?)", (len(plan.variants),))
        db.execute("INSERT INTO about VALUES ('made_at', ?)", (time.time(),))
        db.execute("INSERT INTO about VALUES ('mark', ?)", (secrets.token_hex(8),))
        fill(db, plan, items)
        db.execute(f"PRAGMA application_id={MARK}")
        db.execute(f"PRAGMA user_version={VERSION}")
    with contextlib.suppress(OSError):
        os.chmod(path, 0o600)  # it holds prompts and completions
