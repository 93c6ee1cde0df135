"""The JSON of basemode-loom: a flat list of nodes, siblings by the time they were made.

Owns that format. It must not know sessions. Nodes of the kind ``context`` are no part of the text; they are kept aside.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from . import values as v
from .draft import Draft, DraftNode

_KNOWN = {"id", "parent_id", "text", "model", "max_tokens", "temperature", "checked_out", "tree_id"}


def fits(data: Any) -> bool:
    """Whether it looks like this format."""
    return isinstance(data, dict) and isinstance(data.get("nodes"), list) and "loom" not in data


def read(data: Any) -> Draft:
    """The tree in parsed JSON."""
    draft = Draft()
    given = [v.table(one, "A node") for one in v.listed(v.table(data, "The file").get("nodes"), "nodes")]
    if all(isinstance(one.get("created_at"), str) for one in given):
        given.sort(key=lambda one: (one["created_at"], str(one.get("id"))))
    aside = [v.scrubbed(one, draft.notes) for one in given if one.get("kind") == "context"]
    chosen: list[DraftNode] = []
    for one in given:
        if one.get("kind") == "context":
            continue
        node = _node(one, draft.notes)
        draft.add(node)
        if one.get("checked_out") is True:
            chosen.append(node)
    for node in chosen:
        if node.parent in draft.nodes and node.parent is not None:
            draft.nodes[node.parent].marks["visited"] = node.id
    v.left_out(v.table(data, "The file"), {"version", "nodes"}, draft.notes, "")
    if aside:
        draft.meta = {"basemode": {"context": aside}}
        draft.notes.append(f"{len(aside)} context texts are kept aside; they are no part of the tree.")
    return draft


def _node(one: dict[str, Any], notes: list[str]) -> DraftNode:
    name = v.name(one.get("id"), "A node")
    node = DraftNode(
        name, v.above(one.get("parent_id"), "A parent"), v.text(one.get("text"), f"The text of {name[:40]}")
    )
    node.model = v.maybe_text(one.get("model"))
    node.generated = node.model is not None
    temperature, most = v.number(one.get("temperature")), one.get("max_tokens")
    node.sampling = {} if temperature is None else {"temperature": temperature}
    node.sampling |= {"max_tokens": most} if isinstance(most, int) and most > 0 else {}
    extra = v.scrubbed(v.without(one, _KNOWN), notes)
    about = v.maybe_table(one.get("metadata"))
    rating = v.number(about.get("rating"))
    node.marks = {"meta": {"basemode": extra}} if extra else {}
    node.marks |= {"bookmark": True} if about.get("bookmarked") is True else {}
    node.marks |= {"rating": rating} if rating is not None else {}
    return node


def write(draft: Draft) -> bytes:
    """Their version 1."""
    nodes: list[dict[str, Any]] = []
    trees: dict[str, str] = {}
    shown = {node.marks.get("visited") for node in draft.nodes.values()}
    for count, node in enumerate(draft.ordered()):
        trees[node.id] = node.id if node.parent is None else trees[node.parent]
        extra = draft.extra(node, "basemode")
        about = dict(v.maybe_table(extra.get("metadata")))
        if extra.get("metadata") and not about:
            about = {"metadata": extra["metadata"]}
        about |= {"bookmarked": True} if node.marks.get("bookmark") else {}
        about |= {"rating": node.marks["rating"]} if "rating" in node.marks else {}
        nodes.append({
            "kind": "text", "context_id": None, "strategy": None, **extra, "id": node.id, "parent_id": node.parent,
            "tree_id": trees[node.id], "text": node.text,
            "model": node.model or ("unknown" if node.generated else None),
            "max_tokens": node.sampling.get("max_tokens"), "temperature": node.sampling.get("temperature"),
            "checked_out": node.id in shown, "created_at": _time(count), "metadata": about,
        })  # fmt: skip
    context = draft.extra(None, "basemode").get("context")
    context = [one for one in context if isinstance(one, dict)] if isinstance(context, list) else []
    draft.say_lost({"bookmarks", "ratings", "models", "temperature", "max_tokens"})
    return msgspec.json.encode({"version": 1, "nodes": [*nodes, *context]})


def _time(count: int) -> str:
    # Siblings stand in the order of their times there, so the times are those of the reading order.
    return datetime.fromtimestamp(count, UTC).isoformat()
