"""How likely a path is: log-probabilities of a node's own tokens and of all from the prompt's end.

Owns the sums. It must not know who asks. Natural logarithms, before temperature and truncation, as the server gave
them; tokens whose logprob is not known (a person's text, a text without tokens) are counted apart, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..log.session import Node, Session


@dataclass(frozen=True, slots=True)
class Measured:
    """A sum over tokens. ``tokens``: how many are in it; ``unknown``: pieces of text whose logprob is not known."""

    total: float | None
    tokens: int
    unknown: int

    @property
    def per_token(self) -> float | None:
        """``total / tokens``, or ``None`` when there is none."""
        return None if self.total is None else self.total / self.tokens

    @property
    def complete(self) -> bool:
        """Whether every piece of the text is in the sum."""
        return self.unknown == 0


def scored(session: Session, node: Node) -> Measured:
    """A node's own tokens, without a prompt that the server repeated."""
    return _sum(*_own(session, node))


def path_logprob(session: Session, node: str) -> Measured:
    """From the end of the prompt to the end of ``node``: the prompt is what stands before the first known token."""
    values: list[float] = []
    unknown = 0
    for step in session.path(node):
        own, missing = _own(session, step)
        if values or own:  # before the first scored token all is prompt
            values += own
            unknown += missing
    return _sum(values, unknown)


def _own(session: Session, node: Node) -> tuple[list[float], int]:
    if not node.tokens:
        return [], int(bool(session.own_text(node)))
    first, chars = 0, session.echoed(node)
    while chars > 0 and first < len(node.tokens):
        chars -= len(node.tokens[first])
        first += 1
    own = node.logprobs[first:]
    known = [value for value in own if value is not None]
    return known, len(own) - len(known)


def _sum(values: Iterable[float], unknown: int) -> Measured:
    known = list(values)
    return Measured(math.fsum(known) if known else None, len(known), unknown)
