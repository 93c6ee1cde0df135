"""gzip for JSON bodies, whole or streamed, when the client accepts it.

Owns ``Accept-Encoding``, ``Content-Encoding`` and ``Vary``. It must not know what a body says. Event streams
are never touched. A body is looked at only until it is known to be large enough.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST = 500
"""JSON bodies below this many bytes stay as they are."""
LEVEL = 3


class Gzip:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, compressed when that is wanted and worth it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = b",".join(value for name, value in scope["headers"] if name == b"accept-encoding")
        body = _Body(send, wanted=accepts_gzip(asked.decode("latin-1")))
        await self._app(scope, receive, body.pass_on)
        await body.left()


def accepts_gzip(header: str) -> bool:
    """Whether ``Accept-Encoding`` allows gzip (RFC 9110, section 12.5.3)."""
    weights: dict[str, float] = {}
    for item in header.lower().split(","):
        coding, *parameters = (part.strip() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if coding:
            weights[coding] = weight
    found = [weights[name] for name in ("gzip", "x-gzip") if name in weights]
    return max(found, default=weights.get("*", 0.0)) > 0


class _Body:
    def __init__(self, send: Send, *, wanted: bool) -> None:
        self._send, self._wanted = send, wanted
        self._start: Message | None = None
        self._held = b""
        self._gzip: zlib._Compress | None = None
        self._plain = False

    async def pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] == "http.response.body" and not self._plain:
            await self._continue(message.get("body", b""), more=message.get("more_body", False))
        else:
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        headers = message.get("headers", [])
        known = dict(headers)
        is_json = known.get(b"content-type", b"").partition(b";")[0].strip() == b"application/json"
        if is_json:
            message = {**message, "headers": [*headers, (b"vary", b"Accept-Encoding")]}
        length = known.get(b"content-length")
        small = length is not None and int(length) < SMALLEST
        if not is_json or not self._wanted or small or b"content-encoding" in known:
            self._plain = True
            await self._send(message)
            return
        self._start = message

    async def _continue(self, body: bytes, *, more: bool) -> None:
        if self._gzip is None:
            self._held += body
            if len(self._held) < SMALLEST:
                if not more:
                    await self._uncompressed()
                return
            body, self._held = self._held, b""
            self._gzip = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)
            await self._send(self._compressed_start())
        packed = self._gzip.compress(body)
        if not more:
            packed += self._gzip.flush()
        elif body.isspace():
            packed += self._gzip.flush(zlib.Z_SYNC_FLUSH)  # a keepalive is of no use in a buffer
        if packed or not more:
            await self._send({"type": "http.response.body", "body": packed, "more_body": more})

    async def left(self) -> None:
        """The application returned; what it began without ending goes out unfinished, so that the cut is seen."""
        if self._start is not None and self._gzip is None:
            await self._uncompressed(more=True)

    async def _uncompressed(self, *, more: bool = False) -> None:
        assert self._start is not None
        start, self._start = self._start, None
        await self._send(start)
        await self._send({"type": "http.response.body", "body": self._held, "more_body": more})

    def _compressed_start(self) -> Message:
        assert self._start is not None
        kept = [(name, value) for name, value in self._start["headers"] if name != b"content-length"]
        return {**self._start, "headers": [*kept, (b"content-encoding", b"gzip")]}
