"""An HTTP/1.1 answer out of the bytes of a connection, pure and incremental: its head, then its body.

Owns the form of a head and the three framings of a body (RFC 9112, sections 4 to 6): chunked, a length, or until the
connection closes. Written for one purpose: answers to a POST, thousands of them, a chunk for every token. It must not
know sockets or what an answer means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LONGEST_LINE = 4096
_LONGEST_HEAD = 65536
_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}").fullmatch
_HERE = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]{0,14})\r\n").match
_STATUS = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: .*)?").fullmatch
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch


class BrokenAnswer(ValueError):
    """The bytes are no HTTP/1.1 answer."""


class Head:
    """``status`` and ``headers`` (names in lower case) once ``whole``; ``rest`` is what came behind the head."""

    def __init__(self) -> None:
        self.whole = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.rest = b""
        self._old = False

    @property
    def lasts(self) -> bool:
        """Whether the connection may be used again (RFC 9112, 9.3): not after ``close``, nor by itself in HTTP/1.0."""
        said = {word.strip() for word in self.headers.get("connection", "").lower().split(",")}
        return "close" not in said and (not self._old or "keep-alive" in said)

    def feed(self, data: bytes) -> None:
        """Take bytes until the head is whole. Interim answers (1xx) are skipped. Raises :class:`BrokenAnswer`."""
        self.rest += data
        while not self.whole:
            end = self.rest.find(b"\r\n\r\n")
            if end < 0:
                if len(self.rest) > _LONGEST_HEAD:
                    raise BrokenAnswer("the head of the answer does not end")
                return
            head, self.rest = self.rest[:end], self.rest[end + 4 :]
            self._read(head.decode("latin-1").split("\r\n"))
            self.whole = self.status >= 200

    def _read(self, lines: list[str]) -> None:
        found = _STATUS(lines[0])
        if found is None:
            raise BrokenAnswer("the answer is not HTTP/1.1")
        self.status, self.headers, self._old = int(found[2]), {}, found[1] == "0"
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not _NAME(name) or "\n" in value or "\r" in value or "\0" in value:
                raise BrokenAnswer("a header of the answer cannot be read")
            name, value = name.lower(), value.strip(" \t")
            if name in self.headers:
                if name == "content-length" and value != self.headers[name]:
                    raise BrokenAnswer("the answer has two lengths")
                value = value if name == "content-length" else f"{self.headers[name]}, {value}"
            self.headers[name] = value


class Body:
    """``whole`` once the body is complete; ``rest`` is what came behind it. Any slicing gives the same bytes."""

    def __init__(self, headers: Mapping[str, str], status: int) -> None:
        self.whole = False
        self._buffer = b""
        self._left = 0
        coding = headers.get("transfer-encoding", "").lower().strip()
        self._chunked = coding == "chunked"
        self._trailing = self._in_chunk = False
        length = headers.get("content-length", "").strip()
        if coding and not self._chunked:
            raise BrokenAnswer(f"transfer-encoding {coding!r} is not known")
        if length and not (length.isascii() and length.isdigit()):
            raise BrokenAnswer(f"content-length {length!r} is no number")
        self._until_close = not coding and not length
        if status in (204, 304):
            self._chunked = self._until_close = False
            self.whole = True
        elif not self._chunked and length:
            self._left = int(length)
            self.whole = self._left == 0

    @property
    def rest(self) -> bytes:
        """Bytes behind the end; a server that sends any cannot be used again."""
        return self._buffer if self.whole else b""

    def feed(self, data: bytes) -> bytes:
        """The body's bytes in what came. Raises :class:`BrokenAnswer`."""
        if self._chunked:
            self._buffer += data
            return self._chunks()
        if self._until_close:
            return data
        body, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.whole = self._left == 0
        return body

    def close(self) -> None:
        """The connection has ended. Raises :class:`BrokenAnswer` when the body has not."""
        if self._until_close:
            self.whole = True
        elif not self.whole:
            raise BrokenAnswer("the connection was closed in the middle of the answer")

    def _chunks(self) -> bytes:
        buffer, place = self._buffer, 0
        parts: list[bytes] = []
        while not self.whole:
            if not self._left and not self._trailing:
                while size := _HERE(buffer, place):
                    start = size.end()
                    end = start + int(size[1], 16)
                    if not buffer.startswith(b"\r\n", end):
                        break
                    parts.append(buffer[start:end])  # all of a chunk is here, as it mostly is
                    place = end + 2
            if self._left:
                part = buffer[place : place + self._left]
                if not part:
                    break
                place += len(part)
                self._take(part, parts)
                continue
            end = buffer.find(b"\r\n", place)
            if end < 0:
                break
            self._line(buffer[place:end])
            place = end + 2
        self._buffer = buffer[place:]
        if len(self._buffer) > _LONGEST_LINE and not self.whole:
            raise BrokenAnswer("a chunk has no size")
        return b"".join(parts)

    def _take(self, part: bytes, parts: list[bytes]) -> None:
        """Bytes of a chunk, or of the line end behind it."""
        self._left -= len(part)
        if self._in_chunk:
            parts.append(part)
            if not self._left:
                self._in_chunk, self._left = False, 2
        elif part.strip(b"\r\n"):
            raise BrokenAnswer("a chunk does not end where it says")

    def _line(self, line: bytes) -> None:
        """A chunk's size, or a trailer (they are skipped); an empty one ends the body."""
        if self._trailing:
            self.whole = not line
            return
        size = line.split(b";", 1)[0].strip()
        if not _SIZE(size):
            raise BrokenAnswer("a chunk has no size")
        self._left = int(size, 16)
        self._in_chunk = self._left > 0
        self._trailing = not self._in_chunk
