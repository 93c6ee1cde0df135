"""The service's own loom export, version 1: a flat list of nodes, each with its text and its logprobs.

Owns that format. It must not know sessions.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import InvalidRequest
from . import values as v
from .draft import Draft, DraftNode, logprob

_KNOWN = {"id", "parent_id", "text", "model", "seed", "position", "logprobs"}


def fits(data: Any) -> bool:
    """Whether it looks like this format."""
    return (
        isinstance(data, dict) and isinstance(data.get("loom"), dict) and isinstance(data.get("nodes"), list)
    )


def read(data: Any) -> Draft:
    """The tree in parsed JSON."""
    whole = v.table(data, "The file")
    if whole.get("version") != 1:
        raise InvalidRequest(
            f"The loom export has version {str(whole.get('version'))[:20]}; version 1 can be read."
        )
    draft = Draft()
    about = v.table(whole.get("loom"), "loom")
    draft.title = v.maybe_text(about.get("title"))
    given = [v.table(one, "A node") for one in v.listed(whole.get("nodes"), "nodes")]
    given.sort(key=lambda one: v.number(one.get("position")) or 0)
    for one in given:
        name = v.name(one.get("id"), "A node")
        text = v.text(one.get("text"), f"The text of node {name[:40]}")
        node = DraftNode(
            name, v.above(one.get("parent_id"), "A parent"), text, model=v.maybe_text(one.get("model"))
        )
        seed = one.get("seed")
        node.sampling = {"seed": seed} if isinstance(seed, int) and 0 <= seed < 2**63 else {}
        node.generated = node.model is not None or one.get("logprobs") is not None
        for entry in v.listed(one.get("logprobs"), f"The logprobs of node {name[:40]}"):
            token = v.table(entry, "A token")
            v.left_out(token, {"token", "logprob", "top"}, draft.notes, "logprobs.")
            for other in token["top"] if isinstance(token.get("top"), list) else []:
                v.left_out(v.maybe_table(other), {"token", "logprob"}, draft.notes, "logprobs.top.")
            node.tokens.append(v.text(token.get("token"), "A token"))
            node.logprobs.append(logprob(token.get("logprob")))
            node.top.append(_top(token.get("top")))
        extra = v.scrubbed(v.without(one, _KNOWN), draft.notes)
        node.marks = {"meta": {"service": extra}} if extra else {}
        draft.add(node)
    extra = v.scrubbed(v.without(about, {"title"}), draft.notes)
    draft.meta = {"service": extra} if extra else {}
    v.left_out(whole, {"version", "loom", "nodes"}, draft.notes, "")
    return draft


def _top(given: Any) -> dict[str, float] | None:
    if not isinstance(given, list):
        return None
    rows = [(one.get("token"), logprob(one.get("logprob"))) for one in given if isinstance(one, dict)]
    return {text: value for text, value in rows if isinstance(text, str) and value is not None}


def write(draft: Draft) -> bytes:
    """Version 1; what it has no field for is said in the notes."""
    places: dict[str | None, int] = {}
    nodes = []
    for node in draft.ordered():
        place = places[node.parent] = places.get(node.parent, -1) + 1
        rows = zip(node.tokens, node.logprobs, node.top, strict=True)
        logprobs = [
            {
                "token": token,
                "logprob": value,
                "top": [{"token": k, "logprob": p} for k, p in (top or {}).items()],
            }
            for token, value, top in rows
        ]
        extra = draft.extra(node, "service")
        nodes.append({
            **extra, "id": node.id, "parent_id": node.parent, "text": node.text, "model": node.model,
            "seed": node.sampling.get("seed"), "position": place, "logprobs": logprobs or None,
        })  # fmt: skip
    draft.say_lost({"tokens", "models", "seed", "a title"})
    model = next((node.model for node in draft.nodes.values() if node.model), None)
    about = {"model": model, **draft.extra(None, "service"), "title": draft.title or "Loom"}
    return msgspec.json.encode({"version": 1, "loom": about, "nodes": nodes})
