"""Rows of the ledger: holds and how they end, and the accounts they count against.

Owns these statements, each for the inside of a transaction. It must not know limits, clocks or processes.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .refusal import Account
from .store import Store
from .terms import ENDLESS, Worst, guessed_prompt

RESOLVED = "resolved"
"""The source of an entry that was settled by hand, by guess."""
USAGE = "usage"
"""The source of an entry that the server has counted, to its end."""
ESTIMATE = "estimate"
"""The source of an entry that nobody counted: the most it can have been."""
JOB_RECORD_SECONDS = 7 * 86_400.0
"""How long the service finds a job again by its idempotency key."""


@dataclass(eq=False)
class Ticket:
    """One hold, of the process that has the ticket. ``found``: it was there already, made for the same job;
    ``settled``: and has ended. ``at``: when the request began, seconds since the epoch.

    ``prompt_guess`` and ``completion_most`` are what an estimate can be made of, in tokens.
    """

    entry: int
    held: int
    accounts: tuple[int, ...]
    prompt_guess: int
    completion_most: int
    at: float
    found: bool = False
    settled: bool = False
    seen: tuple[int, int] | None = None
    noted: float = field(default_factory=time.monotonic)
    facts: dict[str, str | None] = field(default_factory=dict)
    owner: int = field(default_factory=os.getpid)
    job: str | None = None
    """The job it belongs to, when that was known."""
    before: Ticket | None = None
    """What is known of the same submission: this hold is for the case that its job is gone."""
    book: Any = None
    """The :class:`Ledger` it was made by."""
    patient: bool = False
    """Whether an end that the server has counted may be written with others, a moment later; see
    :meth:`Ledger.hold_several`."""

    @property
    def prompt_most(self) -> int:
        """The most tokens the prompt can have."""
        return self.held - self.completion_most


@dataclass(frozen=True)
class Origin:
    """What an entry says about where it comes from, beside the process and the cell.

    ``kind``: ``request`` or ``job``; ``run``: a run's id, or a job's idempotency key.
    """

    key: int
    model: str
    run: str
    kind: str = "request"
    apart: bool = False
    """Held whatever is known of that key, when it fits."""
    scopes: tuple[int, ...] = ()
    """Accounts, beside the month, that a hold which is found again must count against too."""


@dataclass(frozen=True)
class End:
    """How an entry ends; ``source`` as in :meth:`Ledger.end`, or ``RESOLVED``: by hand, by guess."""

    prompt: int = 0
    completion: int = 0
    source: str = ""
    facts: dict[str, str | None] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """``settled`` when something was used."""
        return "settled" if self.source and self.prompt + self.completion else "released"


def new_id() -> int:
    """Where a file's numbers begin: another file has others, so that a hold of a file that was deleted ends nobody
    else's."""
    return int.from_bytes(os.urandom(6)) | 1 << 40


def add_entries(
    db: sqlite3.Connection,
    asked: Sequence[tuple[Origin, Worst]],
    accounts: tuple[int, ...],
    place: tuple[float, str, int, str],
) -> list[Ticket]:
    """New holds, one for each; their accounts are still to be told. ``place``: time, month, process and cell."""
    at, month, process, cell = place
    (last,) = db.execute("SELECT coalesce(max(id), ?) FROM entries", (new_id(),)).fetchone()
    listed = " ".join(map(str, accounts))
    tickets, rows = [], []
    for entry, (origin, worst) in enumerate(asked, last + 1):
        guess = guessed_prompt(worst)
        tickets.append(Ticket(entry, worst.total, accounts, guess, worst.completion, at))
        rows.append((
            entry, at, month, origin.key, process, cell, listed, origin.kind, origin.run, origin.model,
            worst.total, guess, worst.prompt,
        ))  # fmt: skip
    db.executemany(
        "INSERT INTO entries (id, at, month, key, process, cell, accounts, kind, run, model, state, held,"
        " prompt_guess, prompt_most) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'held', ?, ?, ?)",
        rows,
    )
    return tickets


def writable(end: End) -> End:
    """The same as far as the file can take it: one row that it cannot would keep all that follow from being written.

    What a server says is not believed beyond any limit, below nothing, or in half characters.
    """
    prompt, completion = (max(0, min(ENDLESS, int(count))) for count in (end.prompt, end.completion))
    facts = {
        name: None if fact is None else str(fact).encode("utf-8", "replace").decode()
        for name, fact in end.facts.items()
    }
    return End(prompt, completion, end.source, facts)


def end_entry(db: sqlite3.Connection, entry: int, end: End, at: float) -> None:
    """Count an entry, once. One that nobody counted is corrected by what is told later: one resolved by hand by
    whatever its own process says, an estimate by the server's count alone. So is one that was given back, a job's by
    the server's count alone."""
    find = "SELECT state, held, accounts, prompt_tokens + completion_tokens, source, kind FROM entries WHERE id = ?"
    row = db.execute(find, (entry,)).fetchone()
    if row is None:
        return
    was, held, accounts, counted, source, kind = row
    late = {RESOLVED: True, ESTIMATE: end.source == USAGE, "": end.source == USAGE or kind == "request"}
    if was == "held" or late.get(source, False):
        db.execute(_END, _ended(entry, end, at))
        add(db, ids_of(accounts), end.prompt + end.completion - counted, -held if was == "held" else 0)


def end_entries(db: sqlite3.Connection, ends: Sequence[tuple[Ticket, End, float]]) -> None:
    """The same for many requests at once: each account is told once what all of them have changed."""
    sums: dict[tuple[int, ...], list[int]] = {}
    held = _held(db, [ticket.entry for ticket, _, _ in ends])
    rows, others = [], []
    for ticket, end, at in ends:
        if ticket.entry not in held:
            others.append((ticket.entry, end, at))
            continue
        held.discard(ticket.entry)
        rows.append(_ended(ticket.entry, end, at))
        total = sums.setdefault(ticket.accounts, [0, 0])
        total[0] += end.prompt + end.completion
        total[1] -= ticket.held
    db.executemany(_END, rows)
    for accounts, (used, freed) in sums.items():
        add(db, accounts, used, freed)
    for entry, end, at in others:
        end_entry(db, entry, end, at)


def _held(db: sqlite3.Connection, entries: list[int]) -> set[int]:
    """Those of some entries that are held."""
    query = "SELECT id FROM entries WHERE state = 'held' AND id IN (SELECT value FROM json_each(?))"
    return {entry for (entry,) in db.execute(query, (json.dumps(entries),))}


_END = (
    "UPDATE entries SET state = ?, prompt_tokens = ?, completion_tokens = ?, source = ?, ended = ?,"
    " request_id = coalesce(?, request_id), error = coalesce(?, error), clamp = coalesce(?, clamp),"
    " model = CASE model WHEN '' THEN coalesce(?, '') ELSE model END WHERE id = ?"
)


def _ended(entry: int, end: End, at: float) -> tuple[object, ...]:
    known = end.facts.get
    facts = known("request_id"), known("error"), known("clamp"), known("model")
    return (end.state, end.prompt, end.completion, end.source, at, *facts, entry)


def withdraw_entry(db: sqlite3.Connection, entry: int, end: End, at: float) -> None:
    """One submission rests on a job's hold no longer; the last one gives it back, unless it has become a job."""
    db.execute("UPDATE entries SET claims = claims - 1 WHERE id = ? AND state = 'held'", (entry,))
    find = "SELECT 1 FROM entries WHERE id = ? AND state = 'held' AND claims <= 0 AND job IS NULL"
    if db.execute(find, (entry,)).fetchone():
        end_entry(db, entry, end, at)


def name_entry(db: sqlite3.Connection, entry: int, job: str, at: float) -> None:
    """An entry belongs to a job; one that has another already stays, and the job gets one of its own.

    The job is counted once, by the first of its entries. What else is held for the same submission is given back: the
    server has that job, so no other came of it. One that was given back, and has become a job all the same, is held
    again.
    """
    name = "UPDATE entries SET job = ? WHERE id = ? AND (job IS NULL OR job = ?)"
    if not db.execute(name, (job, entry, job)).rowcount:
        same = "at, month, key, process, cell, accounts, kind, run, model, prompt_guess, prompt_most, held"
        copied = (
            f"INSERT INTO entries ({same}, job, state) SELECT {same}, ?, 'released' FROM entries WHERE id = ?"
        )
        entry = int(db.execute(copied, (job, entry)).lastrowid or 0)
    find = (
        "SELECT o.id, o.job IS NOT NULL, o.state = 'held' FROM entries e JOIN entries o ON o.run = e.run"
        " AND o.key = e.key AND o.kind = 'job' WHERE e.id = ? AND coalesce(o.job, ?) = ?"
        f" AND (o.state IN ('held', 'settled') OR o.source = '{RESOLVED}') ORDER BY o.state = 'held', o.id"
    )
    found = db.execute(find, (entry, job, job)).fetchall()
    counted = next((one for one, named, _ in found if named), None)
    if counted is None:
        _hold_again(db, entry)
    for one, _, held in found:
        if held and one != counted:
            end_entry(db, one, End(), at)


def _hold_again(db: sqlite3.Connection, entry: int) -> None:
    db.execute("UPDATE entries SET state = 'held', ended = NULL WHERE id = ?", (entry,))
    for held, accounts in db.execute("SELECT held, accounts FROM entries WHERE id = ?", (entry,)).fetchall():
        add(db, ids_of(accounts), 0, held)


def widen_entry(db: sqlite3.Connection, ticket: Ticket, accounts: tuple[int, ...]) -> Ticket:
    """Let a hold count against more accounts."""
    add(db, accounts, 0, ticket.held)
    wide = (*ticket.accounts, *accounts)
    db.execute("UPDATE entries SET accounts = ? WHERE id = ?", (" ".join(map(str, wide)), ticket.entry))
    return replace(ticket, accounts=wide)


def claim_entry(db: sqlite3.Connection, ticket: Ticket, worst: Worst) -> Ticket:
    """Rest another submission on a hold, which grows to the larger of both."""
    more = worst.total - ticket.held
    if more <= 0:
        db.execute("UPDATE entries SET claims = claims + 1 WHERE id = ?", (ticket.entry,))
        return ticket
    guess = guessed_prompt(worst)
    db.execute(
        "UPDATE entries SET claims = claims + 1, held = ?, prompt_guess = ?, prompt_most = ? WHERE id = ?",
        (worst.total, guess, worst.prompt, ticket.entry),
    )
    add(db, ticket.accounts, 0, more)
    return replace(ticket, held=worst.total, prompt_guess=guess, completion_most=worst.completion)


def exhaust_key(db: sqlite3.Connection, key: int, period: str, at: float) -> None:
    """Believe that a key's month (``2026-01``) or day (``2026-01-31``) is used up; never less than is believed."""
    month = period[:7]
    db.execute(
        "UPDATE keys SET exhausted = ?, told = ? WHERE id = ? AND (exhausted IS NULL"
        " OR substr(exhausted, 1, 7) < ? OR (substr(exhausted, 1, 7) = ? AND exhausted <> ?))",
        (period, at, key, month, month, month),
    )


def add(db: sqlite3.Connection, accounts: tuple[int, ...], used: int, held: int) -> None:
    """Count tokens, as used or as held, for each of some accounts."""
    marks = ",".join("?" * len(accounts))
    db.execute(
        f"UPDATE accounts SET used = used + ?, held = held + ? WHERE id IN ({marks})", (used, held, *accounts)
    )


def accounts_of(db: sqlite3.Connection | Store, accounts: tuple[int, ...]) -> list[Account]:
    """Those of some accounts that there are, as they stand."""
    query = (
        "SELECT id, kind, name, key, most, used, held, (SELECT prefix FROM keys WHERE keys.id = key)"
        f" FROM accounts WHERE id IN ({','.join('?' * len(accounts))})"
    )
    rows = db.rows(query, *accounts) if isinstance(db, Store) else db.execute(query, accounts)
    found = {number: Account(*row) for number, *row in rows}
    return [found[account] for account in accounts if account in found]


def known_job(db: sqlite3.Connection | Store, origin: Origin, now: float) -> Ticket | None:
    """The hold or settlement of the same submission: the server finds its job again, and nothing new is paid."""
    query = (  # one that has become a job first: what is held beside it is for the case that the job is gone
        f"SELECT {TICKET} FROM entries WHERE kind = 'job' AND run = ? AND key = ?"
        f" AND (state = 'held' OR ((state = 'settled' OR source = '{RESOLVED}') AND ended > ?))"
        " ORDER BY job IS NULL, id DESC LIMIT 1"
    )
    values = (origin.run, origin.key, now - JOB_RECORD_SECONDS)
    rows = db.rows(query, *values) if isinstance(db, Store) else db.execute(query, values).fetchall()
    return replace(ticket_of(rows[0]), found=True) if rows else None


TICKET = "id, held, accounts, prompt_guess, held - prompt_most, at, state <> 'held', job"
"""The columns that :func:`ticket_of` reads."""


def ticket_of(row: tuple[int, int, str, int, int, float, int, str | None]) -> Ticket:
    """The ticket of a row that is there already."""
    entry, held, accounts, guess, completion, at, settled, job = row
    return Ticket(entry, held, ids_of(accounts), guess, completion, at, settled=bool(settled), job=job)


def ids_of(accounts: str) -> tuple[int, ...]:
    """The accounts an entry counts against, as they are written in its row."""
    return tuple(map(int, accounts.split()))
