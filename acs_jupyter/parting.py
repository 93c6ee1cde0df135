"""The end of a connection that an answer came over: after its last word, or before it, when the client leaves early.

Owns how long a server may take to end what it has declared over, or to say what a stream has cost that is left; and
which servers have shown that they do not. It must not know what a stream holds.

``[DONE]`` ends an answer; the HTTP body ends a moment later, or never. A body that is read to its end leaves a
connection for the next request. httpx can wait in an async form only; the other one has a clock that shuts the socket.

Who leaves a stream closes its own side of the connection first and reads on for a short while. A server that knows this
sign stops and tells what was used; one that takes it as the end of everything closes, and what was on its way has been
read. A proxy may keep the sign for itself: then the stream goes on, and is paid for, until the time is up. Such an
origin is remembered while the process lives; the next stream from there is closed at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx

MOMENT = 0.25
"""Seconds that the end of a body may take."""
ANSWER = 0.5
"""Seconds that a server has to answer a client that leaves."""
PROMISED = 3.0
"""The same where the server has promised an answer, or has given one before: it may be busy."""
GLANCE = 0.05
"""The same where none is to be expected: what has come already is read, and the connection closed."""
_ENDED = (httpx.TransportError, httpx.StreamError, httpx.DecodingError, OSError)
_answers: dict[str, bool] = {}
"""By origin, whether leaving was answered there."""

Hear = Callable[[bytes], bool]
"""Takes what still comes; true when that was all that is wanted."""


def part(response: httpx.Response, rest: Iterator[bytes]) -> None:
    """Read what is left of a body, for a moment at most; nothing while the process ends, when no clock can run."""
    if sys.is_finalizing():
        return
    with _clock(response, MOMENT) as up, contextlib.suppress(*_ENDED):
        for _ in rest:
            if up.is_set():
                return


async def part_async(rest: Pieces) -> None:
    """See :func:`part`."""
    with contextlib.suppress(*_ENDED, TimeoutError):
        async with asyncio.timeout(MOMENT):
            while await rest.next() is not None:
                pass


def leave(
    response: httpx.Response, rest: Iterator[bytes], hear: Hear, origin: str, *, promised: bool
) -> None:
    """Close our side of a stream, and let ``hear`` have what still comes, until it has enough or the time is up.

    A process that ends has no time: its threads are gone, and a clock would be waited for without end.
    """
    if sys.is_finalizing():
        return
    answered = late = False
    half_close(_socket(response))
    with _clock(response, patience(origin, promised=promised)) as up:
        with contextlib.suppress(*_ENDED):
            answered = any(map(hear, rest))
        late = up.is_set()
    note(origin, answered=answered, late=late)


async def leave_async(
    response: httpx.Response, rest: Pieces, hear: Hear, origin: str, *, promised: bool
) -> None:
    """See :func:`leave`."""
    half_close(_socket(response))
    await listen(rest.next, hear, origin, promised=promised)


async def listen(read: Callable[[], Any], hear: Hear, origin: str, *, promised: bool) -> None:
    """The waiting part of :func:`leave`: ``read`` gives the next bytes, or ``None`` at the end, as an awaitable."""
    answered = late = False
    try:
        async with asyncio.timeout(patience(origin, promised=promised)):
            with contextlib.suppress(*_ENDED):
                while not answered and (data := await read()) is not None:
                    answered = hear(data)
    except TimeoutError:
        late = True
    note(origin, answered=answered, late=late)


def patience(origin: str, *, promised: bool) -> float:
    """Seconds for which a stream from there is read on when it is left."""
    if _answers.get(origin, True):
        return PROMISED if promised or origin in _answers else ANSWER
    return GLANCE


def note(origin: str, *, answered: bool, late: bool) -> None:
    """How it went. Who has answered once is only slow when it is late."""
    if answered:
        _answers[origin] = True
    elif late:
        _answers.setdefault(origin, False)


def half_close(raw: Any) -> None:
    """Close our side of a socket, below TLS if there is any: nothing more is said, and what comes is still read."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        if isinstance(raw, socket.socket):
            socket.socket.shutdown(raw, socket.SHUT_WR)  # not TLS's own, which would wait for an answer
        else:  # what stands for the socket on an event loop may not do it itself
            with socket.fromfd(raw.fileno(), raw.family, raw.type) as twin:
                twin.shutdown(socket.SHUT_WR)


class Pieces:
    """The pieces of a body. Whoever waits for one can be cancelled and the next one still be read.

    httpx closes a connection when the reading of its body is cancelled, so each piece is read by a task of its own.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._coming: asyncio.Task[bytes | None] | None = None

    async def next(self) -> bytes | None:
        """The next piece, ``None`` after the last."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._read())
        data = await asyncio.shield(self._coming)
        self._coming = None
        return data

    async def aclose(self) -> None:
        """Read no more."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _read(self) -> bytes | None:
        return await anext(self._pieces, None)


@contextlib.contextmanager
def _clock(response: httpx.Response, seconds: float) -> Iterator[threading.Event]:
    """A sign that the time is up; with it the connection is shut."""
    up, raw = threading.Event(), _socket(response)

    def ring() -> None:
        up.set()
        _shut(raw)

    clock = threading.Timer(seconds, ring)
    clock.daemon = True
    clock.start()
    try:
        yield up
    finally:
        clock.cancel()


def _socket(response: httpx.Response) -> Any:
    stream = response.extensions.get("network_stream")
    return stream.get_extra_info("socket") if stream is not None else None


def _shut(raw: Any) -> None:
    with contextlib.suppress(OSError):
        if isinstance(raw, socket.socket):
            socket.socket.shutdown(raw, socket.SHUT_RDWR)
