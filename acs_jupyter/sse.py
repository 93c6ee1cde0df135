"""Server-sent events: bytes in, payloads out, pure and incremental.

Owns the line rules of the event-stream format (WHATWG HTML, section 9.2): LF, CR and CRLF end a line,
a colon starts a comment, a blank line ends an event, one leading BOM is dropped. It must not know what
a payload means or where the bytes come from. Any slicing of the same bytes gives the same events.
"""

from __future__ import annotations

from msgspec import Struct

DONE = b"[DONE]"
_BOM = b"\xef\xbb\xbf"


class Comment(Struct, frozen=True, gc=False):
    """A comment line: keepalive or cold-boot progress, without the colon."""

    text: str


class Decoder:
    """Bytes of an event stream to payloads (``bytes``) and :class:`Comment` values, in order."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes | Comment]:
        """Take the next bytes and return what they complete."""
        if not chunk:
            return []
        if self._after_cr:
            # A CR has already ended its line; an LF right behind it is the other half of a CRLF.
            self._after_cr = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._first:
            chunk = self._without_bom(chunk)
        chunk = self._rest + chunk
        whole, blank, rest = chunk.rpartition(b"\n\n")
        if blank and not self._data and (found := _plain(whole)):
            *lines, self._rest = rest.split(b"\n")
            return found + self._dispatch(lines) if lines else found
        *lines, self._rest = chunk.split(b"\n")
        return self._dispatch(lines)

    def flush(self) -> list[bytes | Comment]:
        """End of input: return an event whose blank line never came; a last line of data may lack its end too."""
        last, self._rest = self._rest, b""
        found = self._dispatch([last]) if last.startswith((b"data:", b":")) else []
        data, self._data = self._data, []
        return found + ([b"\n".join(data)] if data else [])

    def _without_bom(self, chunk: bytes) -> bytes:
        head = self._rest + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            return chunk  # not yet known
        self._first = False
        if head.startswith(_BOM):
            self._rest = b""
            return head[len(_BOM) :]
        return chunk

    def _dispatch(self, lines: list[bytes]) -> list[bytes | Comment]:
        found: list[bytes | Comment] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    found.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
            elif line.startswith(b"data: "):
                data.append(line[6:])
            elif line.startswith(b"data:"):
                data.append(line[5:])
            elif line.startswith(b":"):
                found.append(Comment(line[1:].decode("utf-8", "replace").strip()))
            elif line == b"data":
                data.append(b"")
            # event:, id: and retry: carry nothing this service uses
        return found


def _plain(whole: bytes) -> list[bytes | Comment]:
    """The payloads, when there are only events of one line of data each, as there mostly are; else nothing."""
    if not whole.startswith(b"data: "):
        return []
    found: list[bytes | Comment] = [*whole[6:].split(b"\n\ndata: ")]
    return found if whole.count(b"\n") == 2 * (len(found) - 1) else []
