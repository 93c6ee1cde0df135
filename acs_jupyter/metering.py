"""What a budget must answer before a socket is opened, and may be told afterwards: the interface of a meter.

Owns the two protocols. It must not know what stands behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from .errors import AcsError
from .wire import CompletionRequest


class Meter(Protocol):
    """What a budget must answer before a socket is opened."""

    def reserve(self, request: CompletionRequest, run: str) -> Any:
        """Hold the worst case of ``request``; raises ``BudgetRefused`` when it does not fit. Returns a ticket."""

    def settle(self, ticket: Any, prompt_tokens: int, completion_tokens: int, source: str) -> None:
        """Replace the hold by what was spent; ``source`` is ``usage``, ``continuous`` or ``estimate``."""

    def release(self, ticket: Any) -> None:
        """Give the hold back: nothing was spent."""


@runtime_checkable
class Ledgered(Meter, Protocol):
    """A meter that wants to know more than beginnings and ends."""

    def running(self, ticket: Any, prompt_tokens: int, completion_tokens: int) -> None:
        """What a stream has used by now."""

    def note(
        self,
        ticket: Any,
        *,
        request_id: str | None,
        headers: Mapping[str, str],
        error: AcsError | None,
        model: str | None = None,
    ) -> None:
        """What the answer said, told before the end: its id, the headers that are kept, how it failed, and the
        ``model`` that answered."""

    def reserve_job(self, request: CompletionRequest, key: str) -> Any:
        """Hold a job's worst case, or find what is known of this idempotency key.

        The ticket's ``found``: it was there before, and nobody knows what became of it. ``before``: the ticket of
        what has become a job (``job``) or was settled (``settled``); a ``BudgetRefused`` has the ``job_id`` of such a
        one. ``prompt_guess`` and ``completion_most`` of a ticket are what an estimate is made of, ``prompt_most`` and
        ``completion_most`` the most it can be.
        """

    def name_job(self, ticket: Any, job: str) -> None:
        """The submission has become this job; its hold stays when this process ends."""

    def withdraw(self, ticket: Any) -> None:
        """The submission was refused, or never sent: it needs the hold no longer. Others may."""

    def job(self, job: str) -> Any:
        """The ticket of a job that is held, from whichever process, or ``None``."""
