"""Whose turn it is to be asked about: a queue of jobs by the time they are due.

Owns the times between questions. It must not know what is asked, nor of whom.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..retrying import LONGEST_WAIT

SLOWEST = 5.0
"""Seconds between questions about a job that takes long, unless the server asks for more."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds without any question while the server cannot be asked; doubled each time."""


class Rounds:
    """Jobs and when each is due; threads may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._paused_until = 0.0
        self._pause = FIRST_PAUSE
        self._wake = threading.Condition()

    def add(self, job: str, *, again: bool = False) -> None:
        """Ask about a job now, then again and again. One that is here keeps its turn, unless ``again``."""
        with self._wake:
            if job in self._due and not again:
                return
            self._due[job] = self._clock()
            self._since.setdefault(job, self._clock())
            self._wake.notify_all()

    def drop(self, job: str) -> None:
        """Ask about a job no more."""
        with self._wake:
            self._due.pop(job, None)
            self._since.pop(job, None)
            self._pause = FIRST_PAUSE

    def later(self, job: str, retry_after: float | None) -> None:
        """It has not ended: ask again, not before the server wishes, and slower the longer it takes."""
        with self._wake:
            if job in self._due:
                age = self._clock() - self._since[job]
                pace = min(SLOWEST, age / 20)
                wish = 1.0 if retry_after is None else min(LONGEST_WAIT, max(0.05, retry_after))
                self._due[job] = self._clock() + max(wish, pace)
            self._pause = FIRST_PAUSE

    def unreachable(self, job: str, retry_after: float | None = None) -> None:
        """The server could not be asked: leave it alone for a while, whatever is due."""
        with self._wake:
            pause = max(self._pause, min(LONGEST_WAIT, retry_after or 0.0))
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
            self._paused_until = self._clock() + pause
            if job in self._due:
                self._due[job] = self._paused_until

    def next(self) -> tuple[str | None, float]:
        """The job that is due, or ``None``, and how long nothing is."""
        if not self._due:
            return None, LONGEST_PAUSE
        job = min(self._due, key=self._due.__getitem__)
        wait = max(self._due[job], self._paused_until) - self._clock()
        return (job, 0.0) if wait <= 0 else (None, wait)

    def take(self) -> str | None:
        """Wait until a job is due; ``None`` when something else woke it."""
        with self._wake:
            job, wait = self.next()
            if job is None:
                self._wake.wait(wait)
                return None
            # Until it is known what became of it, it is not due again.
            self._due[job] = self._clock() + LONGEST_PAUSE
            return job

    def wake(self) -> None:
        """Return from :meth:`take`."""
        with self._wake:
            self._wake.notify_all()
