"""Decimal numbers read out of bytes, thousands at a time.

Owns the arithmetic on eight ASCII digits in one 64-bit word, over whole arrays. It must not know what the numbers mean.

The trick is SIMD within a register (D. Lemire, "Quickly parsing eight digits", 2018): three multiplications add up
pairs, fours and eights of digits. Parsing the numbers of a full vocabulary one by one would take several times the
time of reading them from the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Places = NDArray[np.int64]

MARGIN = 40
"""Bytes that must lie before and behind every place that is read."""

_ONE, _THREE, _SEVEN = np.uint64(1), np.uint64(3), np.uint64(7)
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
        """Where an ASCII character stands, in order."""
        return np.flatnonzero(self.bytes == ord(character))

    def numbers(self, places: Places) -> NDArray[np.float64]:
        """The JSON number at each place: exact to 1e-16 of the digits behind the point, any form."""
        negative = self.bytes[places] == ord("-")
        start = places + negative
        words = self.words(start)
        below = _below(_not_digits(words))
        count = _bytes_of(below)
        point = start + count
        words &= below
        words <<= _SHIFTS[count]
        values = _eight(words).astype(np.float64)
        first, ends = _leading(self.words(point + 1))
        second, more = _leading(self.words(point + 9))
        full = ends == 8
        first *= 1e-8
        second *= full
        second *= 1e-16
        values += first
        values += second
        np.negative(values, out=values, where=negative)
        more *= full
        last = self.bytes[point + 1 + ends + more]
        odd = (last != ord(",")) & (last != ord("}"))  # an exponent follows, or more digits
        odd |= self.bytes[point] != ord(".")
        odd |= np.abs(values) < 1e-4  # its digits lie too far behind the point
        for row in np.flatnonzero(odd).tolist():
            values[row] = _slowly(self.data, int(places[row]))
        return values

    def integers(self, ends: Places) -> tuple[Places, NDArray[Any]]:
        """The digits that end before each place, at most eight, as a number, and how many they are."""
        words = self.words(ends - 8).byteswap()
        below = _below(_not_digits(words))
        words &= below
        return _eight(words.byteswap()).astype(np.int64), _bytes_of(below)


def _slowly(data: bytes, place: int) -> float:
    end = min(index for index in (data.find(b",", place), data.find(b"}", place), len(data)) if index >= 0)
    return float(data[place:end])


def _leading(words: Words) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """The digits a word begins with, as the first of eight places; and how many they are."""
    below = _below(_not_digits(words))
    return _eight(words & below).astype(np.float64), _bytes_of(below)


_SHIFTS = np.array([8 * (8 - count) for count in range(9)], np.uint64)
"""Bits by which so many digits are moved to the end of a word."""

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


def _below(marks: Words) -> Words:
    """All bits of the bytes below the lowest mark; all bits when there is none."""
    lowest = np.negative(marks)
    lowest &= marks
    lowest >>= _SEVEN
    lowest -= _ONE
    return lowest


def _bytes_of(below: Words) -> NDArray[Any]:
    """How many bytes such bits fill, 0 to 8."""
    if hasattr(np, "bitwise_count"):
        filled: NDArray[Any] = np.bitwise_count(below)
        filled >>= 3
        return filled
    places = (below >> _THREE).astype(np.float64).view(np.int64)  # numpy 1: the exponent tells
    places >>= 52
    places -= 1023 - 4
    places >>= 3
    places[below == 0] = 0
    return places
