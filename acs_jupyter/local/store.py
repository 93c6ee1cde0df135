"""The server's one SQLite file: where it lies, who may read it, and how its tables grow.

Owns the folder, the file's mode, the connection and the numbered migrations. It must not know what the rows
mean to a request. Writing is done in short transactions on the caller's thread, so that a cancelled request
can never leave half of one behind.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE = "server.sqlite3"
_BUSY_SECONDS = 2.0


class StoreFailed(Exception):
    """The file cannot be used; the message is one line."""


class Store:
    """The open file. ``folder=None`` keeps everything in memory, for this process only."""

    def __init__(self, folder: Path | None = None) -> None:
        self._db = _memory() if folder is None else _opened(folder)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """All rows of a query."""
        return self._db.execute(query, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: everything inside happens, or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def latency(self) -> float | None:
        """Milliseconds of one small read, or ``None`` when the file does not answer."""
        begun = time.perf_counter()
        try:
            self._db.execute("SELECT 1 FROM migrations LIMIT 1").fetchone()
        except sqlite3.Error:
            return None
        return (time.perf_counter() - begun) * 1000

    def close(self) -> None:
        """Close the file; the store is not used afterwards."""
        self._db.close()


def data_folder(given: str | None = None) -> Path:
    """The folder that was asked for (argument, then ``ACS_LOCAL_DATA``), else the user's own data folder."""
    from platformdirs import user_data_path

    named = given or os.environ.get("ACS_LOCAL_DATA")
    return Path(named).expanduser() if named else user_data_path("acs-jupyter", appauthor=False)


def _opened(folder: Path) -> sqlite3.Connection:
    try:
        if not folder.exists():  # a folder that is already there may be shared: its mode stays
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / FILE
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)  # SQLite gives its two side files the mode of this one
    except OSError as problem:
        raise StoreFailed(
            f"The data folder {folder} cannot be used: {problem.strerror}. Name another one with --data."
        ) from None
    try:
        db = _connected(str(file))
    except sqlite3.Error as problem:
        raise StoreFailed(f"{file} cannot be opened: {problem}. Name another folder with --data.") from None
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        _migrate(db)
    except sqlite3.Error as problem:
        db.close()
        raise StoreFailed(f"{file} cannot be used: {problem}. Name another folder with --data.") from None
    except StoreFailed:
        db.close()
        raise
    return db


def _memory() -> sqlite3.Connection:
    db = _connected(":memory:")
    _migrate(db)
    return db


def _connected(name: str) -> sqlite3.Connection:
    # Made in one thread and used in another by servers that run in a thread; never by two at once.
    return sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _migrate(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, at REAL NOT NULL)")
        applied = {name for (name,) in db.execute("SELECT name FROM migrations")}
        if applied - {step.__name__ for step in MIGRATIONS}:
            raise StoreFailed(
                "The data folder was written by a newer version; update, or choose another one."
            )
        for step in MIGRATIONS:
            if step.__name__ not in applied:
                step(db)
                db.execute("INSERT INTO migrations VALUES (?, ?)", (step.__name__, time.time()))
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def m0001_keys(db: sqlite3.Connection) -> None:
    """Keys: the public prefix and the hash, never the key; a budget of 0 is no limit."""
    db.execute(
        "CREATE TABLE keys (id TEXT PRIMARY KEY, prefix TEXT NOT NULL UNIQUE, hash BLOB NOT NULL,"
        " name TEXT NOT NULL, budget INTEGER NOT NULL, created REAL NOT NULL, revoked REAL)"
    )


def m0002_usage(db: sqlite3.Connection) -> None:
    """What each key used in each UTC month, and the log the sums come from."""
    db.execute(
        "CREATE TABLE usage (key_id TEXT NOT NULL, month TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,"
        " completion_tokens INTEGER NOT NULL, PRIMARY KEY (key_id, month)) WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE requests (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL, key_id TEXT NOT NULL,"
        " prefix TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,"
        " completion_tokens INTEGER NOT NULL, status INTEGER NOT NULL, source TEXT NOT NULL,"
        " month TEXT NOT NULL, at REAL NOT NULL)"
    )


def m0003_holds(db: sqlite3.Connection) -> None:
    """What running requests hold, and which process runs them."""
    db.execute(
        "CREATE TABLE holds (number INTEGER PRIMARY KEY, request_id TEXT NOT NULL, key_id TEXT NOT NULL,"
        " prefix TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,"
        " completion_tokens INTEGER NOT NULL, month TEXT NOT NULL, at REAL NOT NULL, machine TEXT NOT NULL,"
        " pid INTEGER NOT NULL, began TEXT NOT NULL)"
    )


def m0004_request_ids(db: sqlite3.Connection) -> None:
    """What a job has used is found by its request's id."""
    db.execute("CREATE INDEX request_ids ON requests (request_id)")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    m0001_keys,
    m0002_usage,
    m0003_holds,
    m0004_request_ids,
)
"""In order; a step that was once released is never changed, only followed by another."""
