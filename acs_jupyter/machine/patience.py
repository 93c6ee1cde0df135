"""Files that others have locked: who may wait for them where, and how to wait beside an event loop.

Owns the sign "do not wait here", and the step aside into a thread. It must not know which files there are.
A commit takes a tenth of a millisecond, so an event loop tries first; only when somebody else holds the file does a
thread wait for it, and the loop goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import TypeVar

T = TypeVar("T")
_here = threading.local()


class Busy(Exception):  # no error: a reason to come back
    """It would have to be waited for, and this is no place to wait."""


@contextmanager
def hurried(when: bool = True) -> Iterator[None]:
    """Inside, in this thread, whatever would wait raises :class:`Busy` instead."""
    before = is_hurried()
    _here.hurried = before or when
    try:
        yield
    finally:
        _here.hurried = before


def is_hurried() -> bool:
    """Whether the code that runs must not wait."""
    return getattr(_here, "hurried", False)


def on_a_loop() -> bool:
    """Whether an event loop runs in this thread, which others would have to wait for."""
    return asyncio._get_running_loop() is not None


async def aside(act: Callable[[], T], undo: Callable[[], object] = lambda: None) -> T:
    """What ``act`` returns, carried out in a thread. When the task is cancelled meanwhile, ``undo`` follows ``act``."""
    lock = threading.Lock()
    state = {"done": False, "left": False}

    def work() -> T:
        result = act()
        with lock:
            state["done"] = True
            if not state["left"]:
                return result
        undo()
        return result

    running = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        with lock:
            state["left"] = True
            done = state["done"]
        if done:
            undo()
        raise


@asynccontextmanager
async def beside(manager: AbstractContextManager[object]) -> AsyncIterator[None]:
    """A context manager that may wait, entered and left in a thread."""
    leave = manager.__exit__
    await aside(manager.__enter__, partial(leave, None, None, None))
    try:
        yield
    except BaseException as error:
        if not await aside(partial(leave, type(error), error, error.__traceback__)):
            raise
    else:
        await aside(partial(leave, None, None, None))
