"""A loom as a static page part: its tree folded, its texts tinted, and nothing that runs.

Owns the HTML and the plain text that stay in a saved notebook for a whole tree, and what gives way when room is short:
titles and tints first, then the records, then the beginnings in the summaries. Only of a tree of more than ``LARGEST``
bytes of text, or ``MOST_NODES`` nodes, a part is shown, what is nearest to the roots, and it says how much is not. It
must not know widgets.

A node is a ``<details>``, its number and its beginning the summary; a node whose only child goes on is not folded, nor
indented, and past 30 levels nothing is: browsers stop at a depth of some hundreds. Deleted nodes are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..keeping.record import KEY, pack_run
from ..log.branching import root_of
from .reading import visible
from .snapshot import most_saved, sheet
from .tinted import on_file, text_of, tinted
from .words import finish_words, outcome_words

if TYPE_CHECKING:
    from ..log.session import Node, Session

DEEPEST = 30
LARGEST = 250_000
"""Bytes of text that a copy holds at most: it is written again after each change, and every reader loads it."""
MOST_NODES = 3000
"""Nodes that a copy shows at most: each takes some hundred bytes of markup beside its text."""
NUMBERED = 8
"""Levels down to which a node's number says the whole way (``1.2.1``); a number as long as a deep way says nothing."""
MOST_RECORDS = 200
"""Runs of which records are written; a larger loom is kept in a file of its own."""
BEGINNING = 60
"""Characters of a text in its summary."""
_STYLE = (
    "<style>.acs-static details{margin:0 0 0 1.1em}.acs-static details.acs-flat{margin-left:0}"
    ".acs-static summary{cursor:pointer;margin-left:-1.1em;font:12px/1.6 var(--jp-ui-font-family,system-ui,sans-serif)}"
    ".acs-static summary b{font-weight:400;opacity:.7}.acs-static details[open]>summary b{display:none}</style>"
)
_PRE = '<pre style="white-space:pre-wrap;word-break:normal">'


@dataclass(frozen=True)
class Place:
    """A living node, its number (``1.2``), its level (a root's is 1), and how deep it is indented."""

    node: Node
    name: str
    level: int
    depth: int
    flat: bool


def bundle(session: Session, spent: int = 0) -> tuple[dict[str, str], dict[str, Any]]:
    """What stays of a loom: its plain text and its page, and the records of its runs as metadata.

    ``spent``: bytes that the loom takes elsewhere in the file, in its window's state.
    """
    session.interrupt_open()
    everything = list(_places(session))
    places = _nearest(session, everything)
    tokens = sum(len(place.node.tokens) for place in places)
    most = most_saved(tokens) - spent
    left_out = _left_out(len(everything) - len(places))
    plain = plain_text(session, places) + (f"\n--- {left_out} ---" if left_out else "")
    line = (
        f'<div class="acs-static acs-beside"><div class="acs-line">{left_out}</div></div>' if left_out else ""
    )
    bare = on_file(_page(session, places, {}, True) + line) + on_file(plain)
    beginnings = bare <= most
    records = _records(session, most - bare)
    room = (most - bare - len(json.dumps(records))) / max(1, tokens)
    texts = {one.node.id: tinted(one.node, room * len(one.node.tokens)) for one in places if one.node.tokens}
    page = _page(session, places, texts if room > 0 else {}, beginnings) + line
    return {"text/plain": plain, "text/html": page}, records


def plain_text(session: Session, places: list[Place] | None = None) -> str:
    """Each node's own text under its number, exactly; of a single node its text alone."""
    places = list(_places(session)) if places is None else places
    if len(places) == 1:
        return session.own_text(places[0].node)
    return "\n".join(f"--- {place.name} ---\n{session.own_text(place.node)}" for place in places)


def _records(session: Session, room: float) -> dict[str, Any]:
    runs = dict.fromkeys(root_of(session, run) for run, here in session.runs.items() if here.nodes)
    records = [pack_run(session, run) for run in runs] if len(runs) <= MOST_RECORDS else []
    return {KEY: records} if records and len(json.dumps(records)) <= room else {}


def _nearest(session: Session, places: list[Place]) -> list[Place]:
    """All, or of a large tree those nearest to the roots, in reading order."""
    room = LARGEST
    shown: set[str] = set()
    for place in sorted(places, key=lambda one: one.level):
        room -= len(session.own_text(place.node).encode(errors="surrogatepass")) + BEGINNING
        if (room < 0 and shown) or len(shown) == MOST_NODES:
            break
        shown.add(place.node.id)
    return [place for place in places if place.node.id in shown]


def _left_out(count: int) -> str:
    if not count:
        return ""
    nodes = "1 node is" if count == 1 else f"{count:,} nodes are"
    return f"{nodes} not in this copy; the loom has them."


def _alive(session: Session, nodes: list[str]) -> list[str]:
    return [node for node in nodes if not session.arrangement.mark(node, "deleted")]


def _places(session: Session) -> Iterator[Place]:
    roots = _alive(session, session.roots)
    waiting = [Place(session.nodes[node], str(at), 1, 0, False) for at, node in enumerate(roots, 1)][::-1]
    while waiting:
        here = waiting.pop()
        yield here
        children = _alive(session, here.node.children)
        only = len(children) == 1 or here.depth >= DEEPEST
        level, depth = here.level + 1, here.depth + (not only)
        below = [
            Place(session.nodes[child], _number(here, at), level, depth, only)
            for at, child in enumerate(children, 1)
        ]
        waiting += below[::-1]


def _number(parent: Place, place: int) -> str:
    """Of a child: the whole way to it, or where that is long its level and its place among its siblings."""
    if parent.level < NUMBERED:
        return f"{parent.name}.{place}"
    return f"level {parent.level + 1}: {place}"


def _page(session: Session, places: list[Place], texts: dict[str, str], beginnings: bool) -> str:
    parts = [sheet(), _STYLE, '<div class="acs-static acs-beside">']
    open_at: list[int] = []
    for place in places:
        while open_at and open_at[-1] >= place.depth and not (place.flat and open_at[-1] == place.depth):
            open_at.pop()
            parts.append("</details>")
        if not place.flat:
            opened = (
                " open" if place.depth < 2 and not session.arrangement.mark(place.node.id, "folded") else ""
            )
            parts.append(f"<details{opened}>{_summary(session, place, beginnings)}")
            open_at.append(place.depth)
        else:
            parts.append(f'<div class="acs-name">{text_of(_words(session, place))}</div>')
        parts.append(f"{_PRE}{texts.get(place.node.id) or _text(session.own_text(place.node))}</pre>")
    parts.append("</details>" * len(open_at) + "</div>")
    return "".join(parts)


def _text(text: str) -> str:
    return text_of(text).replace("\n", '<i class="n"></i>&#10;')


def _summary(session: Session, place: Place, beginnings: bool) -> str:
    text = session.own_text(place.node)[:BEGINNING] if beginnings else ""
    begins = text_of("".join("↵" if c == "\n" else visible(c) if c != " " else c for c in text))
    return f"<summary>{text_of(_words(session, place))} <b>{begins}</b></summary>"


def _words(session: Session, place: Place) -> str:
    """Number, how it ended, and the marks of a node, in one line."""
    node, run = place.node, session.runs[place.node.run]
    words = [place.name]
    if session.arrangement.mark(node.id, "sample") is not None:
        words.append("split from a sample")
        words += [finish_words(node, run)] if node.finish_reason is not None else []
    elif node.choice is not None:
        words.append(finish_words(node, run) or outcome_words(run))
        if not node.text:
            words.append("empty")
    marks = session.arrangement.marks.get(node.id, {})
    words += [f"#{tag}" for tag in marks.get("tags", ())]
    words += ["★"] if marks.get("bookmark") else []
    words += [str(marks["note"])] if marks.get("note") else []
    return " · ".join(words)
