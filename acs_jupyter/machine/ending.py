"""The end of this process in good order: what runs on daemon threads gets a moment to put its books in order.

Owns who is told, how often, and how long is waited. It must not know what each of them does. Without this a thread is
cut off in the middle of whatever it does, and what a budget holds for it stays held.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable

MOMENT = 1.0
"""Seconds that the end of a process waits, for all together."""
_AT_ONCE = 0.75
"""The part of it after which they are told once more."""


_running: dict[threading.Thread, Callable[[bool], object]] = {}


def tell(thread: threading.Thread, leave: Callable[[bool], object]) -> None:
    """``leave`` is called when the process ends while ``thread`` runs, before what was set up earlier goes.

    It is told whether the thread must end at once, without waiting for anybody else, and returns at once itself.
    """
    for ended in [one for one in tuple(_running) if not one.is_alive()]:
        _running.pop(ended, None)
    atexit.unregister(_end)
    atexit.register(_end)
    _running[thread] = leave


def _end() -> None:
    until = time.monotonic() + MOMENT
    for at_once, share in ((False, _AT_ONCE), (True, 1.0)):
        alive = [(thread, leave) for thread, leave in tuple(_running.items()) if thread.is_alive()]
        for _, leave in alive:  # a forked child has none: its parent's threads are not there
            leave(at_once)
        for thread, _ in alive:
            thread.join(max(0.0, until - MOMENT * (1 - share) - time.monotonic()))
