"""Answers spoiled on purpose, each as it happens on the real wire.

Owns the faults of a script: refusals, cold boots, errors in a 200, cut and slow bytes. It works on finished
bytes and must not know engines. Without a fault nothing here touches an answer.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import msgspec
from starlette.responses import Response

from ..errors import CATALOGUE, ApiError, class_for
from .respond import CutHere, envelope
from .script import Script, script_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine

    from .engine import Task

_SPACES = b" " * 1024
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"
_RETRYABLE = (429, 502, 503)


class Faults:
    """Makes the disturbance a request's script asks for; remembers how often it did (``times``)."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def __call__(self, task: Task) -> Disturbance | None:
        """The disturbance of a request, or ``None``."""
        script = script_of(task)
        if script.fault is None:
            return None
        if script.times is not None:
            seen = self._seen.get(script.source, 0)
            self._seen[script.source] = seen + 1
            if seen >= script.times:
                return None
        return Disturbance(script)


class Disturbance:
    """One spoiled answer."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._fault = script.fault or ""
        self.media_type = "application/json"

    @property
    def spoils_json(self) -> bool:
        """Whether a JSON body is touched at all."""
        return self._fault != "crlf"

    @property
    def fails(self) -> bool:
        """Whether a JSON answer becomes an error in a 200, for which nobody pays."""
        cold = self._fault == "cold" and self._script.code != "upstream_error"
        return self._fault == "error" or cold

    def refuse(self) -> Response | None:
        """Raise the error that stands instead of an answer, or return the page of a proxy."""
        if self._fault in CATALOGUE:
            raise self._error(self._fault)
        return Response(_PAGE, 502, media_type="text/html") if self._fault == "html502" else None

    def _error(self, code: str) -> ApiError:
        kind = class_for(code, 500)
        wait = self._script.retry_after
        if wait is None and kind.can_retry and kind.status in _RETRYABLE:
            wait = 1
        return kind(f"Scripted fault: {code}.", code=code, retry_after=wait)

    async def json(self, work: Coroutine[None, None, bytes], request_id: str) -> AsyncIterator[bytes]:
        """The parts of a spoiled JSON answer; its status is 200."""
        if self._fault in ("cold", "blank"):
            for _ in range(3):
                yield _SPACES
                await asyncio.sleep(self._script.wait / 3)
        body = await work
        if self._fault == "blank":
            return
        if self.fails:
            yield envelope(self._error(self._script.code), request_id)
        elif self._fault in ("cut", "truncated"):
            yield body[: len(body) // 2]
            await asyncio.sleep(0.02)
            if self._fault == "cut":
                raise CutHere
        elif self._fault == "slow":
            async for part in self._slowly(body):
                yield part
        elif self._fault == "no_usage":
            yield msgspec.json.encode(msgspec.json.decode(body) | {"usage": None})
        else:
            yield body

    async def stream(self, frames: AsyncIterator[bytes], request_id: str) -> AsyncIterator[bytes]:
        """A spoiled stream; faults in the middle come after ``after`` frames."""
        if self._fault in ("cold", "blank"):
            async for part in self._boot():
                yield part
        if self._fault == "blank":
            return
        if self._fault == "cold" and self._script.code != "upstream_error":
            yield b"data: " + envelope(self._error(self._script.code), request_id) + b"\n\n"
            return
        async with aclosing(cast("AsyncGenerator[bytes]", frames)) as source:
            async for part in self._in_the_middle(source, request_id):
                yield part

    async def _in_the_middle(self, source: AsyncIterator[bytes], request_id: str) -> AsyncIterator[bytes]:
        left = self._script.after if self._fault in ("cut", "truncated", "error") else None
        async for burst in source:
            for frame in burst.split(b"\n\n")[:-1]:
                if left == 0:
                    if self._fault == "error":
                        yield b"data: " + envelope(self._error(self._script.code), request_id) + b"\n\n"
                    await asyncio.sleep(0.02)  # let the last bytes out before the socket closes
                    if self._fault == "cut":
                        raise CutHere
                    return
                left = None if left is None else left - 1
                async for part in self._frame(frame + b"\n\n"):
                    yield part

    async def _frame(self, frame: bytes) -> AsyncIterator[bytes]:
        if self._fault == "slow":
            async for part in self._slowly(frame):
                yield part
        elif self._fault == "crlf":
            yield frame.replace(b"\n", b"\r\n")
        elif self._fault == "no_usage" and b'"choices":[]' in frame:
            return
        else:
            yield frame

    async def _slowly(self, data: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(data), self._script.bytes):
            yield data[start : start + self._script.bytes]
            await asyncio.sleep(self._script.pause)

    async def _boot(self) -> AsyncIterator[bytes]:
        # Comment lines that end in a lone CR, then a bare LF before the first real frame.
        for step, label in enumerate(("waiting for GPU", "loading weights", "engine ready"), 1):
            bar = "█" * (step * 6) + "░" * (18 - step * 6)
            yield f": [{bar}] {label} · 0m{step:02d}s".ljust(80).encode() + b"\r"
            await asyncio.sleep(self._script.wait / 6)
            yield b": keepalive\n\n"
            await asyncio.sleep(self._script.wait / 6)
        yield b"\n"
