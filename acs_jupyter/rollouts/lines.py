"""A client for thousands of small requests: the async client's own, over plain HTTP/1.1 lines that cost little.

Owns which connection a request takes, those kept open for the next, and the bytes of a request. What an answer means
stays in the exchange. It must not know plans or journals. Where a proxy stands between, the client's usual way is
taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from .. import wire
from .._version import __version__
from ..client import AsyncClient, parting
from ..connection import Reached, Sink
from ..exchange import Exchange
from ..transport import reason_of
from ..wire import Model
from .line import LOST, Line, connected

Arrived = Callable[[], Awaitable[None]]
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


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
        except LOST as error:
            reached: Reached = self._unreachable(OSError(_reason(error)))
        else:
            reached = httpx.Response(status, headers=headers, content=b"".join(parts))
        return self._keep_models(reached)

    async def carry(self, exchange: Exchange, sink: Sink, arrived: Arrived | None = None) -> None:
        """:meth:`drive` without its steps: the events from the head of the answer on go to ``sink``.

        ``arrived`` is called when the last byte of a good answer is here, before that is read, if it is known then.
        """
        if not self._direct:
            async with contextlib.aclosing(self.drive(exchange, sink)) as batches:
                async for _ in batches:
                    pass
            return
        opened = False
        try:
            if exchange.ticket is None:
                await self.reserve_aside(exchange)
            opened = True
            while not exchange.closed:
                await self._carried(exchange, sink, arrived)
                if exchange.delay is not None:
                    await asyncio.sleep(exchange.delay)
        finally:
            try:
                if opened and (events := exchange.stop()):
                    sink(events)
            finally:
                self.settle(exchange)

    async def _carried(self, exchange: Exchange, sink: Sink, arrived: Arrived | None) -> None:
        """One attempt."""
        try:
            line, answer = await self._asked(
                exchange, self._request("POST", "/completions", exchange.begin(), exchange.body)
            )
        except LOST as error:
            sink(exchange.unreachable(self._reason(OSError(_reason(error)))))
            return
        if isinstance(answer, Exception):
            sink(exchange.lost(self._reason(OSError(_reason(answer)))))
            return
        await self._answered(exchange, sink, line, answer, arrived if answer[0] == 200 else None)

    async def _answered(
        self,
        exchange: Exchange,
        sink: Sink,
        line: Line,
        answer: tuple[int, dict[str, str]],
        arrived: Arrived | None,
    ) -> None:
        whole, last = False, b""
        try:
            sink(exchange.head(*answer))
            while (data := await line.read()) is not None:
                if arrived is not None and line.whole:
                    whole, last = True, data
                    break
                self._fed(exchange, sink, data)
                if exchange.error is not None or exchange.closed:
                    break  # an error frame or [DONE] ends a stream; nothing behind it counts
            whole = (whole or (exchange.error is None and await line.ended())) and line.rest()
            if not last and (events := exchange.end()):
                sink(events)
        except asyncio.CancelledError:
            whole = False
            with parting(exchange, sink, os.getpid()) as left:
                if left is not None:
                    await line.leave(left.hear, self.origin, promised=exchange.tells_on_leave)
            raise
        except LOST as error:
            whole = False
            sink(exchange.lost(self._reason(OSError(_reason(error)))))
        finally:
            if whole:
                self._idle.append(line)
            else:
                line.abort()
        if last and arrived is not None:
            await self._last(exchange, sink, last, arrived)

    async def _last(self, exchange: Exchange, sink: Sink, data: bytes, arrived: Arrived) -> None:
        """The last of an answer. It is read whatever happens while its place is given away."""
        try:
            await arrived()
        finally:
            self._fed(exchange, sink, data)
            if events := exchange.end():
                sink(events)

    def _fed(self, exchange: Exchange, sink: Sink, data: bytes) -> None:
        if events := exchange.feed(data):
            self._watch(exchange)
            sink(events)

    async def _asked(
        self, exchange: Exchange, request: bytes
    ) -> tuple[Line, tuple[int, dict[str, str]] | Exception]:
        """A request on its line, and the head of its answer or why none came. Raises when no line can be had.

        One that was certainly read by nobody, on a line that was used before, goes out once more on a new one; that
        is no attempt.
        """
        line = await self._line()
        while True:
            try:
                exchange.sending()
                await line.send(request)
                return line, await line.head()
            except LOST as problem:
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
        return await connected(self._host, self._port, self._context, self._timeout)

    def _request(self, method: str, path: str, own: dict[str, str], body: bytes) -> bytes:
        lines = [f"{name}: {value}" for name, value in own.items()]
        lines += [f"authorization: Bearer {self._secret.reveal()}", f"content-length: {len(body)}", "", ""]
        head = f"{method} {self._path}{path}{self._fixed}" + "\r\n".join(lines)
        return head.encode("ascii") + body


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
