"""What happened, in the past tense: the only thing a session is made of.

Owns the event types, their JSON, and the joining of neighbours. It must not know where events come from
(``reader.py`` makes them of answers), nor what a session makes of them. The same types stand in
``js/src/events.ts``; the golden files in ``tests/data/golden`` keep both sides equal.

A node is a piece of text in the tree. A run is one request: it opens one node for each prompt (its root)
unless it continues a node that is there, and one child node for each choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..wire import CompletionRequest, Outcome, request_fields

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


class Origin(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a branch leaves another node: it keeps that node's first ``tokens`` tokens, then goes on with ``text``.

    When no tokens of that node are known, ``tokens`` is 0 and ``text`` is all that is kept. ``exact``: it was sent as
    token ids. ``seam`` is the first kept token (from 0) that the server does not read as it was written, as far as it
    was asked, and ``cost`` the tokens that asking has cost.
    """

    node: str
    tokens: int = 0
    text: str = ""
    exact: bool = False
    seam: int | None = None
    cost: int = 0


class NodeOpened(Event, frozen=True):
    """A node exists. ``choice`` is its place in the run's answer, ``None`` for a prompt.

    ``echo`` says that the server repeats the prompt at the head of this node's text. With an ``origin`` the node
    begins as a copy of another one's beginning, and what the run generates follows that.
    """

    node: str
    run: str
    parent: str | None = None
    choice: int | None = None
    text: str = ""
    ids: list[int] | None = None
    echo: bool = False
    origin: Origin | None = None


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

    A token whose text is ``""`` is a piece of a character that is not complete yet. (Tuples: the log keeps every
    event, and the garbage collector need not look into tuples of plain values.)
    """

    node: str
    text: str
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    top: tuple[Top | None, ...] = ()


class PromptScored(Event, frozen=True):
    """Log-probabilities of a prompt node's own tokens; position 0 has none."""

    node: str
    positions: list[list[Scored] | None]


class SeamSought(Event, frozen=True):
    """The server was asked how it reads what a branch kept; see :class:`Origin` for ``seam`` and ``cost``."""

    node: str
    seam: int | None
    cost: int


STOPPED = "stopped"
"""The ``finish_reason`` of a choice that a person stopped while its siblings went on; no server says it."""


class Finished(Event, frozen=True):
    """A choice is complete; see also :data:`STOPPED`."""

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
    """Nothing more comes for this run, but for a better count of what it has cost (:class:`Spent`)."""

    run: str
    outcome: Outcome


class Piece(Struct, frozen=True, gc=False, omit_defaults=True):
    """A part of a written node: tokens ``start`` to ``stop`` of another node, or, without ``node``, a text."""

    node: str = ""
    start: int = 0
    stop: int = 0
    text: str = ""


class Written(Struct, frozen=True, omit_defaults=True):
    """A node that a person made: its pieces in order. ``run`` is the run whose sampling it goes on with.

    Tokens of other nodes come with their logprobs and alternatives; a text among them is one token of which nothing
    is known. ``made_of`` names nodes it came from.
    """

    node: str
    run: str
    parent: str | None = None
    pieces: tuple[Piece, ...] = ()
    finish_reason: str | None = None
    made_of: tuple[str, ...] = ()


class Change(Struct, frozen=True, omit_defaults=True):
    """A field of a node has a new value; ``node`` is ``""`` for the whole tree's. See ``arrangement.py``."""

    node: str
    field: str
    value: Any = None


class Revised(Event, frozen=True):
    """A person changed the tree: nodes were written, then fields changed. One event is one step, whole or not at all.

    ``kind``: ``step`` can be undone; ``view`` cannot (where somebody looked); ``undo`` takes the last step back and
    ``redo`` does the last one taken back once more; both carry the changes that do it. ``what`` names the step.
    ``opened`` are nodes of a run that belong to the step: undo hides them, as it hides written ones.
    """

    what: str
    kind: Literal["step", "view", "undo", "redo"] = "step"
    written: tuple[Written, ...] = ()
    changes: tuple[Change, ...] = ()
    opened: tuple[str, ...] = ()


AnyEvent = (
    RunOpened
    | NodeOpened
    | Served
    | Waited
    | TokensArrived
    | PromptScored
    | SeamSought
    | Finished
    | Spent
    | Failed
    | RunClosed
    | Revised
)

_decoder = msgspec.json.Decoder(AnyEvent)
_list_decoder = msgspec.json.Decoder(list[AnyEvent])
decode_event = _decoder.decode
decode_events = _list_decoder.decode


def opening(
    run: str,
    request: CompletionRequest,
    *,
    parents: list[str] | None = None,
    origin: Origin | None = None,
    added: str = "",
    request_id: str | None = None,
) -> list[AnyEvent]:
    """The events of a request that is about to be sent.

    ``parents``: one node a prompt, already in the session, which the choices continue. Without it every
    prompt becomes a root of its own. ``origin``: what every choice begins with, and where that was. ``added``: the
    end of the prompt that is new, after the text of the parent; it becomes a prompt node between both.
    """
    opened: list[AnyEvent] = [RunOpened(run, request_fields(request), request_id)]
    roots = parents or []
    if parents is None or added:
        roots = [f"{run}.p{i}" for i in range(request.prompt_count)]
        above: Sequence[str | None] = parents or [None] * len(roots)
        for node, prompt, parent in zip(roots, request.prompts, above, strict=True):
            text, ids = (prompt, None) if isinstance(prompt, str) else ("", prompt)
            opened.append(NodeOpened(node, run, parent, text=text if parent is None else added, ids=ids))
    for index in range(request.choice_count):
        parent = roots[index // request.fan_out]
        echo = request.echo is True
        opened.append(NodeOpened(node_of(run, index), run, parent, index, echo=echo, origin=origin))
    return opened


def node_of(run: str, index: int) -> str:
    """The node of a choice."""
    return f"{run}.{index}"


def merged(batch: list[AnyEvent]) -> list[AnyEvent]:
    """Fewer events with the same effect: neighbouring arrivals of one node joined, only the last running usage kept.

    Any order of arrivals at different nodes folds alike, so only events of other kinds stand between neighbours.
    """
    if len(batch) < 2:
        return batch
    out: list[AnyEvent] = []
    arrivals: dict[str, list[TokensArrived]] = {}
    spent: dict[str, Spent] = {}
    for event in batch:
        kind = type(event)
        if kind is TokensArrived:
            arrivals.setdefault(event.node, []).append(event)  # type: ignore[union-attr,arg-type]
        elif kind is Spent:
            spent[event.run] = event  # type: ignore[union-attr,assignment]
        else:
            if arrivals or spent:
                _flush(arrivals, spent, out)
            out.append(event)
    _flush(arrivals, spent, out)
    return out


def _flush(arrivals: dict[str, list[TokensArrived]], spent: dict[str, Spent], out: list[AnyEvent]) -> None:
    out.extend(_joined(node, group) for node, group in arrivals.items())
    out.extend(spent.values())
    arrivals.clear()
    spent.clear()


def _joined(node: str, group: list[TokensArrived]) -> TokensArrived:
    if len(group) == 1:
        return group[0]
    flat = chain.from_iterable
    return TokensArrived(
        node,
        "".join([e.text for e in group]),
        tuple(flat([e.tokens for e in group])),
        tuple(flat([e.logprobs for e in group])),
        tuple(flat([e.top for e in group])),
    )
