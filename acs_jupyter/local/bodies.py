"""The body of a request, read as it comes: not above its size, not for ever.

Owns both limits. It must not know what a body says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import ApiError, RequestTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request


async def read_body(request: Request, most: int, wait: float, too_large: Callable[[int], str]) -> bytes:
    """The whole body of at most ``most`` bytes; ``wait``: seconds without a byte after which it is given up (0: none).

    Raises :class:`RequestTooLarge` with the words for the size that is known by then, and a 408.
    """
    body = bytearray()
    parts = request.stream()
    while True:
        try:
            async with asyncio.timeout(wait or None):
                part = await anext(parts, None)
        except TimeoutError:
            raise ApiError(
                f"No byte of the body came for {wait:g} seconds; {len(body)} had come. Send it without a pause.",
                code="invalid_request",
                status=408,
                retryable=False,
            ) from None
        if part is None:
            return bytes(body)
        body += part
        if len(body) > most:
            raise RequestTooLarge(too_large(max(len(body), _announced(request))))


def _announced(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0
