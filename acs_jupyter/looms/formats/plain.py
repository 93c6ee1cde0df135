"""A loom to be read elsewhere: a Markdown outline, the text of a path, one JSON object a node.

Owns these three. It must not know sessions. Model text is data: in the outline it stands in a fence that it cannot end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ...wire import SAMPLING_FIELDS
from . import values as v
from .draft import Draft, DraftNode, logprob

_MOST_INDENT = 20
_FIELDS = {
    "id", "parent_id", "text", "generated", "model", "sampling", "finish", "tokens", "logprobs", "top", "marks",
}  # fmt: skip
_MARKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("bookmark", "unread", "folded"), lambda value: value is True),
    "tags": lambda value: isinstance(value, list) and all(isinstance(tag, str) for tag in value),
    "rating": lambda value: v.number(value) is not None,
    **dict.fromkeys(("note", "visited"), lambda value: isinstance(value, str)),
    "sampling": lambda value: isinstance(value, dict),
}
_TICKS = re.compile("`+")
_ENDS = re.compile("\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029\u2424]")


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
            *(f"{space}  {line}" for line in _lines_of(node.text)),
            f"{space}  {fence}",
            "",
        ]
    return "\n".join(lines).encode()


def _lines_of(text: str) -> list[str]:
    """A text as lines, whatever a reader of Markdown takes for the end of one: no line of it stands without indent."""
    found, start = [], 0
    for end in _ENDS.finditer(text):
        found.append(text[start : end.end()].removesuffix("\n"))
        start = end.end()
    return [*found, text[start:]]


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
    draft.say_lost({
        "tags", "notes", "bookmarks", "ratings", "own sampling", "tokens", "models", "finish reasons", *SAMPLING_FIELDS,
    })  # fmt: skip
    if draft.meta:
        draft.notes.append("What was kept of the whole file it came from has no place in this format.")
    return b"".join(rows)


def read_lines(data: bytes) -> Draft:
    """JSON lines with at least ``id`` and ``text`` each; fields that are not known are kept aside."""
    draft = Draft()
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            draft.add(_node(v.table(v.parsed(line), f"Line {number}"), number, draft.notes))
    return draft


def _node(one: dict[str, Any], number: int, notes: list[str]) -> DraftNode:
    node = DraftNode(
        v.name(one.get("id"), f"Line {number}"),
        v.above(one.get("parent_id"), "A parent"),
        v.text(one.get("text"), f"The text of line {number}"),
    )
    node.generated, node.model = one.get("generated") is True, v.maybe_text(one.get("model"))
    node.finish = v.maybe_text(one.get("finish"))
    given = v.scrubbed(v.maybe_table(one.get("sampling")), notes)
    node.sampling = {key: value for key, value in given.items() if key in SAMPLING_FIELDS}
    v.left_out(given, set(SAMPLING_FIELDS), notes, "sampling.")
    tokens, top = one.get("tokens"), one.get("top")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        node.tokens = tokens
        node.logprobs = [logprob(value) for value in _padded(one.get("logprobs"), len(tokens))]
        node.top = [_top(value) for value in _padded(top, len(tokens))]
    marks = v.maybe_table(one.get("marks"))
    node.marks = {key: value for key, value in marks.items() if key in _MARKS and _MARKS[key](value)}
    extra = v.scrubbed(v.without(one, _FIELDS), notes)
    others = v.scrubbed(v.without(marks, {*node.marks, "meta"}), notes)
    meta = v.scrubbed(v.maybe_table(marks.get("meta")), notes)
    meta |= {"jsonl": {**v.maybe_table(meta.get("jsonl")), **extra}} if extra else {}
    meta |= {"jsonl": {**v.maybe_table(meta.get("jsonl")), "marks": others}} if others else {}
    node.marks |= {"meta": meta} if meta else {}
    return node


def _padded(given: Any, count: int) -> list[Any]:
    return [*(given if isinstance(given, list) else []), *[None] * count][:count]


def _top(given: Any) -> dict[str, float] | None:
    if not isinstance(given, dict):
        return None
    return {key: value for key, one in given.items() if (value := logprob(one)) is not None}
