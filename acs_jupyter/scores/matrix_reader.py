"""An answer with the whole vocabulary's log-probabilities, read into a matrix while it arrives.

Owns the place of ``prompt_logprobs`` in a body and the form of its entries. What is left of the body, with ``null`` in
its place, is for the usual reader. It must not know requests or sockets. Only a piece of the body is ever held.

Entries are read where they stand: the numbers by :mod:`acs_jupyter.digits`, the texts once, from the first position.
A list in another form of JSON (blanks between its parts, another order of fields) is read whole instead.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from ..wire import PromptLogprob
from .digits import MARGIN, Text
from .room import cut, roomy, with_room
from .vocabulary import Vocabulary, VocabularyMaker

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

MINUS_INFINITY = -9999.0
"""vLLM writes this for a probability of zero."""
PIECE = 98_304
"""Bytes worked on at once: more need memory, fewer need time."""
_FIELD = b'"prompt_logprobs":'
_USUAL = re.compile(rb'\[((?:null,)*)\{"\d+":\{"logprob":-?\d')
_MARGIN = b" " * MARGIN
_BEFORE = 6
_SILENT = "The answer tells nothing of some position between others."
_HEAD = 400
"""Bytes that show whether a list is in the usual form."""
_WORD = int.from_bytes(b'{"logpro', "little")
_TEXT = re.compile(rb'"decoded_token":(?:"([^"\\]*(?:\\.[^"\\]*)*)"|null)', re.DOTALL)


class Unreadable(ValueError):
    """The body is not what an answer with a whole vocabulary looks like; the message is one line."""


class Matrix(NamedTuple):
    """What one prompt's answer held.

    ``logprobs``: float32, one row a scored position (natural logarithms, ``-inf`` for a probability of zero, ``nan``
    where nothing was told), one column a token id. ``ids``: the prompt's own token at each row. ``first``: the
    position of the first row, usually 1.
    """

    logprobs: NDArray[np.float32]
    ids: list[int]
    first: int
    vocabulary: Vocabulary


class MatrixReader:
    """Feed it a JSON body in pieces; ``feed`` and ``end`` return the rest of the body. ``matrices``: one a choice."""

    def __init__(self) -> None:
        self.matrices: list[Matrix] = []
        self._rest = b""
        self._fresh: list[memoryview] = []
        self._held = 0
        self._whole: list[bytes] | None = None
        self._list: _List | None = None

    def feed(self, data: bytes) -> bytes:
        """Take some bytes; raises :class:`Unreadable`."""
        view, passed = memoryview(data), []
        while view:
            room = max(PIECE // 2, PIECE - self._held)  # of an entry that is longer than a piece, more
            passed.append(self._feed(view[:room]))
            view = view[room:]
        return b"".join(passed)

    def _feed(self, data: memoryview) -> bytes:
        if self._whole is not None:
            self._whole.append(bytes(data))
            return b""
        self._fresh.append(data)
        self._held += len(data)
        return self._work() if self._held >= PIECE else b""

    def end(self) -> bytes:
        """The body is complete."""
        passed = self._work(last=True)
        while self._whole is not None:
            self._rest, self._whole = b"".join([self._rest, *self._whole]), None
            passed += self._in_one() + self._work(last=True)
        if self._list is not None:
            raise Unreadable("The answer ends within its prompt_logprobs.")
        return passed

    def _work(self, *, last: bool = False) -> bytes:
        if self._list is None:
            self._rest = b"".join((self._rest, *self._fresh))
            self._fresh.clear()
        passed: list[bytes] = []
        while self._whole is None:
            if self._list is None:
                skipped, found = self._seek(last=last)
                passed.append(skipped)
                if not found:
                    break
            else:
                data = b"".join((_MARGIN, self._rest, *self._fresh, _MARGIN))  # all of it once
                self._fresh.clear()
                self._rest = b""
                used, over = self._list.feed(data)
                self._rest = data[used:-MARGIN]
                if not over:
                    break
                self.matrices.append(self._list.matrix())
                self._list = None
        self._held = len(self._rest)
        return b"".join(passed)

    def _seek(self, *, last: bool) -> tuple[bytes, bool]:
        """The bytes up to the next list, and whether there is one."""
        place = self._rest.find(_FIELD)
        if place < 0:
            cut = len(self._rest) if last else max(0, len(self._rest) - len(_FIELD) + 1)
            skipped, self._rest = self._rest[:cut], self._rest[cut:]
            return skipped, False
        begun = place + len(_FIELD)
        if not last and len(self._rest) - begun < _HEAD:
            return b"", False
        skipped, self._rest = self._rest[:begun], self._rest[begun:]
        usual = _USUAL.match(self._rest)
        if usual:
            self._list = _List(usual[1].count(b"null"))
            skipped += b"null"
        elif not self._rest.startswith(b"null"):
            self._whole = []
        return skipped, True

    def _in_one(self) -> bytes:
        """Read the list that the rest begins with, whatever its form."""
        try:
            text = self._rest.decode()
            value, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
            positions = msgspec.convert(value, list[dict[int, PromptLogprob] | None] | None, strict=False)
        except (ValueError, RecursionError):
            raise Unreadable("The answer's prompt_logprobs cannot be read.") from None
        self._rest = text[end:].encode()
        if positions is not None:
            self.matrices.append(_converted(positions))
        return b"null"


class _List:
    """One list in the usual form, of which ``first`` positions have no entries."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._flat: NDArray[np.float32] = roomy(np.float32)  # row after row
        self._width = 0
        self._row = -1
        self._ids: list[int] = []
        self._texts = VocabularyMaker()

    def feed(self, data: bytes) -> tuple[int, bool]:
        """Where what is used up ends, and whether the list is over. There is a margin at both ends."""
        text = Text(data)
        starts = text.places("{")
        starts = starts[(text.words(starts) == _WORD) & (text.bytes[starts - 2] == ord('"'))]
        end = _end_of_list(data, starts)
        if end is not None:
            starts = starts[starts < end]
        ids, digits = text.integers(starts - 2)
        edges = starts - 4 - digits  # the byte before an entry: a comma, or the brace of its position
        opens = text.bytes[edges] == ord("{")
        if end is None:  # the last entry may go on in the next piece
            if len(starts) < 2:
                return MARGIN, False
            used = int(edges[-1])  # and what stands before a position's brace is looked at with it
            starts, ids, opens = starts[:-1], ids[:-1], opens[:-1]
        else:
            used = end
        heads = edges[: len(opens)][opens][self._row < 0 :]
        if (text.bytes[heads - 2] != ord("}")).any():
            raise Unreadable(_SILENT)
        self._take(ids, text.numbers(starts + 11), opens, data, np.append(edges, used))
        return used if end is not None else max(MARGIN, used - _BEFORE), end is not None

    def _take(
        self, ids: Places, values: NDArray[np.float64], opens: NDArray[np.bool_], data: bytes, edges: Places
    ) -> None:
        values[values == MINUS_INFINITY] = -np.inf
        bounds = [*np.flatnonzero(opens).tolist(), len(ids)]
        if bounds[0]:
            self._fill(ids[: bounds[0]], values[: bounds[0]])
        if self._row < 0 or (self._row == 0 and bounds[0]):
            last = bounds[1] if self._row < 0 and len(bounds) > 1 else bounds[0]
            self._read_texts(ids[:last], data, int(edges[last]))
        for begin, until in pairwise(bounds):
            self._open(int(ids[begin]))
            self._fill(ids[begin:until], values[begin:until])

    def _open(self, own: int) -> None:
        self._row += 1
        self._ids.append(own)
        begin, end = self._row * self._width, (self._row + 1) * self._width
        self._flat = with_room(self._flat, end)
        self._flat[begin:end] = np.nan

    def _fill(self, ids: Places, values: NDArray[np.float64]) -> None:
        widest = int(ids.max()) + 1
        if widest > self._width:
            self._widen(widest)
        self._flat[ids + self._row * self._width] = values

    def _widen(self, width: int) -> None:
        """Room for more ids: in the first row, which tells how many there are, or in all, if a later one has others."""
        before, self._width = self._width, width
        if self._row == 0:
            self._flat = with_room(self._flat, width)
            self._flat[before:width] = np.nan
            return
        rows = np.full((self._row + 1, width), np.nan, np.float32)
        rows[:, :before] = self._flat[: (self._row + 1) * before].reshape(-1, before)
        self._flat = rows.reshape(-1).copy()

    def _read_texts(self, ids: Places, data: bytes, end: int) -> None:
        found = _TEXT.findall(data, 0, end)
        if len(found) != len(ids):
            raise Unreadable("Some entries of the first position have no decoded_token.")
        escaped = [index for index, text in enumerate(found) if b"\\" in text]
        plain = json.loads(b"[%s]" % b",".join([b'"%s"' % found[index] for index in escaped]))
        for index, text in zip(escaped, plain, strict=True):
            found[index] = text.encode("utf-8", "surrogatepass")
        self._texts.add(ids, found)

    def matrix(self) -> Matrix:
        """What was read."""
        count = self._row + 1
        rows = cut(self._flat, count * self._width).reshape(count, self._width)
        return Matrix(rows, self._ids, self._first, self._texts.made(self._width))


def _end_of_list(data: bytes, starts: Places) -> int | None:
    """Where the list ends, behind its bracket. The same bytes may stand within a text: only a whole entry ends it."""
    place = data.find(b"]")
    while place >= 0:
        before = int(np.searchsorted(starts, place)) - 1
        if before >= 0 and data[place - 2 : place] == b"}}" and _is_object(data[starts[before] : place - 1]):
            return place + 1
        place = data.find(b"]", place + 1)
    return None


def _is_object(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _converted(positions: list[dict[int, PromptLogprob] | None]) -> Matrix:
    scored = [entries for entries in positions if entries]
    if any(not entries for entries in positions[len(positions) - len(scored) :]):
        raise Unreadable(_SILENT)
    width = max((max(entries) for entries in scored), default=-1) + 1
    rows = np.full((len(scored), width), np.nan, np.float32)
    texts = VocabularyMaker()
    for row, entries in enumerate(scored):
        values = np.fromiter((entry.logprob for entry in entries.values()), np.float64, len(entries))
        values[values == MINUS_INFINITY] = -np.inf
        rows[row, np.fromiter(entries, np.int64, len(entries))] = values
    first = scored[0] if scored else {}
    texts.add(
        np.fromiter(first, np.int64, len(first)),
        [(e.decoded_token or "").encode("utf-8", "surrogatepass") for e in first.values()],
    )
    return Matrix(
        rows, [next(iter(entries)) for entries in scored], len(positions) - len(scored), texts.made(width)
    )
