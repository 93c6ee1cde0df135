"""Top-level members of a JSON object replaced or added in its bytes; every other byte stays as it was.

Owns the scan over bytes that are known to be a valid JSON object. It must not know what the members mean.
It reads no values: strings and brackets are skipped by patterns, so long prompts cost next to nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^,}\] \t\r\n]+")
_MARK = re.compile(rb'["\[\]{}]')


def splice(body: bytes, changes: Mapping[str, bytes]) -> bytes:
    """``body`` with the values of ``changes`` in place of its own; members it lacks are added at the end.

    A member that occurs twice is replaced twice. ``body`` must be a valid JSON object with a member.
    """
    parts: list[bytes] = []
    done = 0
    missing = dict(changes)
    end = 0
    for name, start, end in members(body):
        if name in changes:
            parts += [body[done:start], changes[name]]
            done = end
            missing.pop(name, None)
    parts.append(body[done:end])
    parts += [b"," + json.dumps(name).encode() + b":" + value for name, value in missing.items()]
    parts.append(body[end:])
    return b"".join(parts)


def members(body: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of the value of every top-level member, in order."""
    at = _after_space(body, 0) + 1  # behind the opening brace
    while True:
        at = _after_space(body, at)
        if body[at : at + 1] == b"}":
            return
        end = _end_of_string(body, at)
        name: str = json.loads(body[at:end])
        start = _after_space(body, _after_space(body, end) + 1)  # behind the colon
        at = _end_of_value(body, start)
        yield name, start, at
        at = _after_space(body, at)
        if body[at : at + 1] == b",":
            at += 1


def _after_space(body: bytes, at: int) -> int:
    found = _SPACE.match(body, at)
    return found.end() if found else at


def _end_of_string(body: bytes, at: int) -> int:
    found = _STRING.match(body, at)
    if found is None:
        raise ValueError("not a JSON string")
    return found.end()


def _end_of_value(body: bytes, at: int) -> int:
    first = body[at : at + 1]
    if first == b'"':
        return _end_of_string(body, at)
    if first not in (b"[", b"{"):
        found = _SCALAR.match(body, at)
        return found.end() if found else at
    depth = 0
    while True:
        mark = _MARK.search(body, at)
        if mark is None:
            raise ValueError("not a JSON value")
        at = mark.end()
        if mark.group() == b'"':
            at = _end_of_string(body, mark.start())
        else:
            depth += 1 if mark.group() in (b"[", b"{") else -1
            if not depth:
                return at
