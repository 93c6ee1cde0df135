"""The book: holds, settlements and limits, each in one transaction that any kernel of the machine can be part of.

Owns the rules of what fits, what is counted and when. It must not know clients, nor how anything is shown.

Everything with a limit is an *account*: a key's month, a session, a cell, a rollout. A request is held against all of
its accounts at once or against none, so two kernels that race for the last tokens cannot both have them. It belongs
to the month it began in. An entry is counted when it leaves the state ``held``, which happens once.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache

from ..errors import BudgetRefused, LedgerFailed
from ..machine import forking
from ..machine.patience import Busy, hurried, is_hurried, on_a_loop
from ..machine.processes import this_process
from ..secret import Secret
from . import place
from .accounts import Made, Named, in_use
from .again import submitted_before
from .late import Late
from .refusal import Account, beside, check, exhausted
from .rows import (
    ESTIMATE,
    RESOLVED,
    TICKET,
    USAGE,
    End,
    Origin,
    Ticket,
    accounts_of,
    add,
    add_entries,
    end_entries,
    end_entry,
    exhaust_key,
    known_job,
    name_entry,
    ticket_of,
    withdraw_entry,
    writable,
)
from .scope import Scope
from .store import CannotWrite, Store
from .terms import RUNNING_EVERY, Worst, month_of, shown_key

KEEP_SECONDS = 400 * 86_400.0
"""How long a row is kept; the sums of months stay."""


class Ledger:
    """The ledger as one process sees it. ``clock`` gives seconds since the epoch.

    On an event loop nothing waits for the file: what ends there is written at once or, when others have the file, by
    a thread; ``hold`` raises :class:`acs_jupyter.patience.Busy` where its caller said that it may not wait.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.clock = clock
        self._keys: dict[tuple[Secret, str], int] = {}
        self._late = Late(store)
        self._made = Made()
        self.forked()
        forking.tell(self)
        self._forget()

    def forked(self) -> None:
        """See :class:`acs_jupyter.forking.Forked`: a child holds nothing, and leaves its parent's ends to it."""
        self._late.forked()
        self._months: dict[tuple[int, str], int] = {}
        self._me: tuple[int, int] | None = None
        self._session_limit: int | None = None
        self._opening = self.store.times
        self.identity = ""
        """See :func:`returning.identity`, which finds it."""
        self._ends: deque[tuple[Ticket, End, float]] = deque()
        self.open: dict[int, Ticket] = {}
        """Holds of this process that have not ended, by entry."""
        if self.store.where == place.MEMORY:
            self._keys.clear()

    @classmethod
    def at(cls, where: str) -> Ledger:
        """The ledger in a file. One that nobody named and that cannot be written is kept in memory, with a warning."""
        if where == place.OFF:
            raise LedgerFailed(
                "The budget ledger is switched off.", advice="Unset ACS_LEDGER to switch it on."
            )
        try:
            return cls(Store(where))
        except CannotWrite as problem:
            if place.is_named():
                raise
            warnings.warn(f"{problem.message} It is kept in memory, for this process only.", stacklevel=3)
            return cls(Store(place.MEMORY))

    def close(self) -> None:
        """Close the file, when what has ended is written."""
        self.write()
        self._late.join()
        self.store.close()

    # -- holds ------------------------------------------------------------------------------------

    def hold(self, origin: Origin, worst: Worst, scopes: tuple[int, ...] = ()) -> Ticket:
        """Hold the worst case against every account the request belongs to; raises :class:`BudgetRefused`.

        What has ended and is not written yet is written in the same transaction, before it is looked at what is left.
        """
        return self._hold([(origin, worst)], scopes)[0]

    def hold_several(
        self,
        asked: Sequence[tuple[Origin, Worst]],
        scopes: tuple[int, ...] = (),
        *,
        all_ahead: bool = False,
    ) -> list[Ticket]:
        """Hold the first of some requests, as :meth:`hold` does, and in advance those behind it that are small beside
        what is left: at most a ``refusal.SHARE`` of it, so that nobody else is refused for their sake. ``all_ahead``:
        the first is held in advance too, and may be none.

        For a caller that has written down elsewhere, durably, which entry stands for which request and how it ends:
        ends that the server has counted are written with the next hold, or by :meth:`write`.
        """
        tickets = self._hold(asked, scopes, all_ahead=all_ahead)
        for ticket in tickets:
            ticket.patient = True
        return tickets

    def _hold(
        self, asked: Sequence[tuple[Origin, Worst]], scopes: tuple[int, ...], *, all_ahead: bool = False
    ) -> list[Ticket]:
        process, session = self._process()
        now = self.clock()
        month = month_of(now)
        origin, worst = asked[0]
        wanted = (self._month(origin.key, month), session, *place.scopes.get(), *scopes)
        mine = tuple(dict.fromkeys(wanted))
        tickets: list[Ticket] = []
        self._pass_on()
        try:
            with self._late.transaction() as db:
                accounts = accounts_of(db, mine)
                if len(accounts) < len(mine):
                    mine = self._made.present(db, mine, now)
                    accounts = accounts_of(db, mine)
                known = submitted_before(db, origin, worst, now)
                if known is not None:
                    return [known]
                told = exhausted(db, origin.key, now)
                if told is not None:
                    raise told
                check(accounts, worst)
                now_due = 0 if all_ahead else 1
                few = asked[: now_due + beside(accounts, [bound for _, bound in asked], now_due)]
                tickets = add_entries(db, few, mine, (now, month, process, place.cell.get()))
                add(db, mine, 0, sum(ticket.held for ticket in tickets))
        except BudgetRefused:
            self._late.write()  # what has ended went back with the rest
            raise
        for ticket in tickets:
            ticket.book = self
            self.open[ticket.entry] = ticket
        return tickets

    def hold_job(self, origin: Origin, worst: Worst, scopes: tuple[int, ...] = ()) -> Ticket:
        """The hold of a submission: the one that is there while nobody knows what became of it, else a new one.

        Whoever submits again what has become a job needs room for another: the server may have forgotten it. The
        ticket's ``before`` is what is known of it. A refusal has its ``job_id``: that can be read all the same.
        """
        session = self._process()[1]
        before = known_job(self.store, origin, self.clock())
        if before is None or not (before.settled or before.job):
            return self.hold(replace(origin, scopes=(session, *place.scopes.get(), *scopes)), worst, scopes)
        try:
            ticket = self.hold(replace(origin, apart=True), worst, scopes)
        except BudgetRefused as refused:
            if before.held == worst.total:
                refused.job_id = before.job
            raise
        ticket.before = before
        return ticket

    def running(self, ticket: Ticket, prompt_tokens: int, completion_tokens: int) -> None:
        """What a stream has used by now; in the file once a second, so that it is known if this process dies."""
        ticket.seen = (prompt_tokens, completion_tokens)
        now = time.monotonic()
        if now - ticket.noted >= RUNNING_EVERY and ticket.owner == os.getpid():
            ticket.noted = now
            note = "UPDATE entries SET seen_prompt = ?, seen_completion = ? WHERE id = ?"
            with suppress(LedgerFailed, Busy), hurried(on_a_loop()), self.store.writing() as db:
                db.execute(note, (prompt_tokens, completion_tokens, ticket.entry))

    def end(self, ticket: Ticket, prompt: int = 0, completion: int = 0, source: str = "") -> None:
        """End a hold: ``source`` says where the counts come from, ``""`` that nothing was used. Never fails.

        What cannot be written now is written with the next hold or end; until then it stays held. A hold of the
        process this one was forked from is left to that.
        """
        if ticket.owner != os.getpid():
            return
        end, at = writable(End(prompt, completion, source, ticket.facts)), self.clock()
        self.open.pop(ticket.entry, None)
        if ticket.patient and (not source or (source == USAGE and end.facts.get("error") is None)):
            self._ends.append((ticket, end, at))
            return
        self._late.add(lambda db: end_entry(db, ticket.entry, end, at))

    def write(self) -> None:
        """Write what has ended and waits for others; see :meth:`hold_several`. Never fails, as :meth:`end`."""
        self._pass_on()
        self._late.hasten()

    @property
    def waits(self) -> bool:
        """Whether an end is not written yet."""
        return bool(self._ends) or self._late.waits

    def _pass_on(self) -> None:
        ends = [self._ends.popleft() for _ in range(len(self._ends))]
        if ends:
            self._late.keep(lambda db: end_entries(db, ends))

    def exhaust(self, key: int, period: str) -> None:
        """The server says that a key's month, or day, is used up: believed until told otherwise, or it is over."""
        at = self.clock()
        self._late.add(lambda db: exhaust_key(db, key, period, at))

    # -- jobs -------------------------------------------------------------------------------------

    def name_job(self, ticket: Ticket, job: str) -> None:
        """A hold belongs to a job from here on, whatever becomes of this process."""
        self.open.pop(ticket.entry, None)
        at = self.clock()
        self._late.add(lambda db: name_entry(db, ticket.entry, job, at))

    def withdraw(self, ticket: Ticket) -> None:
        """A submission was refused: its hold is given back, unless another one rests on it or has become a job."""
        end, at = writable(End(facts=ticket.facts)), self.clock()
        self.open.pop(ticket.entry, None)
        self._late.add(lambda db: withdraw_entry(db, ticket.entry, end, at))

    def job(self, key: int, job: str) -> Ticket | None:
        """The hold of a job that the server has not counted yet: it is held, settled by a guess, or was given back."""
        query = (
            f"SELECT {TICKET} FROM entries WHERE job = ? AND key = ? AND NOT EXISTS (SELECT 1 FROM entries o WHERE"
            " o.job = entries.job AND o.key = entries.key AND o.state = 'settled'"
            f" AND o.source NOT IN ('{RESOLVED}', '{ESTIMATE}')) ORDER BY state = 'released' AND source = '', id"
        )
        return next((ticket_of(row) for row in self.store.rows(query, job, key)), None)

    # -- accounts and limits ----------------------------------------------------------------------

    def scope(self, kind: str, name: str, limit: int | None = None) -> Scope:
        """The account of a kind and name, made when there is none; see the package for ``limit``."""
        return Scope(self, self._account(kind, name, 0, limit))

    @property
    def session(self) -> Scope:
        """The account of this process."""
        return Scope(self, self._process()[1])

    def month(self, key: int) -> Account:
        """A key's account of this month."""
        return self.account(self._month(key, month_of(self.clock())))

    def set_month_limit(self, key: int, limit: int | None) -> None:
        """Limit a key's months from this one on; ``None`` takes the limit away."""
        self._month(key, month_of(self.clock()))
        with self.store.writing() as db:
            db.execute("UPDATE keys SET most = ? WHERE id = ?", (limit, key))
            later = "UPDATE accounts SET most = ? WHERE kind = 'month' AND key = ? AND name >= ?"
            db.execute(
                later, (limit, key, month_of(self.clock()))
            )  # later ones are there when a clock was wrong

    def account(self, account: int) -> Account:
        """An account as it stands."""
        found = accounts_of(self.store, (account,))
        if not found:
            with self.store.writing() as db:
                found = accounts_of(db, self._made.present(db, (account,), self.clock()))
        if not found:
            raise LedgerFailed(
                f"The budget ledger {self.store.where} does not know that limit: the file is another one now.",
                advice="Set the limit again.",
            )
        return found[0]

    @contextmanager
    def without_scopes(self) -> Iterator[None]:
        """No scope of the surrounding code counts inside."""
        token = place.scopes.set(())
        try:
            yield
        finally:
            place.scopes.reset(token)

    def key(self, secret: Secret, server: str) -> int:
        """The number of a key on a server. Of the key itself only its public part and a salted, slow hash are kept."""
        self.look()
        known = self._keys.get((secret, server))
        if known is None:
            if is_hurried():
                raise Busy  # the hash is slow
            salt = self.store.rows("SELECT value FROM facts WHERE name = 'salt'")[0][0]
            mark = _hashed(secret, server, salt)
            with self.store.writing() as db:
                db.execute(
                    "INSERT OR IGNORE INTO keys (hash, prefix, server) VALUES (?, ?, ?)",
                    (mark, shown_key(secret.reveal()), server),
                )
                known = int(db.execute("SELECT id FROM keys WHERE hash = ?", (mark,)).fetchone()[0])
            self._keys[secret, server] = known
        return known

    # -- inside -----------------------------------------------------------------------------------

    def _process(self) -> tuple[int, int]:
        self.look()
        if self._me is None:
            me = this_process()
            with self.store.writing() as db:
                row = (me.machine, me.pid, me.began)
                db.execute(
                    "INSERT OR IGNORE INTO processes (machine, pid, began, notebook, at) VALUES (?, ?, ?, ?, ?)",
                    (*row, place.notebook(), self.clock()),
                )
                find = "SELECT id FROM processes WHERE machine = ? AND pid = ? AND began = ?"
                process = int(db.execute(find, row).fetchone()[0])
            self._me = (process, self._account("session", str(process), 0, self._session_limit))
        return self._me

    def _month(self, key: int, month: str) -> int:
        if (key, month) not in self._months:
            self._months[key, month] = self._account("month", month, key)
        return self._months[key, month]

    def _account(self, kind: str, name: str, key: int, limit: int | None = None) -> int:
        with self.store.writing() as db:
            return self._made.make(db, Named(kind, name, key, limit), self.clock())

    def look(self) -> None:
        """Know nothing by heart of a file that was deleted or replaced: it is another one now."""
        if self.store.is_gone():
            self.store.rows("SELECT 1")  # opens what is there
        if self._opening != self.store.times:
            self._opening, self.identity = self.store.times, ""
            if self._me is not None:
                self._session_limit = self._made.limit_of(self._me[1])
            self._me = None
            self._months.clear()
            self._keys.clear()

    def _forget(self) -> None:
        old = self.clock() - KEEP_SECONDS
        if not self.store.rows("SELECT 1 FROM entries WHERE at < ? AND state <> 'held' LIMIT 1", old):
            return
        with self.store.writing() as db:
            kept = json.dumps(in_use(db))  # this process's clock may be wrong
            db.execute("DELETE FROM entries WHERE at < ? AND state <> 'held'", (old,))
            forget = (
                "DELETE FROM accounts WHERE at < ? AND held = 0 AND kind <> 'month'"
                " AND id NOT IN (SELECT value FROM json_each(?))"
            )
            db.execute(forget, (old, kept))


@lru_cache(maxsize=64)
def _hashed(secret: Secret, server: str, salt: bytes) -> bytes:
    # Slow, since a key that somebody chose may be guessable, and salted, so that two files cannot be compared.
    text = f"{server} {secret.reveal()}".encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac("sha256", text, salt, 50_000)
