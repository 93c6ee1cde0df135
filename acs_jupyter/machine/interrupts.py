"""A short step that an interrupt must not cut in two.

Owns the moment at which a Ctrl-C is felt. It must not know what the step is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Without the enums that the module makes of what it returns: for an event loop's own handler these cost more than the
# step itself.
_handler: Callable[..., Any] = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
_handle: Callable[..., Any] = getattr(signal.signal, "__wrapped__", signal.signal)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A SIGINT that comes inside is felt at the end, by whoever feels it otherwise.

    Only the main thread is ever interrupted; elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _handler(signal.SIGINT)
    if before is None:  # a handler that is not Python's cannot be put back
        yield
        return
    noted: list[int] = []
    _handle(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        _handle(signal.SIGINT, before)
        if noted:
            signal.raise_signal(signal.SIGINT)
