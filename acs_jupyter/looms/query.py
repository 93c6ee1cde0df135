"""Search by predicate: ``logprob < -5 and model == "m"``, read by a parser of its own; nothing is evaluated.

Owns the little language and what its names mean. It must not know who searches. A predicate is

    any    := all ("or" all)*        all := one ("and" one)*        one := "not" one | "(" any ")" | NAME [OP VALUE]
    OP     := == != < <= > >= contains            VALUE := number, "text", 'text', true, false, none

``token``, ``logprob``, ``surprisal`` and ``rank`` are of each generated token: the predicate holds where one token
fits. The other names are of the node; a sampling field (``temperature``, ``seed``, ...) is that of the node's run.
What is not known fits nothing but ``== none`` and ``!=``; so does the ``rank`` of a token that is not among the
likeliest that were returned.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..errors import InvalidRequest
from ..log.arrangement import sampled
from ..log.ranking import asked_of, rank_of
from ..log.session import Node, Session
from ..log.standing import alive
from ..wire import SAMPLING_FIELDS
from .measure import Paths, path_logprob, scored

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<text>"[^"]*"|'[^']*')"""
    r"""|(?P<op>==|!=|<=|>=|<|>|=)|(?P<par>[()])|(?P<name>[A-Za-z_]\w*))"""
)
_MOST_NESTED = 40
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None}
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Predicate = Callable[[Session, Node], bool]


def _rank(session: Session, node: Node, index: int) -> int | None:
    asked = asked_of(session, node, index)
    return rank_of(node.tokens[index], node.logprobs[index], node.top[index], asked)


def _surprisal(session: Session, node: Node, index: int) -> float | None:
    logprob = node.logprobs[index]
    return None if logprob is None else -logprob / 0.6931471805599453


TOKEN_NAMES: dict[str, Callable[[Session, Node, int], Any]] = {
    "token": lambda session, node, i: node.tokens[i],
    "logprob": lambda session, node, i: node.logprobs[i],
    "surprisal": _surprisal,
    "rank": _rank,
}


def _mark(field: str, default: Any = None) -> Callable[[Session, Node], Any]:
    return lambda session, node: session.arrangement.mark(node.id, field, default)


def _mean(session: Session, node: Node) -> float | None:
    own = scored(session, node)
    return own.per_token


def model_of(session: Session, node: Node) -> str | None:
    """The checkpoint that wrote a node, or the model that was asked for; ``None`` for a text of a person."""
    if not sampled(session.arrangement, node):
        return None
    run = session.runs[node.run]
    return run.checkpoint or run.request.get("model")


NODE_NAMES: dict[str, Callable[[Session, Node], Any]] = {
    "id": lambda session, node: node.id,
    "run": lambda session, node: node.run,
    "text": lambda session, node: session.own_text(node),
    "model": model_of,
    "finish": lambda session, node: node.finish_reason,
    "stopped_by": lambda session, node: node.stop_reason,
    "outcome": lambda session, node: (
        session.runs[node.run].outcome if sampled(session.arrangement, node) else None
    ),
    "generated": lambda session, node: sampled(session.arrangement, node),
    "tokens": lambda session, node: len(node.tokens),
    "chars": lambda session, node: len(session.own_text(node)),
    "total": lambda session, node: scored(session, node).total,
    "mean": _mean,
    "path": lambda session, node: path_logprob(session, node.id).total,
    "depth": lambda session, node: len(session.path(node.id)) - 1,
    "children": lambda session, node: len(alive(session, node.id)),
    "tags": _mark("tags", ()),
    "note": _mark("note"),
    "rating": _mark("rating"),
    "bookmark": _mark("bookmark", False),
    "unread": _mark("unread", False),
    "folded": _mark("folded", False),
}


@dataclass(frozen=True)
class _Comparison:
    name: str
    op: str
    value: Any
    paths: Paths | None = None

    def holds(self, session: Session, node: Node) -> bool:
        if self.name in TOKEN_NAMES:
            return bool(self.tokens(session, node))
        if self.paths is not None and self.name in ("path", "depth"):
            path = self.paths.depth(node.id) if self.name == "depth" else self.paths.logprob(node.id).total
            return _fits(path, self.op, self.value)
        if self.name in NODE_NAMES:
            return _fits(NODE_NAMES[self.name](session, node), self.op, self.value)
        return _fits(session.runs[node.run].request.get(self.name), self.op, self.value)

    def tokens(self, session: Session, node: Node) -> list[int]:
        """The tokens that fit."""
        known = TOKEN_NAMES[self.name]
        return [i for i in range(len(node.tokens)) if _fits(known(session, node, i), self.op, self.value)]


def parse(text: str, paths: Paths | None = None) -> Predicate:
    """A predicate as a function. Raises :class:`InvalidRequest` with one line that says where it cannot be read.

    ``paths``: sums that many nodes share; without them each node's path is climbed.
    """
    return _Parser(text, paths).whole()


class _Parser:
    def __init__(self, text: str, paths: Paths | None = None) -> None:
        self._paths = paths
        self._words: list[tuple[str, str]] = []
        self._at = 0
        place, end = 0, len(text.rstrip())
        while place < end:
            found = _TOKEN.match(text, place)
            if found is None:
                raise self._unreadable(text[place:].strip())
            kind = found.lastgroup or ""
            self._words.append((kind, found.group(kind)))
            place = found.end()

    def whole(self) -> Predicate:
        if not self._words:
            raise InvalidRequest('A predicate is needed, like logprob < -5 or finish == "length".')
        found = self._any(0)
        if self._at < len(self._words):
            raise self._unreadable(self._words[self._at][1])
        return found

    def _any(self, nested: int) -> Predicate:
        parts = [self._all(nested)]
        while self._took("or"):
            parts.append(self._all(nested))
        return parts[0] if len(parts) == 1 else lambda s, n: any(part(s, n) for part in parts)

    def _all(self, nested: int) -> Predicate:
        parts = [self._one(nested)]
        while self._took("and"):
            parts.append(self._one(nested))
        return parts[0] if len(parts) == 1 else lambda s, n: all(part(s, n) for part in parts)

    def _one(self, nested: int) -> Predicate:
        if nested > _MOST_NESTED:
            raise InvalidRequest("The predicate is nested too deeply: use fewer brackets.")
        if self._took("not"):
            inner = self._one(nested + 1)
            return lambda s, n: not inner(s, n)
        if self._took("("):
            inner = self._any(nested + 1)
            if not self._took(")"):
                raise InvalidRequest("The predicate has a ( without its ): add it.")
            return inner
        kind, name = self._next("a name")
        if kind != "name" or name in ("and", "or", "contains") or name in _CONSTANTS:
            raise self._unreadable(name)
        if name not in TOKEN_NAMES and name not in NODE_NAMES and name not in SAMPLING_FIELDS:
            raise InvalidRequest(_unknown(name))
        kind, op = self._words[self._at] if self._at < len(self._words) else ("", "")
        if kind != "op" and op != "contains":
            return _Comparison(name, "!=" if name in TOKEN_NAMES else "", None, self._paths).holds
        self._at += 1
        return _Comparison(name, "==" if op == "=" else op, self._value(), self._paths).holds

    def _value(self) -> Any:
        kind, word = self._next("a value")
        if kind == "number":
            return float(word)
        if kind == "text":
            return word[1:-1]
        if kind == "name" and word.lower() in _CONSTANTS:
            return _CONSTANTS[word.lower()]
        raise InvalidRequest(f'The predicate needs a number or a "text" in place of {word}.')

    def _took(self, word: str) -> bool:
        if self._at < len(self._words) and self._words[self._at] in (("name", word), ("par", word)):
            self._at += 1
            return True
        return False

    def _next(self, what: str) -> tuple[str, str]:
        if self._at >= len(self._words):
            raise InvalidRequest(f"The predicate ends where {what} is needed.")
        self._at += 1
        return self._words[self._at - 1]

    @staticmethod
    def _unreadable(word: str) -> InvalidRequest:
        return InvalidRequest(
            f"The predicate cannot be read at {word[:20]!r}; write it like logprob < -5 and tokens > 3."
        )


def _unknown(name: str) -> str:
    known = [*TOKEN_NAMES, *NODE_NAMES, *SAMPLING_FIELDS]
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if near:
        return f"{name[:40]} is nothing a node has. Did you mean {near[0]}?"
    return (
        f"{name[:40]} is nothing a node has; it can be {', '.join([*TOKEN_NAMES, *NODE_NAMES])}, or a field of its "
        "request, such as temperature."
    )


def _fits(have: Any, op: str, value: Any) -> bool:
    if op == "":
        return bool(have)
    if op in ("==", "!="):
        return (have == value and isinstance(have, bool) == isinstance(value, bool)) is (op == "==")
    if have is None or value is None:
        return False
    if op == "contains":
        return isinstance(have, (str, list, tuple)) and isinstance(value, str) and value in have
    comparable = isinstance(have, str) == isinstance(value, str) and not isinstance(have, (list, tuple))
    return comparable and bool(_ORDER[op](have, value))
