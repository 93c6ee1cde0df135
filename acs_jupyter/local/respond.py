"""Answers on the wire: error envelopes, and bodies that stop when the client goes away.

Owns the envelope and the race between work and disconnect. It must not know engines or the contract's rules.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response

from ..wire import ON_LEAVE, RETRY_AFTER, SHOULD_RETRY, UPSTREAM_ERROR_KIND
from .leaving import leaving_in
from .shape import encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine

    from starlette.types import Receive, Scope, Send

    from ..errors import ApiError
    from .leaving import Leaving

T = TypeVar("T")

_TYPES = {
    "rate_limited": "rate_limit_error",
    "internal_error": "internal_error",
    "modal_cold_boot": "upstream_not_ready",
    "server_restarting": "server_error",
}
_WAITS = {"queue_full": 5.0, "rate_limited": 60.0, "circuit_open": 60.0, "modal_cold_boot": 30.0}
PROMISE = (ON_LEAVE.encode(), b"usage")
"""The header of a stream that tells its cost to a client that leaves (``leaving.py``)."""
_UPSTREAM = ("vllm_", "upstream_", "circuit_open", "modal_cold_boot")


class CutHere(Exception):
    """Close the socket now, in the middle of the answer."""


def envelope(error: ApiError, request_id: str) -> bytes:
    """The error body of the contract."""
    kind = "upstream_error" if error.code.startswith(_UPSTREAM) else "invalid_request_error"
    kind = _TYPES.get(error.code, kind)
    info: dict[str, Any] = {"code": error.code, "message": error.message, "type": kind}
    if error.status >= 429:
        info["retryable"] = error.retryable
    if error.status == 503 and error.retry_after is not None:
        info["retry_after_seconds"] = error.retry_after
    info |= vars(error).get("details", {})
    try:
        return encode({"error": info, "request_id": request_id})
    except UnicodeEncodeError:  # somebody's text with a lone surrogate
        told = {name: _encodable(value) for name, value in info.items()}
        return encode({"error": told, "request_id": request_id})


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def error_response(error: ApiError, request_id: str) -> Response:
    """An error as an HTTP answer, with the headers that tell whether a retry can help."""
    headers = {}
    wait = error.retry_after
    if wait is None and error.retryable and error.status in (429, 502, 503):
        wait = _WAITS.get(error.code, 1.0)  # every error that a retry can help says when
    if wait is not None:
        headers[RETRY_AFTER] = f"{wait:g}"
    if error.status == 504 or error.code in ("deadline_infeasible", "request_too_large"):
        headers[SHOULD_RETRY] = "false"
    if error.code.startswith(_UPSTREAM):
        headers[UPSTREAM_ERROR_KIND] = error.code
    if error.status == 408:
        headers["connection"] = "close"  # half of a body still stands in it
    return Response(envelope(error, request_id), error.status, headers, "application/json")


class Streamed:
    """An ASGI answer whose body is made while it is sent; the maker is cancelled when the client goes.

    ``farewell``: the last bytes for a client that leaves and waits for its bill, asked for when the maker has let go.
    """

    def __init__(
        self,
        body: AsyncIterator[bytes],
        media_type: str,
        headers: dict[str, str],
        farewell: Callable[[], bytes] | None = None,
    ) -> None:
        self._body, self._media_type, self._headers = body, media_type, headers
        self._farewell = farewell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body; on a cut, leave it unfinished so that the server closes the socket."""
        raw = [(b"content-type", self._media_type.encode()), (b"cache-control", b"no-store")]
        raw += [(name.encode(), value.encode("latin-1")) for name, value in self._headers.items()]
        leaving = leaving_in(scope) if self._farewell else None
        if leaving is not None:
            raw.append(PROMISE)

        async def deliver() -> bool:
            await send({"type": "http.response.start", "status": 200, "headers": raw})
            if leaving is not None:
                leaving.listen()
            async for part in self._body:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return True

        try:
            whole = await while_connected(receive, deliver(), leaving)
        except CutHere:
            return
        finally:
            close = getattr(self._body, "aclose", None)
            if close is not None:
                await close()
        if not whole and leaving is not None and leaving.seen and self._farewell is not None:
            await send({"type": "http.response.body", "body": self._farewell(), "more_body": False})


async def kept_alive(body: AsyncIterator[bytes], silence: float = 5.0) -> AsyncGenerator[bytes]:
    """The same stream, with a comment whenever nothing came for ``silence`` seconds."""
    source = aiter(body)
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(source))
            await asyncio.wait({coming}, timeout=silence)
            if not coming.done():
                yield b": keepalive\n\n"
                continue
            done, coming = coming, None
            try:
                part = done.result()
            except StopAsyncIteration:
                return
            yield part
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()


async def while_connected(
    receive: Receive, work: Coroutine[Any, Any, T], leaving: Leaving | None = None
) -> T | None:
    """Run ``work`` until it ends or the client is gone, or is ``leaving``; then cancel it and return ``None``."""
    task = asyncio.ensure_future(work)
    others = [asyncio.ensure_future(_disconnected(receive))]
    if leaving is not None:
        others.append(asyncio.ensure_future(leaving.wait()))
    try:
        await asyncio.wait({task, *others}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, *others):
            if not each.done():
                each.cancel()
        await asyncio.gather(task, *others, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
