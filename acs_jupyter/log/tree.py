"""What a session is made of: nodes and runs, and their plain form.

Owns the two records and how a branch begins as a copy. It must not know the log, nor when anything changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..wire import Outcome
from .events import Origin, Scored, Top


@dataclass(slots=True)
class Node:
    """A piece of text: a prompt (``choice`` is ``None``) or one continuation.

    ``parts`` joined is the text, to the byte; ``joined`` is how many were joined so far, and to what.
    ``tokens``, ``logprobs`` and ``top`` have one length, the number of tokens known; it is 0 when the server sent
    text only. The first ``kept`` of them were taken over from the node that this one branched from, as its ``origin``
    says.
    """

    id: str
    run: str
    parent: str | None
    choice: int | None
    ids: list[int] | None = None
    echo: bool = False
    kept: int = 0
    origin: Origin | None = None
    parts: list[str] = field(default_factory=list)
    joined: tuple[int, str] = (0, "")
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    top: list[Top | None] = field(default_factory=list)
    scores: list[list[Scored] | None] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    children: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text that has arrived."""
        # Read by any thread while another one writes: parts are only ever added, and what was joined is one value.
        known, text = self.joined
        count = len(self.parts)
        if count > known:
            text += "".join(self.parts[known:count])
            self.joined = (count, text)
        return text


@dataclass(slots=True)
class Run:
    """One request and what became of it. Times are seconds since the epoch."""

    id: str
    request: dict[str, Any]
    request_id: str | None
    opened_at: float
    nodes: list[str] = field(default_factory=list)
    checkpoint: str | None = None
    completion_id: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    note: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usage_source: str | None = None
    error: dict[str, Any] | None = None
    outcome: Outcome = "open"
    first_token_at: float | None = None
    closed_at: float | None = None


def take_over(node: Node, source: Node, origin: Origin) -> None:
    """Begin a branch with a copy of another node's beginning; the token put in place keeps its known logprob."""
    count = origin.tokens
    node.origin = origin
    node.echo = source.echo
    node.tokens, node.logprobs, node.top = source.tokens[:count], source.logprobs[:count], source.top[:count]
    if origin.text and source.tokens:
        top = source.top[count] if count < len(source.top) else None
        node.tokens.append(origin.text)
        node.logprobs.append(None if top is None else top.get(origin.text))
        node.top.append(top)
    node.kept = len(node.tokens)
    node.parts.append("".join(node.tokens) if node.tokens else origin.text)


def shared(node: Node, text: str) -> int:
    """How many of the node's tokens a text begins with; never a part of a character's."""
    place = count = 0
    for index, token in enumerate(node.tokens):
        if not text.startswith(token, place):
            break
        place += len(token)
        if token:
            count = index + 1
    return count


def check_place(node: Node, count: int, in_echo: bool) -> None:
    """Raise ``ValueError`` when no text ends before the node's ``count``-th token."""
    if in_echo:
        raise ValueError("This token belongs to the prompt; change the prompt in its cell.")
    if count and not node.tokens[count - 1]:
        raise ValueError("This token is in the middle of a character; branch where the character begins.")


def node_state(node: Node) -> dict[str, Any]:
    """A node as plain values, equal to what the TypeScript reducer holds."""
    return {
        "id": node.id, "run": node.run, "parent": node.parent, "choice": node.choice, "ids": node.ids,
        "echo": node.echo, "kept": node.kept, "origin": node.origin and origin_state(node.origin), "text": node.text,
        "tokens": node.tokens, "logprobs": node.logprobs,
        "top": node.top, "scores": node.scores, "finish_reason": node.finish_reason,
        "stop_reason": node.stop_reason, "children": node.children,
    }  # fmt: skip


def origin_state(origin: Origin) -> dict[str, Any]:
    """An origin as plain values, none left out."""
    return {name: getattr(origin, name) for name in origin.__struct_fields__}


def run_state(run: Run) -> dict[str, Any]:
    """A run as plain values."""
    return {name: getattr(run, name) for name in Run.__slots__}
