"""The body of an upstream's answer, read as it comes and without its encoding.

Owns encodings and how much of an error is read. It must not know what the bytes are for.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import httpx

from .sieve import Inflater

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ENCODINGS = ("gzip", "x-gzip", "deflate")
LONGEST_ERROR = 65_536


def coding_of(response: httpx.Response) -> str:
    """The encoding of a body, ``identity`` when there is none."""
    coding: str = response.headers.get("content-encoding", "identity")
    return coding.strip().lower()


async def decoded(response: httpx.Response) -> AsyncGenerator[bytes]:
    """The bytes of a body as they come, without the upstream's encoding; the response is closed behind them."""
    try:
        if coding_of(response) not in ENCODINGS:
            async for part in response.aiter_raw():
                yield part
            return
        inflater = Inflater()
        async for part in response.aiter_raw():
            for piece in inflater.feed(part):
                yield piece
        last = inflater.end()
        if last:
            yield last
    finally:
        await response.aclose()


async def error_body(response: httpx.Response) -> bytes:
    """The first bytes of an error, enough for its message."""
    found = b""
    async with aclosing(decoded(response)) as parts:
        async for part in parts:
            found += part
            if len(found) > LONGEST_ERROR:
                break
    return found[:LONGEST_ERROR]


def length_of(response: httpx.Response) -> int | None:
    """The body's length, when it will be passed on as it is."""
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() and coding_of(response) not in ENCODINGS else None


async def read_out(parts: AsyncGenerator[bytes]) -> None:
    """Read what is left, which is nothing but the body's end: only then the connection can serve again."""
    with suppress(TimeoutError, httpx.HTTPError, zlib.error):
        async with asyncio.timeout(0.5):
            async for _ in parts:
                pass
