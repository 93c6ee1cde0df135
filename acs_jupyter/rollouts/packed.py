"""A request's result as few bytes, and the way back to a completion.

Owns the packed form: what came and what it cost, without the request, which the plan and the item give. Values are
exact: texts, tokens and log-probabilities come back as they arrived. It must not know files or sockets.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from msgspec import Struct

from ..completion import Completion
from ..log import events as ev
from ..log.events import AnyEvent, Scored, Top, opening
from ..log.session import Session
from ..wire import CompletionRequest, Outcome

_SMALL = 256
"""Bytes below which compression gains nothing."""


class PackedChoice(Struct, array_like=True, omit_defaults=True, gc=False):
    """One continuation; ``tokens`` is empty when only the text is known."""

    text: str
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    tokens: list[str] = []
    logprobs: list[float | None] = []
    top: list[Top | None] = []


class Packed(Struct, array_like=True, omit_defaults=True, gc=False):
    """One result. Times are seconds since the epoch; ``error`` is code, message, status and whether to retry."""

    run: str
    outcome: Outcome
    opened_at: float
    first_at: float | None
    closed_at: float | None
    request_id: str | None
    checkpoint: str | None
    completion_id: str | None
    prompt_tokens: int
    completion_tokens: int
    usage_source: str | None
    headers: dict[str, str]
    error: dict[str, Any] | None
    choices: list[PackedChoice]
    scores: list[list[Scored] | None] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packed).decode


def to_bytes(result: Packed) -> bytes:
    """A result as bytes; the first one says whether the rest is compressed."""
    raw: bytes = _encode(result)
    return b"\0" + raw if len(raw) < _SMALL else b"\1" + zlib.compress(raw, 1)


def from_bytes(data: bytes) -> Packed:
    """The result of :func:`to_bytes`."""
    return _decode(zlib.decompress(data[1:]) if data[:1] == b"\1" else data[1:])


def restore(result: Packed, request: CompletionRequest) -> Session:
    """A session that holds this one run, as it was."""
    session = Session()
    run = result.run
    session.apply(opening(run, request, request_id=result.request_id), at=result.opened_at)
    first = result.first_at if result.first_at is not None else result.opened_at
    closed = result.closed_at if result.closed_at is not None else first
    session.apply(list(_arrived(result)), at=first)
    session.apply(list(_ended(result)), at=closed)
    return session


def _arrived(result: Packed) -> list[AnyEvent]:
    run = result.run
    events: list[AnyEvent] = [
        ev.Served(run, result.checkpoint, result.completion_id, result.request_id, result.headers)
    ]
    if result.scores is not None:
        events.append(ev.PromptScored(f"{run}.p0", result.scores))
    for index, choice in enumerate(result.choices):
        node = ev.node_of(run, index)
        if choice.text or choice.tokens:
            columns = (tuple(choice.tokens), tuple(choice.logprobs), tuple(choice.top))
            events.append(ev.TokensArrived(node, choice.text, *columns))
        if choice.finish_reason is not None:
            events.append(ev.Finished(node, choice.finish_reason, choice.stop_reason))
    return events


def _ended(result: Packed) -> list[AnyEvent]:
    run, error = result.run, result.error
    events: list[AnyEvent] = []
    if result.usage_source is not None:
        events.append(ev.Spent(run, result.prompt_tokens, result.completion_tokens, result.usage_source))
    if error is not None:
        events.append(
            ev.Failed(
                run, error["code"], error["message"], error["status"], result.request_id, error["retryable"]
            )
        )
    if result.outcome != "open":
        events.append(ev.RunClosed(run, result.outcome))
    return events


class RolloutCompletion(Completion):
    """A completion of a rollout. ``number`` is its request's, ``item`` its prompt's, ``meta`` what the prompt came
    with; ``varied`` holds the model-independent fields that differ over the plan; ``cached``: nothing was sent.
    """

    def __init__(
        self,
        session: Session,
        run: str,
        *,
        number: int,
        item: int,
        meta: dict[str, Any],
        varied: dict[str, Any],
        cached: bool,
    ) -> None:
        super().__init__(session, run)
        self.number = number
        self.item = item
        self.meta = meta
        self.varied = varied
        self.cached = cached
