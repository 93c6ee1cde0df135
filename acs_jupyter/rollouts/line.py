"""One connection of a rollout: a request, the head of its answer, the body, and again.

Owns the socket's side: what has come and is not read yet, how long is waited for more, and whether the next request
may go the same way. It must not know requests, nor what an answer means.

asyncio's own streams cost a task's worth of bookkeeping for each wait. Here a line has one future while somebody waits,
and one timer that looks, when it rings, whether anybody has waited for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from typing import cast

from ..parting import MOMENT, Hear, half_close, listen
from ..resending import at_once
from .answer import Body, BrokenAnswer, Head

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 4.0
"""A line that was idle for longer is not used again: servers close theirs after five."""
LOST = (OSError, EOFError, TimeoutError, BrokenAnswer)
"""What ends a connection before its answer."""
_LOOKS = 10
"""How often a closed line is looked at for the sign that its machine threw a request away."""
_MOST_UNREAD = 262_144
"""Bytes that may wait to be read; then the server has to wait."""


class _Wire(asyncio.Protocol):
    """The bytes of one socket, for one reader."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._came: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._problem: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None
        self.ended = False
        """Whether the server has closed its side."""

    # -- told by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._came.append(data)
        self._unread += len(data)
        if self._unread > _MOST_UNREAD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._stir()

    def eof_received(self) -> bool:
        self.ended = True
        self._stir()
        return (
            self.transport.get_extra_info("sslcontext") is None
        )  # stays open: what was sent may be refused yet

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._problem = self._problem or exc
        if self._timer is not None:
            self._timer.cancel()
        self._stir()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # -- asked by the reader ----------------------------------------------------------------------

    @property
    def quiet(self) -> bool:
        """Whether nothing has come that is not read, not even an end."""
        return not (self._came or self.ended or self.transport.is_closing())

    def look(self) -> bytes:
        """What has come; ``b""`` when nothing has."""
        data = self._came[0] if len(self._came) == 1 else b"".join(self._came)
        self._came.clear()
        self._unread = 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return data

    async def receive(self, patience: float) -> bytes:
        """What comes next, ``b""`` at the end. Raises ``TimeoutError`` after ``patience`` seconds, or ``OSError``."""
        if not (self._came or self.ended):
            self._until = self._loop.time() + patience
            if self._timer is None or self._timer.when() > self._until:
                self._ring()
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._came:
            return self.look()
        if self._problem is not None:
            raise self._problem
        return b""

    async def drained(self) -> None:
        """Wait until what was written is on its way."""
        if self._room is not None:
            await self._room
        if self._problem is not None:
            raise self._problem

    def _stir(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _ring(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._until, self._rung)

    def _rung(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() >= self._until:
            self._waiter.set_exception(TimeoutError())
        else:  # it was set for an earlier wait
            self._ring()


class Line:
    """One connection. ``patience``: seconds that may pass without a byte."""

    def __init__(self, wire: _Wire, patience: float) -> None:
        self._wire = wire
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
        return time.monotonic() - self.idle_since < IDLE_SECONDS and self._wire.quiet

    async def send(self, request: bytes) -> None:
        """Send a whole request."""
        self._body, self._heard = None, False
        self._wire.transport.write(request)
        await self._wire.drained()
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
        return await self._read(self._patience)

    @property
    def whole(self) -> bool:
        """Whether the body's last byte has been read."""
        return self._body is not None and self._body.whole

    async def ended(self) -> bool:
        """Whether the body of an answer that is over ends at once, too; then its line is good for another request."""
        until = time.monotonic() + MOMENT
        with contextlib.suppress(*LOST):
            while await self._read(max(0.0, until - time.monotonic())) is not None:
                pass
            return True
        return False

    def rest(self) -> bool:
        """Make ready for the next request; false when this line has had its last."""
        self.idle_since, self.used = time.monotonic(), True
        return self._lasts and self._body is not None and not self._body.rest and self._wire.quiet

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
        raw = self._wire.transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):
            for _ in range(_LOOKS):
                if raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    return True
                await asyncio.sleep(MOMENT / _LOOKS)
        return False

    async def leave(self, hear: Hear, origin: str, *, promised: bool) -> None:
        """Close our side in the middle of an answer and hear what still comes, as ``parting.leave`` does."""
        half_close(self._wire.transport.get_extra_info("socket"))
        with contextlib.suppress(*LOST):
            await listen(self.read, hear, origin, promised=promised)

    def abort(self) -> None:
        """Close at once; the server notices."""
        self._wire.transport.abort()

    async def _read(self, patience: float) -> bytes | None:
        body = self._body
        assert body is not None
        while not body.whole:
            data = self._first or await self._receive(patience)
            self._first = b""
            if not data:
                body.close()
                break
            if part := body.feed(data):
                return part
        return None

    async def _receive(self, patience: float | None = None) -> bytes:
        data = await self._wire.receive(self._patience if patience is None else patience)
        self._heard = self._heard or bool(data)
        return data


def _is_address(host: str) -> bool:
    """Whether there is one way only to reach a host. (A race of several that is given up may leave a socket open.)"""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def connected(host: str, port: int, tls: ssl.SSLContext | None, patience: float) -> Line:
    """A new connection. Raises ``OSError`` or ``TimeoutError``."""
    async with asyncio.timeout(CONNECT_SECONDS):
        _, wire = await asyncio.get_running_loop().create_connection(
            _Wire, host, port, ssl=tls, happy_eyeballs_delay=None if _is_address(host) else 0.25
        )
    return Line(wire, patience)
