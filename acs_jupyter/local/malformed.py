"""Uvicorn's protocol as it is served here: what does not even parse as HTTP is answered with the envelope too.

Owns that one answer, and the class, for both of uvicorn's parsers. It must not know requests: there is none.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from secrets import token_hex
from typing import Any

from ..errors import BadRequest
from ..wire import REQUEST_ID
from .leaving import Hearing
from .respond import envelope


def answer() -> bytes:
    """The whole answer, after which the connection is of no use."""
    request_id = f"req_{token_hex(10)}"
    body = envelope(BadRequest("This is not a valid HTTP/1.1 request."), request_id)
    head = (
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n{REQUEST_ID}: {request_id}\r\n\r\n"
    )
    return head.encode() + body


def protocol() -> type[asyncio.Protocol]:
    """Uvicorn's protocol for HTTP, with this answer in place of its own, and an ear for clients that leave."""
    from uvicorn.importer import import_from_string

    quick = find_spec("httptools") is not None
    name = "httptools_impl.HttpToolsProtocol" if quick else "h11_impl.H11Protocol"
    base = import_from_string(f"uvicorn.protocols.http.{name.replace('.', ':')}")

    def send_400_response(self: Any, msg: str) -> None:
        self.transport.write(answer())
        self.transport.close()

    made: type[asyncio.Protocol] = type("Protocol", (Hearing, base), {"send_400_response": send_400_response})
    return made
