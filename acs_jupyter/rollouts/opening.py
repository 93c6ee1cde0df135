"""The file of a rollout: opened to be written or read, and known for what it is.

Owns the marks by which it is known, and the words where it cannot be used. It must not know its tables.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from ..errors import InvalidRequest

MARK, VERSION = 0x61637372, 1


def connect(path: Path) -> sqlite3.Connection:
    """A connection; nothing is read yet. Raises :class:`InvalidRequest` when the file cannot be opened."""
    try:
        return _connected(str(path))
    except sqlite3.OperationalError as error:
        raise _cannot(path, "opened", error) from None
    except sqlite3.Error:
        raise InvalidRequest(f"{path} is not the journal of a rollout; name another file.") from None


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The same for who only reads. What is read along with others takes a little room on the disk; where there is
    none, a file that nobody writes is read all the same."""
    with suppress(sqlite3.Error):
        return _connected(str(path))
    log = path.with_name(path.name + "-wal")
    if not (log.exists() and log.stat().st_size):
        with suppress(sqlite3.Error):
            return _connected(f"file:{quote(str(path.resolve()))}?immutable=1", uri=True)
    return connect(path)


def _connected(place: str, *, uri: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=30, uri=uri)
    try:
        db.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def cannot_write(path: Path, problem: BaseException) -> InvalidRequest:
    """Before anything was sent."""
    return _cannot(path, "written", problem)


def _cannot(path: Path, what: str, problem: BaseException) -> InvalidRequest:
    full = getattr(problem, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    way = "Free some room on the disk, or name" if full else "Name"
    return InvalidRequest(f"{path} cannot be {what}: {problem}. {way} another file.")


def check(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the file holds a journal; ``False`` when it is empty. Anything else raises :class:`InvalidRequest`."""
    try:
        mark, version, tables = (
            db.execute(f"SELECT * FROM pragma_{name}").fetchone()[0]
            for name in ("application_id", "user_version", "schema_version")
        )
    except sqlite3.Error:
        raise InvalidRequest(f"{path} is not the journal of a rollout; name another file.") from None
    if mark == MARK and version == VERSION:
        return True
    if mark == MARK:
        raise InvalidRequest(
            f"{path} is a journal of version {version}; this package reads {VERSION}. Update the "
            "package, or name another file."
        )
    if tables:
        raise InvalidRequest(f"{path} is not the journal of a rollout; name another file.")
    return False
