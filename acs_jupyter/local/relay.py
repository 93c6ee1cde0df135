"""One request handed to an upstream, and its answer handed back while it comes.

Owns attempts, deadlines, keepalives and the moment a status is committed. It must not know routes, keys or
budgets: what a request used is told to ``on_usage``. Nothing of an answer is kept.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from contextlib import aclosing, suppress
from time import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import httpx

from ..errors import ApiError, UpstreamError, UpstreamServerError
from .respond import CutHere, envelope, error_response, while_connected
from .sieve import Inflater, Sieve, Tally
from .upstream_errors import curable, detailed, in_stream, refused, sick, too_late, unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from .breaker import Ticket
    from .upstream import Upstream

    OnUsage = Callable[[int | None, int], None]

T = TypeVar("T")
SPACES = b" " * 1024
KEEPALIVE = b": keepalive\n\n"
_LONGEST_ERROR = 65_536
_ENCODINGS = ("gzip", "x-gzip", "deflate")


class Order(NamedTuple):
    """What to ask of an upstream. ``drop_usage``: the usage frame was asked for here, not by the client.

    ``on_usage`` is called once with prompt and completion tokens as the upstream reports them; for a stream
    that ends early with ``None`` and the number of content frames; not at all when nothing was generated.
    """

    body: bytes
    request_id: str
    streamed: bool
    headers: dict[str, str]
    drop_usage: bool = False
    on_usage: OnUsage | None = None


class Relay:
    """The answer of an upstream as an ASGI answer of ours; the upstream is left when the client leaves."""

    def __init__(self, upstream: Upstream, order: Order, ticket: Ticket) -> None:
        self._upstream, self._order, self._ticket = upstream, order, ticket
        self._patience = upstream.patience
        self._send: Send
        self._started = self._told = False
        self._quiet_since = 0.0
        self._response: httpx.Response | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; a failure before the first byte is an error with its status, later one stands in the body."""

        async def deliver() -> None:
            try:
                await (self._stream() if self._order.streamed else self._json())
            except ApiError as error:
                self._judge(error)
                await self._fail(scope, receive, error)

        self._send = send
        self._upstream.active += 1
        try:
            await while_connected(receive, deliver())
        except CutHere:
            return
        finally:
            self._upstream.active -= 1
            self._ticket.release()
            if self._response is not None:
                await self._response.aclose()

    async def _json(self) -> None:
        patience = self._patience
        tally = Tally()

        async def beat() -> None:
            await self._start("application/json")
            await self._body(SPACES)

        work = asyncio.ensure_future(self._in_time(self._first_bytes()))
        response, parts, first = await _waited(work, self._first_wait(), patience.silence, beat)
        async with aclosing(parts):
            length = _length(response)
            await self._start("application/json", length)
            try:
                while first:
                    if tally.feed(first) == length:
                        self._succeeded(tally.usage())  # the client knows that these bytes are the last
                    await self._body(first)
                    first = await anext(parts, b"")
            except (httpx.HTTPError, zlib.error, ApiError):
                self._ticket.failed("upstream_error")
                raise CutHere from None  # bytes of the answer are out: only an open end can tell
        self._succeeded(tally.usage())
        await self._end()

    async def _stream(self) -> None:
        patience = self._patience
        kind = "text/event-stream; charset=utf-8"

        async def beat() -> None:
            await self._start(kind)
            await self._body(KEEPALIVE)

        work = asyncio.ensure_future(self._in_time(self._attempt(1)))
        response = await _waited(work, self._first_wait(), patience.silence, beat)
        sieve = Sieve(drop_usage=self._order.drop_usage)
        try:
            await self._start(kind)
            beating = asyncio.ensure_future(self._keep_alive())
            try:
                await self._pass(response, sieve)
            finally:
                beating.cancel()
                with suppress(asyncio.CancelledError):
                    await beating
        finally:
            if not sieve.done:
                self._report((None, sieve.frames) if sieve.usage is None else sieve.usage)
        self._succeeded(sieve.usage or (None, sieve.frames))
        await self._end()

    async def _pass(self, response: httpx.Response, sieve: Sieve) -> None:
        try:
            async with aclosing(_decoded(response)) as parts:
                async for part in parts:
                    passed = sieve.feed(part)
                    if passed:
                        await self._body(passed)
                    if sieve.done or sieve.error is not None:
                        await _read_out(parts)
                        break
            passed = sieve.end()
            if passed:
                await self._body(passed)
        except httpx.ReadTimeout:
            raise too_late(self._patience.deadline + 30) from None
        except (httpx.HTTPError, zlib.error) as problem:
            raise UpstreamError(f"The upstream broke its stream off: {type(problem).__name__}.") from None
        if sieve.error is not None:
            raise in_stream(sieve.error)
        if not sieve.done:
            raise UpstreamError("The upstream ended its stream without the end mark.")

    async def _first_bytes(self) -> tuple[httpx.Response, AsyncGenerator[bytes], bytes]:
        for attempt in range(1, self._patience.retries + 2):
            try:
                return await self._beginning(attempt)
            except httpx.ReadTimeout:
                raise too_late(self._patience.deadline + 30) from None
            except (httpx.NetworkError, httpx.ProtocolError) as problem:
                error: ApiError = unreachable(type(problem).__name__, attempt)
            except zlib.error:
                error = UpstreamServerError("The upstream's encoding cannot be read.", retry_after=1)
            except ApiError as problem:
                error = problem
            if not curable(error) or attempt > self._patience.retries:
                raise error
            pause = self._patience.backoff * 2 ** (attempt - 1)
            await asyncio.sleep(pause * random.uniform(1, 1.25))
        raise AssertionError("the last attempt returns or raises")

    async def _beginning(self, attempt: int) -> tuple[httpx.Response, AsyncGenerator[bytes], bytes]:
        response = await self._attempt(attempt)
        parts = _decoded(response)
        first = await anext(parts, b"")
        if not first:
            raise UpstreamServerError("The upstream's answer is empty.", retry_after=1)
        return response, parts, first

    async def _attempt(self, number: int) -> httpx.Response:
        """The head of a good answer; anything else as the contract's error."""
        try:
            response = await self._upstream.send(self._order.body, stream=self._order.streamed)
        except httpx.ReadTimeout:
            raise too_late(self._patience.deadline + 30) from None
        except httpx.HTTPError as problem:
            self._upstream.lost()
            raise unreachable(type(problem).__name__, number) from None
        self._response = response
        await self._check(response, number)
        return response

    async def _check(self, response: httpx.Response, number: int) -> None:
        status = response.status_code
        wanted = "text/event-stream" if self._order.streamed else "application/json"
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in (*_ENCODINGS, "identity", ""):
            raise UpstreamServerError(
                f"The upstream's encoding '{coding[:20]}' cannot be read.", retry_after=1
            )
        if status == 200 and kind == wanted:
            return
        if status == 200:
            raise UpstreamServerError(f"The upstream did not answer with {wanted}.", retry_after=1)
        try:
            body = await _error_body(response)
        except (httpx.HTTPError, zlib.error):
            body = b""
        if status >= 500:
            self._upstream.lost()
        error = refused(status, body, response.headers.get("retry-after"))
        raise detailed(error, upstream_status=status, attempts=number)

    async def _in_time(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._patience.deadline):
                return await work
        except TimeoutError:
            raise too_late(self._patience.deadline) from None

    def _first_wait(self) -> float:
        return self._patience.warm if self._upstream.warm else self._patience.cold

    async def _start(self, kind: str, length: int | None = None) -> None:
        if self._started:
            return
        self._started = True
        headers = {"content-type": kind} | self._order.headers
        if self._order.streamed:
            headers |= {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
        else:
            headers["cache-control"] = "no-store"
            if length is not None:
                headers["content-length"] = str(length)
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _body(self, data: bytes) -> None:
        self._quiet_since = asyncio.get_running_loop().time()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _keep_alive(self) -> None:
        # Parts of a frame are never out, so a comment may stand anywhere between two sends.
        loop = asyncio.get_running_loop()
        self._quiet_since = self._quiet_since or loop.time()
        while True:
            left = self._quiet_since + self._patience.silence - loop.time()
            if left <= 0:
                await self._body(KEEPALIVE)
            else:
                await asyncio.sleep(left)

    async def _fail(self, scope: Scope, receive: Receive, error: ApiError) -> None:
        upstream = self._upstream
        error = detailed(error, model_id=upstream.name, gpu_shape="unknown")
        if not self._started:
            answer = error_response(error, self._order.request_id)
            answer.headers.update(self._order.headers)
            await answer(scope, receive, self._send)
            return
        told = envelope(error, self._order.request_id)
        told = b"data: " + told + b"\n\n" if self._order.streamed else told
        await self._send({"type": "http.response.body", "body": told, "more_body": False})

    def _judge(self, error: ApiError) -> None:
        if sick(error):
            self._ticket.failed(error.code)
        elif 400 <= error.status < 500:
            self._ticket.succeeded()

    def _succeeded(self, usage: tuple[int | None, int] | None) -> None:
        if self._told:
            return
        self._told = True
        self._ticket.succeeded()
        self._upstream.last_answer = time()
        if usage is not None:
            self._report(usage)

    def _report(self, usage: tuple[int | None, int]) -> None:
        if self._order.on_usage is not None and usage != (None, 0):
            self._order.on_usage(*usage)


async def _waited(
    work: asyncio.Future[T], first: float, again: float, beat: Callable[[], Awaitable[None]]
) -> T:
    """The result of some work, with a beat whenever it takes longer."""
    wait = first
    try:
        while not (await asyncio.wait({work}, timeout=wait))[0]:
            await beat()
            wait = again
        return work.result()
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def _decoded(response: httpx.Response) -> AsyncGenerator[bytes]:
    """The bytes of a body as they come, without the upstream's encoding; the response is closed behind them."""
    try:
        if response.headers.get("content-encoding", "identity").strip().lower() not in _ENCODINGS:
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


async def _error_body(response: httpx.Response) -> bytes:
    found = b""
    async with aclosing(_decoded(response)) as parts:
        async for part in parts:
            found += part
            if len(found) > _LONGEST_ERROR:
                break
    return found[:_LONGEST_ERROR]


def _length(response: httpx.Response) -> int | None:
    """The body's length, when it will be passed on as it is."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() and coding not in _ENCODINGS else None


async def _read_out(parts: AsyncGenerator[bytes]) -> None:
    """Read what is left, which is nothing but the body's end: only then the connection can serve again."""
    with suppress(TimeoutError, httpx.HTTPError, zlib.error):
        async with asyncio.timeout(0.5):
            async for _ in parts:
                pass
