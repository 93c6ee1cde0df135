"""Decimal numbers read out of bytes, thousands at a time.

Owns the arithmetic on eight ASCII digits in one 64-bit word, over whole arrays. It must not know what the numbers mean.

The trick is SIMD within a register (D. Lemire, "Quickly parsing eight digits", 2018): three multiplications add up
pairs, fours and eights of digits. Parsing the numbers of a full vocabulary one by one would take several times the
time of reading them from the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Places = NDArray[np.int64]

MARGIN = 40
"""Bytes that must lie before and behind every place that is read."""

_ONE, _SEVEN = np.uint64(1), np.uint64(7)
_LOW = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_ZEROS = np.uint64(0x3030303030303030)
_OVER_NINE = np.uint64(0x7676767676767676)


class Text:
    """Bytes that can be read as words from any place."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self._words: Words = np.ndarray((max(0, len(data) - 7),), "<u8", data, strides=(1,))

    def words(self, places: Places) -> Words:
        """Eight bytes from each place on, the first one lowest."""
        return self._words[places]

    def places(self, character: str) -> Places:
        """Where an ASCII character may stand, in order: of three within eight bytes the last may be left out.

        A place just behind it can be among them too.
        """
        wanted = np.uint64(int.from_bytes(character.encode() * 8, "little"))
        aligned = np.frombuffer(self.data, "<u8", len(self.data) // 8)
        marks = _marked(aligned, wanted)
        words = np.flatnonzero(marks)
        marks = marks[words]
        first = words * 8 + _index(marks)
        marks &= marks - _ONE
        again = np.flatnonzero(marks)
        if not again.size:
            return first
        return np.sort(np.concatenate([first, words[again] * 8 + _index(marks[again])]))

    def numbers(self, places: Places) -> NDArray[np.float64]:
        """The JSON number at each place: exact to 1e-16 of the digits behind the point, any form."""
        start = places + (self.bytes[places] == ord("-"))
        point = start + _index(_not_digits(self.words(start)))
        values = self.integers(point).astype(np.float64)
        first, full, ends = _leading(self.words(point + 1))
        values += first * 1e-8
        ends = point + 1 + ends
        long = np.flatnonzero(full)
        if long.size:
            second, full, more = _leading(self.words(point[long] + 9))
            values[long] += second * 1e-16
            ends[long] = point[long] + 9 + more
            longest = long[full]
            ends[longest] = point[longest] + 17 + _leading(self.words(point[longest] + 17))[2]
        values[places != start] *= -1
        last = self.bytes[ends]
        unended = (last != ord(",")) & (last != ord("}"))  # an exponent follows, or more digits
        pointless = self.bytes[point] != ord(".")
        tiny = np.abs(values) < 1e-4  # its digits lie too far behind the point
        for row in np.flatnonzero(unended | pointless | tiny).tolist():
            values[row] = _slowly(self.data, int(places[row]))
        return values

    def integers(self, ends: Places) -> NDArray[np.int64]:
        """The digits that end before each place, at most eight, as a number."""
        words = self.words(ends - 8).byteswap()
        kept = words & _below(_not_digits(words))
        return _eight(kept.byteswap()).astype(np.int64)


def _slowly(data: bytes, place: int) -> float:
    end = min(index for index in (data.find(b",", place), data.find(b"}", place), len(data)) if index >= 0)
    return float(data[place:end])


def _leading(words: Words) -> tuple[NDArray[np.float64], NDArray[np.bool_], Places]:
    """The digits a word begins with, as the first of eight places; whether all eight are digits; how many are."""
    stops = _not_digits(words)
    values = _eight(words & _below(stops)).astype(np.float64)
    full = stops == 0
    return values, full, np.where(full, 8, _index(stops))


# Arithmetic is done in place where a value is the function's own: whole arrays are made and dropped otherwise.


def _eight(words: Words) -> Words:
    words = words & _NIBBLES
    for factor, bits, kept in _PAIRS:
        words *= factor
        words >>= bits
        words &= kept
    words *= np.uint64(42949672960001)
    words >>= np.uint64(32)
    return words


_PAIRS = (
    (np.uint64(2561), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(6553601), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
)


def _not_digits(words: Words) -> Words:
    """The high bit of each byte that is no digit; exact up to the first such byte, which is all that is used."""
    crossed = words ^ _ZEROS
    marks = crossed + _OVER_NINE
    marks |= crossed
    marks &= _HIGH
    return marks


def _marked(words: Words, wanted: np.uint64) -> Words:
    """The high bit of each byte that equals the wanted one; bytes behind the first such may be marked in error."""
    crossed: Words = words ^ wanted
    marks = crossed - _LOW
    np.invert(crossed, out=crossed)
    marks &= crossed
    marks &= _HIGH
    return marks


def _lowest(marks: Words) -> Words:
    """The lowest mark of each word, as bit 0 of its byte."""
    lowest = np.negative(marks)
    lowest &= marks
    lowest >>= _SEVEN
    return lowest


def _below(marks: Words) -> Words:
    """All bits of the bytes below the lowest mark; all bits when there is none."""
    bits = _lowest(marks)
    bits -= _ONE
    return bits


def _index(marks: Words) -> Places:
    """The byte of the lowest mark, 0 to 7; 7 when there is none."""
    places = _lowest(marks).astype(np.float64).view(np.int64)
    places >>= 52  # the exponent
    places -= 1023
    places >>= 3
    places[places < 0] = 7
    return places
