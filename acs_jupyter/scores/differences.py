"""How two scores differ: surprisal spread over bytes, laid side by side where the texts have the same bytes.

Owns the alignment, the numbers and the largest spots. It must not know requests or markup.

A token's surprisal (bits, -log2 p) is spread evenly over its UTF-8 bytes, so that texts read in different tokens, by
different models, can be compared. Tokens without text count with the one that completes their character. Where both
texts are the same, byte meets byte; else the common stretches of both, found by ``difflib`` over words and what stands
between them, are compared and the rest is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from ..errors import InvalidRequest

if TYPE_CHECKING:
    import pandas as pd

    from .values import Score

LONG, RUN = 2_000, 4
"""Words above which two texts are long, and words of a run by which those are laid side by side."""
_WORDS = re.compile(rb"\s*[^\s]+|\s+")
COLUMNS = ["start", "other_start", "text", "bytes", "surprisal", "other", "difference", "per_byte"]


@dataclass(frozen=True)
class Spot:
    """A stretch both have. ``start``, ``other_start``: its first byte in each; surprisals in bits over the stretch.

    ``difference`` is the second's surprisal less the first's: above 0 the second is more surprised.
    """

    start: int
    other_start: int
    text: str
    bytes: int
    surprisal: float
    other: float

    @property
    def difference(self) -> float:
        """Bits over the stretch; ``nan`` where both rule it out."""
        return self.other - self.surprisal

    @property
    def per_byte(self) -> float:
        """Bits a byte."""
        return self.difference / self.bytes


@dataclass(frozen=True)
class Difference:
    """Two scores and the stretches they share, in order; ``unscored`` and ``apart`` bytes of the first are in none.

    ``total``: bits over all stretches but those that one of both rules out.
    """

    first: Score
    second: Score
    spots: list[Spot]
    unscored: int
    apart: int
    total: float = field(init=False)

    def __post_init__(self) -> None:
        known = [spot.difference for spot in self.spots if math.isfinite(spot.difference)]
        object.__setattr__(self, "total", math.fsum(known))

    def largest(self, count: int = 10) -> list[Spot]:
        """The stretches that differ most, in bits."""
        known = [spot for spot in self.spots if not math.isnan(spot.difference)]
        return sorted(known, key=lambda spot: -abs(spot.difference))[: max(0, count)]

    def to_frame(self) -> pd.DataFrame:
        """One row a stretch: ``start``, ``other_start`` (bytes), ``text``, ``bytes``, ``surprisal``, ``other``,
        ``difference`` (bits), ``per_byte`` (bits a byte)."""
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        return pd.DataFrame(
            [[getattr(spot, name) for name in COLUMNS] for spot in self.spots], columns=COLUMNS
        )

    def _repr_html_(self) -> str:
        from ..widgets.difference import html_of  # noqa: PLC0415  # drawn only when shown

        return html_of(self)

    def __repr__(self) -> str:
        worst = ", ".join(f"{spot.text!r} {_signed(spot.difference, 1)}" for spot in self.largest(3))
        return f"Difference({len(self.spots)} stretches, {_signed(self.total, 2)} bits in all; most: {worst})"


def difference(first: Score, second: Score) -> Difference:
    """The second score against the first: two texts under one model, or one text under two models.

    Stretches are the shortest at whose ends both have a token's end. Raises :class:`InvalidRequest` when the texts have
    nothing in common that both score.
    """
    for given in (first, second):
        if not hasattr(given, "tokens"):
            raise InvalidRequest(
                f"difference takes two scores, not {type(given).__name__}: difference(score(text), score(other))."
            )
    left, right = _Read(first), _Read(second)
    spots: list[Spot] = []
    matched = 0
    for start, other, size in _common(left.data, right.data):
        matched += size
        spots += _spots(left, right, start, other, size)
    if not spots:
        raise InvalidRequest("The two texts share no stretch that both models score.")
    covered = sum(spot.bytes for spot in spots)
    return Difference(first, second, spots, matched - covered, len(left.data) - matched)


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


class _Read:
    """A score by bytes: the places where stretches of text begin and end, and their surprisals (``None``: unscored)."""

    def __init__(self, score: Score) -> None:
        parts: list[tuple[int, float | None]] = []
        waiting: float | None = 0.0
        texts: list[bytes] = []
        for token in score.tokens:
            data = token.text.encode("utf-8", "surrogatepass")
            texts.append(data)
            waiting = None if waiting is None or token.surprisal is None else waiting + token.surprisal
            if data:
                parts.append((len(data), waiting))
                waiting = 0.0
        self.data = b"".join(texts)
        self.ends = [0, *accumulate(size for size, _ in parts)]
        self.at = {end: place for place, end in enumerate(self.ends)}
        self.parts = parts

    def between(self, start: int, end: int) -> float | None:
        """Bits between two edges; ``None`` when a token in there has no score."""
        values = [value for _, value in self.parts[self.at[start] : self.at[end]]]
        return None if None in values else math.fsum(value for value in values if value is not None)


def _spots(left: _Read, right: _Read, start: int, other: int, size: int) -> list[Spot]:
    edges = [edge for edge in left.ends if start <= edge <= start + size and edge - start + other in right.at]
    found = []
    for begin, end in pairwise(edges):
        shift = other - start
        mine, theirs = left.between(begin, end), right.between(begin + shift, end + shift)
        if mine is not None and theirs is not None:
            text = left.data[begin:end].decode("utf-8", "replace")
            found.append(Spot(begin, begin + shift, text, end - begin, mine, theirs))
    return found


def _common(left: bytes, right: bytes) -> list[tuple[int, int, int]]:
    """Stretches of the same bytes in both, in order: start in each, and length."""
    if left == right:
        return [(0, 0, len(left))] if left else []
    mine, theirs = _WORDS.findall(left), _WORDS.findall(right)
    here, there = ([0, *accumulate(map(len, listed))] for listed in (mine, theirs))
    return [(here[a], there[b], here[a + size] - here[a]) for a, b, size in _blocks(mine, theirs)]


def _blocks(mine: list[bytes], theirs: list[bytes]) -> list[tuple[int, int, int]]:
    """Common runs of words: start in each, and length. Beginning and end that are alike are taken off first. Long texts
    are laid side by side by runs of words, which are rare where words are not; what lies between them by words."""
    most = min(len(mine), len(theirs))
    front = next((i for i in range(most) if mine[i] != theirs[i]), most)
    most -= front
    back = next((i for i in range(most) if mine[-1 - i] != theirs[-1 - i]), most)
    ends = (len(mine) - back, len(theirs) - back)
    left, right = mine[front : ends[0]], theirs[front : ends[1]]
    long = max(len(left), len(right)) > LONG
    inner = _laid(left, right) if long else _matched(left, right)
    found = [(0, 0, front), *((a + front, b + front, size) for a, b, size in inner), (*ends, back)]
    return [block for block in found if block[2]]


def _matched(left: Sequence[Any], right: Sequence[Any]) -> list[tuple[int, int, int]]:
    return list(SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()[:-1])


def _laid(left: list[bytes], right: list[bytes]) -> list[tuple[int, int, int]]:
    runs = [list(zip(*(words[i:] for i in range(RUN)), strict=False)) for words in (left, right)]
    found: list[tuple[int, int, int]] = []
    here = there = 0
    for i, j, count in [*_matched(*runs), (len(left), len(right), 1 - RUN)]:
        over = max(0, here - i, there - j)  # runs next to each other share words
        a, b, size = i + over, j + over, count + RUN - 1 - over
        if size < 0:
            continue
        if (a - here) * (b - there) <= LONG * LONG:
            between = _matched(left[here:a], right[there:b])
            found += [(x + here, y + there, words) for x, y, words in between]
        found.append((a, b, size))
        here, there = a + size, b + size
    return found
