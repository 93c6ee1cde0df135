"""A file that cannot be used for now, and a rollout that waits for it: how often it tries, what it says, when it stops.

Owns these times and the one line that is told. It must not know which file it is, nor what is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

AGAIN = 0.5
"""Seconds between two tries."""
TELL_AFTER = 2.0
"""Seconds of trouble that nobody needs to hear of."""
PATIENCE = 600.0
"""Seconds after which a rollout stops; what it has not written down is asked again by the next call."""


class Stall:
    """``reason``: what is wrong now, or ``""``. ``hopeless``: it has lasted for longer than anybody should wait."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self.reason = ""
        self.hopeless = False
        self._tell, self._clock = tell, clock
        self._since = self._until = -math.inf
        self._told = False

    @property
    def wait(self) -> float:
        """Seconds until it is worth trying again; 0 when nothing is wrong."""
        return max(0.0, self._until - self._clock()) if self.reason else 0.0

    def failed(self, reason: str) -> None:
        """It could not be used just now."""
        now = self._clock()
        if not self.reason:
            self._since, self._told = now, False
        self.reason, self._until = reason, now + AGAIN
        self.hopeless = now - self._since > PATIENCE
        if not self._told and now - self._since >= TELL_AFTER:
            self._told = True
            self._tell(f"Waiting: {reason} Nothing is lost; interrupt to stop.")

    def over(self, since: float = math.inf) -> None:
        """It was used; ``since``: when that began. What began before the last trouble says nothing about it."""
        if since < self._until - AGAIN:
            return
        if self._told:
            self._tell("It goes on.")
        self.reason, self._told = "", False
