"""What the server must learn from an answer while its bytes go by: the usage, the end mark, an error.

Owns frames of a stream and the two ends of a body; neither is held longer than one frame or a few kilobytes.
It must not know sockets, nor what is done with a usage.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from ..sse import DONE, Decoder
from ..wire import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

# A CR at the very end may be half of a CRLF: it waits for the next byte.
_BOUNDARY = re.compile(rb"(?:\r\n|\n|\r(?=[^\n])){2}")
_NOTABLE = (b"[]", b"[DONE]", b'"error"')
"""Only frames with one of these can be a usage frame, the end mark or an error; the others are not read."""
# Inside a JSON string every quote is escaped, so no text of a model can look like this member.
_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')
_ENDS = 16_384
_PIECE = 65_536


class _Frame(msgspec.Struct, gc=False):
    choices: list[msgspec.Raw] | None = None
    usage: Usage | None = None
    error: dict[str, Any] | str | None = None


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_usage = msgspec.json.Decoder(Usage).decode


def usage_in(data: bytes) -> tuple[int, int] | None:
    """Prompt and completion tokens of the last usage object in some bytes."""
    for found in reversed(_USAGE.findall(data)):
        try:
            usage = _decode_usage(found)
        except msgspec.DecodeError:
            continue
        if usage.total_tokens or usage.prompt_tokens:
            return usage.prompt_tokens, usage.completion_tokens
    return None


class Tally:
    """Finds the usage in a JSON body of any size; keeps its first and last bytes only."""

    def __init__(self) -> None:
        self._head = self._tail = b""
        self._size = 0

    def feed(self, piece: bytes) -> int:
        """Take the next bytes of the body; how many there were so far."""
        self._size += len(piece)
        if len(self._head) < _ENDS:
            self._head += piece[: _ENDS - len(self._head)]
        self._tail = piece[-_ENDS:] if len(piece) >= _ENDS else (self._tail + piece)[-_ENDS:]
        return self._size

    def usage(self) -> tuple[int, int] | None:
        """What the body told, or ``None``."""
        return usage_in(self._tail) or usage_in(self._head)


class Sieve:
    """Complete frames of a stream go through as they are; with ``drop_usage`` the closing usage frame does not.

    ``error`` holds the payload of an error frame; it and all behind it are kept back.
    """

    def __init__(self, *, drop_usage: bool) -> None:
        self._drop = drop_usage
        self._rest = b""
        self._running = b""
        self._usage: tuple[int, int] | None = None
        self.done = False
        self.error: bytes | None = None
        self.frames = 0
        """Frames with content so far: each stands for at least one token."""

    @property
    def usage(self) -> tuple[int, int] | None:
        """Prompt and completion tokens as reported by the closing frame, else by the last running usage."""
        return self._usage or usage_in(self._running)

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on now."""
        if self.done or self.error is not None:
            return b""
        if self._rest:
            data = self._rest + data
        end = _end_of_frames(data)
        self._rest = data[end:]
        whole = data if end == len(data) else data[:end]
        if not any(mark in whole for mark in _NOTABLE):
            self._count(whole)
            return whole
        return b"".join(frame for frame in _frames(whole) if self._passes(frame))

    def end(self) -> bytes:
        """The stream ended: a last frame that lacks nothing but its blank line is completed."""
        rest = self._rest.strip()
        whole = not rest.startswith(b"data:") or rest.endswith((DONE, b"}"))
        return self.feed(b"\n\n") if rest and whole else b""

    def _passes(self, frame: bytes) -> bool:
        if self.done or self.error is not None:
            return False
        decoder = Decoder()
        events = [event for event in decoder.feed(frame) + decoder.flush() if isinstance(event, bytes)]
        for payload in events:
            if payload == DONE:
                self.done = True
                return True
            try:
                read = _decode_frame(payload)
            except msgspec.DecodeError:
                continue
            if read.error is not None and not read.choices:
                self.error = payload
                return False
            if read.choices == [] and read.usage is not None:
                self._usage = read.usage.prompt_tokens, read.usage.completion_tokens
                return not self._drop
        if events:
            self._count(frame)
        return True

    def _count(self, frames: bytes) -> None:
        self.frames += frames.count(b"data:")
        at = frames.rfind(b'"usage"')
        if at >= 0:
            self._running = frames[at : at + 1000]


class Inflater:
    """Undoes the gzip or deflate encoding of a body in pieces of bounded size."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(47)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that some encoded bytes stand for; raises ``zlib.error``."""
        while data:
            piece = self._stream.decompress(data, _PIECE)
            if piece:
                yield piece
            data = self._stream.unconsumed_tail
            if self._stream.eof:
                data = self._stream.unused_data
                if data:
                    self._stream = zlib.decompressobj(47)

    def end(self) -> bytes:
        """The last bytes; raises ``zlib.error`` when the encoding was cut."""
        last = self._stream.flush()
        if not self._stream.eof:
            raise zlib.error("the encoded body was cut")
        return last


def _end_of_frames(data: bytes) -> int:
    if b"\r" not in data:
        return data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
    end = 0
    for found in _BOUNDARY.finditer(data):
        end = found.end()
    return end


def _frames(data: bytes) -> Iterator[bytes]:
    start = 0
    for found in _BOUNDARY.finditer(data):
        yield data[start : found.end()]
        start = found.end()
