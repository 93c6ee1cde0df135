"""Tokens with their alternatives as columns of numbers, packed so that they compress well.

Owns that form. It must not know records or notebooks. Numbers of one kind stand together, and of these the bytes
of one weight: the low bytes of logprobs are noise, everything else is nearly free. For each token:

    alternatives   0 for none, else 1 + how many
    sampled        0: the token brings a string and a logprob of its own; else 1 + its place among the alternatives
    strings        its own, if so, then one an alternative; the table has the frequent ones first
    logprobs       its own (0 for none, else 1 + steps below 0), then one an alternative, in steps below 0: the
                   first two as they are, each further one as its distance from the one before, modulo 2**32

A step is a ten-thousandth of a nat.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from .varints import read_varints, varints

if TYPE_CHECKING:
    from ..log.events import Top

STEPS = 10_000
"""Steps of a logprob in a nat."""

_FLOOR = 99_999_999
_WRAP = 2**32

Row = tuple[str, float | None, "Top | None"]


def pack_rows(rows: Sequence[Row]) -> tuple[list[str], bytes]:
    """The table of strings and the packed columns of some tokens, their logprobs and alternatives."""
    uses = Counter(token for token, _, _ in rows)
    uses.update(text for _, _, top in rows for text in top or ())
    table = [text for text, _ in uses.most_common()]
    places = {text: place for place, text in enumerate(table)}
    counts: list[int] = []
    sampled: list[int] = []
    strings: list[int] = []
    logprobs: list[int] = []
    for token, logprob, top in rows:
        entries = [(text, _below(value)) for text, value in (top or {}).items()]
        own = (token, None if logprob is None else _below(logprob))
        counts.append(0 if top is None else 1 + len(entries))
        sampled.append(1 + entries.index(own) if own in entries else 0)
        if not sampled[-1]:
            strings.append(places[token])
            logprobs.append(0 if own[1] is None else 1 + own[1])
        strings += (places[text] for text, _ in entries)
        logprobs += _distances([value for _, value in entries])
    return table, b"".join(map(_planes, (counts, sampled, strings, logprobs)))


def unpack_rows(table: list[str], packed: bytes) -> list[Row]:
    """What :func:`pack_rows` was given, logprobs rounded. Raises ``ValueError`` or ``IndexError`` on other bytes."""
    counts, sampled, strings, logprobs = map(iter, _columns(packed, 4))
    rows: list[Row] = []
    for count in counts:
        place = next(sampled)
        own = None if place else (table[next(strings)], next(logprobs))
        entries = _entries(table, max(0, count - 1), strings, logprobs)
        top = dict(entries) if count else None
        if own is None:
            rows.append((*entries[place - 1], top))
        else:
            rows.append((own[0], _above(own[1] - 1) if own[1] else None, top))
    return rows


def _entries(
    table: list[str], count: int, strings: Iterator[int], logprobs: Iterator[int]
) -> list[tuple[str, float]]:
    texts = [table[place] for place in islice(strings, count)]
    return [*zip(texts, map(_above, _absolute(islice(logprobs, count))), strict=True)]


def _distances(values: list[int]) -> list[int]:
    return values[:2] + [(b - a) % _WRAP for a, b in pairwise(values[1:])]


def _absolute(distances: Iterable[int]) -> Iterator[int]:
    last = 0
    for place, number in enumerate(distances):
        last = number if place < 2 else (last + number) % _WRAP
        yield last


def _planes(numbers: list[int]) -> bytes:
    raw = struct.pack(f"<{len(numbers)}I", *numbers)
    return varints([len(numbers)]) + b"".join(raw[weight::4] for weight in range(4))


def _columns(packed: bytes, count: int) -> Iterator[tuple[int, ...]]:
    start = 0
    for _ in range(count):
        size = next(read_varints(packed[start : start + 10]), -1)
        if size < 0:
            raise ValueError("a column is missing")
        start += len(varints([size]))
        planes, raw = packed[start : start + 4 * size], bytearray(4 * size)
        if len(planes) != len(raw):
            raise ValueError("a column is cut off")
        for weight in range(4):
            raw[weight::4] = planes[weight * size : (weight + 1) * size]
        yield struct.unpack(f"<{size}I", raw)
        start += 4 * size


def _below(logprob: float) -> int:
    return min(_FLOOR, max(0, round(-logprob * STEPS))) if logprob > -_FLOOR else _FLOOR


def _above(number: int) -> float:
    return -number / STEPS if number else 0.0
