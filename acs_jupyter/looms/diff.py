"""Two texts that go on from one place, side by side by their tokens.

Owns the alignment and its values. It must not know how it is drawn. What both begin with is compared token by token;
the rest is aligned by longest matching runs (Python's ``difflib``, after Ratcliff and Obershelp), which reads well
and need not be the shortest edit. Above ``MOST`` tokens a side, tokens that are very common in the second text do not
begin a run (difflib's ``autojunk``), or it would take minutes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InvalidRequest
from ..log.session import Node, Session
from .units import Unit, token_units, tokens_known

if TYPE_CHECKING:
    import pandas as pd

Op = Literal["common", "same", "replaced", "only a", "only b"]
MOST = 10_000
_WORDS = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True)
class Block:
    """A run of tokens on each side. ``common``: both begin with it; ``same``: equal again further on. ``a_at``,
    ``b_at``: where it stands on its side, in tokens from the place where both begin."""

    op: Op
    a: tuple[Unit, ...]
    b: tuple[Unit, ...]
    a_at: int
    b_at: int


@dataclass(frozen=True)
class Diff:
    """See the module. ``a`` and ``b`` are ids of nodes; ``by``: ``tokens``, or ``words`` where tokens are unknown, of
    which no logprob is told."""

    a: str
    b: str
    blocks: tuple[Block, ...]
    by: str

    @property
    def common(self) -> str:
        """The text that both begin with."""
        return "".join(unit.text for block in self._head() for unit in block.a)

    @property
    def parts_at(self) -> int | None:
        """The first token, from 0, in which they differ; ``None`` when they are one and the same."""
        if all(block.op == "common" for block in self.blocks):
            return None
        return sum(len(block.a) for block in self._head())

    def logprobs(self) -> tuple[float | None, float | None]:
        """Each side's sum after the place where they part, in nats; ``None`` where a token's is not known."""
        rest = [block for block in self.blocks if block.op != "common"]
        return _sum(u for block in rest for u in block.a), _sum(u for block in rest for u in block.b)

    def to_frame(self) -> pd.DataFrame:
        """One row a pair of tokens: ``op`` (``common``, ``same``, ``replaced``, ``only a``, ``only b``), then for each
        side ``index`` (from 0, where both begin), ``token`` and ``logprob`` (nats); a side without a token has none.

        ``attrs`` hold ``a``, ``b``, ``by`` and ``parts_at``.
        """
        from .measure_frames import DIFF_COLUMNS, frame_of  # noqa: PLC0415  # pandas loads only when a frame is asked for

        about = {"a": self.a, "b": self.b, "by": self.by, "parts_at": self.parts_at}
        return frame_of(self._rows(), DIFF_COLUMNS, **about)

    def _head(self) -> list[Block]:
        return list(takewhile(lambda block: block.op == "common", self.blocks))

    def _rows(self) -> Iterator[list[Any]]:
        for block in self.blocks:
            for place in range(max(len(block.a), len(block.b))):
                yield [
                    block.op,
                    *_cells(block.a, place, block.a_at),
                    *_cells(block.b, place, block.b_at),
                ]

    def __repr__(self) -> str:
        at = self.parts_at
        return f"Diff({self.a}, {self.b}, {'the same' if at is None else f'parts at {at}'}, by {self.by})"

    def _repr_html_(self) -> str:
        from ..widgets.measures import diff_html  # noqa: PLC0415  # drawn only when shown

        return diff_html(self)


def diff_of(session: Session, a: str, b: str) -> Diff:
    """The paths from the last node that both share down to ``a`` and to ``b``, compared. Of siblings, their texts."""
    if a == b:
        raise InvalidRequest("A diff needs two nodes; these are one.")
    left, right = session.path(a), session.path(b)
    shared = len(list(takewhile(lambda pair: pair[0].id == pair[1].id, zip(left, right, strict=False))))
    left, right = left[shared:], right[shared:]
    by_tokens = all(tokens_known(session, node) for node in [*left, *right])
    one, other = _units(session, left, by_tokens), _units(session, right, by_tokens)
    return Diff(a, b, tuple(_blocks(one, other)), "tokens" if by_tokens else "words")


def _units(session: Session, nodes: list[Node], by_tokens: bool) -> list[Unit]:
    if by_tokens:
        return [unit for node in nodes for unit in token_units(session, node)[0]]
    return [Unit(word) for word in _WORDS.findall("".join(map(session.own_text, nodes)))]


def _blocks(a: list[Unit], b: list[Unit]) -> Iterator[Block]:
    pairs = zip(a, b, strict=False)
    at = len(list(takewhile(lambda pair: pair[0].text == pair[1].text, pairs)))
    if at:
        yield Block("common", tuple(a[:at]), tuple(b[:at]), 0, 0)
    rest_a, rest_b = [unit.text for unit in a[at:]], [unit.text for unit in b[at:]]
    matcher = SequenceMatcher(None, rest_a, rest_b, autojunk=max(len(rest_a), len(rest_b)) > MOST)
    ops: dict[str, Op] = {"equal": "same", "replace": "replaced", "delete": "only a", "insert": "only b"}
    for op, i, j, k, m in matcher.get_opcodes():
        yield Block(ops[op], tuple(a[at + i : at + j]), tuple(b[at + k : at + m]), at + i, at + k)


def _cells(units: tuple[Unit, ...], place: int, at: int) -> list[Any]:
    return [at + place, units[place].text, units[place].logprob] if place < len(units) else [None, None, None]


def _sum(units: Iterator[Unit]) -> float | None:
    values = [unit.logprob for unit in units]
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None
