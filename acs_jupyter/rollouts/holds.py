"""What a rollout holds in the machine's ledger: for the requests in flight, and in advance for those that come next.

Owns how many are held at once, when what has ended is written at last, and the note in the journal of which entry
stands for which request. It must not know sockets, nor what a limit is.

A hold is a transaction, and costs more than the rest of a small request. So one transaction holds the next thirty-two
and writes the ends of those before, in a moment when nobody waits for it if there is one. Two promises rest on the
note: an end that the ledger has not got when its process is killed is told by the journal when the rollout goes on,
and a hold whose request was never sent is given back then.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..client import AsyncClient
from ..errors import BudgetRefused, LedgerFailed
from ..exchange import Exchange
from ..ledger.meter import KeyMeter
from ..ledger.terms import month_of
from ..machine.interrupts import uninterrupted
from ..machine.patience import Busy, hurried
from .feed import Feed, Row, run_of
from .journal import DONE, FAILED, PENDING, HoldEnd, Journal, Noted, Unwritable
from .packed import from_bytes

if TYPE_CHECKING:
    from ..ledger.rows import Ticket
    from ..wire import CompletionRequest

AHEAD = 32
"""Requests held in one transaction, the one to be sent included."""
LULL = 0.02
"""Seconds after which the next are held in advance: answers that come together have been followed by then."""
LONGEST = 30.0
"""Seconds after which a hold made in advance is made anew: limits may have changed."""
SOON = 0.1
"""Seconds that an end may wait for others."""
LAST = 1.0
"""Seconds that others who have the ledger are waited for at the end; a thread goes on trying."""


class Holds:
    """For one driver on one event loop."""

    def __init__(self, client: AsyncClient, meter: KeyMeter, journal: Journal) -> None:
        self._client, self._meter, self._journal = client, meter, journal
        self._next: dict[int, tuple[Row, Ticket]] = {}
        self._flying: dict[int, tuple[Row, Ticket]] = {}
        self._ledger = ""
        self._timer: asyncio.TimerHandle | None = None
        self._lull: asyncio.TimerHandle | None = None
        self._old: asyncio.TimerHandle | None = None

    async def take(self, exchange: Exchange, row: Row, feed: Feed) -> None:
        """Give an exchange its hold. Raises :class:`BudgetRefused` or :class:`LedgerFailed`; then nothing is held."""
        found = self._next.pop(row.number, None)
        if found is not None and self._good(found[1]):
            exchange.ticket = found[1]
            self._flying[row.number] = found
            if self._lull is None and len(self._next) < AHEAD // 2:
                self._lull = asyncio.get_running_loop().call_later(LULL, self._ahead, feed)
            return
        if found is not None:
            self._meter.release(found[1])
        try:
            with uninterrupted(), hurried():
                self._hold(exchange, row, feed)
        except Busy:
            await self._client.reserve_aside(exchange)

    def ended(self, row: Row) -> None:
        """A request has ended, and its exchange is settled."""
        self._flying.pop(row.number, None)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SOON, self._write)

    def give_back(self) -> None:
        """Nothing is sent for a while: hold nothing in advance, and write what has ended."""
        if self._lull is not None:
            self._lull.cancel()
            self._lull = None
        waiting, self._next = self._next, {}
        for _, ticket in waiting.values():
            self._meter.release(ticket)
        if waiting or self._timer is not None:
            self._write()

    async def written(self) -> None:
        """Nothing is held in advance any more, and what has ended is in the ledger; others are waited for, not long."""
        self.give_back()
        if self._old is not None:
            self._old.cancel()
        until = time.monotonic() + LAST
        while self._meter.waits and time.monotonic() < until:  # noqa: ASYNC110  # the file's lock rings no bell
            await asyncio.sleep(0.01)

    def _hold(self, exchange: Exchange, row: Row, feed: Feed) -> None:
        coming = self._coming(feed, AHEAD - 1)
        asked = [(exchange.request, exchange.run), *((feed.request(each), run_of(each)) for each in coming)]
        try:
            exchange.ticket, *others = self._held(asked)
        except BudgetRefused:
            if not self._next:
                raise
            self.give_back()  # what is held for later is room for this one
            exchange.ticket, *others = self._held(asked[:1])
        self._flying[row.number] = (row, exchange.ticket)
        self._keep(coming, others)

    def _ahead(self, feed: Feed) -> None:
        """Hold those that come next. Where that cannot be, each is asked for when its turn comes, and told then."""
        self._lull = None
        coming = self._coming(feed, AHEAD)
        if len(coming) < 2:
            return
        with contextlib.suppress(BudgetRefused, LedgerFailed, Busy), uninterrupted(), hurried():
            asked = [(feed.request(each), run_of(each)) for each in coming]
            self._keep(coming, self._held(asked, all_ahead=True))

    def _coming(self, feed: Feed, most: int) -> list[Row]:
        """The next rows that nothing is held for, so many that ``most`` are held in advance."""
        room = max(0, most - len(self._next))  # another model's may be held already
        return [row for row in feed.coming(most) if row.number not in self._next][:room]

    def _held(self, asked: list[tuple[CompletionRequest, str]], *, all_ahead: bool = False) -> list[Ticket]:
        """A hold for the first, and for as many of the others as there is room for; what has ended is written, too.

        ``all_ahead``: the first is one of the others.
        """
        self._ledger = self._meter.identity  # the file may be another than it was
        tickets = self._meter.reserve_several(asked, all_ahead=all_ahead)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return tickets

    def _keep(self, coming: list[Row], tickets: list[Ticket]) -> None:
        self._next.update(
            (each.number, (each, ticket)) for each, ticket in zip(coming, tickets, strict=False)
        )
        self._note()
        if self._old is None and self._next:
            self._old = asyncio.get_running_loop().call_later(LONGEST, self._look)

    def _look(self) -> None:
        """Give back what has been held in advance for too long: those in flight may take hours."""
        self._old = None
        old = [number for number, (_, ticket) in self._next.items() if not self._good(ticket)]
        for number in old:
            self._meter.release(self._next.pop(number)[1])
        if old:
            self._write()
        if self._next:
            self._old = asyncio.get_running_loop().call_later(LONGEST / 10, self._look)

    def _note(self) -> None:
        """Before the first of them is sent. Killed before it is written, a process leaves holds that nobody knows to be
        unsent: they stay until their user settles them, as what is in flight does."""
        noted = [Noted(t.entry, row.number, row.attempts) for row, t in self._flying.values()]
        noted += [Noted(t.entry, row.number, row.attempts + 1) for row, t in self._next.values()]
        try:
            self._journal.note_holds(self._ledger, noted)
        except Unwritable:
            for _, ticket in (*self._flying.values(), *self._next.values()):
                ticket.patient = False

    def _good(self, ticket: Ticket) -> bool:
        now = time.time()
        return now - ticket.at < LONGEST and month_of(now) == month_of(ticket.at)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._meter.write()


def holds_of(client: AsyncClient, journal: Journal, *, alone: bool) -> Holds | None:
    """A client's holds, when it has the machine's ledger. ``alone``: each row of the journal is one request."""
    return Holds(client, client.meter, journal) if alone and isinstance(client.meter, KeyMeter) else None


def make_good(journal: Journal, meter: object) -> None:
    """Tell the ledger what the journal knows of holds that an earlier process has left. Before anything is sent.

    What belongs to a ledger that is not there now, or cannot be written, is kept for the call that has it. A hold that
    was in flight stays: nobody knows what it has cost.
    """
    ledger, noted = journal.noted_holds()
    ends = journal.kept_ends()
    if noted:  # what they stand for is known now, and no longer when the requests have been sent again
        journal.keep_ends(ends | {ledger: [*ends.get(ledger, []), *_known(journal, noted)]})
        ends = journal.kept_ends()
    if ends and isinstance(meter, KeyMeter):
        with contextlib.suppress(LedgerFailed):  # it is said where a request is held
            meter.end_known(ends.pop(meter.identity, []))
            journal.keep_ends(ends)


def _known(journal: Journal, noted: Iterable[Noted]) -> Iterable[HoldEnd]:
    for each in noted:
        key, state, attempts, data = journal.standing(each.number)
        run = key.hex()[:12]
        if state == PENDING and attempts < each.attempt:  # never sent
            yield each.entry, run, 0, 0, "", None
        elif state in (DONE, FAILED) and attempts == each.attempt and data is not None:
            result = from_bytes(data)
            spent = result.prompt_tokens, result.completion_tokens
            yield each.entry, run, *spent, result.usage_source or "", result.request_id
