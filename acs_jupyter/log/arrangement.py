"""How people arranged the tree: what they wrote, moved, marked and deleted, and the steps that can be undone.

Owns the fold of ``Revised`` events and the fields they change. It must not know the log, nor who asks for a change
(``revising.py`` makes the events). ``js/src/revise.ts`` does the same, kept equal by the golden files.

A node's parent and place among its siblings are changed in the tree itself; all other fields are *marks* beside it.
Nothing is destroyed: a deleted node stays where it is, with the mark ``deleted``.

    place     [parent or null, the sibling it stands before or null for the end]
    deleted, bookmark, unread, folded   true or absent
    tags      list of words             note      text            rating    number
    visited   the child that was looked at last                   sampling  fields that growing from here uses
    made_of   the nodes a written one came from                   meta      what else is known, kept as it came
    sample    the generated node that a written one is a part of, when all of it is
    map       what may follow, as looms/multiverse.py packs it    scores    of searches, as looms/scorers.py keeps them
    hoisted   (of the whole tree) the nodes shown as root, innermost last        title (of the whole tree)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .events import Change, Piece, Revised, Written
from .tree import Node, Run

WHOLE = ""
"""The ``node`` of a change that is about the whole tree."""


def _words(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value)


def _text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def finite(value: Any) -> bool:
    """Whether a value is a number that every reader of a log can hold."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def _number(value: Any) -> bool:
    return value is None or finite(value)


def _table(value: Any) -> bool:
    return value is None or isinstance(value, dict)


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "deleted": _flag, "bookmark": _flag, "unread": _flag, "folded": _flag, "tags": _words, "note": _text,
    "rating": _number, "visited": _text, "sampling": _table, "made_of": _words, "meta": _table,
    "sample": _text, "map": _table, "scores": _table,
}  # fmt: skip
_WHOLE_FIELDS: dict[str, Callable[[Any], bool]] = {"hoisted": _words, "title": _text, "meta": _table}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done or taken back, and the changes that reverse it."""

    what: str
    changes: tuple[Change, ...]


class Arrangement:
    """Marks of nodes and of the whole tree, and the steps done and taken back."""

    def __init__(self) -> None:
        self.marks: dict[str, dict[str, Any]] = {}
        self.done: list[Step] = []
        self.undone: list[Step] = []
        self.revised = False

    def mark(self, node: str, field: str, default: Any = None) -> Any:
        """A node's mark, or the default when it has none."""
        return self.marks.get(node, {}).get(field, default)

    def state(self) -> dict[str, Any]:
        """As plain values, equal to what the TypeScript reducer holds."""
        return {
            "marks": {node: dict(marks) for node, marks in self.marks.items()},
            "done": [step.what for step in self.done],
            "undone": [step.what for step in self.undone],
        }

    def fold(self, event: Revised, nodes: dict[str, Node], roots: list[str], runs: dict[str, Run]) -> None:
        """Fold one event in, whole or not at all. Raises ``ValueError`` or ``KeyError`` when it cannot be."""
        tree = _Tree(self, nodes, roots, runs)
        back: list[Change] = []
        written: list[Written] = []
        try:
            self._check_stacks(event.kind)
            for node in event.opened:
                if node not in nodes:
                    raise ValueError(f"there is no node {node}")
            for one in event.written:
                tree.write(one)
                written.append(one)
            for change in event.changes:
                before = tree.now(change)
                tree.set(change)
                back.append(before)
        except BaseException:
            for change in reversed(back):
                tree.set(change)
            for one in reversed(written):
                tree.forget(one)
            raise
        self.revised = True
        self._keep(event, back)

    def _check_stacks(self, kind: str) -> None:
        if kind == "undo" and not self.done:
            raise ValueError("nothing was done that could be undone")
        if kind == "redo" and not self.undone:
            raise ValueError("nothing was undone that could be done again")

    def _keep(self, event: Revised, back: list[Change]) -> None:
        # What takes a change back is found when it is made: a place "at the end" is another one later.
        step = Step(event.what, tuple(reversed(back)))
        if event.kind == "step":
            new = [*(one.node for one in event.written), *event.opened]
            gone = tuple(Change(node, "deleted", True) for node in new)
            self.done.append(Step(event.what, step.changes + gone))
            self.undone.clear()
        elif event.kind == "undo":
            self.done.pop()
            self.undone.append(step)
        elif event.kind == "redo":
            self.undone.pop()
            self.done.append(step)


class _Tree:
    """The tree while one event is folded into it."""

    def __init__(
        self, here: Arrangement, nodes: dict[str, Node], roots: list[str], runs: dict[str, Run]
    ) -> None:
        self._marks, self._nodes, self._roots, self._runs = here.marks, nodes, roots, runs

    def write(self, one: Written) -> None:
        if one.node in self._nodes or one.node == WHOLE:
            raise ValueError(f"node {one.node} is there already")
        if one.run not in self._runs:
            raise ValueError(f"there is no run {one.run}")
        node = Node(one.node, one.run, one.parent, None)
        node.finish_reason = one.finish_reason
        compose(node, one.pieces, self._nodes)
        self._siblings(one.parent).append(one.node)
        self._nodes[one.node] = node
        if one.made_of:
            self._marks[one.node] = {"made_of": list(one.made_of)}
        whole = self._sample(one)
        if whole is not None:
            self._marks.setdefault(one.node, {})["sample"] = whole.id
            node.stop_reason = whole.stop_reason if one.finish_reason is not None else None

    def _sample(self, one: Written) -> Node | None:
        """The one generated node that all pieces are of: a cut of it, or cuts of it put together again."""
        found = {self._sample_of(piece.node or next(iter(one.made_of), ""), piece) for piece in one.pieces}
        (name,) = found if len(found) == 1 else (None,)
        return None if name is None else self._nodes[name]

    def _sample_of(self, name: str, piece: Piece) -> str | None:
        source = self._nodes.get(name)
        if source is None or (
            not piece.node and (source.tokens or not piece.text or piece.text not in source.text)
        ):
            return None
        return name if source.choice is not None else self._marks.get(name, {}).get("sample")

    def forget(self, one: Written) -> None:
        self._siblings(one.parent).remove(one.node)
        del self._nodes[one.node]
        self._marks.pop(one.node, None)

    def now(self, change: Change) -> Change:
        """The change that puts back what is there now."""
        if change.field == "place":
            here = self._nodes[change.node]
            siblings = self._siblings(here.parent)
            after = siblings.index(change.node) + 1
            before = siblings[after] if after < len(siblings) else None
            return Change(change.node, "place", [here.parent, before])
        return Change(change.node, change.field, self._value(change.node, change.field))

    def _value(self, node: str, field: str) -> Any:
        held = self._marks.get(node, {}).get(field)
        if held is not None:
            return held
        check = (_FIELDS if node else _WHOLE_FIELDS).get(field)
        return False if check is _flag else [] if check is _words else None

    def set(self, change: Change) -> None:
        if change.node != WHOLE and change.node not in self._nodes:
            raise ValueError(f"there is no node {change.node}")
        if change.field == "place" and change.node != WHOLE:
            self._place(change.node, change.value)
            return
        check = (_FIELDS if change.node else _WHOLE_FIELDS).get(change.field)
        if check is None or not check(change.value):
            raise ValueError(f"{change.field} cannot be {type(change.value).__name__} here")
        marks = self._marks.setdefault(change.node, {})
        if change.value is None or change.value is False or change.value in ("", [], (), {}):
            marks.pop(change.field, None)
        else:
            marks[change.field] = change.value
        if not marks:
            del self._marks[change.node]

    def _place(self, node: str, value: Any) -> None:
        if not (isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_text, value))):
            raise ValueError("a place is a parent and a sibling")
        parent, before = value
        step = parent
        while step is not None:
            if step == node:
                raise ValueError(f"node {node} cannot hang below itself")
            step = self._nodes[step].parent
        target = self._siblings(parent)
        here = self._nodes[node]
        self._siblings(here.parent).remove(node)
        target.insert(target.index(before) if before in target else len(target), node)
        here.parent = parent

    def _siblings(self, parent: str | None) -> list[str]:
        return self._roots if parent is None else self._nodes[parent].children


def sampled(arrangement: Arrangement, node: Node) -> bool:
    """Whether a model wrote the node: it was generated, or is a part of one that was."""
    return node.choice is not None or arrangement.mark(node.id, "sample") is not None


def compose(node: Node, pieces: tuple[Piece, ...], nodes: dict[str, Node]) -> None:
    """Fill a written node with its pieces; a text among tokens is one token of which nothing is known."""
    tokenised = any(piece.node for piece in pieces)
    for piece in pieces:
        if piece.node:
            source, part = nodes[piece.node], slice(piece.start, piece.stop)
            if not 0 <= piece.start <= piece.stop <= len(source.tokens):
                raise ValueError(f"node {piece.node} has no tokens {piece.start} to {piece.stop}")
            node.parts.append("".join(source.tokens[part]))
            node.tokens += source.tokens[part]
            node.logprobs += source.logprobs[part]
            node.top += source.top[part]
            continue
        node.parts.append(piece.text)
        if tokenised and piece.text:
            node.tokens.append(piece.text)
            node.logprobs.append(None)
            node.top.append(None)


__all__ = ["WHOLE", "Arrangement", "Step", "compose", "finite", "sampled"]
