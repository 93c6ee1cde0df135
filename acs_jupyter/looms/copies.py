"""The static copies of a loom in a notebook, written again a moment after something changed.

Owns when they are written; ``spent`` is what the window beside one takes. It must not know what stands in them. A copy
is drawn on a thread of its own, of the log as it is then: a large tree takes a while, and streams have to be carried.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from ..log.events import AnyEvent, Revised, RunClosed
from ..log.session import Session

AFTER = 0.5
"""Seconds after a change: a step is often several."""
AT_MOST_SHARE = 0.1
"""Of the time, at most this much goes into copies."""


class Copies:
    """Places in a notebook's outputs that show a loom where no kernel is."""

    def __init__(self, session: Session, spent: Callable[[], int] = lambda: 0) -> None:
        self._session = session
        self._spent = spent
        self._places: list[Any] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._took = 0.0
        session.subscribe(self._notified)

    def add(self, place: Any) -> None:
        """Write one more, now, and whenever something has changed."""
        with self._lock:
            self._places.append(place)
        self.write()

    def write(self) -> None:
        """Write all of them."""
        from ..widgets.loom_static import bundle  # noqa: PLC0415  # drawn when needed

        with self._lock:
            self._timer = None
            began = time.monotonic()
            content, metadata = bundle(self._session.copy(), self._spent())
            for place in self._places:
                place.update(content, raw=True, metadata=metadata)
            self._took = time.monotonic() - began

    def _notified(self, batch: list[AnyEvent]) -> None:
        if self._timer is not None or not self._places or not any(map(_is_worth, batch)):
            return
        self._timer = threading.Timer(AFTER + self._took / AT_MOST_SHARE, self.write)
        self._timer.daemon = True
        self._timer.start()


def _is_worth(event: AnyEvent) -> bool:
    return isinstance(event, RunClosed) or (isinstance(event, Revised) and event.kind != "view")
