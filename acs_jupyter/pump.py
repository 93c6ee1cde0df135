"""The one loop: an answer's events from the network into a session, stoppable from anywhere.

Owns a background thread with an event loop, on which the async client carries bytes, and the handle through which
a run is awaited or stopped. It must not know windows or magics. The socket lives on the loop, so a stop reaches it
at once, whatever the calling thread is doing; the session is written by one thread only: by the caller's in
:meth:`Handle.wait`, by the loop's after :meth:`Handle.detach`.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from .client import AsyncClient
from .completion import Completion
from .events import AnyEvent
from .exchange import Exchange
from .session import Session
from .streams import result_of
from .wire import CompletionRequest

_DRAIN_SECONDS = 5.0


class Pump:
    """Runs requests of one client on a background loop. The thread starts with the first run and is a daemon."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def start(
        self, request: CompletionRequest, session: Session, *, parents: list[str] | None = None
    ) -> Handle:
        """Send a request; its events wait in the handle until someone takes them."""
        exchange = self.client.exchange(request, parents=parents)
        return Handle(self.client, exchange, session, self._running_loop())

    def close(self) -> None:
        """Stop everything and end the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._shut_down(loop), loop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="acs-pump", daemon=True).start()
            return self._loop

    async def _shut_down(self, loop: asyncio.AbstractEventLoop) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.close()
        loop.call_soon(loop.stop)


class Handle:
    """One run under way."""

    def __init__(
        self,
        client: AsyncClient,
        exchange: Exchange,
        session: Session,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.run = exchange.run
        self.session = session
        self._exchange = exchange
        self._loop = loop
        self._queue: queue.SimpleQueue[list[AnyEvent] | None] = queue.SimpleQueue()
        self._sink: Callable[[list[AnyEvent]], None] = self._queue.put
        self._done_callbacks: list[Callable[[Handle], None]] = []
        self._future: Future[None] = asyncio.run_coroutine_threadsafe(self._carry(client), loop)

    @property
    def completion(self) -> Completion:
        """What has come so far."""
        return Completion(self.session, self.run)

    @property
    def done(self) -> bool:
        """Whether the run has ended and the socket is closed."""
        return self._future.done()

    def stop(self) -> None:
        """End the run and keep what came; from any thread, at any time, harmless when it has ended."""
        self._future.cancel()

    def wait(self) -> Completion:
        """Fold the run's events into the session as they come, here, until it ends.

        A ``KeyboardInterrupt`` stops the run, keeps what came, and is raised again. A failed run raises its error
        with the completion attached.
        """
        try:
            self._take_all(None)
        except KeyboardInterrupt:
            self.stop()
            self._take_all(time.monotonic() + _DRAIN_SECONDS)
            raise
        return self._result()

    def detach(self, on_done: Callable[[Handle], None] | None = None) -> None:
        """Let the loop's thread fold the events from here on; ``on_done`` is called there at the end."""
        if on_done is not None:
            self._done_callbacks.append(on_done)
        self._loop.call_soon_threadsafe(self._hand_over)

    def _result(self) -> Completion:
        if self.run not in self.session.runs:  # refused before it began, by the budget
            self._future.result()
        with contextlib.suppress(CancelledError):
            self._future.result()
        return result_of(self._exchange, self.session)

    def _take_all(self, deadline: float | None) -> None:
        while True:
            try:
                batch = self._queue.get(timeout=0.1)
            except queue.Empty:
                if deadline is not None and time.monotonic() > deadline:
                    return
                continue
            if batch is None:
                return
            self.session.apply(batch)

    def _hand_over(self) -> None:
        self._sink = self.session.apply
        while not self._queue.empty():
            batch = self._queue.get()
            if batch is None:
                self._tell_done()
                return
            self.session.apply(batch)

    async def _carry(self, client: AsyncClient) -> None:
        try:
            # The sink is looked up for each batch: detach() may change it while the answer runs.
            batches = client.drive(self._exchange, lambda events: self._sink(events))
            async with contextlib.aclosing(batches):
                async for _ in batches:
                    pass
        finally:
            if self._sink == self.session.apply:
                self._tell_done()
            else:
                self._queue.put(None)

    def _tell_done(self) -> None:
        for callback in self._done_callbacks:
            callback(self)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
