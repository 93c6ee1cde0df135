"""A tree between two formats: what a reader found, what a writer writes.

Owns the plain tree, its repair (cycles dropped, orphans re-homed), and its way from and into a session. It must not
know any file's format. No step recurses: a tree may be deeper than the stack.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from ...errors import InvalidRequest
from ...log import events as ev
from ...log import revising, standing
from ...log.arrangement import sampled
from ...log.events import AnyEvent, Change, Revised, Top
from ...log.session import Session
from ...wire import SAMPLING_FIELDS
from ..query import model_of

_NAMED = {
    "tags": "tags",
    "note": "notes",
    "bookmark": "bookmarks",
    "rating": "ratings",
    "sampling": "own sampling",
}
_ASKED = {"logprobs", "echo", "n"}
"""How much was asked for, no part of how it was sampled."""


@dataclass
class DraftNode:
    """A node. ``logprobs`` and ``top`` go with ``tokens``; ``marks`` are those of ``log/arrangement.py``."""

    id: str
    parent: str | None
    text: str
    generated: bool = False
    model: str | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    top: list[Top | None] = field(default_factory=list)
    marks: dict[str, Any] = field(default_factory=dict)
    opened_at: float = 0.0


@dataclass
class Draft:
    """A tree: nodes by id, siblings in the order in which they stand here. ``notes``: lines for the user."""

    nodes: dict[str, DraftNode] = field(default_factory=dict)
    title: str | None = None
    current: str | None = None
    hoisted: list[str] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, node: DraftNode) -> None:
        """Put a node in. Raises ``InvalidRequest`` when its id is used already."""
        if node.id in self.nodes:
            raise InvalidRequest(
                f"The file has two nodes of the id {node.id[:40]!r}: give one of them another."
            )
        if node.tokens and "".join(node.tokens) != node.text:
            node.tokens, node.logprobs, node.top = [], [], []
            self.notes.append(
                f"The tokens of node {node.id[:40]} do not make up its text; the text was kept."
            )
        self.nodes[node.id] = node

    def extra(self, node: DraftNode | None, form: str) -> dict[str, Any]:
        """What was kept of a node (``None``: of the file) for a format; what is no object is left out, and said."""
        meta = self.meta if node is None else node.marks.get("meta")
        found = meta.get(form) if isinstance(meta, dict) else None
        if isinstance(found, dict):
            return found
        if found is not None:
            line = f"What was kept for {form} of {'the file' if node is None else 'nodes'} is no object; left out."
            self.notes += [] if line in self.notes else [line]
        return {}

    def say_lost(self, held: set[str]) -> None:
        """One line with what the tree has and a format, which holds ``held``, has no place for.

        How it is looked at (what is folded, unread, visited) is not told.
        """
        lost = [name for name in self._has() if name not in held]
        if lost:
            words = lost[0] if len(lost) == 1 else f"{', '.join(lost[:-1])} and {lost[-1]}"
            self.notes.append(f"This format has no place for {words}: left out.")

    def _has(self) -> list[str]:
        nodes = self.nodes.values()
        found = [name for mark, name in _NAMED.items() if any(node.marks.get(mark) for node in nodes)]
        found += ["tokens"] if any(node.tokens for node in nodes) else []
        found += ["models"] if any(node.model for node in nodes) else []
        found += ["finish reasons"] if any(node.finish for node in nodes) else []
        used = {name for node in nodes if node.generated for name in node.sampling}
        found += [name for name in sorted(used) if name not in _ASKED]
        return (
            found + (["a title"] if self.title else []) + (["what is shown as root"] if self.hoisted else [])
        )

    def children(self) -> dict[str | None, list[str]]:
        """The children of every node, the roots under ``None``."""
        found: dict[str | None, list[str]] = {None: []}
        for node in self.nodes.values():
            found.setdefault(node.parent, []).append(node.id)
        return found

    def ordered(self) -> list[DraftNode]:
        """All nodes in reading order, those above first."""
        children, found = self.children(), []
        waiting = list(reversed(children[None]))
        while waiting:
            name = waiting.pop()
            found.append(self.nodes[name])
            waiting += reversed(children.get(name, []))
        return found

    def path(self, node: str) -> list[DraftNode]:
        """From the root to a node."""
        found = []
        step: str | None = node
        while step is not None:
            found.append(self.nodes[step])
            step = self.nodes[step].parent
        return found[::-1]

    def repair(self) -> None:
        """Nodes whose parent is missing go under the sole root, or become roots; those in a cycle are dropped."""
        roots = [node.id for node in self.nodes.values() if node.parent is None]
        home = roots[0] if len(roots) == 1 else None
        orphans = [n for n in self.nodes.values() if n.parent is not None and n.parent not in self.nodes]
        for node in orphans:
            node.parent = home
        if orphans:
            where = "under the root" if home else "as roots"
            self.notes.append(f"{_nodes(len(orphans))} named a parent that is not in the file; kept {where}.")
        kept = {node.id for node in self.ordered()}
        if len(kept) < len(self.nodes):
            self.notes.append(
                f"{_nodes(len(self.nodes) - len(kept))} hung below themselves and were dropped."
            )
            self.nodes = {name: node for name, node in self.nodes.items() if name in kept}


def session_of(draft: Draft) -> Session:
    """A session of the draft's nodes, under their own ids; nodes of one model and sampling are one run."""
    draft.repair()
    session = Session()
    runs: dict[str, tuple[str, int]] = {}
    events: list[AnyEvent] = []
    for node in draft.ordered():
        run, count = _run_of(node, runs, events)
        choice = count if node.generated else None
        text = "" if node.tokens else node.text
        events.append(ev.NodeOpened(node.id, run, node.parent, choice, text))
        if node.tokens:
            columns = (tuple(node.tokens), tuple(node.logprobs), tuple(node.top))
            events.append(ev.TokensArrived(node.id, node.text, *columns))
        if node.finish is not None:
            events.append(ev.Finished(node.id, node.finish))
    changes = [Change(n.id, name, value) for n in draft.ordered() for name, value in n.marks.items()]
    changes += _whole(draft)
    closed: list[AnyEvent] = [ev.RunClosed(run, "done") for run, _ in runs.values()]
    session.apply([*events, *closed, Revised("import", "view", changes=tuple(changes))])
    if draft.current in session.nodes:
        seen = revising.visited(session, str(draft.current))
        session.apply([seen] if seen else [])
    return session


def _run_of(node: DraftNode, runs: dict[str, tuple[str, int]], events: list[AnyEvent]) -> tuple[str, int]:
    request = {"prompt": "", **({"model": node.model} if node.model else {}), **node.sampling}
    key = json.dumps(request, sort_keys=True)
    if key not in runs:
        runs[key] = (f"import{len(runs)}", -1)
        events.append(ev.RunOpened(runs[key][0], request))
    run, count = runs[key]
    runs[key] = (run, count + node.generated)
    return runs[key]


def _whole(draft: Draft) -> list[Change]:
    hoisted = [node for node in draft.hoisted if node in draft.nodes]
    given = {"hoisted": hoisted, "title": draft.title, "meta": draft.meta}
    return [Change("", name, value) for name, value in given.items() if value]


def draft_of(session: Session) -> Draft:
    """The living tree of a session; deleted nodes are left out, and said so."""
    marks = session.arrangement.marks
    whole = marks.get("", {})
    draft = Draft(
        title=whole.get("title"), meta=whole.get("meta", {}), hoisted=list(whole.get("hoisted", ()))
    )
    waiting = list(reversed(standing.alive(session, None)))
    while waiting:
        node = session.nodes[waiting.pop()]
        run, text = session.runs[node.run], session.own_text(node)
        known = bool(node.tokens) and "".join(node.tokens) == text
        own = {
            k: v for k, v in marks.get(node.id, {}).items() if k not in ("made_of", "sample", "map", "scores")
        }
        made = DraftNode(
            node.id, node.parent, text, sampled(session.arrangement, node), model_of(session, node)
        )
        made.finish, made.marks, made.opened_at = node.finish_reason, own, run.opened_at
        made.sampling = {k: v for k, v in run.request.items() if k in SAMPLING_FIELDS}
        if known:
            made.tokens, made.logprobs, made.top = list(node.tokens), list(node.logprobs), list(node.top)
        draft.nodes[node.id] = made
        waiting += reversed(standing.alive(session, node.id))
    draft.current = _current(session)
    if any("scores" in own or "map" in own for own in (marks.get(node, {}) for node in draft.nodes)):
        draft.notes.append("Scores and maps of what may follow were left out; a copy of our own holds them.")
    if gone := _deleted(session):
        was = "was deleted is" if gone == 1 else "were deleted are"
        draft.notes.append(f"{_nodes(gone)} that {was} left out.")
    return draft


def _deleted(session: Session) -> int:
    """Nodes that a person deleted, with all below them. What an undo hides, or a split or merge replaced, is none."""
    by: dict[str, str] = {}
    for _, event in session.since(0):
        if isinstance(event, Revised):
            by |= {one.node: event.what for one in event.changes if one.field == "deleted"}
    mark = session.arrangement.mark
    tops = [node for node, what in by.items() if what == "delete" and mark(node, "deleted")]
    gone: set[str] = set()
    while tops:
        gone.add(top := tops.pop())
        tops += [child for child in session.nodes[top].children if not mark(child, "deleted")]
    return len(gone)


def _current(session: Session) -> str | None:
    """The end of the way that was looked at last."""
    step = next(iter(standing.alive(session, None)), None)
    while step is not None:
        after = session.arrangement.mark(step, "visited")
        if after not in standing.alive(session, step):
            return step
        step = after
    return None


def logprob(value: Any) -> float | None:
    """A logprob from a file: a finite number at most 0, else ``None``."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return min(float(value), 0.0) if good else None


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
