"""Accounts that this process has made: put back where the file has them no longer, and kept while they are in use.

Owns the numbers they get and what is known of them beside the file. It must not know what fits a limit.

A ledger's file can be deleted or replaced while a kernel lives. Numbers are drawn from so many that one from a file
that is gone names nothing in the next one: what ends there hits no stranger's row.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from ..machine.processes import Process, is_gone
from .rows import ids_of, new_id


class Named(NamedTuple):
    """What makes an account known again, and its limit as far as this process has set it."""

    kind: str
    name: str
    key: int
    limit: int | None


class Made:
    """The accounts that this process has made or found, by their number."""

    def __init__(self) -> None:
        self._known: dict[int, Named] = {}

    def make(self, db: sqlite3.Connection, named: Named, at: float) -> int:
        """The number of an account, which is made when there is none. A limit of ``None`` keeps the one that is
        stored, one of 0 takes it away."""
        account = _made(db, new_id(), named._replace(limit=None), at)
        limit = named.limit
        if limit is not None:
            db.execute("UPDATE accounts SET most = ? WHERE id = ?", (limit or None, account))
        elif account in self._known:
            limit = self._known[account].limit
        self._known[account] = named._replace(limit=limit or None)
        return account

    def limit_of(self, account: int) -> int | None:
        """The limit that this process has set."""
        return self._known[account].limit if account in self._known else None

    def present(self, db: sqlite3.Connection, accounts: tuple[int, ...], at: float) -> tuple[int, ...]:
        """The same accounts in the file that is there now, with the limits this process has set. What was never made
        by this process, and is not there, is left out."""
        found = dict.fromkeys(self._here(db, account, at) for account in accounts)
        return tuple(account for account in found if account is not None)

    def _here(self, db: sqlite3.Connection, account: int, at: float) -> int | None:
        if db.execute("SELECT 1 FROM accounts WHERE id = ?", (account,)).fetchone():
            return account
        named = self._known.get(account)
        if named is None or named.kind == "month":
            return None
        there = _made(db, account, named, at)
        if there not in self._known:  # made by another process, which knows of no limit
            db.execute("UPDATE accounts SET most = ? WHERE id = ? AND most IS NULL", (named.limit, there))
            self._known[there] = named
        return there


def _made(db: sqlite3.Connection, number: int, named: Named, at: float) -> int:
    db.execute(
        "INSERT OR IGNORE INTO accounts (id, kind, name, key, most, at)"
        " VALUES (?, ?, ?, ?, coalesce(?, (SELECT most FROM keys WHERE id = ?)), ?)",
        (number, *named, named.key, at),
    )
    find = "SELECT id FROM accounts WHERE kind = ? AND name = ? AND key = ?"
    return int(db.execute(find, named[:3]).fetchone()[0])


def in_use(db: sqlite3.Connection) -> list[int]:
    """The accounts of processes that live: their sessions, and all that their requests have counted against."""
    every = db.execute("SELECT id, machine, pid, began FROM processes").fetchall()
    living = [number for number, *process in every if is_gone(Process(*process)) is False]
    marks = ",".join("?" * len(living))
    sessions = f"SELECT id FROM accounts WHERE kind = 'session' AND name IN ({marks})"
    used = f"SELECT DISTINCT accounts FROM entries WHERE process IN ({marks})"
    found = {account for (account,) in db.execute(sessions, list(map(str, living)))}
    return [*found.union(*(ids_of(accounts) for (accounts,) in db.execute(used, living)))]
