"""One SQLite transaction: all of it happens, or nothing, whatever is raised and whenever.

Owns begin, commit and rollback. It must not know files or tables.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hold the file's write lock from the begin on. The connection must be in autocommit mode.

    An interrupt can be raised in the moment after the begin has succeeded, so that stands within the ``try`` too: a
    transaction left open would lock every process out until this one ends.
    """
    try:
        db.execute("BEGIN IMMEDIATE")
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
