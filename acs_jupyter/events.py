"""What happened, in the past tense: the only thing a session is made of.

Owns the event types and the reading of answers into them, one chunk or one whole body at a time.
It must not know where bytes come from, nor what a session makes of an event. The same types stand in
``js/src/events.ts``; the golden files in ``tests/data/golden`` keep both sides equal.

A node is a piece of text in the tree. A run is one request: it opens one node for each prompt (its root)
unless it continues a node that is there, and one child node for each choice.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from .wire import Answer, Choice, CompletionRequest, Outcome, PromptLogprob, Usage, request_fields

Top = dict[str, float]
"""Decoded text to natural-log probability: the sampled token and its alternatives."""

Scored = tuple[int, str, float, int | None]
"""One entry of a prompt position: token id, text, logprob, rank. The real token comes first."""


class Event(Struct, frozen=True, gc=False, tag_field="type", tag=True):
    """Base of all events; ``type`` in JSON is the class name."""


class RunOpened(Event, frozen=True):
    """A request is about to be sent. ``request`` holds the fields that are sent, the prompt included."""

    run: str
    request: dict[str, Any]
    request_id: str | None = None


class NodeOpened(Event, frozen=True):
    """A node exists. ``choice`` is its place in the run's answer, ``None`` for a prompt.

    ``echo`` says that the server repeats the prompt at the head of this node's text.
    """

    node: str
    run: str
    parent: str | None = None
    choice: int | None = None
    text: str = ""
    ids: list[int] | None = None
    echo: bool = False


class Served(Event, frozen=True):
    """The first sign of an answer: which checkpoint, under which ids, and what the headers said."""

    run: str
    checkpoint: str | None = None
    completion_id: str | None = None
    request_id: str | None = None
    headers: dict[str, str] = {}


class Waited(Event, frozen=True):
    """The server is alive and not ready: keepalive, or cold-boot progress in its own words."""

    run: str
    note: str


class TokensArrived(Event, frozen=True):
    """Text arrived for a node. ``tokens`` is empty when only text is known; the three lists have one length.

    A token whose text is ``""`` is a piece of a character that is not complete yet.
    """

    node: str
    text: str
    tokens: list[str] = []
    logprobs: list[float | None] = []
    top: list[Top | None] = []


class PromptScored(Event, frozen=True):
    """Log-probabilities of a prompt node's own tokens; position 0 has none."""

    node: str
    positions: list[list[Scored] | None]


class Finished(Event, frozen=True):
    """A choice is complete."""

    node: str
    finish_reason: str
    stop_reason: str | int | None = None


class Spent(Event, frozen=True):
    """Tokens the run has cost so far. ``source``: ``usage`` (final), ``continuous`` or ``estimate``."""

    run: str
    prompt_tokens: int
    completion_tokens: int
    source: str = "usage"


class Failed(Event, frozen=True):
    """The run was refused or broke; ``message`` is one line for the user."""

    run: str
    code: str
    message: str
    status: int | None = None
    request_id: str | None = None
    retryable: bool = False


class RunClosed(Event, frozen=True):
    """Nothing more comes for this run."""

    run: str
    outcome: Outcome


AnyEvent = (
    RunOpened
    | NodeOpened
    | Served
    | Waited
    | TokensArrived
    | PromptScored
    | Finished
    | Spent
    | Failed
    | RunClosed
)

_decoder = msgspec.json.Decoder(AnyEvent)
_list_decoder = msgspec.json.Decoder(list[AnyEvent])
decode_event = _decoder.decode
decode_events = _list_decoder.decode


def opening(
    run: str, request: CompletionRequest, *, parents: list[str] | None = None, request_id: str | None = None
) -> list[AnyEvent]:
    """The events of a request that is about to be sent.

    ``parents``: one node a prompt, already in the session, which the choices continue. Without it every
    prompt becomes a root of its own.
    """
    opened: list[AnyEvent] = [RunOpened(run, request_fields(request), request_id)]
    roots = parents
    if roots is None:
        roots = [f"{run}.p{i}" for i in range(request.prompt_count)]
        for node, prompt in zip(roots, request.prompts, strict=True):
            text, ids = (prompt, None) if isinstance(prompt, str) else ("", prompt)
            opened.append(NodeOpened(node, run, text=text, ids=ids))
    for index in range(request.choice_count):
        parent = roots[index // request.fan_out]
        opened.append(NodeOpened(node_of(run, index), run, parent, index, echo=request.echo is True))
    return opened


def node_of(run: str, index: int) -> str:
    """The node of a choice."""
    return f"{run}.{index}"


class Reader:
    """One answer to events, a chunk at a time, or the one body of a JSON answer.

    It keeps what a single chunk cannot tell: whether the head was seen, the running usage of each choice.
    """

    def __init__(self, run: str, request: CompletionRequest, *, parents: list[str] | None = None) -> None:
        self.run = run
        self._fan_out = request.fan_out
        self._prompts = parents or [f"{run}.p{i}" for i in range(request.prompt_count)]
        self._nodes = [node_of(run, index) for index in range(request.choice_count)]
        self._served = False
        self._scored: set[str] = set()
        self._by_choice: dict[int, int] = {}
        self._by_prompt: dict[int, int] = {}
        self._completion_total = 0

    def read(self, answer: Answer) -> list[AnyEvent]:
        """Events of one stream chunk."""
        events: list[AnyEvent] = []
        if not self._served:
            self._served = True
            events.append(Served(self.run, answer.model or None, answer.id or None))
        choices = answer.choices or ()
        for choice in choices:
            self._read_choice(choice, events)
        usage = answer.usage
        if usage is not None:
            if not choices:
                events.append(Spent(self.run, usage.prompt_tokens, usage.completion_tokens))
            elif len(choices) == 1:
                events.append(self._running(choices[0].index, usage))
        return events

    def read_body(self, answer: Answer) -> list[AnyEvent]:
        """Events of a whole JSON body; its usage is final."""
        usage, answer.usage = answer.usage, None
        events = self.read(answer)
        if usage is not None:
            events.append(Spent(self.run, usage.prompt_tokens, usage.completion_tokens))
        return events

    def _read_choice(self, choice: Choice, events: list[AnyEvent]) -> None:
        node = self._nodes[choice.index]
        if choice.prompt_logprobs is not None:
            prompt = self._prompts[choice.index // self._fan_out]
            if prompt not in self._scored:
                self._scored.add(prompt)
                events.append(PromptScored(prompt, _positions(choice.prompt_logprobs)))
        lp = choice.logprobs
        if lp is not None:
            tokens = lp.tokens
            if tokens or choice.text:
                tops = lp.top_logprobs or [None] * len(tokens)
                events.append(TokensArrived(node, choice.text, tokens, lp.token_logprobs, tops))
        elif choice.text:
            events.append(TokensArrived(node, choice.text))
        if choice.finish_reason is not None:
            events.append(Finished(node, choice.finish_reason, choice.stop_reason))

    def _running(self, index: int, usage: Usage) -> Spent:
        self._completion_total += usage.completion_tokens - self._by_choice.get(index, 0)
        self._by_choice[index] = usage.completion_tokens
        self._by_prompt[index // self._fan_out] = usage.prompt_tokens
        return Spent(self.run, sum(self._by_prompt.values()), self._completion_total, "continuous")


def _positions(raw: list[dict[str, PromptLogprob] | None]) -> list[list[Scored] | None]:
    # The order of the wire is kept: the real token is the first key of its position.
    return [
        None
        if entries is None
        else [(int(key), e.decoded_token or "", e.logprob, e.rank) for key, e in entries.items()]
        for entries in raw
    ]
