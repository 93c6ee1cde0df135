"""A session of mikupad: one line of text in chunks, every value of the file JSON once more.

Owns that format. It must not know sessions. Its probabilities become logprobs; the key of its endpoint is dropped.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ...errors import InvalidRequest
from . import values as v
from .draft import Draft, DraftNode

_FIELDS = {
    "temperature": "temperature", "topP": "top_p", "minP": "min_p", "maxPredictTokens": "max_tokens",
    "presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty",
    "repeatPenalty": "repetition_penalty",
}  # fmt: skip


def fits(data: Any) -> bool:
    """Whether it looks like this format."""
    return isinstance(data, dict) and isinstance(data.get("prompt"), str)


def read(data: Any) -> Draft:
    """The text as one path: the user's chunks and what was generated between them."""
    draft = Draft()
    whole = {key: _inner(value) for key, value in v.table(data, "The file").items()}
    kept = v.scrubbed(v.without(whole, {"prompt"}), draft.notes)
    chunks = whole.get("prompt")
    if isinstance(chunks, str):
        chunks = [{"type": "user", "content": chunks}]
    draft.title = v.maybe_text(kept.get("name"))
    draft.meta = {"mikupad": kept} if kept else {}
    sampling = {
        ours: kept[theirs] for theirs, ours in _FIELDS.items() if v.number(kept.get(theirs)) is not None
    }
    node: DraftNode | None = None
    for given in v.listed(chunks, "prompt"):
        chunk = v.table(given, "A chunk")
        content, user = v.text(chunk.get("content"), "A chunk's content"), chunk.get("type") == "user"
        if node is None or user or not node.generated:
            parent = None if node is None else node.id
            node = DraftNode(f"chunk{len(draft.nodes)}", parent, "", not user)
            if not user:
                node.model, node.sampling = v.maybe_text(kept.get("endpointModel")), dict(sampling)
            draft.nodes[node.id] = node
        node.text += content
        if not user:
            node.tokens.append(content)
            node.logprobs.append(_log(chunk.get("prob")))
            node.top.append(_top(chunk.get("completion_probabilities"), content, node.logprobs[-1]))
    if node is not None:
        draft.current = node.id
    return draft


def _inner(value: Any) -> Any:
    """A value of the file: JSON in a string; one that is none stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return v.parsed(value.encode())
    except InvalidRequest as error:
        if "nested" in error.message:
            raise
        return value


def _log(probability: Any) -> float | None:
    value = v.number(probability)
    return math.log(value) if value is not None and 0 < value <= 1 else None


def _top(given: Any, token: str, known: float | None) -> dict[str, float] | None:
    first = given[0] if isinstance(given, list) and given else None
    probs = first.get("probs") if isinstance(first, dict) else None
    if not isinstance(probs, list):
        return None
    rows = [(one.get("tok_str"), _log(one.get("prob"))) for one in probs if isinstance(one, dict)]
    found = {text: value for text, value in rows if isinstance(text, str) and value is not None}
    return found if known is None else {token: known, **found}


def write(draft: Draft, node: str) -> bytes:
    """The path to a node; a sibling has no place in this format."""
    chunks: list[dict[str, Any]] = []
    for step in draft.path(node):
        if not step.generated:
            chunks.append({"type": "user", "content": step.text})
        elif not step.tokens:
            chunks.append({"content": step.text})
        for token, logprob, top in zip(step.tokens, step.logprobs, step.top, strict=True):
            if step.generated:
                chunk: dict[str, Any] = {
                    "content": token,
                    "prob": -1 if logprob is None else math.exp(logprob),
                }
                probs = [{"tok_str": key, "prob": math.exp(value)} for key, value in (top or {}).items()]
                chunks.append(
                    chunk
                    | ({"completion_probabilities": [{"content": token, "probs": probs}]} if top else {})
                )
    values = {**draft.extra(None, "mikupad"), "name": draft.title or "Loom", "prompt": chunks}
    return msgspec.json.encode({key: msgspec.json.encode(value).decode() for key, value in values.items()})
