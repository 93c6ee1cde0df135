"""A node's text as the pieces that are compared: whole characters' tokens, or, where tokens are unknown, characters.

Owns how a text is cut. It must not know what the pieces are compared for.

A token that is a piece of a character has the text ``""``; such pieces and the token that ends the character are one
unit, since their texts alone do not tell them apart. Of a unit of several tokens the logprob is the sum, and no
alternatives are told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..log.events import Top
from ..log.session import Node, Session


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of text. ``logprob``: natural, before temperature and truncation; ``tokens``: how many it is made of."""

    text: str
    logprob: float | None = None
    top: Top | None = None
    tokens: int = 1


def tokens_known(session: Session, node: Node) -> bool:
    """Whether the node's tokens make up its text, but for a last one that is its end."""
    own = node.tokens[: _inside(node)]
    return "".join(own) == node.text and (bool(own) or not session.own_text(node))


def _inside(node: Node) -> int:
    """How many tokens stand in the text: a model's mark of the end, or a stop text, may be told behind it."""
    tokens = node.tokens
    ended = node.finish_reason == "stop" and tokens and "".join(tokens) == node.text + tokens[-1]
    return len(tokens) - (1 if ended else 0)


def token_units(session: Session, node: Node) -> tuple[list[Unit], Unit | None]:
    """A node's own tokens, without a prompt that the server repeated, and the one behind its text, if there is one.

    That is the model's own end, where the server tells it: a last token without a text, or one that is not in the text.
    """
    units: list[Unit] = []
    first, chars = 0, session.echoed(node)
    while chars > 0 and first < len(node.tokens):
        chars -= len(node.tokens[first])
        first += 1
    begun = first
    for index in range(first, _inside(node)):
        if node.tokens[index]:
            units.append(_joined(node, begun, index + 1))
            begun = index + 1
    return units, _joined(node, begun, len(node.tokens)) if begun < len(node.tokens) else None


def text_units(session: Session, node: Node) -> list[Unit]:
    """A node's own text, a character each; of no one a logprob is known."""
    return [Unit(character) for character in session.own_text(node)]


def _joined(node: Node, start: int, stop: int) -> Unit:
    if stop == start + 1:
        return Unit(node.tokens[start], node.logprobs[start], node.top[start])
    known = [value for value in node.logprobs[start:stop] if value is not None]
    whole = math.fsum(known) if len(known) == stop - start else None
    return Unit("".join(node.tokens[start:stop]), whole, None, stop - start)
