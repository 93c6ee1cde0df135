"""Monthly token budgets: held before the work, settled after it.

Owns the arithmetic of what fits and the tokens held by running requests. It must not know HTTP or engines.
What is held counts as used until it is settled, with every choice of a request, so that a month cannot end
above its budget by requests that run side by side, here or in another server on the same file.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BudgetExceeded
from .holds import Hold, Holds
from .ledger import Entry, Ledger, month_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .keys import Caller, Keys
    from .ledger import Source
    from .store import Store

log = logging.getLogger("acs_jupyter.local")
KILLED = 500
"""The status of a row that was settled for a server that was killed."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What tokens are held for."""

    request_id: str
    endpoint: str
    model: str


@dataclass(slots=True)
class Reservation:
    """Tokens held for one request; ``max_tokens`` is what each of its choices may take.

    ``number`` is the row that a killed server leaves behind, ``None`` when it could not be written.
    """

    caller: Caller
    purpose: Purpose
    month: str
    held: int
    max_tokens: int
    number: int | None = None
    settled: bool = False


class Budget:
    """Reserves and settles for all keys of one file. ``now`` gives seconds since 1970."""

    def __init__(self, store: Store, keys: Keys, ledger: Ledger, now: Callable[[], float]) -> None:
        self._store, self._keys, self._ledger, self._now = store, keys, ledger, now
        self._holds = Holds(store)
        self._held: dict[tuple[str, str], int] = {}

    @property
    def reserved(self) -> int:
        """Tokens held for requests that run here, of all keys."""
        return sum(self._held.values())

    def reserve(
        self, caller: Caller, purpose: Purpose, *, prompt: int, choices: int, max_tokens: int
    ) -> Reservation:
        """Hold ``prompt + choices * max_tokens``, with ``max_tokens`` lowered to what is left.

        Raises :class:`BudgetExceeded` when not one token a choice fits. When the file cannot be written the tokens
        are held by this process alone.
        """
        try:
            with self._store.writing() as db:
                made = self._fitted(caller, purpose, prompt, choices, max_tokens)
                made.number = self._holds.add(db, self._row(made, prompt))
        except sqlite3.Error as problem:
            log.error("what a request holds cannot be written: %s", type(problem).__name__)
            made = self._fitted(caller, purpose, prompt, choices, max_tokens)
        place = caller.id, made.month
        self._held[place] = self._held.get(place, 0) + made.held
        return made

    def check(self, caller: Caller) -> None:
        """Refuse work of a key whose month is used up already; nothing is held."""
        self._fitted(caller, Purpose("", "", ""), 0, 1, 1)

    def settle(
        self, reservation: Reservation, *, prompt: int, completion: int, status: int, source: Source
    ) -> None:
        """Give back what was held and write down what was used; only the first call counts."""
        if reservation.settled:
            return
        reservation.settled = True
        caller, month, purpose = reservation.caller, reservation.month, reservation.purpose
        who = (purpose.request_id, caller.id, caller.prefix, purpose.endpoint, purpose.model)
        entry = Entry(*who, prompt, completion, status, source, month, self._now())
        self._ledger.add(entry, reservation.number)
        left = self._held[caller.id, month] - reservation.held
        if left:
            self._held[caller.id, month] = left
        else:
            del self._held[caller.id, month]

    def _fitted(
        self, caller: Caller, purpose: Purpose, prompt: int, choices: int, max_tokens: int
    ) -> Reservation:
        month = month_of(self._now())
        limit = self._keys.budget_of(caller)
        if limit:
            others = self._holds.of_others(caller.id, month)
            lost = self._holds.lost(caller.id, month) if others else 0
            held = self._held.get((caller.id, month), 0) + others - lost
            used = self._ledger.used(caller.id, month)
            max_tokens = min(max_tokens, fitting(limit, used, held, prompt, choices, lost=lost))
        return Reservation(caller, purpose, month, prompt + choices * max_tokens, max_tokens)

    def _row(self, made: Reservation, prompt: int) -> Hold:
        purpose = made.purpose
        who = (purpose.request_id, made.caller.id, made.caller.prefix, purpose.endpoint, purpose.model)
        return Hold(*who, prompt, made.held - prompt, made.month, self._now())


def settle_left_behind(
    store: Store, now: float, *, charge: bool, of: Callable[[dict[int, Hold]], Collection[int]] = list
) -> list[Hold]:
    """Settle what killed servers hold: as used in full, or as not used at all. ``of`` picks by number (all)."""
    ledger, settled = Ledger(store), []
    left = Holds(store).left_behind()
    for number in of(left):
        hold = left[number]
        counts = (hold.prompt_tokens, hold.completion_tokens) if charge else (0, 0)
        who = (hold.request_id, hold.key_id, hold.prefix, hold.endpoint, hold.model)
        ledger.add(Entry(*who, *counts, KILLED, "held" if charge else "none", hold.month, now), number)
        settled.append(hold)
    return settled


def fitting(limit: int, used: int, held: int, prompt: int, choices: int, *, lost: int = 0) -> int:
    """Tokens that each choice may take beside the prompt; raises :class:`BudgetExceeded` when it is none.

    ``lost``: what a killed server holds.
    """
    left = limit - used - held - lost
    state = f"{used} of {limit} used" + (f", {held} held by running requests" if held else "")
    state += f", {lost} held by a killed server until 'acs-jupyter keys settle'" if lost else ""
    if left <= 0:
        raise BudgetExceeded(f"Monthly token budget exhausted for this API key: {state}.")
    if left <= prompt:
        raise BudgetExceeded(
            f"Prompt alone would exceed the monthly token budget: {prompt} tokens, {left} left ({state})."
        )
    if left - prompt < choices:
        raise BudgetExceeded(
            f"Monthly token budget exhausted for this API key: {left - prompt} tokens are left beside the "
            f"prompt for {choices} choices ({state})."
        )
    return (left - prompt) // choices
