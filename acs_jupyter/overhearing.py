"""A stream that was left in its middle: what it has cost, from what its server still says and from its pace.

Owns what is heard behind a stop, which is counts alone: the text there is neither shown nor kept. It must not know
sockets; ``parting.py`` says how long there is something to hear.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

from . import lenient, sse
from .answer_form import Form
from .log.events import AnyEvent
from .reader import Reader

ROUND_TRIP = 0.25
"""Seconds at least until a server notices that its client has left."""


class Pace:
    """How fast tokens came: the first moment, the last one, and the counts then."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def note(self, now: float, count: int) -> None:
        """So many tokens had come by now (seconds by a steady clock)."""
        if count > self._last[1]:
            self._last = now, count
            self._first = self._first or self._last

    def ahead(self, now: float) -> int | None:
        """Tokens that the engine may have made since the last ones came; ``None`` before there is a pace."""
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        pace = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
        return math.ceil(pace * max(ROUND_TRIP, now - self._last[0]))


class Left:
    """What is still heard of a stream after its client has gone."""

    def __init__(self, reader: Reader, form: Form, pace: Pace, clock: Callable[[], float]) -> None:
        self._reader, self._form, self._pace, self._clock = reader, form, pace, clock
        self._known = reader.usage
        self._at = clock()

    @property
    def ahead(self) -> int | None:
        """Tokens that the engine may have made beyond those counted; ``None`` when nobody can tell."""
        return self._pace.ahead(self._at)

    def hear(self, data: bytes) -> bool:
        """More bytes of the body. True when the server has said all that it will say."""
        if not self._form.known:
            data = self._form.look(data)
        if self._form.frames is None:
            return False
        frames = self._form.frames.feed(data)
        for frame in frames:
            if frame == sse.DONE:
                break  # nothing behind it counts
            if isinstance(frame, bytes):
                with contextlib.suppress(ValueError, IndexError, RecursionError):
                    self._reader.read(lenient.decode_answer(frame), [])
        self._pace.note(self._clock(), self._reader.made)
        if sse.DONE not in frames:
            return False
        self._reader.conclude()
        return True

    def over(self) -> list[AnyEvent]:
        """Nothing more can be heard: what the run has cost, if that is known better than before."""
        self._at = self._clock()
        known, self._known = self._known, self._reader.usage
        return [] if self._known is None or self._known == known else [self._known]
