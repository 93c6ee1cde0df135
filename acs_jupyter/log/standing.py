"""What stands in a session's tree: which nodes are there, which are deleted, which still come.

Owns the questions that whoever changes or shows a tree asks of it. Pure, and it reads alone: it must not know how a
tree is changed, which is ``revising.py``'s, nor files or clients.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import InvalidRequest
from .session import Node, Session


def existing(session: Session, node: str) -> Node:
    """The node of that id. Raises when there is none, or when it or one above it was deleted."""
    found = session.nodes.get(node) if isinstance(node, str) else None
    if found is None:
        raise InvalidRequest(f"There is no node {node!r} in this loom; check its id.")
    if is_deleted(session, node):
        raise InvalidRequest(f"Node {node} was deleted; undo brings it back.")
    return found


def is_deleted(session: Session, node: str) -> bool:
    """Whether the node, or one above it, has a tombstone."""
    step: str | None = node
    while step is not None:
        if session.arrangement.mark(step, "deleted"):
            return True
        step = session.nodes[step].parent
    return False


def alive(session: Session, parent: str | None) -> list[str]:
    """The children of a node (``None``: the roots) that are not deleted, in order."""
    siblings = session.roots if parent is None else session.nodes[parent].children
    return [node for node in siblings if not session.arrangement.mark(node, "deleted")]


def below(session: Session, node: str) -> Iterator[str]:
    """A node and all below it, deleted ones too, in reading order."""
    waiting = [node]
    while waiting:
        step = waiting.pop()
        yield step
        waiting += reversed(session.nodes[step].children)


def is_coming(session: Session, node: str) -> bool:
    """Whether a run is still writing to the node itself. One that has ended is whole, whatever its siblings do."""
    here = session.nodes[node]
    return here.choice is not None and here.finish_reason is None and session.runs[here.run].outcome == "open"


def is_busy(session: Session, node: str) -> bool:
    """Whether a run is still writing to the node or below it."""
    for run in list(session.runs.values()):
        for step in list(run.nodes) if run.outcome == "open" else ():
            up: str | None = step if is_coming(session, step) else None
            while up is not None:
                if up == node:
                    return True
                up = session.nodes[up].parent
    return False


def check_quiet(session: Session, node: str) -> None:
    """Raise when a run is writing to the node or below it."""
    if is_busy(session, node):
        raise InvalidRequest(f"Node {node} or one below it is still being generated: stop it, or wait.")
