"""The texts of a vocabulary, by token id, in few bytes.

Owns how they are kept: one run of UTF-8, a start and a length for each id. It must not know distributions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

UNKNOWN = 0xFFFFFFFF


class Vocabulary:
    """``vocabulary[id]`` is the text a token id decodes to by itself; ids that were not told have ``""``.

    Texts need not be unique: a byte that is no character by itself decodes to the replacement character or to ``""``.
    """

    def __init__(self, blob: bytes, starts: NDArray[np.uint32], lengths: NDArray[np.uint16]) -> None:
        self.blob, self.starts, self.lengths = blob, starts, lengths

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        """From texts in the order of their ids."""
        listed = [text.encode("utf-8", "surrogatepass") for text in texts]
        maker = VocabularyMaker()
        maker.add(np.arange(len(listed)), listed)
        return maker.made(len(listed))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, token: int) -> str:
        if not 0 <= token < len(self.starts):
            raise IndexError(f"token id {token} is outside 0..{len(self.starts) - 1}.")
        start = int(self.starts[token])
        if start == UNKNOWN:
            return ""
        return self.blob[start : start + int(self.lengths[token])].decode("utf-8", "surrogatepass")

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
        return hash((len(self), self.blob))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"


class VocabularyMaker:
    """Texts in any order of their ids."""

    def __init__(self) -> None:
        self._blob = bytearray()
        self._starts = np.full(0, UNKNOWN, np.uint32)
        self._lengths = np.zeros(0, np.uint16)

    def add(self, ids: NDArray[np.int64], encoded: list[bytes]) -> None:
        """The texts of some ids, in UTF-8."""
        if not encoded:
            return
        self._widen(int(ids.max()) + 1)
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._starts[ids] = len(self._blob) + np.cumsum(lengths) - lengths
        self._lengths[ids] = lengths
        self._blob += b"".join(encoded)

    def made(self, size: int) -> Vocabulary:
        """The vocabulary of ``size`` ids."""
        self._widen(size)
        return Vocabulary(bytes(self._blob), self._starts[:size].copy(), self._lengths[:size].copy())

    def _widen(self, size: int) -> None:
        more = size - len(self._starts)
        if more > 0:
            self._starts = np.append(self._starts, np.full(more, UNKNOWN, np.uint32))
            self._lengths = np.append(self._lengths, np.zeros(more, np.uint16))
