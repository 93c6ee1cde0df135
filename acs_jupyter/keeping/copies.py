"""The copies that one window sends to its notebook: each with a name, how far it reaches, and which has arrived.

Owns names, and what follows from a page's word on one. It must not know how copies are drawn or sent. A page answers
late or never: while a cell runs nobody hears it, and a page that was closed shows nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from secrets import token_hex

from .unsaved import page_seen

MOST = 100
"""Names remembered; a page speaks of the last one."""


class Copies:
    """``there(position)`` is called when a page says that it shows a copy of everything up to there."""

    def __init__(self, there: Callable[[int], object]) -> None:
        self._there = there
        self._series = token_hex(4)  # what an earlier kernel named may still stand on the page
        self._lock = threading.Lock()
        self._count = 0
        self._reach: OrderedDict[str, int] = OrderedDict()

    def name(self, position: int) -> str:
        """The name of a copy that is to be sent, of the log up to a position."""
        with self._lock:
            self._count += 1
            name = f"{self._series}-{self._count}"
            self._reach[name] = position
            if len(self._reach) > MOST:
                self._reach.popitem(last=False)
            return name

    def confirm(self, name: str) -> None:
        """A page shows the copy of that name; without a name, the window."""
        page_seen()
        position = self._reach.get(name)
        if position is not None:
            self._there(position)
