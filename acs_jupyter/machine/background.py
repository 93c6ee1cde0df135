"""An event loop on a daemon thread of its own, and its end.

Owns the thread, the tasks that were given to it, and the order in which they end. It must not know what they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from . import ending


class Background:
    """A loop that runs. ``last`` is carried out there when all tasks have ended, before the loop goes."""

    def __init__(self, name: str, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop = asyncio.new_event_loop()
        self._last = last
        self._tasks: set[asyncio.Task[Any]] = set()
        self._leaving: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        ending.tell(self._thread, self.leave)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that is let end by itself once it is cancelled; on the loop."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call(self, function: Callable[[], object]) -> None:
        """Call something on the loop, from any thread; nothing when it has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function)

    def leave(self, at_once: bool = False) -> None:
        """Cancel the tasks that were spawned, then all others, and end; ``at_once`` as in :func:`ending.tell`."""
        self.call(lambda: self._leave(at_once))

    def join(self, seconds: float = ending.MOMENT) -> None:
        """Wait for the end, so long at most."""
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _leave(self, at_once: bool) -> None:
        for task in self._tasks:
            if at_once or not task.cancelling():  # one that is on its way out may still hear something
                task.cancel()
        if self._leaving is None:
            self._leaving = self.loop.create_task(self._wind_up())

    async def _wind_up(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._last()
        self.loop.call_soon(self.loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
