"""What a forked child must not share with its parent: locks somebody else held, open files, connections.

Owns who is told in the child, and the moment of the fork. It must not know what each of them has to let go.

``os.fork`` (and ``multiprocessing`` with it) copies the memory and one thread. A lock that another thread held stays
locked for ever, SQLite forbids to go on with a connection, and two processes that write to one socket garble both.
SQLite also remembers within the process who has locked which file: a child that was forked in the middle of a
transaction would find the file locked by itself for ever. So a fork waits until no thread is in one.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakSet

PATIENCE = 15.0
"""Seconds that a fork waits for each file that is in use."""


class Forked(Protocol):
    """Something to be told. One that has a ``quiet`` lock is forked while nobody else has that."""

    def forked(self) -> None:
        """This process is a child: take new locks, leave what is open to the parent. No other thread runs yet."""


_known: WeakSet[Forked] = WeakSet()
_listening = False


def tell(thing: Forked) -> None:
    """From here on ``thing.forked()`` is called in every child that is forked while it lives."""
    global _listening  # noqa: PLW0603  # the hook belongs to the process, and cannot be taken back
    if not _listening and hasattr(os, "register_at_fork"):
        _listening = True
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    _known.add(thing)


_quiet: list[Any] = []


def _before() -> None:
    _quiet[:] = [
        lock
        for thing in tuple(_known)
        if (lock := getattr(thing, "quiet", None)) is not None and lock.acquire(timeout=PATIENCE)
    ]


def _in_parent() -> None:
    while _quiet:
        _quiet.pop().release()


def _in_child() -> None:
    _quiet.clear()
    for thing in tuple(_known):
        thing.forked()


class Lock:
    """A lock that is free in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        tell(self)

    def forked(self) -> None:
        """See :class:`Forked`."""
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        """As of any lock."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """As of any lock."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
