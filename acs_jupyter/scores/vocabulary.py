"""The texts of a vocabulary, by token id, in few bytes.

Owns how they are kept: one run of UTF-8, a start and a length for each id. It must not know distributions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .room import cut, roomy, with_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

UNKNOWN = 0xFFFFFFFF
LONGEST = 0xFFFF
"""Bytes of a token's text."""


class Vocabulary:
    """``vocabulary[id]`` is the text a token id decodes to by itself; ids that were not told have ``""``.

    Texts need not be unique: a byte that is no character by itself decodes to the replacement character or to ``""``.
    """

    def __init__(
        self, blob: bytes | memoryview, starts: NDArray[np.uint32], lengths: NDArray[np.uint16]
    ) -> None:
        self.blob, self.starts, self.lengths = blob, starts, lengths

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        """From texts in the order of their ids."""
        listed = [text.encode("utf-8", "surrogatepass") for text in texts]
        maker = VocabularyMaker()
        maker.add(np.arange(len(listed)), listed)
        return maker.made(len(listed))

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[Any, ...]]:
        return type(self), (bytes(self.blob), self.starts, self.lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, token: int) -> str:
        if not 0 <= token < len(self.starts):
            raise IndexError(f"token id {token} is outside 0..{len(self.starts) - 1}.")
        start = int(self.starts[token])
        if start == UNKNOWN:
            return ""
        return str(self.blob[start : start + int(self.lengths[token])], "utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[token] for token in range(len(self)))

    def ids_of(self, text: str) -> list[int]:
        """Every id that decodes to exactly this text."""
        data = text.encode("utf-8", "surrogatepass")
        alike = np.flatnonzero((self.lengths == len(data)) & (self.starts != UNKNOWN))
        return [token for token in alike.tolist() if self[token] == text]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and len(self) == len(other) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((len(self), bytes(self.blob)))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"


class VocabularyMaker:
    """Texts in any order of their ids."""

    def __init__(self) -> None:
        self._blob: NDArray[np.uint8] = roomy(np.uint8)
        self._size = self._width = 0
        self._starts: NDArray[np.uint32] = roomy(np.uint32)
        self._lengths: NDArray[np.uint16] = roomy(np.uint16)

    def add(self, ids: NDArray[np.int64], encoded: list[bytes]) -> None:
        """The texts of some ids, in UTF-8; raises ``ValueError`` for one that no vocabulary has."""
        if not encoded:
            return
        self._widen(int(ids.max()) + 1)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        if int(lengths.max()) > LONGEST:
            raise ValueError(f"A token's text has {int(lengths.max()):,} bytes; {LONGEST:,} are the most.")
        self._starts[ids] = self._size + np.cumsum(lengths) - lengths
        self._lengths[ids] = lengths
        before, self._size = self._size, self._size + int(lengths.sum())
        self._blob = with_room(self._blob, self._size)
        self._blob[before : self._size] = np.frombuffer(b"".join(encoded), np.uint8)

    def made(self, size: int) -> Vocabulary:
        """The vocabulary of ``size`` ids; the maker has done its work."""
        self._widen(size)
        blob = cut(self._blob, self._size)
        blob.setflags(write=False)
        return Vocabulary(blob.data, cut(self._starts, size), cut(self._lengths, size))

    def _widen(self, size: int) -> None:
        if size > self._width:
            self._starts, self._lengths = with_room(self._starts, size), with_room(self._lengths, size)
            self._starts[self._width : size] = UNKNOWN
            self._lengths[self._width : size] = 0
            self._width = size
