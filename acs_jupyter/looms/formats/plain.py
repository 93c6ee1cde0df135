"""A loom to be read elsewhere: a Markdown outline, the text of a path, one JSON object a node.

Owns these three. It must not know sessions. Model text is data: in the outline it stands in a fence that it cannot end.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from . import values as v
from .draft import Draft, DraftNode, logprob

_MOST_INDENT = 20
_TICKS = re.compile("`+")


def outline(draft: Draft) -> bytes:
    """Markdown: a list of nodes, each with its text, indented by depth (as far as that can be read)."""
    lines = [f"# {_one_line(draft.title or 'Loom')}", ""]
    depth: dict[str, int] = {}
    for node in draft.ordered():
        depth[node.id] = 0 if node.parent is None else depth[node.parent] + 1
        space = "  " * min(depth[node.id], _MOST_INDENT)
        told = [node.model or ("generated" if node.generated else "text"), *node.marks.get("tags", ())]
        fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(node.text)), default=0))
        lines.append(f"{space}- {depth[node.id]}: {_one_line(', '.join(told))}")
        lines += [
            "",
            f"{space}  {fence}text",
            *(f"{space}  {line}" for line in node.text.split("\n")),
            f"{space}  {fence}",
            "",
        ]
    return "\n".join(lines).encode()


def _one_line(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]&#])", r"\\\1", " ".join(text.split()))


def path_text(draft: Draft, node: str) -> bytes:
    """The text from the root to a node, byte for byte."""
    return "".join(step.text for step in draft.path(node)).encode()


def lines(draft: Draft) -> bytes:
    """JSON lines, those above first: id, parent_id, text, and what else is known."""
    rows = []
    for node in draft.ordered():
        row: dict[str, Any] = {"id": node.id, "parent_id": node.parent, "text": node.text}
        told = {
            "generated": node.generated, "model": node.model, "sampling": node.sampling, "finish": node.finish,
            "tokens": node.tokens, "logprobs": node.logprobs, "top": node.top, "marks": node.marks,
        }  # fmt: skip
        rows.append(msgspec.json.encode(row | {key: value for key, value in told.items() if value}) + b"\n")
    return b"".join(rows)


def read_lines(data: bytes) -> Draft:
    """JSON lines with at least ``id`` and ``text`` each."""
    draft = Draft()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        one = v.table(v.parsed(line), f"Line {number}")
        name = v.name(one.get("id"), f"Line {number}")
        node = DraftNode(
            name,
            v.above(one.get("parent_id"), "A parent"),
            v.text(one.get("text"), f"The text of line {number}"),
        )
        node.generated, node.model = one.get("generated") is True, v.maybe_text(one.get("model"))
        node.finish = v.maybe_text(one.get("finish"))
        node.sampling = (
            v.scrubbed(one["sampling"], draft.notes) if isinstance(one.get("sampling"), dict) else {}
        )
        tokens, top = one.get("tokens"), one.get("top")
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            node.tokens = tokens
            node.logprobs = [logprob(value) for value in _padded(one.get("logprobs"), len(tokens))]
            node.top = [_top(value) for value in _padded(top, len(tokens))]
        marks = v.maybe_table(one.get("marks"))
        flags = {key: True for key in ("bookmark", "unread", "folded") if marks.get(key) is True}
        words = [tag for tag in v.listed(marks.get("tags"), "tags") if isinstance(tag, str)]
        node.marks = {**flags, **({"tags": words} if words else {})}
        node.marks |= {"note": marks["note"]} if isinstance(marks.get("note"), str) else {}
        node.marks |= {"rating": marks["rating"]} if v.number(marks.get("rating")) is not None else {}
        node.marks |= (
            {"meta": v.scrubbed(marks["meta"], draft.notes)} if isinstance(marks.get("meta"), dict) else {}
        )
        draft.add(node)
    return draft


def _padded(given: Any, count: int) -> list[Any]:
    return [*(given if isinstance(given, list) else []), *[None] * count][:count]


def _top(given: Any) -> dict[str, float] | None:
    if not isinstance(given, dict):
        return None
    return {key: value for key, one in given.items() if (value := logprob(one)) is not None}
