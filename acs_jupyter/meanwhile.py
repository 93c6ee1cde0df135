"""What is written again and again while something goes on, so that little is lost when it breaks off.

Owns when that happens. It must not know what is written, nor where.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST = 2.0
"""Seconds before the first time."""

LEAST = 5.0
"""Seconds between two times, at least."""

SHARE = 20.0
"""Times as long as the last writing took is waited for the next: it takes at most a twentieth of the time."""


class Meanwhile:
    """Calls ``write`` on a thread of its own while ``going`` says so; :meth:`wake` begins, any number of times.

    ``write`` may give the seconds that the next time waits at least.
    """

    def __init__(
        self,
        write: Callable[[], float | None],
        going: Callable[[], bool],
        *,
        first: float = FIRST,
        least: float = LEAST,
    ) -> None:
        self._write, self._going = write, going
        self._first, self._least = first, least
        self._lock = threading.Lock()
        self._awake = False
        self._over = threading.Event()

    def wake(self) -> None:
        """Something has begun: write while it goes on. Safe to call from any thread."""
        with self._lock:
            self._over.clear()
            if self._awake:
                return
            self._awake = True
        threading.Thread(target=self._run, name="acs-meanwhile", daemon=True).start()

    def rest(self) -> None:
        """Something has ended: look at once whether anything still goes on."""
        self._over.set()

    def _run(self) -> None:
        pause = self._first
        while True:
            self._over.wait(pause)
            with self._lock:
                self._over.clear()
                if not self._going():
                    self._awake = False
                    return
            began = time.monotonic()
            try:
                more = self._write() or 0.0
            except BaseException:
                with self._lock:
                    self._awake = False
                raise
            pause = max(self._least, more, SHARE * (time.monotonic() - began))
