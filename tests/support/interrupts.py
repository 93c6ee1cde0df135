"""Ctrl-C for a test of this process: whenever the signal comes, it ends no more than the test."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def interrupt() -> None:
    """The signal, as a terminal sends it."""
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def interruptible(*steps: Callable[[], object]) -> Iterator[None]:
    """Inside, SIGINT is a ``KeyboardInterrupt``; ``steps`` are carried out on threads, which are waited for at the end.

    A signal that is late is dropped there: it would end whatever test, or worker, runs by then.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threads = [threading.Thread(target=_carried_out, args=(step,), daemon=True) for step in steps]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        signal.signal(signal.SIGINT, lambda *_: None)
        for thread in threads:
            thread.join(30)
        signal.signal(signal.SIGINT, before)


def _carried_out(step: Callable[[], object]) -> None:
    try:
        step()
    except BaseException:
        interrupt()  # the test would wait for it for ever
        raise


@contextmanager
def interrupted(*steps: Callable[[], object]) -> Iterator[pytest.ExceptionInfo[KeyboardInterrupt]]:
    """The same for a block that a ``KeyboardInterrupt`` ends."""
    with interruptible(*steps), pytest.raises(KeyboardInterrupt) as caught:
        yield caught


def after(*seconds: float) -> Callable[[], None]:
    """A step that interrupts so many seconds after the beginning, each time."""

    def step() -> None:
        now = 0.0
        for moment in seconds:
            threading.Event().wait(moment - now)
            now = moment
            interrupt()

    return step
