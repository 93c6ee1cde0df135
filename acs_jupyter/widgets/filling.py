"""What is sent a little at a time, on a thread of its own, while everything else goes on.

Owns the thread and its pace. It must not know what is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

AT_MOST_SHARE = 0.25
"""Of the time, at most this much goes into it: streams have to be carried meanwhile."""


class Trickle:
    """Calls ``step`` until it says that nothing is left; started again, it goes on."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._lock = threading.Lock()
        self._running = False

    def start(self) -> None:
        """Begin, unless it runs."""
        with self._lock:
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="acs-trickle", daemon=True).start()

    def _run(self) -> None:
        more = True
        try:
            while more:
                began = time.monotonic()
                more = self._step()
                time.sleep((time.monotonic() - began) * (1 / AT_MOST_SHARE - 1))
        finally:
            with self._lock:
                self._running = False


class Later:
    """Does something some seconds after it was started, once or more often, unless it was called off."""

    def __init__(self, act: Callable[[], None], after: tuple[float, ...]) -> None:
        self._act = act
        self._off = threading.Event()
        self._after = after

    def start(self) -> None:
        """Begin to wait."""
        threading.Thread(target=self._run, name="acs-later", daemon=True).start()

    def call_off(self) -> None:
        """It is not needed any more."""
        self._off.set()

    def _run(self) -> None:
        waited = 0.0
        for after in self._after:
            if self._off.wait(after - waited):
                return
            waited = after
            self._act()
