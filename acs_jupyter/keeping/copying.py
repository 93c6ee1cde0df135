"""When a copy for the notebook is drawn: aside from the thread that carries streams, and not at every end.

Owns the thread and the pauses. It must not know what is drawn. Each copy is drawn and sent whole, so that twelve ends
one after the other would cost twelve times all twelve texts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

EVERY = 3.0
"""Seconds between two copies while more is coming."""


class Copier:
    """Calls ``save`` on a thread of its own: at the first wish at once, later at most every :data:`EVERY` seconds.

    ``coming`` says whether more will come; when nothing does, a wish is granted at once. The last wish always is.
    """

    def __init__(self, save: Callable[[], None], coming: Callable[[], bool], every: float = EVERY) -> None:
        self._save, self._coming, self._every = save, coming, every
        self._lock = threading.Lock()
        self._calm = threading.Event()
        self._wanted = self._running = False

    def soon(self) -> None:
        """Something has ended that the copy should have."""
        with self._lock:
            self._wanted = True
            if not self._coming():
                self._calm.set()
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._draw, name="acs-copy", daemon=True).start()

    def _draw(self) -> None:
        try:
            while self._take_wish():
                self._save()
                self._calm.wait(self._every)
        except BaseException:
            with self._lock:
                self._running = False
            raise

    def _take_wish(self) -> bool:
        with self._lock:
            wanted, self._wanted = self._wanted, False
            self._running = wanted
            self._calm.clear()
            return wanted
