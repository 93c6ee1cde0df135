"""Requests read from a bare socket, for servers that misbehave."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket


def take(connection: socket.socket) -> bytes:
    """The head of the next request, whose body is read too; ``b""`` when the client has gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        got = connection.recv(65536)
        if not got:
            return b""
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
    while len(body) < int(length or 0):
        body += connection.recv(65536)
    return head
