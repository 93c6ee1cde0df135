"""The JSON of the Obsidian loom: one note's state, or the plugin's own file with many.

Owns that format. It must not know sessions. Generated text stands there with ``<`` and ``[`` escaped by a backslash;
it is unescaped, and what stood there is kept beside it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import InvalidRequest
from . import values as v
from .draft import Draft, DraftNode

_KNOWN = {"text", "parentId", "collapsed", "unread", "bookmarked", "searchResultState"}

_TOP = {"nodes", "current", "hoisted", "searchTerm", "generating"}


def fits(data: Any) -> bool:
    """Whether it looks like this format."""
    if not isinstance(data, dict):
        return False
    return isinstance(data.get("nodes"), dict) or ("settings" in data and isinstance(data.get("state"), dict))


def read(data: Any, note: str | None = None, *, unescape: bool = True) -> Draft:
    """The tree of a note in parsed JSON; ``note`` picks one of the plugin's own file."""
    draft = Draft()
    whole = v.table(data, "The file")
    if "nodes" not in whole:
        whole = _picked(whole, note)
        draft.title = note
        draft.notes.append("The plugin's settings, which hold keys, were not read.")
    for key, given in v.table(whole.get("nodes"), "nodes").items():
        one = v.table(given, f"Node {key[:40]}")
        raw = v.text(one.get("text"), f"The text of node {key[:40]}")
        text = raw.replace("\\<", "<").replace("\\[", "[") if unescape else raw
        node = DraftNode(v.name(key, "A node"), v.above(one.get("parentId"), "A parent"), text)
        extra = v.scrubbed(v.without(one, _KNOWN), draft.notes)
        extra |= {"raw": raw} if raw != text else {}
        flags = {"folded": "collapsed", "unread": "unread", "bookmark": "bookmarked"}
        marks = {mark: one.get(theirs) is True for mark, theirs in flags.items()}
        node.marks = {mark: value for mark, value in marks.items() if value}
        node.marks |= {"meta": {"obsidian": extra}} if extra else {}
        draft.add(node)
    draft.current = v.maybe_text(whole.get("current"))
    draft.hoisted = [one for one in v.listed(whole.get("hoisted"), "hoisted") if isinstance(one, str)]
    v.left_out(whole, _TOP, draft.notes, "")
    return draft


def _picked(whole: dict[str, Any], note: str | None) -> dict[str, Any]:
    notes = v.table(whole.get("state"), "state")
    if note is None and len(notes) == 1:
        note = next(iter(notes))
    if note not in notes:
        known = ", ".join(repr(key[:60]) for key in list(notes)[:8]) or "none"
        raise InvalidRequest(f"The file holds {len(notes)} notes; name one with note=: {known}.")
    return v.table(notes[note], "The note")


def write(draft: Draft) -> bytes:
    """One note's state."""
    nodes = {}
    for node in draft.ordered():
        extra = dict(draft.extra(node, "obsidian"))
        raw = extra.get("raw")
        raw = extra.pop("raw") if isinstance(raw, str) else ""
        if raw.replace("\\<", "<").replace("\\[", "[") != node.text:
            raw = node.text.replace("<", "\\<").replace("[", "\\[")
        nodes[node.id] = {
            **extra, "text": raw, "parentId": node.parent, "collapsed": bool(node.marks.get("folded")),
            "unread": bool(node.marks.get("unread")), "bookmarked": bool(node.marks.get("bookmark")),
            "searchResultState": None,
        }  # fmt: skip
    current = draft.current or next(iter(nodes), None)
    whole = {
        "current": current,
        "hoisted": draft.hoisted,
        "searchTerm": "",
        "nodes": nodes,
        "generating": None,
    }
    draft.say_lost({"bookmarks", "what is shown as root"})
    return msgspec.json.encode(whole)
