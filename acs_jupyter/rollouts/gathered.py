"""What one request of a rollout gave, as it arrives: the few things of its events that are kept.

Owns that fold. It keeps what a session of the same events would hold (``packed.restore`` gives that back), at a third
of its cost. It must not know sockets, or what is asked next.
"""

from __future__ import annotations

import time
from typing import Any

from ..exchange import Exchange
from ..log import events as ev
from ..log.events import AnyEvent, Scored
from ..wire import Outcome
from .packed import Packed, PackedChoice


class Gathered:
    """Takes an exchange's events, from its head on. Made when the request is about to be sent."""

    def __init__(self, exchange: Exchange) -> None:
        self._run = exchange.run
        self._opened_at = time.time()
        self._first_at: float | None = None
        self._closed_at: float | None = None
        self._request_id: str | None = exchange.request_id
        self._checkpoint: str | None = None
        self._completion_id: str | None = None
        self._headers: dict[str, str] = {}
        self._spent: ev.Spent | None = None
        self._error: dict[str, Any] | None = None
        self._outcome: Outcome = "open"
        count = exchange.request.choice_count
        self._choices = {ev.node_of(self._run, index): PackedChoice("") for index in range(count)}
        self._parts: dict[str, list[str]] = {}
        self._scores: dict[str, list[list[Scored] | None]] = {}

    def apply(self, events: list[AnyEvent]) -> None:
        """Take events that happen now."""
        for event in events:
            kind = type(event)
            if kind is ev.TokensArrived:
                self._tokens(event)  # type: ignore[arg-type]
            elif kind is ev.Spent:
                self._spent = event  # type: ignore[assignment]
            elif kind is ev.Finished:
                choice = self._choices[event.node]  # type: ignore[union-attr]
                choice.finish_reason, choice.stop_reason = event.finish_reason, event.stop_reason  # type: ignore[union-attr]
            else:
                self._other(event)

    def packed(self, prompt: int = 0, of: int = 1) -> Packed:
        """What came for one of the prompts that the request carried."""
        spent = self._spent
        fan_out = len(self._choices) // of
        nodes = list(self._choices)[prompt * fan_out : (prompt + 1) * fan_out]
        for node in nodes:
            self._choices[node].text = "".join(self._parts.get(node, ()))
        return Packed(
            self._run,
            self._outcome,
            self._opened_at,
            self._first_at,
            self._closed_at,
            self._request_id,
            self._checkpoint,
            self._completion_id,
            spent.prompt_tokens if spent else 0,
            spent.completion_tokens if spent else 0,
            spent.source if spent else None,
            self._headers,
            self._error,
            [self._choices[node] for node in nodes],
            self._scores.get(f"{self._run}.p{prompt}"),
        )

    def _tokens(self, event: ev.TokensArrived) -> None:
        if self._first_at is None:
            self._first_at = time.time()
        parts = self._parts.get(event.node)
        if parts is None:
            parts = self._parts[event.node] = []
        parts.append(event.text)
        if event.tokens:
            choice = self._choices[event.node]
            choice.tokens.extend(event.tokens)
            choice.logprobs.extend(event.logprobs)
            choice.top.extend(event.top)

    def _other(self, event: AnyEvent) -> None:
        match event:
            case ev.Served():
                self._checkpoint = event.checkpoint or self._checkpoint
                self._completion_id = event.completion_id or self._completion_id
                self._request_id = event.request_id or self._request_id
                self._headers |= event.headers
            case ev.PromptScored():
                self._scores[event.node] = event.positions
            case ev.Failed():
                self._error = {
                    "code": event.code,
                    "message": event.message,
                    "status": event.status,
                    "retryable": event.retryable,
                }
                self._request_id = event.request_id or self._request_id
            case ev.RunClosed():
                self._outcome = event.outcome
                self._closed_at = time.time()
            case _:
                pass
