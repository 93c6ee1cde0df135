"""Connections to one upstream, each in a pool of its own.

Owns which connection serves next: the one that rested last, so that the others can grow old and close.
It must not know what is sent. One pool for all looks at every connection for every request (each look polls a socket),
which at 16 streams costs more than the request itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from ..resending import Sending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEPT = 64
"""Connections that stay open while nothing is asked."""
LIFE = 4.0
"""Seconds an idle connection stays: vLLM closes its own after 5, so a shorter life never meets one that closes."""


class Spread(httpx.AsyncBaseTransport):
    """An httpx transport over as many single connections as there are requests at once."""

    def __init__(self) -> None:
        self._trust = httpx.create_ssl_context(trust_env=False)  # reading the certificates takes 25 ms
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._busy: set[httpx.AsyncHTTPTransport] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send on the connection that was used last, or on a new one."""
        line = self._idle.pop() if self._idle else self._line()
        self._busy.add(line)
        try:
            response = await self._sent(line, request)
        except BaseException:
            await self._back(line)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, self, line)
        return response

    async def _sent(self, line: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        """Send; once more when a connection that was used before is closed without a byte of an answer.

        An upstream may close an idle connection in the moment a request is on its way; that is no failure of the
        request, and streams have no other attempt. It is the user's own engine, which lets go of what nobody waits
        for; a client is charged for the answer that comes.
        """
        sending = Sending()
        request.extensions = {**request.extensions, "trace": sending.saw_async}
        try:
            return await line.handle_async_request(request)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            if sending.opened:
                raise
        return await line.handle_async_request(request)  # the closed one is gone: this opens another

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        lines, self._idle = [*self._idle, *self._busy], []
        self._busy.clear()
        for line in lines:
            await line.aclose()

    def _line(self) -> httpx.AsyncHTTPTransport:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=LIFE)
        return httpx.AsyncHTTPTransport(verify=self._trust, limits=limits, trust_env=False)

    async def _back(self, line: httpx.AsyncHTTPTransport) -> None:
        if line not in self._busy:
            return
        self._busy.discard(line)
        self._idle.append(line)
        if len(self._idle) > KEPT:
            await self._idle.pop(0).aclose()


class _Body(httpx.AsyncByteStream):
    # The body of an answer; its connection is idle again when it is closed.
    def __init__(self, parts: httpx.AsyncByteStream, spread: Spread, line: httpx.AsyncHTTPTransport) -> None:
        self._parts, self._spread, self._line = parts, spread, line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._parts)

    async def aclose(self) -> None:
        try:
            await self._parts.aclose()
        finally:
            await self._spread._back(self._line)
