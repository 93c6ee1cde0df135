"""Events as the lines of a loom's file, also those that hold what no file can.

Owns that form. It must not know the file.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..log.events import AnyEvent
from ..log.session import Session

HALF = "Half of a surrogate pair cannot be stored; \ufffd stands in its place in the file."


def whole(session: Session) -> tuple[bytes, int, bool]:
    """All of a session's file, how many events that are, and whether half a surrogate pair was among them."""
    data, count, half = encoded(session.since(0))
    return next(session.lines()) + data, count, half


def encoded(entries: list[tuple[float, AnyEvent]]) -> tuple[bytes, int, bool]:
    """The lines of some events, how many these are, and whether half a surrogate pair was among them."""
    try:
        return b"".join([msgspec.json.encode(entry) + b"\n" for entry in entries]), len(entries), False
    except UnicodeEncodeError:
        rows = [msgspec.json.encode(_mended(msgspec.to_builtins(entry))) + b"\n" for entry in entries]
        return b"".join(rows), len(entries), True


def _mended(value: Any) -> Any:
    """A plain value without half surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(inner) for key, inner in value.items()}
    return [_mended(inner) for inner in value] if isinstance(value, (list, tuple)) else value
