"""One connection of a rollout against real sockets: waiting, much at once, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from acs_jupyter.rollouts.line import LOST, Line, connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

if TYPE_CHECKING:
    Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


def on_a_line(answer: Answer, use: Callable[[Line], Awaitable[None]], patience: float = 20.0) -> None:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(EOFError, OSError):
                await answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            left.set()

    async def go() -> None:
        nonlocal left
        left = asyncio.Event()
        async with await asyncio.start_server(answered, "127.0.0.1", 0, limit=2**24) as server:
            host, port = server.sockets[0].getsockname()
            line = await connected(host, port, None, patience)
            try:
                await use(line)
            finally:
                line.abort()
            await asyncio.wait_for(left.wait(), 20)

    left: asyncio.Event
    asyncio.run(go())


async def whole(line: Line) -> bytes:
    parts = []
    while (part := await line.read()) is not None:
        parts.append(part)
    return b"".join(parts)


def test_a_line_is_used_again_when_its_answer_has_ended() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(HEAD % 2 + b"ok")

    async def use(line: Line) -> None:
        for _ in range(3):
            await line.send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await line.head())[0] == 200
            assert await whole(line) == b"ok"
            assert await line.ended()
            assert line.rest()
            assert line.usable

    on_a_line(answer, use)


def test_much_is_read_as_it_came_however_long_nobody_reads() -> None:
    body = bytes(range(256)) * 20_000

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD % len(body) + body)
        await writer.drain()

    async def use(line: Line) -> None:
        await line.send(b"GET / HTTP/1.1\r\n\r\n")
        await line.head()
        await asyncio.sleep(0.2)
        assert line._wire._unread < 2**20  # the server waits, not this memory
        assert await whole(line) == body

    on_a_line(answer, use)


def test_a_large_request_is_sent_whole() -> None:
    body = b"x" * 5_000_000

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        found = await reader.readexactly(len(body))
        writer.write(HEAD % 7 + b"%07d" % found.count(b"x"))

    async def use(line: Line) -> None:
        await line.send(body)
        await line.head()
        assert await whole(line) == b"5000000"

    on_a_line(answer, use)


def test_nothing_for_too_long_is_told_from_the_last_byte_on() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD % 100)
        for _ in range(6):
            writer.write(b"x")
            await asyncio.sleep(0.15)
        await reader.read()

    async def use(line: Line) -> None:
        begun = time.monotonic()
        await line.send(b"GET / HTTP/1.1\r\n\r\n")
        await line.head()
        with pytest.raises(TimeoutError):
            await whole(line)
        assert time.monotonic() - begun > 6 * 0.15  # each byte begins the wait anew

    on_a_line(answer, use, patience=0.5)


@pytest.mark.parametrize("piece", [b"", b"HTTP/1.1 200 OK\r\n", HEAD % 9 + b"half"])
def test_a_connection_that_ends_early_is_lost(piece: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(piece)
        writer.close()

    async def use(line: Line) -> None:
        await line.send(b"GET / HTTP/1.1\r\n\r\n")

        async def read() -> bytes:
            await line.head()
            return await whole(line)

        with pytest.raises(LOST):
            await read()
        assert not line.usable

    on_a_line(answer, use)


def test_one_who_stops_waiting_can_wait_again() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(HEAD % 2 + b"ok")

    async def use(line: Line) -> None:
        await line.send(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(line.head(), 0.05)
        assert (await line.head())[0] == 200
        assert await whole(line) == b"ok"

    on_a_line(answer, use)
