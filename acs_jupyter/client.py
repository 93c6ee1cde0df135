"""Two clients, sync and async, that carry bytes; everything they carry is decided in ``exchange.py``.

Owns the connection (httpx) and the moments at which a meter is asked and told. It must not know the ledger behind the
meter, nor sessions beyond handing them events.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any, Unpack

import httpx

from .completion import Completion
from .connection import Connection, Reached, Sink, stream_fields, streamed_if_possible
from .errors import AcsError, ConnectionFailed
from .exchange import Exchange
from .jobs.calls import AsyncJobs, Jobs
from .log.events import AnyEvent
from .log.session import Session
from .overhearing import Left
from .parting import Pieces, leave, leave_async, part, part_async
from .resending import Sending
from .streams import AsyncStream, Stream, result_of
from .transport import LOST, NOT_SENT, made
from .wire import Fields, Model, ModelStatus, Prompt


class Client(Connection):
    """A synchronous client.

    Parameters: ``base_url`` and ``api_key`` (default: ``ACS_API_BASE``, ``ACS_API_KEY``; with or without
    ``/v1``), ``model`` (default for requests that name none), ``workload`` (``interactive`` or ``batch``),
    ``timeout`` (seconds without a byte; default ``ACS_TIMEOUT``, else 900), ``retries`` (how often a refused request
    is sent again, 0 for never; default ``ACS_RETRIES``, else 3), ``longest_wait`` (the longest ``Retry-After``, in
    seconds, that is waited for; default ``ACS_LONGEST_WAIT``, else 600, and 10 for a model that is paused), ``meter``
    (see :class:`Meter`; by default the machine's budget ledger, ``None`` for none).
    """

    def _set_up(self) -> None:
        self._transport = made(httpx.Client, self._options())
        self._jobs = Jobs(self)

    @property
    def jobs(self) -> Jobs:
        """Completion jobs of this client."""
        self._own((self._transport, self._jobs))
        return self._jobs

    @property
    def _http(self) -> httpx.Client:
        self._own((self._transport, self._jobs))
        return self._transport

    @property
    def _closed(self) -> bool:
        return self._transport.is_closed

    def complete(
        self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]
    ) -> Completion:
        """Send a request and wait for its end.

        It is streamed inside where the contract allows, so that interrupting it keeps what came
        (``stream=False`` asks for one JSON body). Raises :class:`AcsError`. Whatever exception ends the run, a
        ``KeyboardInterrupt`` too, has what came as its ``completion``.

        Without ``max_tokens`` the service takes all that the model's window leaves, which is said once a client
        (``max_tokens=None`` says that it is meant).

        Fields, under the contract's names: ``model``, ``max_tokens``, ``n``, ``stop``, ``temperature``, ``top_p``,
        ``top_k``, ``min_p``, ``presence_penalty``, ``frequency_penalty``, ``repetition_penalty``, ``seed``,
        ``logprobs`` (0 to 100 alternatives a token), ``prompt_logprobs``, ``echo``, ``add_special_tokens``, ``user``,
        ``stream_options``; ``validate=False`` sends whatever is given.
        """
        request = self.request(prompt, **streamed_if_possible({**fields}))
        self._tell_no_end(request, fields)
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        try:
            for _ in self.drive(exchange, self._telling(exchange, session.apply)):
                pass
        except BaseException as error:
            error.completion = Completion(session, exchange.run)  # type: ignore[attr-defined]
            raise
        return result_of(exchange, session)

    def stream(self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]) -> Stream:
        """Send a request and iterate over its tokens as they arrive; see :class:`Stream`.

        Fields, under the contract's names: ``model``, ``max_tokens``, ``n``, ``stop``, ``temperature``, ``top_p``,
        ``top_k``, ``min_p``, ``presence_penalty``, ``frequency_penalty``, ``repetition_penalty``, ``seed``,
        ``logprobs`` (0 to 100 alternatives a token), ``prompt_logprobs``, ``echo``, ``add_special_tokens``, ``user``,
        ``stream_options``; ``validate=False`` sends whatever is given.
        """
        request = self.request(prompt, **stream_fields({**fields}))
        self._tell_no_end(request, fields)
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        return Stream(self.drive(exchange, self._telling(exchange, session.apply)), exchange, session)

    def models(self) -> list[Model]:
        """The models the server offers, with their limits."""
        self._check_open()
        try:
            response: Reached = self._http.get(f"{self.base_url}/models")
        except LOST as error:
            response = self._unreachable(error)
        return self._keep_models(response)

    def learn(self) -> None:
        """Ask once which model is the server's default: requests that name none send its id from then on.

        A server that does not tell is used all the same, and asked again where it could not be reached.
        """
        if self.model or self.catalogue.learned:
            return
        try:
            self.catalogue.learn(self.models())
        except ConnectionFailed:
            return
        except AcsError:
            self.catalogue.learned = True

    def status(self, model: str) -> ModelStatus:
        """Whether a model is warm, and if not how its start goes."""
        url = self._status_url(model)
        self._check_open()
        try:
            response: Reached = self._http.get(url)
        except LOST as error:
            response = self._unreachable(error)
        return self._read_status(response)

    def drive(self, exchange: Exchange, sink: Sink) -> Generator[list[AnyEvent], None, None]:
        """Carry one run to its end. Each batch of events goes to ``sink`` and is then yielded.

        Closing the iterator ends the run as stopped, asks the server for a moment what it has cost (``parting.py``)
        and closes the socket. Errors end the run and are left in ``exchange.error``; nothing is raised but
        ``BudgetRefused``, before a socket opens.
        """
        self._check_open()
        opened = False
        try:
            self.reserve(exchange)
            begun = told(sink, exchange.open())
            opened = True
            yield begun
            while not exchange.closed:
                with contextlib.closing(self._attempt(exchange, sink)) as attempt:
                    for events in attempt:
                        self._watch(exchange)
                        yield told(sink, events)
                if exchange.delay is not None:
                    time.sleep(exchange.delay)
        finally:
            try:
                if opened:
                    told(sink, exchange.stop())
            finally:
                self.settle(exchange)

    def _attempt(self, exchange: Exchange, sink: Sink) -> Generator[list[AnyEvent], None, None]:
        process = os.getpid()
        try:
            with contextlib.closing(self._open(exchange, self._call(exchange))) as response:
                pieces = response.iter_bytes()
                try:
                    yield exchange.head(response.status_code, response.headers)
                    for data in pieces:
                        events = exchange.feed(data)
                        if events:
                            yield events
                        if exchange.error is not None or exchange.closed:
                            break  # an error frame or [DONE] ends a stream; nothing behind it counts
                    if exchange.closed:
                        part(response, pieces)
                except GeneratorExit:
                    with parting(exchange, sink, process) as left:
                        if left is not None:
                            promised = exchange.tells_on_leave
                            leave(response, pieces, left.hear, self.origin, promised=promised)
                    raise
            yield exchange.end()
        except NOT_SENT as error:
            yield exchange.unreachable(self._reason(error))
        except LOST as error:
            yield exchange.lost(self._reason(error))

    def _open(self, exchange: Exchange, call: dict[str, Any], *, again: bool = True) -> httpx.Response:
        """Send a request; once more, on a new connection, when it is certain that nobody has read it."""
        sending = Sending(exchange.sending)
        request = self._http.build_request(**call, extensions={"trace": sending.saw})
        try:
            return self._http.send(request, stream=True)
        except LOST as problem:
            if not (again and sending.never_read(problem)):
                raise
        return self._open(exchange, call, again=False)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(Connection):
    """The asynchronous twin of :class:`Client`; the same parameters, the same names."""

    def _set_up(self) -> None:
        self._transport = made(httpx.AsyncClient, self._options())
        self._jobs = AsyncJobs(self)

    @property
    def jobs(self) -> AsyncJobs:
        """Completion jobs of this client."""
        self._own((self._transport, self._jobs))
        return self._jobs

    @property
    def _http(self) -> httpx.AsyncClient:
        self._own((self._transport, self._jobs))
        return self._transport

    @property
    def _closed(self) -> bool:
        return self._transport.is_closed

    async def complete(
        self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]
    ) -> Completion:
        """See :meth:`Client.complete`. Cancelling the task ends the run as stopped, and closes the socket.

        Fields, under the contract's names: ``model``, ``max_tokens``, ``n``, ``stop``, ``temperature``, ``top_p``,
        ``top_k``, ``min_p``, ``presence_penalty``, ``frequency_penalty``, ``repetition_penalty``, ``seed``,
        ``logprobs`` (0 to 100 alternatives a token), ``prompt_logprobs``, ``echo``, ``add_special_tokens``, ``user``,
        ``stream_options``; ``validate=False`` sends whatever is given.
        """
        request = self.request(prompt, **streamed_if_possible({**fields}))
        self._tell_no_end(request, fields)
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        try:
            async with contextlib.aclosing(
                self.drive(exchange, self._telling(exchange, session.apply))
            ) as batches:
                async for _ in batches:
                    pass
        except BaseException as error:
            error.completion = Completion(session, exchange.run)  # type: ignore[attr-defined]
            raise
        return result_of(exchange, session)

    def stream(
        self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]
    ) -> AsyncStream:
        """See :meth:`Client.stream`.

        Fields, under the contract's names: ``model``, ``max_tokens``, ``n``, ``stop``, ``temperature``, ``top_p``,
        ``top_k``, ``min_p``, ``presence_penalty``, ``frequency_penalty``, ``repetition_penalty``, ``seed``,
        ``logprobs`` (0 to 100 alternatives a token), ``prompt_logprobs``, ``echo``, ``add_special_tokens``, ``user``,
        ``stream_options``; ``validate=False`` sends whatever is given.
        """
        request = self.request(prompt, **stream_fields({**fields}))
        self._tell_no_end(request, fields)
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        return AsyncStream(self.drive(exchange, self._telling(exchange, session.apply)), exchange, session)

    async def models(self) -> list[Model]:
        """The models the server offers, with their limits."""
        self._check_open()
        try:
            response: Reached = await self._http.get(f"{self.base_url}/models")
        except LOST as error:
            response = self._unreachable(error)
        return self._keep_models(response)

    async def learn(self) -> None:
        """Ask once which model is the server's default: requests that name none send its id from then on.

        A server that does not tell is used all the same, and asked again where it could not be reached.
        """
        if self.model or self.catalogue.learned:
            return
        try:
            self.catalogue.learn(await self.models())
        except ConnectionFailed:
            return
        except AcsError:
            self.catalogue.learned = True

    async def status(self, model: str) -> ModelStatus:
        """See :meth:`Client.status`."""
        url = self._status_url(model)
        self._check_open()
        try:
            response: Reached = await self._http.get(url)
        except LOST as error:
            response = self._unreachable(error)
        return self._read_status(response)

    async def drive(self, exchange: Exchange, sink: Sink) -> AsyncGenerator[list[AnyEvent], None]:
        """See :meth:`Client.drive`."""
        self._check_open()
        opened = False
        try:
            await self.reserve_aside(exchange)
            begun = told(sink, exchange.open())
            opened = True
            yield begun
            while not exchange.closed:
                async with contextlib.aclosing(self._attempt(exchange, sink)) as attempt:
                    async for events in attempt:
                        self._watch(exchange)
                        yield told(sink, events)
                if exchange.delay is not None:
                    await asyncio.sleep(exchange.delay)
        finally:
            try:
                if opened:
                    told(sink, exchange.stop())
            finally:
                self.settle(exchange)

    async def _attempt(self, exchange: Exchange, sink: Sink) -> AsyncGenerator[list[AnyEvent], None]:
        process = os.getpid()
        try:
            async with (
                contextlib.aclosing(await self._open(exchange, self._call(exchange))) as response,
                contextlib.aclosing(Pieces(response.aiter_bytes())) as pieces,
            ):
                try:
                    yield exchange.head(response.status_code, response.headers)
                    while (data := await pieces.next()) is not None:
                        events = exchange.feed(data)
                        if events:
                            yield events
                        if exchange.error is not None or exchange.closed:
                            break  # an error frame or [DONE] ends a stream; nothing behind it counts
                    if exchange.closed:
                        await part_async(pieces)
                except (GeneratorExit, asyncio.CancelledError):
                    with parting(exchange, sink, process) as left:
                        if left is not None:
                            promised = exchange.tells_on_leave
                            await leave_async(response, pieces, left.hear, self.origin, promised=promised)
                    raise
            yield exchange.end()
        except NOT_SENT as error:
            yield exchange.unreachable(self._reason(error))
        except LOST as error:
            yield exchange.lost(self._reason(error))

    async def _open(self, exchange: Exchange, call: dict[str, Any], *, again: bool = True) -> httpx.Response:
        """See :meth:`Client._open`."""
        sending = Sending(exchange.sending)
        request = self._http.build_request(**call, extensions={"trace": sending.saw_async})
        try:
            return await self._http.send(request, stream=True)
        except LOST as problem:
            if not (again and sending.never_read(problem)):
                raise
        return await self._open(exchange, call, again=False)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@contextlib.contextmanager
def parting(exchange: Exchange, sink: Sink, process: int) -> Iterator[Left | None]:
    """A run ends as stopped at once, for whoever looks on; inside, its driver hears what a stream has cost.

    Only the ``process`` that sent it may ask: a forked child would close the connection under its parent.
    """
    told(sink, exchange.stop())
    try:
        yield exchange.left if os.getpid() == process else None
    finally:
        if exchange.left is not None:
            told(sink, exchange.left.over())


def told(sink: Sink, events: list[AnyEvent]) -> list[AnyEvent]:
    """The events, after ``sink`` has taken them."""
    if events:
        sink(events)
    return events
