"""A loom's tree as one reads it: nodes by name, texts, marks, measures, search, frames.

Owns the questions that change nothing. It must not know files, windows or clients. Names of nodes that are not there,
or were deleted, raise :class:`InvalidRequest` with one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..log import standing
from ..log.session import Node, Session
from .measure import Measured, Paths, path_logprob
from .query import parse
from .scorers import current_scores

if TYPE_CHECKING:
    import pandas as pd


class Reading:
    """The questions of :class:`~acs_jupyter.Loom`."""

    session: Session

    @property
    def roots(self) -> list[str]:
        """The roots that are not deleted, in order."""
        return standing.alive(self.session, None)

    @property
    def nodes(self) -> list[str]:
        """All nodes that are not deleted, in reading order."""
        return [node for root in self.roots for node in self.below(root)]

    def below(self, node: str) -> list[str]:
        """A node and all below it, without deleted ones, in reading order."""
        found, waiting = [], [standing.existing(self.session, node).id]
        while waiting:
            found.append(waiting.pop())
            waiting += reversed(standing.alive(self.session, found[-1]))
        return found

    def node(self, node: str) -> Node:
        """The node itself: its tokens, logprobs, alternatives, finish reason."""
        return standing.existing(self.session, node)

    def parent(self, node: str) -> str | None:
        """The node above, ``None`` for a root."""
        return self.node(node).parent

    def children(self, node: str) -> list[str]:
        """The nodes right below that are not deleted, in order."""
        self.node(node)
        return standing.alive(self.session, node)

    def path(self, node: str) -> list[str]:
        """The nodes from the root to this one."""
        self.node(node)
        return [step.id for step in self.session.path(node)]

    def text(self, node: str) -> str:
        """The whole text from the root to the end of the node, byte for byte."""
        self.node(node)
        return self.session.text_to(node)

    def own_text(self, node: str) -> str:
        """The node's own text."""
        return self.session.own_text(self.node(node))

    def logprob(self, node: str) -> Measured:
        """The path's log-probability from the prompt's end: ``total``, ``per_token``, ``tokens``, ``unknown``."""
        self.node(node)
        return path_logprob(self.session, node)

    def marks(self, node: str) -> dict[str, Any]:
        """Tags, note, bookmark, rating, unread, folded, visited, sampling: those that are set.

        ``scores``: numbers of :meth:`expand` for the text that the node has now, by the scorer's name.
        """
        self.node(node)
        marks = self.session.arrangement.marks.get(node, {})
        shown = {name: value for name, value in marks.items() if name not in ("map", "scores")}
        scores = current_scores(self.session, node)
        return {**shown, "scores": scores} if scores else shown

    def last_child(self, node: str) -> str | None:
        """The child that was looked at last, else the first; ``None`` for a leaf."""
        children = self.children(node)
        last = self.session.arrangement.mark(node, "visited")
        return last if last in children else next(iter(children), None)

    @property
    def hoisted(self) -> str | None:
        """The node shown as root, if one is."""
        stack = self.session.arrangement.mark("", "hoisted", [])
        living = [node for node in stack if not standing.is_deleted(self.session, node)]
        return living[-1] if living else None

    # -- searching and measuring --------------------------------------------------------------------

    def find(self, text: str, *, within: str | None = None, case: bool = False) -> list[str]:
        """Nodes whose own text, note or tags hold a text, in reading order. ``within``: only below that node."""
        fold: Callable[[str], str] = str if case else str.casefold
        wanted = fold(text)
        found = []
        for node in self.nodes if within is None else self.below(within):
            marks = self.session.arrangement.marks.get(node, {})
            places = [
                self.session.own_text(self.session.nodes[node]),
                marks.get("note") or "",
                *marks.get("tags", ()),
            ]
            if any(wanted in fold(place) for place in places):
                found.append(node)
        return found

    def where(self, predicate: str, *, within: str | None = None) -> list[str]:
        """Nodes of which a predicate holds, in reading order; ``%acs help where`` lists the names and operators.

        ``logprob < -5`` holds where any one token is less likely than that; ``mean`` and ``total`` are of the whole
        node. Others: ``finish == "length" and tokens > 20``, ``text contains "ship" or bookmark``. Raises
        :class:`InvalidRequest` with one line where it cannot be read.
        """
        holds = parse(predicate, Paths(self.session))
        nodes = self.nodes if within is None else self.below(within)
        return [node for node in nodes if holds(self.session, self.session.nodes[node])]

    def frame(self) -> pd.DataFrame:
        """One row a node that is not deleted, in reading order; see :mod:`acs_jupyter.loom_frames`."""
        from .frames import node_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        nodes = self.nodes
        return node_frame(
            self.session, nodes, {node: len(standing.alive(self.session, node)) for node in nodes}
        )

    def tokens_frame(self) -> pd.DataFrame:
        """One row a token of every node that is not deleted."""
        from .frames import token_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        return token_frame(self.session, self.nodes)
