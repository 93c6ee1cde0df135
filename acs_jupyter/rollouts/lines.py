"""A client for thousands of small requests: the async client's own, over plain HTTP/1.1 lines that cost little.

Owns sockets that are kept open and used again, and the requests that go over them. What an answer means stays in the
exchange. It must not know plans or journals. Where a proxy stands between, the client's usual way is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from .. import wire
from .._version import __version__
from ..client import AsyncClient, parting
from ..connection import Reached, Sink, reason_of
from ..exchange import Exchange
from ..log.events import AnyEvent
from ..parting import MOMENT, Hear, half_close, listen
from ..resending import at_once
from ..wire import Model
from .answer import Body, BrokenAnswer, Head

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 4.0
"""A line that was idle for longer is not used again: servers close theirs after five."""
_READ = 65536
_LOOKS = 10
"""How often a closed line is looked at for the sign that its machine threw a request away."""
_LOST = (OSError, EOFError, TimeoutError, BrokenAnswer)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class Line:
    """One connection: a request, the head of its answer, the body, and again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> None:
        self._reader = reader
        self._writer = writer
        self._patience = patience
        self._lasts = False
        self._body: Body | None = None
        self._first = b""
        self._heard = False
        self._sent_at: float | None = None
        self.used = False
        """Whether it has carried an answer before."""
        self.idle_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether the next request may go this way."""
        fresh = time.monotonic() - self.idle_since < IDLE_SECONDS
        return fresh and not self._writer.is_closing() and not self._reader.at_eof()

    async def send(self, request: bytes) -> None:
        """Send a whole request."""
        self._body, self._heard = None, False
        self._writer.write(request)
        if len(request) > _READ:
            await self._writer.drain()
        self._sent_at = time.monotonic()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers (names in lower case)."""
        head = Head()
        while not head.whole:
            data = await self._receive()
            if not data:
                raise EOFError("the connection was closed before the answer")
            head.feed(data)
        self._lasts, self._first = head.lasts, head.rest
        self._body = Body(head.headers, head.status)
        return head.status, head.headers

    async def read(self) -> bytes | None:
        """The next bytes of the body, as many as are there; ``None`` after the last."""
        body = self._body
        assert body is not None
        while not body.whole:
            data, self._first = self._first or await self._receive(), b""
            if not data:
                body.close()
                break
            if part := body.feed(data):
                return part
        return None

    def rest(self) -> bool:
        """Make ready for the next request; false when this line has had its last."""
        self.idle_since, self.used = time.monotonic(), True
        return self._lasts and self._body is not None and not (self._body.rest or self._reader.at_eof())

    async def refused(self, problem: Exception) -> bool:
        """Whether it is certain that the request just sent was read by nobody: then it may be sent again.

        A server that closes a connection in the moment a request is on its way has its machine throw the request
        away and say so (a reset). Without that sign, later, or after a single byte of an answer, it may have run.
        """
        if self._heard or not at_once(self._sent_at):
            return False
        if isinstance(problem, ConnectionResetError | BrokenPipeError):
            return True
        if not isinstance(problem, EOFError):
            return False
        raw = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):
            for _ in range(_LOOKS):
                if raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    return True
                await asyncio.sleep(MOMENT / _LOOKS)
        return False

    async def leave(self, hear: Hear, origin: str, *, promised: bool) -> None:
        """Close our side in the middle of an answer and hear what still comes, as ``parting.leave`` does."""
        half_close(self._writer.get_extra_info("socket"))
        with contextlib.suppress(*_LOST):
            await listen(self.read, hear, origin, promised=promised)

    def abort(self) -> None:
        """Close at once; the server notices."""
        self._writer.transport.abort()

    async def _receive(self) -> bytes:
        async with asyncio.timeout(self._patience):
            data = await self._reader.read(_READ)
        self._heard = self._heard or bool(data)
        return data


class BatchClient(AsyncClient):
    """An :class:`AsyncClient` for one event loop whose runs cost little. It carries runs and asks for the models."""

    def _set_up(self) -> None:
        self._direct = not (self._options()["trust_env"] and _proxied())
        if not self._direct:
            super()._set_up()
        url = httpx.URL(self.base_url)
        self._host, self._tls = url.raw_host.decode("ascii"), url.scheme == "https"
        self._port = url.port or (443 if self._tls else 80)
        self._path = url.raw_path.decode("ascii")
        self._fixed = (
            f" HTTP/1.1\r\nhost: {url.netloc.decode('ascii')}\r\naccept-encoding: identity\r\n"
            f"user-agent: acs-jupyter/{__version__}\r\n{wire.WORKLOAD}: {self._workload}\r\n"
        )
        self._idle: list[Line] = []
        self._context: ssl.SSLContext | None = None

    @property
    def _closed(self) -> bool:
        return not self._direct and super()._closed

    async def models(self) -> list[Model]:
        """See :meth:`AsyncClient.models`."""
        if not self._direct:
            return await super().models()
        try:
            line = await self._line()
            try:
                await line.send(self._request("GET", "/models", {}, b""))
                status, headers = await line.head()
                parts = []
                while (data := await line.read()) is not None:
                    parts.append(data)
            finally:
                line.abort()
        except _LOST as error:
            reached: Reached = self._unreachable(OSError(_reason(error)))
        else:
            reached = httpx.Response(status, headers=headers, content=b"".join(parts))
        return self._keep_models(reached)

    async def _attempt(self, exchange: Exchange, sink: Sink) -> AsyncGenerator[list[AnyEvent], None]:
        if not self._direct:
            async with contextlib.aclosing(super()._attempt(exchange, sink)) as batches:
                async for events in batches:
                    yield events
            return
        try:
            line, answer = await self._asked(
                self._request("POST", "/completions", exchange.begin(), exchange.body)
            )
        except _LOST as error:
            yield exchange.unreachable(self._reason(OSError(_reason(error))))
            return
        if isinstance(answer, Exception):
            yield exchange.lost(self._reason(OSError(_reason(answer))))
            return
        async with contextlib.aclosing(self._answered(exchange, sink, line, answer)) as batches:
            async for events in batches:
                yield events

    async def _answered(
        self, exchange: Exchange, sink: Sink, line: Line, answer: tuple[int, dict[str, str]]
    ) -> AsyncGenerator[list[AnyEvent], None]:
        whole = False
        try:
            yield exchange.head(*answer)
            while (data := await line.read()) is not None:
                events = exchange.feed(data)
                if events:
                    yield events
                if exchange.error is not None or exchange.closed:
                    break  # an error frame or [DONE] ends a stream; nothing behind it counts
            whole = exchange.error is None and await _ended(line) and line.rest()
            yield exchange.end()
        except (GeneratorExit, asyncio.CancelledError):
            whole = False
            with parting(exchange, sink) as left:
                if left is not None:
                    await line.leave(left.hear, self.origin, promised=exchange.tells_on_leave)
            raise
        except _LOST as error:
            whole = False
            yield exchange.lost(self._reason(OSError(_reason(error))))
        finally:
            if whole:
                self._idle.append(line)
            else:
                line.abort()

    async def _asked(self, request: bytes) -> tuple[Line, tuple[int, dict[str, str]] | Exception]:
        """A request on its line, and the head of its answer or why none came. Raises when no line can be had.

        One that was certainly read by nobody, on a line that was used before, goes out once more on a new one; that
        is no attempt.
        """
        line = await self._line()
        while True:
            try:
                await line.send(request)
                return line, await line.head()
            except _LOST as problem:
                try:
                    again = line.used and await line.refused(problem)
                finally:
                    line.abort()
                if not again:
                    return line, problem
            except BaseException:
                line.abort()
                raise
            line = await self._line(fresh=True)

    async def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().abort()
        if not self._direct:
            await super().close()
        await asyncio.sleep(0)  # the loop lets go of what was closed

    async def _line(self, *, fresh: bool = False) -> Line:
        if self._inherited:
            self._own(self._idle)
        while self._idle and not fresh:
            line = self._idle.pop()
            if line.usable:
                return line
            line.abort()
        if self._tls and self._context is None:
            self._context = httpx.create_ssl_context()
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._context, limit=4 * _READ, happy_eyeballs_delay=0.25
            )
        return Line(reader, writer, self._timeout)

    def _request(self, method: str, path: str, own: dict[str, str], body: bytes) -> bytes:
        lines = [f"{name}: {value}" for name, value in own.items()]
        lines += [f"authorization: Bearer {self._secret.reveal()}", f"content-length: {len(body)}", "", ""]
        head = f"{method} {self._path}{path}{self._fixed}" + "\r\n".join(lines)
        return head.encode("ascii") + body


async def _ended(line: Line) -> bool:
    """Whether the body of an answer that is over ends at once, too; then its line is good for another request."""
    with contextlib.suppress(*_LOST):
        async with asyncio.timeout(MOMENT):
            while await line.read() is not None:
                pass
        return True
    return False


def _proxied() -> bool:
    return any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "nothing came for too long"
    return reason_of(error)


def batch_client(like: Any = None) -> BatchClient:
    """A client for a rollout: to the server and with the key, default model and meter of ``like``, if given."""
    if like is None:
        return BatchClient(workload="batch", retries=0)
    return BatchClient(
        like.base_url,
        like._secret,
        model=like.model,
        workload="batch",
        timeout=like._timeout,
        retries=0,
        meter=like.meter,
    )
