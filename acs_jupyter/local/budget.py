"""Monthly token budgets: held before the work, settled after it.

Owns the arithmetic of what fits and the tokens held by running requests. It must not know HTTP or engines.
What is held counts as used until it is settled, with every choice of a request, so that a month cannot end
above its budget by requests that run side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BudgetExceeded
from .ledger import Entry, month_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .keys import Caller, Keys
    from .ledger import Ledger, Source


@dataclass(slots=True)
class Reservation:
    """Tokens held for one request; ``max_tokens`` is what each of its choices may take."""

    caller: Caller
    month: str
    held: int
    max_tokens: int
    settled: bool = False


class Budget:
    """Reserves and settles for all keys. ``now`` gives seconds since 1970."""

    def __init__(self, keys: Keys, ledger: Ledger, now: Callable[[], float]) -> None:
        self._keys, self._ledger, self._now = keys, ledger, now
        self._held: dict[tuple[str, str], int] = {}

    @property
    def reserved(self) -> int:
        """Tokens held for running requests, of all keys."""
        return sum(self._held.values())

    def reserve(self, caller: Caller, *, prompt: int, choices: int, max_tokens: int) -> Reservation:
        """Hold ``prompt + choices * max_tokens``, with ``max_tokens`` lowered to what is left.

        Raises :class:`BudgetExceeded` when not one token a choice fits.
        """
        month = month_of(self._now())
        before = self._held.get((caller.id, month), 0)
        limit = self._keys.budget_of(caller)
        if limit:
            used = self._ledger.used(caller.id, month)
            max_tokens = min(max_tokens, fitting(limit, used, before, prompt, choices))
        held = prompt + choices * max_tokens
        self._held[caller.id, month] = before + held
        return Reservation(caller, month, held, max_tokens)

    def settle(
        self,
        reservation: Reservation,
        *,
        prompt: int,
        completion: int,
        status: int,
        source: Source,
        request_id: str,
        endpoint: str,
        model: str,
    ) -> None:
        """Give back what was held and write down what was used; only the first call counts."""
        if reservation.settled:
            return
        reservation.settled = True
        caller, month = reservation.caller, reservation.month
        who = (request_id, caller.id, caller.prefix, endpoint, model)
        self._ledger.add(Entry(*who, prompt, completion, status, source, month, self._now()))
        left = self._held[caller.id, month] - reservation.held
        if left:
            self._held[caller.id, month] = left
        else:
            del self._held[caller.id, month]


def fitting(limit: int, used: int, held: int, prompt: int, choices: int) -> int:
    """Tokens that each choice may take beside the prompt; raises :class:`BudgetExceeded` when it is none."""
    left = limit - used - held
    state = f"{used} of {limit} used" + (f", {held} held by running requests" if held else "")
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
