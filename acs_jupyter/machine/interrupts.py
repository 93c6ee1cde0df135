"""A short step that an interrupt must not cut in two.

Owns the moment at which a Ctrl-C is felt. It must not know what the step is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

try:  # without the enums that the module makes of handlers: an event loop's own makes them dearer than the step itself
    import _signal as plain  # type: ignore[import-not-found]
except ImportError:
    plain = signal

_NOTHING = nullcontext()


def uninterrupted() -> AbstractContextManager[None]:
    """A SIGINT that comes inside is felt at the end, by whoever feels it otherwise.

    Only the main thread is ever interrupted; elsewhere nothing is changed.
    """
    return _held() if threading.current_thread() is threading.main_thread() else _NOTHING


@contextmanager
def _held() -> Iterator[None]:
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
