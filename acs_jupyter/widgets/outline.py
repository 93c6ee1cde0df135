"""A large state as its outline at once and its contents later: ten thousand nodes open before their tokens are packed.

Owns what of a session an outline holds, which contents a page still lacks, and in which order they follow. It must not
know windows, nor what carries a message. ``js/src/outline.ts`` reads it. One that was made serves all pages and windows
that show the session as it is.

    outline  := {"gists": {id: gist}, "hollow": [id, ...]}, a line feed, and the packed state (``packing.py``), in which
                hollow nodes have no text and no tokens, and of nodes and runs what is as usual is left out
    gist     := [how the node's own text begins, its mean logprob or null], of every node whose run is over
    contents := {"strings": [...], "nodes": {id: [text or null, how many tokens, tokens as packed]}}

A node whose run is over never changes, so its contents can come at any time, in any order, more than once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..log import events as ev
from ..log.session import Session
from ..log.tree import Node, Run, node_state, run_state
from .packing import VERSION, Strings, packed_node, packed_tokens

if TYPE_CHECKING:
    from ..log.events import AnyEvent

ROOM = 10_000
"""Tokens whose contents travel with the outline: a tree of as many opens whole."""
BATCH = 2_500
"""Tokens of one message of contents: packed in about 10 ms."""
BEGINNING = 180
"""Characters of a text in its gist."""

_RUN = run_state(Run("", {}, None, -1.0))
_NODE = node_state(Node("", "", None, None))
"""What is as usual, and left out."""

Nearest = Callable[["Session"], Iterable[str]]


@dataclass(frozen=True)
class Made:
    """An outline of a session after ``events``, in which the nodes of ``whole`` have their contents: what stands before
    the number of its message, and behind it; and the nodes that have none."""

    events: int
    whole: frozenset[str]
    head: str
    body: str
    hollow: list[str]


class Shared:
    """The outline that was made last; of all who follow the whole of one session."""

    made: Made | None = None


_shared: WeakKeyDictionary[Session, Shared] = WeakKeyDictionary()


def shared_of(session: Session) -> Shared:
    """What the windows on the whole of a session share."""
    return _shared.setdefault(session, Shared())


class Outline:
    """What one window's pages have been sent. ``nearest`` names the nodes whose contents come first; ``shared``: with
    whom it shares what it makes."""

    def __init__(
        self, nearest: Nearest = lambda session: (), room: int = ROOM, shared: Shared | None = None
    ) -> None:
        self._nearest, self._room = nearest, room
        self._shared = Shared() if shared is None else shared
        self._lacking: dict[str, None] = {}

    @property
    def lacking(self) -> int:
        """How many nodes have been sent without their contents."""
        return len(self._lacking)

    def pack(self, session: Session, seq: int, at: float) -> str:
        """The outline of a session after message ``seq``, the last of which happened at ``at``."""
        whole = frozenset(self._first(session))
        made = self._shared.made
        if made is None or made.events != len(session) or made.whole != whole:
            made = self._shared.made = self._make(session, whole)
        self._lacking = dict.fromkeys(made.hollow)
        return f'{made.head}\n{{"v":{VERSION},"seq":{seq},"at":{_json(at)},{made.body}'

    def _make(self, session: Session, whole: frozenset[str]) -> Made:
        hollow = dict.fromkeys(
            key for key, node in session.nodes.items() if key not in whole and _is_over(session, node)
        )
        strings = Strings()
        nodes = {
            key: _short(_bare(node) if key in hollow else packed_node(node_state(node), strings), _NODE)
            for key, node in session.nodes.items()
        }
        gists = {key: _gist(session, node) for key, node in session.nodes.items() if _is_over(session, node)}
        state: dict[str, Any] = {
            "roots": session.roots,
            "nodes": nodes,
            "runs": {key: _short(run_state(run), _RUN) for key, run in session.runs.items()},
        }
        if session.arrangement.revised:
            state["loom"] = session.arrangement.state()
        head = {"gists": gists, "hollow": list(hollow)}
        body = _json({"strings": strings.table, "state": state})
        return Made(len(session), whole, _json(head), body[1:], list(hollow))

    def contents(self, session: Session, nodes: Iterable[str]) -> str | None:
        """The contents of nodes that are over; ``None`` when of none there is any."""
        strings = Strings()
        found = {}
        for key in nodes:
            self._lacking.pop(key, None)
            node = session.nodes.get(key)
            if node is None or not _is_over(session, node):
                continue
            text = None if node.tokens and node.text == "".join(node.tokens) else node.text
            found[key] = [text, len(node.tokens), packed_tokens(node, strings)]
        return _json({"strings": strings.table, "nodes": found}) if found else None

    def some(self, session: Session) -> str | None:
        """The contents of the next of what is lacking; ``None`` when nothing is."""
        taken: list[str] = []
        tokens = 0
        for key in self._lacking:
            taken.append(key)
            tokens += len(session.nodes[key].tokens) + 10
            if tokens >= BATCH:
                break
        return self.contents(session, taken)

    def needed(self, session: Session, events: Iterable[AnyEvent]) -> str | None:
        """The contents that must be there before some events: a page composes what they write of its own tokens."""
        names: list[str] = []
        for event in events:
            if isinstance(event, ev.NodeOpened) and event.origin is not None:
                names.append(event.origin.node)
            elif isinstance(event, ev.Revised):
                names += [piece.node for one in event.written for piece in one.pieces if piece.node]
                names += [name for one in event.written for name in one.made_of]
        lacking = [name for name in dict.fromkeys(names) if name in self._lacking]
        return self.contents(session, lacking) if lacking else None

    def _first(self, session: Session) -> Iterable[str]:
        room = self._room
        for key in dict.fromkeys([*self._nearest(session), *session.nodes]):
            node = session.nodes.get(key)
            if node is None:
                continue
            room -= len(node.tokens) + len(node.text) // 100
            if room < 0:
                return
            yield key


def _short(state: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in usual or value != usual[name]}


def _is_over(session: Session, node: Node) -> bool:
    return session.runs[node.run].outcome != "open"


def _bare(node: Node) -> dict[str, Any]:
    state = node_state(node)
    for name in ("text", "tokens", "logprobs", "top"):
        del state[name]
    return state


def _gist(session: Session, node: Node) -> list[Any]:
    known = [logprob for logprob in node.logprobs if logprob is not None]
    text = session.own_text(node) if node.echo else node.text
    return [text[:BEGINNING], round(sum(known) / len(known), 4) if known else None]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
