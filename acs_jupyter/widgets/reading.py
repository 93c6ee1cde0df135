"""How tokens are read by people: which text is whose, how likely, and what is there but cannot be seen.

Owns what both the live and the static view must agree on; ``js/src/parts`` holds the same rules, and the
golden files compare them. It must not know markup or widgets.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..log.events import Top
    from ..log.session import Node

BOUNDS = (0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Level ``i`` begins where the probability falls below ``BOUNDS[i - 1]``."""

HUE = "#d66a0c"
"""The hue of what is told of probabilities, in both themes; ``--acs-hue`` of ``live.css`` is the same."""

_LOOKAHEAD_TOKENS = 16
_LOOKAHEAD_TEXT = 400

INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u2800\u3000\u3164\ufeff\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that show nothing, or change how others show."""


class Piece(NamedTuple):
    """A stretch of text and its tokens ``first..last``; ``first`` is -1 where they are not known."""

    text: str
    first: int
    last: int


def align(text: str, tokens: list[str]) -> list[Piece]:
    """Cut a complete text by its tokens. The text is the authority: the pieces join to it.

    Tokens without text join the one that completes their character. Tokens beyond the end of the text are
    left out; text that no token accounts for stands alone.
    """
    pieces: list[Piece] = []
    place = first = index = 0
    while index < len(tokens):
        token = tokens[index]
        rest = text[place : place + len(token)]
        if token == "":
            index += 1
        elif rest == token or (rest and len(rest) < len(token) and token.startswith(rest)):
            pieces.append(Piece(rest, first, index))
            place += len(rest)
            index += 1
            first = index
        else:
            found = _catch_up(text[place : place + _LOOKAHEAD_TEXT], tokens, index) if rest else None
            if found is None:
                break
            first = index = found[0]
            if found[1]:
                pieces.append(Piece(text[place : place + found[1]], -1, -1))
                place += found[1]
    if place < len(text):
        pieces.append(Piece(text[place:], -1, -1))
    return pieces


def _catch_up(near: str, tokens: list[str], index: int) -> tuple[int, int] | None:
    for later in range(index + 1, min(len(tokens), index + _LOOKAHEAD_TOKENS)):
        found = near.find(tokens[later]) if len(tokens[later].strip()) > 1 else -1
        if found >= 0:
            return later, found
    return None


def level(logprob: float | None) -> int | None:
    """0 for a likely token to 7 for a thousandth and less; ``None`` when no probability is known."""
    if logprob is None:
        return None
    probability = math.exp(min(logprob, 0.0))
    return next((i for i, bound in enumerate(BOUNDS) if probability >= bound), len(BOUNDS))


def level_of(node: Node, piece: Piece) -> int | None:
    """The level of a piece: that of its least probable token."""
    if piece.first < 0:
        return None
    levels = [level(node.logprobs[i]) for i in range(piece.first, piece.last + 1)]
    return max((one for one in levels if one is not None), default=None)


def percent(logprob: float) -> str:
    """A probability for people, without the space before the sign: ``34.1%``, ``0.02%``, ``<0.001%``."""
    value = math.exp(min(logprob, 0.0)) * 100
    if value < 0.001:
        return "<0.001%"
    return f"{value:.1f}%" if value >= 10 else f"{value:.2f}%" if value >= 0.1 else f"{value:.3f}%"


def quoted(token: str) -> str:
    """A token in quotes with everything in it visible: ``'·the'``, ``'↵'``, or its code points."""
    return f"'{visible(token)}'" if token else "(no text)"


def visible(text: str) -> str:
    """Text with a mark in place of each character that cannot be seen."""
    marked = text.replace(" ", "·").replace("\n", "↵").replace("\t", "⇥")
    return INVISIBLE.sub(lambda found: f"⟨{code_point(found[0])}⟩", marked)


def code_point(character: str) -> str:
    """``U+202E``."""
    return f"U+{ord(character):04X}"


class Alternative(NamedTuple):
    """One of the tokens the model weighed at a position."""

    token: str
    logprob: float
    sampled: bool


def ranked(token: str, logprob: float | None, top: Top | None) -> tuple[list[Alternative], float]:
    """The alternatives of a token, most likely first, the sampled one among them; and the mass they leave."""
    entries = dict(top or {})
    if logprob is not None:
        entries.setdefault(token, logprob)
    found = [Alternative(text, value, text == token) for text, value in entries.items()]
    found.sort(key=lambda one: -one.logprob)
    return found, max(0.0, 1.0 - sum(math.exp(min(one.logprob, 0.0)) for one in found))
