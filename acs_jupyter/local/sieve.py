"""What the server must learn from an answer while its bytes go by: the usage, the end mark, an error.

Owns frames of a stream and the two ends of a body; neither is held longer than one frame or a few kilobytes.
It must not know sockets, nor what is done with a usage.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import msgspec

from ..sse import DONE, Decoder
from .counts import Counts, Running, read_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

# A CR at the very end may be half of a CRLF: it waits for the next byte.
_BOUNDARY = re.compile(rb"(?:\r\n|\n|\r(?=[^\n])){2}")
_NOTABLE = (b"[]", b"[DONE]", b'"error"')
"""Only frames with one of these can be a usage frame, the end mark or an error; the others are not read."""
# Inside a JSON string every quote is escaped, so no text of a model can look like this member.
_USAGE = re.compile(rb'"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')
_BEGUN = re.compile(rb'"usage"\s*:\s*\{')
# A raw line end cannot stand inside JSON text, so the word in a model's text is no match.
_DATA = re.compile(rb"(?:\A|[\r\n])data:")
_ENDS = 16_384
_PIECE = 65_536
_FIRST = re.compile(rb'\s*\{\s*"(\w+)"\s*:\s*("error"|.)', re.DOTALL)
_SOME_CHOICE = re.compile(rb'"choices"\s*:\s*\[\s*\{')
_OF_ERRORS = frozenset({b"error", b"message", b"detail", b"code", b"type", b"param", b"request_id"})
"""Members with which an error begins, and no completion."""


class _Frame(msgspec.Struct, gc=False):
    choices: list[msgspec.Raw] | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    object: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_error(self) -> bool:
        """An error in OpenAI's shape, or in vLLM's own."""
        return not self.choices and (bytes(self.error) != b"null" or bytes(self.object) == b'"error"')


class _Choice(msgspec.Struct, gc=False):
    index: int = 0


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_choice = msgspec.json.Decoder(_Choice).decode


def usage_in(data: bytes) -> Counts | None:
    """Prompt and completion tokens of the last believable usage object in some bytes."""
    for found in reversed(_USAGE.findall(data)):
        counts = read_counts(found)
        if counts is not None and any(counts):
            return counts
    return None


def may_be_error(begun: bytes) -> bool | None:
    """Whether a JSON body that begins so may be an error; ``None``: more bytes are needed to tell."""
    if _SOME_CHOICE.search(begun):
        return False
    found = _FIRST.match(begun)
    if found is not None:
        name, value = found.groups()
        if name == b"object" and value == b'"':
            return None if len(begun) - found.start(2) < len(b'"error"') else False
        return name in _OF_ERRORS or (name == b"object" and value == b'"error"')
    bare = begun.lstrip()
    return None if len(bare) < 80 and bare[:1] in (b"", b"{") else False


def is_error(body: bytes) -> bool:
    """Whether a whole JSON body is an error: OpenAI's shape, vLLM's own, or a sentence without choices."""
    try:
        read = _decode_frame(body)
    except (msgspec.DecodeError, RecursionError):
        return may_be_error(body) is True  # it cannot be read as an answer either
    return read.is_error or (read.choices is None and may_be_error(body) is True)


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

    def usage(self) -> Counts | None:
        """What the body told, or ``None``."""
        return usage_in(self._tail) or usage_in(self._head)

    def guess(self) -> int:
        """Tokens that the text so far may be, rather too many: a quarter of its bytes. 0 before there is a choice."""
        begun = _SOME_CHOICE.search(self._head)
        return 0 if begun is None else 1 + (self._size - begun.end()) // 4


class Sieve:
    """Complete frames of a stream go through as they are; with ``drop_usage`` the closing usage frame does not.

    ``error`` holds the payload of an error frame; it and all behind it are kept back.
    """

    def __init__(self, *, drop_usage: bool, prompts: int = 1, fan_out: int = 1) -> None:
        self._drop = drop_usage
        self._rest = b""
        self._running = Running(prompts, fan_out)
        self._usage: Counts | None = None
        self.done = False
        self.error: bytes | None = None
        self.frames = 0
        """Frames with content so far: each stands for at least one token."""

    @property
    def usage(self) -> Counts | None:
        """Prompt and completion tokens as reported by the closing frame, else the sum of the running ones."""
        return self._usage or self._running.total

    @property
    def is_partial(self) -> bool:
        """Whether the usage lacks prompts of which nothing was reported."""
        return self._usage is None and self._running.is_partial

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
            except (msgspec.DecodeError, RecursionError):
                read = _Frame(error=msgspec.Raw(b"1" if may_be_error(payload) else b"null"))
            if read.is_error:
                self.error = payload
                return False
            if read.choices == [] and bytes(read.usage) != b"null":
                self._usage = read_counts(bytes(read.usage)) or self._usage
                return not self._drop
        if events:
            self._count(frame)
        return True

    def _count(self, frames: bytes) -> None:
        self.frames += len(_DATA.findall(frames))
        if _BEGUN.search(frames):
            for frame in _frames(frames):
                self._note(frame)

    def _note(self, frame: bytes) -> None:
        decoder = Decoder()
        for payload in decoder.feed(frame) + decoder.flush():
            if not isinstance(payload, bytes):
                continue
            try:
                read = _decode_frame(payload)
                choices = [_decode_choice(choice).index for choice in read.choices or ()]
            except (msgspec.DecodeError, RecursionError):
                continue
            counts = read_counts(bytes(read.usage))
            if counts is not None:
                self._running.note(choices, counts)


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
