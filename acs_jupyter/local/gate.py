"""How much one key may do at once and how often it may begin.

Owns places (active and waiting) and the count of starts. It must not know HTTP, keys' secrets or engines.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING

from ..errors import QueueFull, RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE_RETRY = 5
"""Seconds to wait after ``queue_full``."""
_AGAIN = 0.5
_MINUTE = 60.0
_MANY = 1024


class _Line:
    # One key's places.
    def __init__(self) -> None:
        self.active = 0
        self.waiting: deque[Place] = deque()


class Gate:
    """``active`` requests a key run, ``waiting`` more wait in order; the next one is refused."""

    def __init__(self, active: int, waiting: int) -> None:
        self._active, self._waiting = active, waiting
        self._lines: dict[str, _Line] = {}

    @property
    def active(self) -> int:
        """Places taken, of all keys."""
        return sum(line.active for line in self._lines.values())

    @property
    def waiting(self) -> int:
        """Requests waiting for a place, of all keys."""
        return sum(len(line.waiting) for line in self._lines.values())

    def enter(self, key: str) -> Place:
        """A place, perhaps one to wait for; :class:`QueueFull` when there is neither. Leave it in any case."""
        line = self._lines.setdefault(key, _Line())
        place = Place(self, key)
        if line.active < self._active:
            line.active += 1
            place.given.set()
        elif len(line.waiting) < self._waiting:
            line.waiting.append(place)
        else:
            raise QueueFull(
                f"{line.active} requests of this key are active and {len(line.waiting)} wait; "
                f"at most {self._active} and {self._waiting} may.",
                retry_after=QUEUE_RETRY,
            )
        return place

    async def place(self, key: str) -> Place:
        """The same for work that nobody waits for: where there is no room, it tries again until there is."""
        while True:
            try:
                return self.enter(key)
            except QueueFull:
                await asyncio.sleep(_AGAIN)

    def left(self, place: Place) -> None:
        """Take a place back and give it to the next in line."""
        line = self._lines[place.key]
        if not place.given.is_set():
            line.waiting.remove(place)
        elif line.waiting:
            line.waiting.popleft().given.set()
        else:
            line.active -= 1
        if not line.active and not line.waiting:
            del self._lines[place.key]


class Place:
    """One request's place at the gate."""

    def __init__(self, gate: Gate, key: str) -> None:
        self._gate, self.key = gate, key
        self.given = asyncio.Event()
        self._left = False

    def leave(self) -> None:
        """Free the place, also one still waited for; only the first call counts."""
        if not self._left:
            self._left = True
            self._gate.left(self)


class Rate:
    """At most ``starts`` within any 60 seconds a bucket; 0 for no limit. ``ticks`` gives rising seconds.

    A start counts whatever becomes of it; one that is refused here does not, so that waiting as told helps.
    """

    def __init__(self, starts: int, ticks: Callable[[], float]) -> None:
        self._starts, self._ticks = starts, ticks
        self._buckets: dict[bytes, deque[float]] = {}

    def start(self, bucket: bytes) -> None:
        """Count a start, or raise :class:`RateLimited` with the seconds until the next may come."""
        if not self._starts:
            return
        now = self._ticks()
        if len(self._buckets) >= _MANY:
            self._forget(now)
        starts = self._buckets.setdefault(bucket, deque())
        while starts and starts[0] <= now - _MINUTE:
            starts.popleft()
        if len(starts) >= self._starts:
            raise RateLimited(
                f"More than {self._starts} requests started within a minute.",
                retry_after=max(1, math.ceil(starts[0] + _MINUTE - now)),
            )
        starts.append(now)

    def _forget(self, now: float) -> None:
        old = [bucket for bucket, starts in self._buckets.items() if starts[-1] <= now - _MINUTE]
        for bucket in old:
            del self._buckets[bucket]
