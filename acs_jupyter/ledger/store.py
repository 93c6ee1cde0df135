"""The ledger's one SQLite file: how it is opened, grown, and written by many kernels at once.

Owns the file's mode, the connection, transactions and the numbered steps of its tables. It must not know what a
reservation means.

WAL with ``synchronous=NORMAL``: what is committed survives the end of any process, kill -9 too, since it is in the
operating system's hands by then. A power cut or a crash of the whole machine may take the last transactions with it,
never the file's order. ``FULL`` would wait for the disk at each of them; what it would save, a running request loses
anyway when the machine goes.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import LedgerFailed
from ..machine import forking
from ..machine.patience import Busy, is_hurried
from ..machine.transactions import transaction
from .place import MEMORY

BUSY_SECONDS = 15.0
_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_OURS = frozenset({"facts", "keys", "processes", "accounts", "entries"})
_abandoned: list[sqlite3.Connection] = []
"""Connections of the process this one was forked from: SQLite forbids to use or close them here."""


class Store:
    """The open file. Any thread may write; one at a time does. A forked child opens the file for itself.

    Where nobody may wait (:mod:`acs_jupyter.patience`) a file that is locked raises :class:`Busy`.
    """

    def __init__(self, where: str, synchronous: str = "NORMAL") -> None:
        self.where = where
        self._synchronous = synchronous
        self._hurried = False
        """Whether the connection waits for nobody now."""
        self.quiet = threading.RLock()
        """Held while the connection is used."""
        self.times = 0
        """How often the file was opened: it may be another one each time."""
        self._file: tuple[int, int] | None = None
        """Which file is open, by device and inode; ``None`` in memory."""
        self._db: sqlite3.Connection | None = self._opened()
        forking.tell(self)

    def forked(self) -> None:
        """See :class:`acs_jupyter.forking.Forked`."""
        if self._db is not None:
            _abandoned.append(self._db)
        self.quiet, self._db = threading.RLock(), None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the file's write lock from its begin: all of it happens, or nothing."""
        with self._here() as db, self._worded(), transaction(db):
            yield db

    def named(self, query: str, **values: Any) -> list[Any]:
        """All rows of a query with named values."""
        return self._rows(query, values)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """All rows of a query."""
        return self._rows(query, values)

    def _rows(self, query: str, values: Any) -> list[Any]:
        with self._here() as db, self._worded():
            return db.execute(query, values).fetchall()

    def version(self) -> int:
        """A number that changes when another process has written."""
        return int(self.rows("PRAGMA data_version")[0][0])

    def is_gone(self) -> bool:
        """Whether the open file was deleted or replaced: the next use opens, or makes, the one in its place."""
        if self._file is None:
            return False
        try:
            there = os.stat(self.where)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != self._file

    def close(self) -> None:
        """Close the file; the store is not used afterwards."""
        with self.quiet:
            if self._db is not None:
                self._db.close()

    @contextmanager
    def _worded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            if is_hurried() and getattr(problem, "sqlite_errorcode", 0) & 0xFF in _LOCKED:
                raise Busy from None
            raise _failed(self.where, problem) from None

    @contextmanager
    def _here(self) -> Iterator[sqlite3.Connection]:
        hurried = is_hurried()
        if not self.quiet.acquire(timeout=0 if hurried else BUSY_SECONDS):
            if hurried:
                raise Busy
            raise LedgerFailed(f"The budget ledger {self.where} cannot be used: database is locked.")
        try:
            if self._db is not None and not self._db.in_transaction and self.is_gone():
                self._db.close()  # SQLite sees that the file has moved, and leaves side files of the new one alone
                self._db = None
            if self._db is None:
                if hurried:
                    raise Busy
                self._db = self._opened()
            if hurried is not self._hurried:
                self._hurried = hurried
                self._db.execute(f"PRAGMA busy_timeout = {0 if hurried else round(BUSY_SECONDS * 1000)}")
            yield self._db
        finally:
            self.quiet.release()

    def _opened(self) -> sqlite3.Connection:
        self._hurried = False
        self.times += 1
        if self.where != MEMORY:
            self._file = _prepare(Path(self.where))
        try:
            db = sqlite3.connect(
                self.where, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as problem:
            raise _failed(self.where, problem) from None
        try:
            _check(db, self.where)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(f"PRAGMA synchronous={self._synchronous}")
            _grow(db)
        except sqlite3.Error as problem:
            db.close()
            raise _failed(self.where, problem) from None
        except BaseException:
            db.close()
            raise
        if self.where != MEMORY:
            _keep_private(Path(self.where))
        return db


def _prepare(file: Path) -> tuple[int, int]:
    """Make the file if there is none; device and inode."""
    try:
        if not file.parent.exists():  # a folder that is there may be shared: its mode stays
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            _begin(file)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        state = os.fstat(handle)
        os.close(handle)
    except OSError as problem:
        raise CannotWrite(f"The budget ledger {file} cannot be written: {problem.strerror}.") from None
    if not file.is_file():
        raise CannotWrite(f"The budget ledger {file} cannot be written: it is no file.")
    return state.st_dev, state.st_ino


def _begin(file: Path) -> None:
    """A new file, without the side files of one that was deleted: with these it would be a broken one."""
    with _alone_in(file.parent):
        if not file.exists():
            for side in _sides(file):
                side.unlink(missing_ok=True)
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One at a time: the side files of who was quicker must stay."""
    if sys.platform == "win32":  # what is open cannot be deleted there
        yield
        return
    import fcntl  # noqa: PLC0415  # not on Windows

    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without such locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sides(file: Path) -> list[Path]:
    return [file.with_name(file.name + end) for end in ("-wal", "-shm")]


def _keep_private(file: Path) -> None:
    """Only the user may read a ledger of the user's own; one that belongs to somebody else keeps its mode."""
    with suppress(OSError):
        for one in (file, *_sides(file)):
            state = one.stat()
            if state.st_mode & 0o077 and (not hasattr(os, "getuid") or state.st_uid == os.getuid()):
                one.chmod(0o600)


def _check(db: sqlite3.Connection, where: str) -> None:
    """A file that holds something else is left as it is, to the last bit of its mode."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version > len(STEPS) and (tables >= _OURS or not tables):
        raise LedgerFailed(
            "The budget ledger was written by a newer version of this package.",
            advice="Update it, or name another file in ACS_LEDGER.",
        )
    if tables and not (version and tables >= _OURS):
        raise LedgerFailed(f"{where} is a database, but no budget ledger; it was not touched.")


class CannotWrite(LedgerFailed):
    """The place of the file cannot be written."""


def _failed(where: str, problem: sqlite3.Error) -> LedgerFailed:
    return LedgerFailed(f"The budget ledger {where} cannot be used: {problem}.")


def _grow(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] == len(STEPS):
        return
    with transaction(db):
        version = db.execute("PRAGMA user_version").fetchone()[0]
        for step in STEPS[version:]:
            step(db)
        db.execute(f"PRAGMA user_version = {len(STEPS)}")


def s0001_start(db: sqlite3.Connection) -> None:
    """Keys, processes, what limits are kept against, and one row a request."""
    db.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID")
    db.execute("INSERT INTO facts VALUES ('salt', randomblob(16))")
    db.execute(
        "CREATE TABLE keys (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, prefix TEXT NOT NULL,"
        " server TEXT NOT NULL, most INTEGER, exhausted TEXT, told REAL)"
    )
    db.execute(
        "CREATE TABLE processes (id INTEGER PRIMARY KEY, machine TEXT NOT NULL, pid INTEGER NOT NULL,"
        " began TEXT NOT NULL, notebook TEXT NOT NULL, at REAL NOT NULL, UNIQUE (machine, pid, began))"
    )
    # An account is something with a limit: a key's month, a session, a cell, a rollout. ``key`` is 0 but for months.
    db.execute(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,"
        " key INTEGER NOT NULL, most INTEGER, used INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,"
        " at REAL NOT NULL, UNIQUE (kind, name, key))"
    )
    db.execute(
        "CREATE TABLE entries (id INTEGER PRIMARY KEY, at REAL NOT NULL, ended REAL, month TEXT NOT NULL,"
        " key INTEGER NOT NULL, process INTEGER NOT NULL, cell TEXT NOT NULL, accounts TEXT NOT NULL,"
        " kind TEXT NOT NULL, run TEXT NOT NULL, job TEXT, model TEXT NOT NULL, state TEXT NOT NULL,"
        " held INTEGER NOT NULL, prompt_guess INTEGER NOT NULL, prompt_most INTEGER NOT NULL,"
        " seen_prompt INTEGER, seen_completion INTEGER,"
        " prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,"
        " source TEXT NOT NULL DEFAULT '', request_id TEXT, error TEXT, clamp TEXT)"
    )
    db.execute("CREATE INDEX held ON entries (id) WHERE state = 'held'")
    db.execute("CREATE INDEX jobs ON entries (run, key) WHERE kind = 'job'")
    db.execute("CREATE INDEX named ON entries (job) WHERE job IS NOT NULL")
    db.execute("CREATE INDEX times ON entries (at)")


def s0002_claims(db: sqlite3.Connection) -> None:
    """How many submissions under way rest on one hold of a job."""
    db.execute("ALTER TABLE entries ADD COLUMN claims INTEGER NOT NULL DEFAULT 1")


STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (s0001_start, s0002_claims)
"""In order; ``user_version`` counts those done. One that was released is never changed, only followed by another."""
