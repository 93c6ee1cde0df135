"""The one loop: an answer's events from the network into a session, stoppable from anywhere.

Owns the background loop on which the async client carries bytes, and the handle through which a run is awaited or
stopped. It must not know windows or magics. The socket lives on the loop, so a stop reaches it
at once, whatever the calling thread is doing; the session is written by one thread only: by the caller's in
:meth:`Handle.wait`, by the loop's after :meth:`Handle.detach`. A run that is stopped has ended for its session at once;
its task goes on for a moment, to hear what it has cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator

from .client import AsyncClient
from .completion import Completion
from .errors import AcsError
from .exchange import Exchange
from .log.events import STOPPED, AnyEvent, Finished, Origin, TokensArrived, Waited
from .log.session import Session
from .machine.background import Background
from .machine.forking import Lock
from .machine.interrupts import uninterrupted
from .streams import result_of
from .wire import BootStage, CompletionRequest

_DRAIN_SECONDS = 5.0
Also = Callable[[list[AnyEvent]], list[AnyEvent]]
BOOT_AFTER, BOOT_EVERY = 4.0, 5.0
"""Seconds of silence before a model's status is asked for, and between two such questions."""


class Pump:
    """Runs requests of one client on a background loop. The thread starts with the first run and is a daemon."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self._background: Background | None = None
        self._process = os.getpid()
        self._lock = Lock()

    def start(
        self,
        request: CompletionRequest,
        session: Session,
        *,
        parents: list[str] | None = None,
        origin: Origin | None = None,
        added: str = "",
        also: Also = list,
    ) -> Handle:
        """Send a request; its events wait in the handle until someone takes them. See ``events.opening``.

        ``also`` gives what is folded in the place of a batch: the batch, and what belongs to it.

        Its budget is held here, in the caller's thread and scopes; raises ``BudgetRefused``.
        """
        exchange = self.client.exchange(request, parents=parents, origin=origin, added=added)
        begun: list[Handle] = []
        try:
            with uninterrupted():
                self.client.reserve(exchange)
                begun.append(Handle(self.client, exchange, session, self._running(), also))
        except BaseException:
            for handle in begun:
                handle.abandon()
            raise
        return begun[0]

    def close(self) -> None:
        """Stop everything and end the thread, for which a moment is waited."""
        with self._lock:
            background, self._background = self._background, None
        if background is not None and self._process == os.getpid():
            background.leave()
            background.join()

    def _running(self) -> Background:
        with self._lock:
            if self._background is None or self._process != os.getpid():
                # After a fork the thread is gone and its loop with it.
                self._process = os.getpid()
                self._background = Background("acs-pump", self.client.close)
            return self._background


class Handle:
    """One run under way."""

    def __init__(
        self,
        client: AsyncClient,
        exchange: Exchange,
        session: Session,
        background: Background,
        also: Also = list,
    ) -> None:
        self.run = exchange.run
        self._also = also
        self.session = session
        self._client = client
        self._exchange = exchange
        self._background = background
        self._queue: queue.SimpleQueue[tuple[float, list[AnyEvent]] | None] = queue.SimpleQueue()
        self._detached = False
        self._left: set[str] = set()
        self._begun = self._stopping = False
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._done_callbacks: list[Callable[[Handle], None]] = []
        self._task: asyncio.Task[None] | None = None
        background.loop.call_soon_threadsafe(self._begin, client)

    @property
    def completion(self) -> Completion:
        """What has come so far."""
        return Completion(self.session, self.run)

    @property
    def done(self) -> bool:
        """Whether the run has ended and the socket is closed."""
        return self._ended.is_set()

    @property
    def failure(self) -> BaseException | None:
        """What ended the run before it was opened, a refused budget for one; other errors are in its record."""
        return self._failure

    def stop(self, *, at_once: bool = False) -> None:
        """End the run and keep what came; from any thread, at any time, harmless when it has ended.

        ``at_once``: also do not wait for what the server says it has cost.
        """
        self._background.call(lambda: self._cancel(at_once))

    def leave(self, node: str) -> None:
        """Take no more of one choice; what came of it is kept, and it is told to have been stopped.

        The others go on; when none is left, the run ends. The server cannot stop one choice: what it still makes of it
        is billed with the rest, and dropped here. For a run that was handed to the loop; from any thread.
        """
        self._background.call(lambda: self._leave(node))

    def wait(self, interrupts: list[int] | None = None) -> Completion:
        """Fold the run's events into the session as they come, here, until it ends.

        A ``KeyboardInterrupt`` stops the run (a second one at once), keeps what came, and is raised at the end: it
        never comes in the middle of a batch. A failed run raises its error with the completion attached.
        ``interrupts``: the list of a surrounding :func:`interrupts_held`.
        """
        if interrupts is None:
            with interrupts_held() as noted:
                self._take_all(noted)
        else:
            self._take_all(noted := interrupts)
        if noted:
            raise KeyboardInterrupt
        if self._failure is not None:
            raise self._failure
        return result_of(self._exchange, self.session)

    def abandon(self) -> None:
        """Stop, and let the loop's thread fold what still comes: for a caller that cannot go on."""
        self.stop()
        self.detach()

    def detach(self, on_done: Callable[[Handle], None] | None = None) -> None:
        """Let the loop's thread fold the events from here on; ``on_done`` is called there at the end."""
        if on_done is not None:
            self._done_callbacks.append(on_done)
        self._background.call(self._hand_over)

    # -- the caller's thread ----------------------------------------------------------------------

    def _take_all(self, interrupts: list[int]) -> None:
        deadline, heard = None, 0
        try:
            while deadline is None or time.monotonic() < deadline:
                if len(interrupts) > heard:
                    self.stop(at_once=heard > 0)
                    heard, deadline = len(interrupts), deadline or time.monotonic() + _DRAIN_SECONDS
                try:
                    entry = self._queue.get(timeout=0.1)
                except queue.Empty:
                    continue
                if entry is None:
                    return
                self.session.apply(entry[1], at=entry[0])
        except BaseException:
            self.abandon()
            raise
        self.detach()  # the run did not end in time; its events are still to be kept

    # -- the loop's thread ------------------------------------------------------------------------

    def _begin(self, client: AsyncClient) -> None:
        self._task = self._background.spawn(self._carry(client))
        self._task.add_done_callback(self._end)

    async def _carry(self, client: AsyncClient) -> None:
        watch = self._background.loop.create_task(self._watch_boot(client))
        try:
            async with contextlib.aclosing(client.drive(self._exchange, self._take)) as batches:
                async for _ in batches:
                    pass
        finally:
            watch.cancel()

    async def _watch_boot(self, client: AsyncClient) -> None:
        """While nothing comes, ask how the model's start goes, and pass it on; whatever cannot be asked is left."""
        model = self._exchange.request.model
        await asyncio.sleep(BOOT_AFTER)
        while isinstance(model, str) and not (self._exchange.started or self._exchange.closed):
            with contextlib.suppress(AcsError):
                status = await client.status(model)
                if status.warm is False and status.boot is not None and not self._exchange.started:
                    self._take([Waited(self.run, _told(status.boot))])
            await asyncio.sleep(BOOT_EVERY)

    def _take(self, events: list[AnyEvent]) -> None:
        self._begun = True
        events = self._also([event for event in events if not self._is_left(event)])
        if self._detached:
            self.session.apply(events)
        else:
            self._queue.put((self.session.now(), events))  # when it came, not when someone took it

    def _is_left(self, event: AnyEvent) -> bool:
        return isinstance(event, TokensArrived | Finished) and event.node in self._left

    def _leave(self, node: str) -> None:
        run, nodes = self.session.runs.get(self.run), self.session.nodes
        if not self._detached or self.done or run is None or node not in run.nodes:
            return
        if nodes[node].finish_reason is not None:
            return
        self._left.add(node)
        self.session.apply([Finished(node, STOPPED)])
        if all(nodes[one].finish_reason is not None for one in run.nodes):
            self._cancel(at_once=False)

    def _cancel(self, at_once: bool) -> None:
        if self._task is None or self._task.done() or (self._stopping and not at_once):
            return
        if self._begun:
            self._stopping = True
            self._task.cancel()
        else:  # a run is opened before it is stopped, so that its record is whole
            self._background.loop.call_soon(self._cancel, at_once)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._client.settle(self._exchange)  # for a run that was ended before it began
        if not task.cancelled():
            self._failure = task.exception()
        self._ended.set()
        self._queue.put(None)
        if self._detached:
            self._tell_done()

    def _hand_over(self) -> None:
        self._detached = True
        while not self._queue.empty():
            entry = self._queue.get()
            if entry is not None:
                self.session.apply(entry[1], at=entry[0])
        if self.done:
            self._tell_done()

    def _tell_done(self) -> None:
        callbacks, self._done_callbacks = self._done_callbacks, []
        for callback in callbacks:
            callback(self)


def _told(boot: BootStage) -> str:
    label = boot.stage_label or boot.stage.replace("_", " ") or "the model is starting"
    return label if boot.stage_age_s is None else f"{label} ({boot.stage_age_s:.0f} s)"


@contextlib.contextmanager
def interrupts_held() -> Iterator[list[int]]:
    """Note SIGINT instead of raising in the middle of whatever runs; the list says whether it came.

    Elsewhere than in the main thread no interrupt comes, and nothing is changed.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
