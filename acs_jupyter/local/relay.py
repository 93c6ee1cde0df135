"""One request handed to an upstream, and its answer handed back while it comes.

Owns keepalives, the moment a status is committed and what is told to the breaker. It must not know routes, keys or
budgets: what a request used is told to ``on_usage``. Nothing of an answer is kept.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import aclosing, suppress
from time import time
from typing import TYPE_CHECKING, TypeVar

import httpx

from ..errors import ApiError, JobResultTooLarge, ServerFailure, UpstreamError
from .asking import Asking
from .guard import log
from .leaving import leaving_in
from .reading import decoded, length_of, read_out
from .respond import PROMISE, CutHere, envelope, error_response, while_connected
from .shape import DONE, farewell
from .sieve import Sieve, Tally
from .upstream_errors import detailed, in_answer, presentable, sick, too_late

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from .breaker import Ticket
    from .counts import Counts
    from .leaving import Leaving
    from .order import Order
    from .upstream import Upstream


T = TypeVar("T")
SPACES = b" " * 1024
KEEPALIVE = b": keepalive\n\n"


class Relay:
    """The answer of an upstream as an ASGI answer of ours; the upstream is left when the client leaves."""

    def __init__(self, upstream: Upstream, order: Order, ticket: Ticket) -> None:
        self._upstream, self._order, self._ticket = upstream, order, ticket
        self._patience = upstream.patience
        self._send: Send
        self._leaving: Leaving | None = None
        self._started = self._told = self._over = False
        self._quiet_since = 0.0
        self._asking = Asking(upstream, order.body, streamed=order.streamed, window=order.window)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; a failure before the first byte is an error with its status, later one stands in the body."""

        async def deliver() -> bool:
            try:
                await (self._stream() if self._order.streamed else self._json())
            except CutHere:
                self._ended(UpstreamError.status)
                raise
            except ApiError as error:
                self._judge(error)
                self._ended(error.status)
                await self._fail(scope, receive, error)
            except Exception as problem:  # noqa: BLE001 - whatever it is, the client is told and the ticket settled
                log.error("forwarding failed: %s", type(problem).__name__)
                self._ended(ServerFailure.status)
                await self._fail(scope, receive, ServerFailure("The server failed while it forwarded this."))
            return True

        self._send = send
        self._leaving = leaving_in(scope) if self._order.streamed and self._order.on_leave else None
        self._upstream.active += 1
        try:
            whole = await while_connected(receive, deliver(), self._leaving)
        except CutHere:
            return
        finally:
            await self._leave()
        if not whole and self._leaving is not None and self._leaving.seen:
            await self._bid_farewell()

    async def _leave(self) -> None:
        self._upstream.active -= 1
        self._ticket.release()
        await self._asking.aclose()

    async def _bid_farewell(self) -> None:
        """The end for a client that leaves: what it pays, as it is settled, if it asked for usage, and the end mark."""
        order = self._order
        assert order.on_leave is not None
        counts = order.on_leave()
        told = farewell(self._upstream.name or "", order.request_id, *counts) if order.tells else DONE
        await self._send({"type": "http.response.body", "body": told, "more_body": False})

    async def collect(self, at_most: int) -> bytes:
        """The whole JSON answer, for work nobody waits for; raises the contract's errors."""
        self._upstream.active += 1
        found, tally, size = bytearray(), Tally(), 0
        try:
            _, parts, first = await self._asking.first_bytes()
            async with aclosing(parts):
                while first:
                    size = tally.feed(first)
                    found += first[: at_most - len(found)]  # the rest only tells what was used
                    first = await anext(parts, b"")
            self._succeeded(tally.usage(), tally.guess())
        except (httpx.HTTPError, zlib.error) as problem:
            error = UpstreamError(f"The upstream broke its answer off: {type(problem).__name__}.")
            self._ticket.failed(error.code)
            raise error from None
        except ApiError as error:
            self._judge(error)
            raise presentable(error, self._upstream.hide) from None
        finally:
            self._report(tally.usage())
            await self._leave()
        if size > at_most:
            raise JobResultTooLarge(f"The result has {size} bytes; {at_most} are kept.")
        return bytes(found)

    async def _json(self) -> None:
        patience = self._patience
        tally = Tally()

        async def beat() -> None:
            await self._start("application/json")
            await self._body(SPACES)

        work = asyncio.ensure_future(self._asking.first_bytes())
        response, parts, first = await _waited(work, self._first_wait(), patience.silence, beat)
        async with aclosing(parts):
            length = length_of(response)
            await self._start("application/json", length)
            try:
                while first:
                    if tally.feed(first) == length:
                        # The client knows that these bytes are the last.
                        self._succeeded(tally.usage(), tally.guess())
                    await self._body(first)
                    first = await anext(parts, b"")
            except Exception as problem:  # noqa: BLE001 - bytes of the answer are out: only an open end can tell
                log.debug("an upstream's answer broke off: %s", type(problem).__name__)
                self._ticket.failed("upstream_error")
                raise CutHere from None
            finally:
                self._report(tally.usage(), tally.guess())
        self._succeeded(tally.usage(), tally.guess())
        await self._end()

    async def _stream(self) -> None:
        patience = self._patience
        kind = "text/event-stream; charset=utf-8"

        async def beat() -> None:
            await self._start(kind)
            await self._body(KEEPALIVE)

        work = asyncio.ensure_future(self._asking.head())
        response = await _waited(work, self._first_wait(), patience.silence, beat)
        order = self._order
        sieve = Sieve(drop_usage=order.drop_usage, prompts=order.prompts, fan_out=order.fan_out)
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
            self._report(self._streamed_usage(sieve), sieve.frames)
        self._succeeded(self._streamed_usage(sieve), sieve.frames)
        await self._end()

    def _streamed_usage(self, sieve: Sieve) -> Counts | None:
        told = sieve.usage
        if told is None or not sieve.is_partial:
            return told
        return told._replace(prompt=max(told.prompt, self._order.known))  # the engine reads all prompts

    async def _pass(self, response: httpx.Response, sieve: Sieve) -> None:
        try:
            async with aclosing(decoded(response)) as parts:
                async for part in parts:
                    passed = sieve.feed(part)
                    if sieve.done:  # told first: a client may leave as soon as it sees the end mark
                        self._succeeded(self._streamed_usage(sieve), sieve.frames)
                    if passed:
                        await self._body(passed)
                    if sieve.done or sieve.error is not None:
                        await read_out(parts)
                        break
            passed = sieve.end()
            if passed:
                await self._body(passed)
        except httpx.ReadTimeout:
            raise too_late(self._order.window + 30) from None
        except (httpx.HTTPError, zlib.error) as problem:
            raise UpstreamError(f"The upstream broke its stream off: {type(problem).__name__}.") from None
        if sieve.error is not None:
            raise in_answer(sieve.error)
        if not sieve.done:
            raise UpstreamError("The upstream ended its stream without the end mark.")

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
        if self._leaving is not None:
            raw.append(PROMISE)
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})
        if self._leaving is not None:
            self._leaving.listen()

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
        error = detailed(presentable(error, upstream.hide), model_id=upstream.name, gpu_shape="unknown")
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

    def _succeeded(self, usage: Counts | None, guess: int) -> None:
        self._ticket.succeeded()
        self._upstream.last_answer = time()
        self._report(usage, guess)
        self._ended(200)

    def _ended(self, status: int) -> None:
        over, self._over = self._over, True
        if self._order.on_end is not None and not over:
            self._order.on_end(status)

    def _report(self, usage: Counts | None, guess: int = 0) -> None:
        if self._told or (usage is None and not guess):
            return
        self._told = True
        order = self._order
        if order.on_usage is None:
            return
        if usage is None:
            order.on_usage(None, min(guess, order.most.completion))
            return
        if usage != usage.within(order.most):
            log.warning("the upstream of %r reports more tokens than it was asked for", self._upstream.name)
        order.on_usage(*usage.within(order.most))


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
