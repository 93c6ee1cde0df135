"""Token bytes to text, one token at a time, so that no character is ever broken.

Owns incremental UTF-8 and the texts of alternatives in the middle of a character. It must not know engines.
A token that leaves a character open has the text ``""``, even when it begins with a finished one; the token
that completes the character carries all that was held back. So texts always join to the whole.
"""

from __future__ import annotations

import codecs
from itertools import count


class Pieces:
    """Decodes the tokens of one text in order."""

    def __init__(self, table: list[bytes], special: frozenset[int]) -> None:
        self._table, self._special = table, special
        self._open = b""

    def alone(self, token: int) -> str:
        """How a token reads at this point of the text, without adding it: used for alternatives."""
        piece = self._table[token]
        for whole in (piece, self._open + piece):
            try:
                return whole.decode("utf-8")
            except UnicodeDecodeError:
                continue
        return ""

    def add(self, token: int) -> str:
        """Add a token; the text that it completes. Bytes that can become no character read as U+FFFD."""
        whole = self._open + self._table[token]
        try:
            text = whole.decode("utf-8")
        except UnicodeDecodeError as problem:
            if problem.end == len(whole) and problem.reason == "unexpected end of data":
                self._open = whole
                return ""
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            text = decoder.decode(whole)
            self._open = decoder.getstate()[0]
            return text
        self._open = b""
        return text

    def is_special(self, token: int) -> bool:
        """Whether a token is a control token, which has a name but no place in the text."""
        return token in self._special


def missing_between(table: dict[bytes, int], head: bytes, number: int) -> list[int] | None:
    """The ``number`` tokens whose bytes join to ``head``, when there is exactly one such row."""
    found: list[list[int]] = []

    def walk(start: int, row: list[int]) -> None:
        if len(found) > 1:
            return
        left = number - len(row)
        if left == 0:
            if start == len(head):
                found.append(row)
            return
        for end in count(start + 1):
            if end > len(head) - left + 1:
                return
            token = table.get(head[start:end])
            if token is not None:
                walk(end, [*row, token])

    walk(0, [])
    return found[0] if len(found) == 1 else None
