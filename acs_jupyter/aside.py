"""Something that takes a while, done on a thread of its own whenever it is wished for: never twice at once.

Owns that of many wishes at one time one is done, after the last. It must not know what is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Aside:
    """Calls ``act`` aside. A wish that comes while it acts is done once more when it is through."""

    def __init__(self, act: Callable[[], None], name: str) -> None:
        self._act, self._name = act, name
        self._lock = threading.Lock()
        self._wanted = self._acting = False

    def wish(self) -> None:
        """Let it be done soon; returns at once."""
        with self._lock:
            self._wanted = True
            if self._acting:
                return
            self._acting = True
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        try:
            while self._take_wish():
                self._act()
        except BaseException:
            self._acting = False
            raise

    def _take_wish(self) -> bool:
        with self._lock:
            wanted, self._wanted = self._wanted, False
            self._acting = wanted
            return wanted
