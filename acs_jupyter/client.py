"""Two clients, sync and async, that carry bytes; everything they carry is decided in ``exchange.py``.

Owns the connection (httpx) and the moment at which a meter is asked. It must not know the ledger behind the
meter, nor sessions beyond handing them events.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Unpack

import httpx

from .completion import Completion
from .connection import Connection, made, reason_of, stream_fields, streamed_if_possible
from .errors import AcsError, ConnectionFailed
from .events import AnyEvent
from .exchange import Exchange
from .jobs import AsyncJobs, Jobs
from .session import Session
from .streams import AsyncStream, Stream, result_of
from .wire import Fields, Model, ModelStatus, Prompt

Sink = Callable[[list[AnyEvent]], None]
"""Takes events as they happen; a session's ``apply``, usually."""

_LOST = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)


class Client(Connection):
    """A synchronous client.

    Parameters: ``base_url`` and ``api_key`` (default: ``ACS_API_BASE``, ``ACS_API_KEY``; with or without
    ``/v1``), ``model`` (default for requests that name none), ``workload`` (``interactive`` or ``batch``),
    ``timeout`` (seconds without a byte), ``retries``, ``meter`` (see :class:`Meter`).
    """

    def _set_up(self) -> None:
        self._http = made(httpx.Client, self._options())
        self.jobs = Jobs(self)

    def complete(
        self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]
    ) -> Completion:
        """Send a request and wait for its end.

        It is streamed inside where the contract allows, so that interrupting it keeps what came
        (``stream=False`` asks for one JSON body). Raises :class:`AcsError`. Whatever exception ends the run, a
        ``KeyboardInterrupt`` too, has what came as its ``completion``.
        """
        request = self.request(prompt, **streamed_if_possible({**fields}))
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        try:
            for _ in self.drive(exchange, session.apply):
                pass
        except BaseException as error:
            error.completion = Completion(session, exchange.run)  # type: ignore[attr-defined]
            raise
        return result_of(exchange, session)

    def stream(self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]) -> Stream:
        """Send a request and iterate over its tokens as they arrive; see :class:`Stream`."""
        request = self.request(prompt, **stream_fields({**fields}))
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        return Stream(self.drive(exchange, session.apply), exchange, session)

    def models(self) -> list[Model]:
        """The models the server offers, with their limits."""
        try:
            return self._keep_models(self._http.get(f"{self.base_url}/models"))
        except _LOST as error:
            raise _cannot_reach(error) from None

    def status(self, model: str) -> ModelStatus:
        """Whether a model is warm, and if not how its start goes."""
        try:
            return self._read_status(self._http.get(self._status_url(model)))
        except _LOST as error:
            raise _cannot_reach(error) from None

    def drive(self, exchange: Exchange, sink: Sink) -> Generator[list[AnyEvent], None, None]:
        """Carry one run to its end. Each batch of events goes to ``sink`` and is then yielded.

        Closing the iterator closes the socket and ends the run as stopped. Errors end the run and are left in
        ``exchange.error``; nothing is raised but ``BudgetRefused``, before a socket opens.
        """
        ticket = self._reserve(exchange)
        try:
            yield _told(sink, exchange.open())
            while not exchange.closed:
                for events in self._attempt(exchange):
                    yield _told(sink, events)
                if exchange.delay is not None:
                    time.sleep(exchange.delay)
        finally:
            _told(sink, exchange.stop())
            self._settle(exchange, ticket)

    def _attempt(self, exchange: Exchange) -> Iterator[list[AnyEvent]]:
        try:
            with self._http.stream(**self._call(exchange)) as response:
                yield exchange.head(response.status_code, response.headers)
                for data in response.iter_bytes():
                    events = exchange.feed(data)
                    if events:
                        yield events
                    if exchange.error is not None:
                        break  # an error frame ends a stream; nothing behind it counts
            yield exchange.end()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            yield exchange.unreachable(reason_of(error))
        except _LOST as error:
            yield exchange.lost(reason_of(error))

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
        self._http = made(httpx.AsyncClient, self._options())
        self.jobs = AsyncJobs(self)

    async def complete(
        self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]
    ) -> Completion:
        """See :meth:`Client.complete`. Cancelling the task closes the socket and ends the run as stopped."""
        request = self.request(prompt, **streamed_if_possible({**fields}))
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        try:
            async with contextlib.aclosing(self.drive(exchange, session.apply)) as batches:
                async for _ in batches:
                    pass
        except BaseException as error:
            error.completion = Completion(session, exchange.run)  # type: ignore[attr-defined]
            raise
        return result_of(exchange, session)

    def stream(
        self, prompt: Prompt, *, session: Session | None = None, **fields: Unpack[Fields]
    ) -> AsyncStream:
        """See :meth:`Client.stream`."""
        request = self.request(prompt, **stream_fields({**fields}))
        session = session if session is not None else Session()
        exchange = self.exchange(request)
        return AsyncStream(self.drive(exchange, session.apply), exchange, session)

    async def models(self) -> list[Model]:
        """The models the server offers, with their limits."""
        try:
            return self._keep_models(await self._http.get(f"{self.base_url}/models"))
        except _LOST as error:
            raise _cannot_reach(error) from None

    async def status(self, model: str) -> ModelStatus:
        """See :meth:`Client.status`."""
        try:
            return self._read_status(await self._http.get(self._status_url(model)))
        except _LOST as error:
            raise _cannot_reach(error) from None

    async def drive(self, exchange: Exchange, sink: Sink) -> AsyncGenerator[list[AnyEvent], None]:
        """See :meth:`Client.drive`."""
        ticket = self._reserve(exchange)
        try:
            yield _told(sink, exchange.open())
            while not exchange.closed:
                async with contextlib.aclosing(self._attempt(exchange)) as attempt:
                    async for events in attempt:
                        yield _told(sink, events)
                if exchange.delay is not None:
                    await asyncio.sleep(exchange.delay)
        finally:
            _told(sink, exchange.stop())
            self._settle(exchange, ticket)

    async def _attempt(self, exchange: Exchange) -> AsyncGenerator[list[AnyEvent], None]:
        try:
            async with self._http.stream(**self._call(exchange)) as response:
                yield exchange.head(response.status_code, response.headers)
                async for data in response.aiter_bytes():
                    events = exchange.feed(data)
                    if events:
                        yield events
                    if exchange.error is not None:
                        break  # an error frame ends a stream; nothing behind it counts
            yield exchange.end()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            yield exchange.unreachable(reason_of(error))
        except _LOST as error:
            yield exchange.lost(reason_of(error))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _told(sink: Sink, events: list[AnyEvent]) -> list[AnyEvent]:
    if events:
        sink(events)
    return events


def _cannot_reach(error: Exception) -> AcsError:
    return ConnectionFailed(f"The server cannot be reached ({reason_of(error)}).")
