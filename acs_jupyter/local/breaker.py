"""A circuit breaker: after failures in a row nothing is asked for a while, then one request tries again.

Owns the three states and their times, by a clock that is given. It must not know HTTP nor what failed.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Open(Exception):
    """The breaker lets nothing through now; ``retry_after`` is in whole seconds, at least 1."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("the breaker is open")
        self.retry_after = retry_after


class Breaker:
    """``threshold`` failures in a row open it for ``pause`` seconds of ``clock``."""

    def __init__(
        self, threshold: int = 5, pause: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._threshold, self._pause, self._clock = threshold, pause, clock
        self._until: float | None = None
        self._probe: Ticket | None = None
        self.failures = 0
        """Failures since the last success."""
        self.last_kind: str | None = None
        """The code of the last failure; ``None`` after a success."""

    @property
    def state(self) -> str:
        """``closed``, ``open``, or ``half_open`` once the pause is over and nothing has succeeded yet."""
        if self._until is None:
            return "closed"
        return "open" if self._clock() < self._until else "half_open"

    def enter(self) -> Ticket:
        """A ticket for one request; raises :class:`Open`. Half open, only one request is out at a time."""
        ticket = Ticket(self)
        if self._until is None:
            return ticket
        left = self._until - self._clock()
        if left > 0:
            raise Open(max(1, math.ceil(left)))
        if self._probe is not None:
            raise Open(1)
        self._probe = ticket
        return ticket

    def _settle(self, ticket: Ticket, failure: str | None) -> None:
        probe, self._probe = self._probe, None if ticket is self._probe else self._probe
        if failure is None:
            if ticket is probe or self._until is None:
                self._until, self.failures, self.last_kind = None, 0, None
            return
        self.failures += 1
        self.last_kind = failure
        if ticket is probe or (self._until is None and self.failures >= self._threshold):
            self._until = self._clock() + self._pause

    def _release(self, ticket: Ticket) -> None:
        if ticket is self._probe:
            self._probe = None


class Ticket:
    """One request under way. It is settled once; leaving without a verdict counts as nothing."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker: Breaker | None = breaker

    def succeeded(self) -> None:
        """The other side answered, be it with a refusal of this request."""
        if self._breaker is not None:
            self._breaker._settle(self, None)
            self._breaker = None

    def failed(self, kind: str) -> None:
        """The other side failed; ``kind`` is shown in the health report."""
        if self._breaker is not None:
            self._breaker._settle(self, kind)
            self._breaker = None

    def release(self) -> None:
        """Nothing is known of the other side; a probe gives its place back."""
        if self._breaker is not None:
            self._breaker._release(self)
            self._breaker = None
