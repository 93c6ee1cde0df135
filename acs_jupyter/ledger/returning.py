"""Holds that a killed process left behind, ended by whoever has a record of what became of their requests.

Owns the check that an entry is the one that is meant. It must not know who keeps such a record, nor where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..machine.processes import Process, is_gone, this_process
from .rows import RESOLVED, End, end_entry, writable

if TYPE_CHECKING:
    from .book import Ledger


def identity(book: Ledger) -> str:
    """A name for the book's file, by which entries that are remembered elsewhere are known to be its own."""
    book.look()
    if not book.identity:
        salt = book.store.rows("SELECT value FROM facts WHERE name = 'salt'")[0][0]
        book.identity = hashlib.blake2b(salt, digest_size=8).hexdigest()
    return book.identity


def end_known(book: Ledger, ends: Iterable[tuple[int, str, End]]) -> None:
    """End entries (by number and run) by what is known of them: those that are held, or were resolved by hand.

    What another process holds that still runs is its own: a copy of a file may tell of it. An end without a source
    gives the hold back. Raises :class:`LedgerFailed`; then nothing is changed.
    """
    at, own = book.clock(), this_process()
    with book.store.writing() as db:
        for entry, run, end in ends:
            find = (
                "SELECT p.machine, p.pid, p.began FROM entries e JOIN processes p ON p.id = e.process"
                " WHERE e.id = ? AND e.run = ? AND e.kind = 'request'"
                f" AND (e.state = 'held' OR e.source = '{RESOLVED}')"
            )
            holder = db.execute(find, (entry, run)).fetchone()
            if holder is not None and (Process(*holder) == own or is_gone(Process(*holder)) is not False):
                end_entry(db, entry, writable(end), at)
