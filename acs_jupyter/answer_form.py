"""A stream or one JSON body: told by how an answer begins, since a content type may say anything.

Owns that one decision. It must not know what either of them means.
"""

from __future__ import annotations

from . import sse

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data:", b":", b"event:", b"id:", b"retry:")
"""How an event stream begins, and a JSON body never does."""


class Form:
    """``frames`` is the decoder of a stream, or ``None`` for a body; ``known`` says that it stays so.

    ``event_stream``: the content type says that it is one. A decoder has been fed nothing.
    """

    def __init__(self, *, event_stream: bool, fixed: bool = False) -> None:
        self.frames = sse.Decoder() if event_stream else None
        self.known = fixed
        self._held = b""

    def look(self, data: bytes) -> bytes:
        """Take the first bytes, and the next ones until it is known; returns those to be read by what it is now."""
        begin = data.lstrip().removeprefix(_BOM).lstrip()
        if not begin:
            return data
        if self.frames is not None:
            self.known = True
            if begin.startswith(b"{"):
                self.frames = None
            return data
        held = self._held + begin
        if held.startswith(_FIELDS):
            self.known, self.frames = True, sse.Decoder()
            return held
        # So far it may be the beginning of "data:"; more bytes will tell.
        self.known = not any(field.startswith(held) for field in _FIELDS)
        self._held = b"" if self.known else held
        return data
