"""A short step that an interrupt must not cut in two.

Owns the moment at which a Ctrl-C is felt. It must not know what the step is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

try:  # without the enums that the module makes of handlers: an event loop's own makes them dearer than the step itself
    import _signal as plain  # type: ignore[import-not-found]
except ImportError:
    plain = signal


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A SIGINT that comes inside is felt at the end, by whoever feels it otherwise.

    Only the main thread is ever interrupted; elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = plain.getsignal(signal.SIGINT)
    if before is None:  # a handler that is not Python's cannot be put back
        yield
        return
    noted: list[int] = []
    plain.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        plain.signal(signal.SIGINT, before)
        if noted:
            signal.raise_signal(signal.SIGINT)
