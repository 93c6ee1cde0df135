"""Non-negative integers as bytes, seven bits each, low bits first.

Owns that one code (LEB128, unsigned). It must not know what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def varints(numbers: Iterable[int]) -> bytes:
    """The bytes of some non-negative integers."""
    out = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def read_varints(data: bytes) -> Iterator[int]:
    """The integers of some bytes; an unfinished last one is dropped."""
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
