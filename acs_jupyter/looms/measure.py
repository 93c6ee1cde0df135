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


class Paths:
    """What :func:`path_logprob` gives, and how deep a node is, of many nodes: each node is looked at once.

    What the tree was when it was made is what it tells: make one for each question.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, _Way] = {}

    def depth(self, node: str) -> int:
        """Nodes above it."""
        return self._way(node).depth

    def logprob(self, node: str) -> Measured:
        """From the end of the prompt to the end of the node."""
        way = self._way(node)
        return Measured(math.fsum(way.exact) if way.tokens else None, way.tokens, way.unknown)

    def _way(self, node: str) -> _Way:
        todo: list[Node] = []
        step: str | None = node
        while step is not None and step not in self._known:
            todo.append(self._session.nodes[step])
            step = todo[-1].parent
        way = _NOWHERE if step is None else self._known[step]
        for here in reversed(todo):
            way = self._known[here.id] = way.on(*_own(self._session, here))
        return way


@dataclass(frozen=True, slots=True)
class _Way:
    depth: int
    tokens: int
    unknown: int
    exact: tuple[float, ...]
    """Numbers whose sum is that of all tokens, without a rounding: as ``fsum`` holds it inside."""

    def on(self, values: list[float], missing: int) -> _Way:
        if not (self.tokens or values):  # all is prompt so far
            return _Way(self.depth + 1, 0, 0, ())
        exact = self.exact
        for value in values:
            exact = _plus(exact, value)
        return _Way(self.depth + 1, self.tokens + len(values), self.unknown + missing, exact)


_NOWHERE = _Way(-1, 0, 0, ())


def _plus(exact: tuple[float, ...], value: float) -> tuple[float, ...]:
    """One more number in an exact sum (Shewchuk's partial sums)."""
    parts = []
    for other in exact:
        big, small = (value, other) if abs(value) >= abs(other) else (other, value)
        value = big + small
        rest = small - (value - big)
        if rest:
            parts.append(rest)
    return (*parts, value)


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
