"""An upstream asked once or several times, until a good answer begins or the contract's error is known.

Owns attempts, pauses and the deadline. It must not know the client, nor what becomes of the answer.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from typing import TYPE_CHECKING, TypeVar

import httpx

from ..errors import ApiError, UpstreamServerError
from .reading import ENCODINGS, LONGEST_ERROR, coding_of, decoded, error_body
from .sieve import is_error, may_be_error
from .upstream_errors import curable, detailed, in_answer, refused, too_late, unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from .upstream import Upstream

    Begun = tuple[httpx.Response, AsyncGenerator[bytes], bytes]
    """An answer, the rest of its body, and the body's first bytes."""

T = TypeVar("T")


class Asking:
    """One request to one upstream; to be closed whatever came of it. ``window``: seconds in all, 0 for no limit."""

    def __init__(self, upstream: Upstream, body: bytes, *, streamed: bool, window: float) -> None:
        self._upstream, self._body, self._streamed = upstream, body, streamed
        self._patience, self._window = upstream.patience, window
        self._response: httpx.Response | None = None

    async def head(self) -> httpx.Response:
        """A good answer's head, in one attempt: for streams."""
        return await self._in_time(self._attempt(1))

    async def first_bytes(self) -> Begun:
        """A good answer's first bytes, in as many attempts as patience allows: for JSON."""
        return await self._in_time(self._first_bytes())

    async def aclose(self) -> None:
        """Leave the upstream."""
        if self._response is not None:
            await self._response.aclose()

    async def _first_bytes(self) -> Begun:
        for attempt in range(1, self._patience.retries + 2):
            try:
                return await self._beginning(attempt)
            except httpx.ReadTimeout:
                raise too_late(self._window + 30) from None
            except (httpx.NetworkError, httpx.ProtocolError) as problem:
                error: ApiError = self._unreachable(problem, attempt)
            except zlib.error:
                error = UpstreamServerError("The upstream's encoding cannot be read.", retry_after=1)
            except ApiError as problem:
                error = problem
            if not curable(error) or attempt > self._patience.retries:
                raise error
            pause = self._patience.backoff * 2 ** (attempt - 1)
            await asyncio.sleep(pause * random.uniform(1, 1.25))
        raise AssertionError("the last attempt returns or raises")

    async def _beginning(self, attempt: int) -> Begun:
        response = await self._attempt(attempt)
        parts = decoded(response)
        first = await anext(parts, b"")
        if not first:
            raise UpstreamServerError("The upstream's answer is empty.", retry_after=1)
        return response, parts, await self._examined(parts, first, attempt)

    async def _examined(self, parts: AsyncGenerator[bytes], first: bytes, number: int) -> bytes:
        # The first bytes; all of an error's, which some servers put into a 200.
        more = first
        while more and len(first) < LONGEST_ERROR and may_be_error(first) is not False:
            more = await anext(parts, b"")
            first += more
        if not more and is_error(first):
            raise detailed(in_answer(first), upstream_status=200, attempts=number)
        return first

    def _unreachable(self, problem: Exception, attempts: int) -> ApiError:
        upstream = self._upstream
        return unreachable(type(problem).__name__, attempts, upstream.name, upstream.cold_for)

    async def _attempt(self, number: int) -> httpx.Response:
        """The head of a good answer; anything else as the contract's error."""
        try:
            response = await self._upstream.send(self._body, stream=self._streamed, window=self._window)
        except httpx.ReadTimeout:
            raise too_late(self._window + 30) from None
        except httpx.HTTPError as problem:
            self._upstream.lost()
            raise self._unreachable(problem, number) from None
        self._response = response
        try:
            await self._check(response, number)
        except ApiError:
            await response.aclose()
            raise
        return response

    async def _check(self, response: httpx.Response, number: int) -> None:
        status = response.status_code
        wanted = "text/event-stream" if self._streamed else "application/json"
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        coding = coding_of(response)
        if coding not in (*ENCODINGS, "identity", ""):
            named = f" '{coding}'" if coding in ("br", "zstd", "compress") else ""  # others could be anything
            raise UpstreamServerError(f"The upstream's encoding{named} cannot be read.", retry_after=1)
        if status == 200 and kind == wanted:
            return
        body = await _error_body(response) if status != 200 or kind == "application/json" else b""
        if status == 200 and body and is_error(body):
            raise detailed(in_answer(body), upstream_status=status, attempts=number)
        if status == 200:
            raise UpstreamServerError(f"The upstream did not answer with {wanted}.", retry_after=1)
        if status >= 500:
            self._upstream.lost()
        error = refused(status, body, response.headers.get("retry-after"))
        raise detailed(error, upstream_status=status, attempts=number)

    async def _in_time(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._window or None):
                return await work
        except TimeoutError:
            raise too_late(self._window) from None


async def _error_body(response: httpx.Response) -> bytes:
    try:
        return await error_body(response)
    except (httpx.HTTPError, zlib.error):
        return b""
