"""The end of a stream that has said it is done: taken when it follows at once, else the connection is closed.

Owns how long a server may take to end what it has declared over. It must not know what a stream holds.

``[DONE]`` ends an answer; the HTTP body ends a moment later, or never. A body that is read to its end leaves a
connection for the next request. httpx can wait in an async form only; the other one has a clock that shuts the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

MOMENT = 0.25
"""Seconds that the end of a body may take."""
_ENDED = (httpx.TransportError, httpx.StreamError, httpx.DecodingError, OSError)


def part(response: httpx.Response, rest: Iterator[bytes]) -> None:
    """Read what is left of a body, for a moment at most."""
    clock = threading.Timer(MOMENT, _shut, [response.extensions.get("network_stream")])
    clock.daemon = True
    clock.start()
    try:
        with contextlib.suppress(*_ENDED):
            for _ in rest:
                if not clock.is_alive():
                    return
    finally:
        clock.cancel()


async def part_async(rest: AsyncIterator[bytes]) -> None:
    """See :func:`part`."""
    with contextlib.suppress(*_ENDED, TimeoutError):
        async with asyncio.timeout(MOMENT):
            async for _ in rest:
                pass


def _shut(stream: Any) -> None:
    raw = stream.get_extra_info("socket") if stream is not None else None
    with contextlib.suppress(OSError):
        if isinstance(raw, socket.socket):
            socket.socket.shutdown(raw, socket.SHUT_RDWR)  # not TLS's own, which would wait for an answer
