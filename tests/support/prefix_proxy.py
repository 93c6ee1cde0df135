"""A small reverse proxy that serves one path prefix, websockets included, as a hub does for each of its users."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_MINE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Proxy:
    """``base`` is its address, without the prefix; what it refused and which websockets it carried."""

    port: int
    prefix: str
    base: str = ""
    refused: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection; what has been switched to another protocol goes on both ways until it ends."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            first, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
            path = first.split(b" ")[1].decode()
            if not path.startswith(self.prefix):
                self.refused.append(path)
                writer.write(NOT_MINE)
                await writer.drain()
                return writer.close()
            upgrade = b"\r\nupgrade: websocket" in b"\r\n" + rest.lower()
            if upgrade:
                self.sockets.append(path)
            else:
                lines = [line for line in rest.split(b"\r\n") if not line.lower().startswith(b"connection:")]
                rest = b"\r\n".join([b"Connection: close", *lines])
            behind, onward = await asyncio.open_connection("127.0.0.1", self.port)
            onward.write(first + b"\r\n" + rest)
            await asyncio.gather(_carry(reader, onward), _carry(behind, writer))
        writer.close()
        return None


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def proxied(port: int, prefix: str) -> Iterator[Proxy]:
    """The proxy in front of a server on ``port``, on a thread of its own."""
    proxy = Proxy(port, prefix)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(proxy.serve, "127.0.0.1", 0))
    proxy.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(server.close)
        for task in asyncio.all_tasks(loop):
            loop.call_soon_threadsafe(task.cancel)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
