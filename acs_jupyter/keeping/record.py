"""A run as one short string, kept in a notebook's output, and the way back.

Owns the packed form and the reading of notebooks. It must not know kernels, clients or widgets. A record holds
what the session holds of a run and nothing else: request, checkpoint, ids, usage, headers, times, texts, tokens
with their alternatives. Logprobs are kept to a ten-thousandth of a nat.

The form: base85 of zlib of ``length of the head, head, columns``. The head is JSON: the run's events with their
times, the arrivals reduced to counts, and one table of strings. The columns are the tokens (``columns.py``). A
branch's request is told by what it shares with what stands before it (``likeness.py``); version 2 told it whole.
"""

from __future__ import annotations

import json
import os
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..comparing.marks import mark_of_one
from ..completion import Completion
from ..errors import FileNotRead, FileNotUnderstood
from ..log import events as ev
from ..log.branching import descendants, root_of
from ..log.events import AnyEvent
from ..log.session import Node, Session
from .columns import Row, pack_rows, unpack_rows
from .likeness import shortened, whole
from .varints import read_varints, varints

_T = TypeVar("_T", list[Any], dict[str, Any])
KEY = "acs_jupyter"
"""Where the record stands in an output's metadata."""

VERSION = 3
READ = (2, VERSION)
"""The versions that are read."""
MOST_SCORES = 5_000
"""Entries of prompt log-probabilities a record keeps; beyond that (a whole vocabulary) they are left out."""


def pack_run(session: Session, run: str) -> dict[str, Any]:
    """The record of a run and its branches, as it is put under :data:`KEY` in an output's metadata.

    Of a branch it is that of the whole family.
    """
    rows: list[Row] = []
    entries: list[Any] = []
    told: list[str] = []
    for at, event in family_entries(session, root_of(session, run)):
        if isinstance(event, ev.TokensArrived) and event.tokens:
            rows += zip(event.tokens, event.logprobs, event.top, strict=True)
            bare = msgspec.to_builtins(ev.TokensArrived(event.node, event.text))
            if event.text == "".join(event.tokens):
                del bare["text"]
            entries.append([at, {**bare, "count": len(event.tokens)}])
        elif isinstance(event, ev.RunOpened):
            bare = msgspec.to_builtins(event)
            entries.append(
                [at, {**bare, "request": {}, "told": shortened(session, event.run, told)} if told else bare]
            )
            told.append(event.run)
        else:
            entries.append([at, msgspec.to_builtins(event)])
    lane = mark_of_one(session, run)
    if lane is not None:
        entries.append([session.runs[run].opened_at, msgspec.to_builtins(lane)])
    strings, columns = pack_rows(rows)
    head = json.dumps({"entries": entries, "strings": strings}, ensure_ascii=False, separators=(",", ":"))
    raw = head.encode()
    packed = zlib.compress(varints([len(raw)]) + raw + columns, 9)
    record = {"version": VERSION, "run": run, "record": b85encode(packed).decode("ascii")}
    # An open run has no end that would tell how long it has taken so far.
    return {**record, "at": session.since(len(session) - 1)[0][0]} if _is_open(session, run) else record


def _is_open(session: Session, run: str) -> bool:
    first = root_of(session, run)
    return any(session.runs[one].outcome == "open" for one in [first, *descendants(session, first)])


def record_of(session: Session, run: str) -> dict[str, Any]:
    """The metadata of an output that shows a run."""
    return {KEY: pack_run(session, run)}


def unpack_run(record: dict[str, Any]) -> Completion:
    """The completion a record holds, in a session of its own with its branches.

    A run that was open when the record was written is interrupted: nothing more comes for it.

    Raises ``ValueError`` when it is none.
    """
    if not isinstance(record, dict) or record.get("version") not in READ:
        version = record.get("version") if isinstance(record, dict) else None
        raise ValueError(f"a record of version {version}; this package reads {VERSION}")
    try:
        raw = zlib.decompress(b85decode(record["record"]))
        size = next(read_varints(raw))
        start = len(varints([size]))
        head = json.loads(raw[start : start + size].decode())
        entries = _unpacked(head, raw[start + size :])
        session = Session()
        for at, event in entries:
            if told := event.pop("told", None):
                event["request"] = whole(session, told)
            session.apply([msgspec.convert(event, AnyEvent)], at=float(at))
        session.interrupt_open(at=None if record.get("at") is None else float(record["at"]))
        return Completion(session, next(iter(session.runs)))
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        StopIteration,
        RecursionError,
        zlib.error,
    ) as error:
        raise ValueError(f"a record that cannot be read ({type(error).__name__})") from None


def load(notebook: str | os.PathLike[str]) -> list[Completion]:
    """All completions that a saved notebook keeps, in the order of its cells. No kernel is needed.

    A completion is followed by its branches in the order in which they were begun; they have an ``origin``. A run that
    stands in several outputs (``%acs last``, a workbench shown twice) is listed once, where it stands first, by the
    record that has most of it.

    Raises :class:`InvalidRequest` naming the file when it is not there (an ``OSError``, too) or no notebook, and the
    cell when a record is broken (a ``ValueError``, too).
    """
    families: dict[str, Completion] = {}  # by what is the same in every record of a run
    for number, record in _records(notebook):
        try:
            kept = unpack_run(record)
        except ValueError as error:
            raise FileNotUnderstood(f"{notebook}, cell {number}: {error}.") from None
        run = kept.session.runs[kept.run]
        same = repr((run.id, run.opened_at, run.request))
        before = families.get(same)
        if before is None or _held(kept) > _held(before):
            families[same] = kept
    return [
        Completion(kept.session, run)
        for kept in families.values()
        for run in [kept.run, *descendants(kept.session, kept.run)]
    ]


def _held(kept: Completion) -> tuple[int, int]:
    """How much of a family a record has: its runs, its characters."""
    return len(kept.session.runs), sum(len(node.text) for node in kept.session.nodes.values())


def family_entries(session: Session, run: str) -> Iterator[tuple[float, AnyEvent]]:
    """The shortest log that folds into a run and its branches: what they share stands there once."""
    there: set[str] = set()
    for one in [run, *descendants(session, run)]:
        for at, event in entries_of(session, one, branches=True):
            if isinstance(event, ev.NodeOpened):
                if event.node in there:
                    continue
                there.add(event.node)
            yield at, event


def entries_of(session: Session, run: str, *, branches: bool = False) -> Iterator[tuple[float, AnyEvent]]:
    """The shortest log that folds into this run alone; what stood before it becomes one text a root.

    With ``branches`` a branch is told by its origin, so that what it branched from must have been told before.
    """
    state = session.runs[run]
    nodes = [session.nodes[node] for node in state.nodes]
    yield state.opened_at, ev.RunOpened(run, state.request, state.request_id)
    for parent in dict.fromkeys(node.parent for node in nodes if node.parent is not None):
        before = session.nodes[parent]
        yield state.opened_at, ev.NodeOpened(parent, run, text=session.text_to(parent), ids=before.ids)
        if before.scores is not None and sum(map(len, filter(None, before.scores))) <= MOST_SCORES:
            yield state.opened_at, ev.PromptScored(parent, before.scores)
    for node in nodes:
        origin = node.origin if branches else None
        yield (
            state.opened_at,
            ev.NodeOpened(node.id, run, node.parent, node.choice, echo=node.echo, origin=origin),
        )
    if state.checkpoint or state.completion_id or state.headers:
        yield (
            state.opened_at,
            ev.Served(run, state.checkpoint, state.completion_id, state.request_id, state.headers),
        )
    first = state.first_token_at if state.first_token_at is not None else state.opened_at
    for node in nodes:
        yield from _arrived(node, first, branches)
    if state.usage_source is not None:
        spent = ev.Spent(run, state.prompt_tokens, state.completion_tokens, state.usage_source)
        yield state.closed_at or first, spent
    if state.error is not None:
        error = state.error
        yield (
            state.closed_at or first,
            ev.Failed(
                run, error["code"], error["message"], error["status"], state.request_id, error["retryable"]
            ),
        )
    if state.outcome != "open":
        yield state.closed_at or first, ev.RunClosed(run, state.outcome)


def _arrived(node: Node, at: float, branches: bool) -> Iterator[tuple[float, AnyEvent]]:
    kept, text = 0, node.text
    if branches and node.origin is not None:
        kept = node.kept
        text = text[len("".join(node.tokens[:kept]) if kept else node.origin.text) :]
    if text or node.tokens[kept:]:
        tokens, logprobs, top = node.tokens[kept:], node.logprobs[kept:], node.top[kept:]
        yield at, ev.TokensArrived(node.id, text, tuple(tokens), tuple(logprobs), tuple(top))
    if node.finish_reason is not None:
        yield at, ev.Finished(node.id, node.finish_reason, node.stop_reason)


def _records(notebook: str | os.PathLike[str]) -> Iterator[tuple[int, Any]]:
    try:
        book = json.loads(Path(notebook).read_bytes())
        cells = book["cells"]
        if not isinstance(cells, list):
            raise TypeError
    except OSError as error:
        raise FileNotRead(f"{notebook} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileNotUnderstood(f"{notebook} is not a notebook: give the .ipynb file.", advice="") from None
    for number, cell in enumerate(cells, start=1):
        try:
            found = [_kept(output) for output in _of(list, _of(dict, cell).get("outputs"))]
        except TypeError as error:
            raise FileNotUnderstood(f"{notebook}, cell {number}: {error}.") from None
        for records in found:
            # a workbench keeps all its runs
            for record in records if isinstance(records, list) else [records]:
                yield number, record


def _kept(output: Any) -> Any:
    return _of(dict, _of(dict, output).get("metadata")).get(KEY, [])


def _of(kind: type[_T], value: Any) -> _T:
    """The value if it is of that kind, an empty one if it is missing or null."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(
            f"no part of a notebook, which has a {kind.__name__} where there is {type(value).__name__}"
        )
    return value


def _unpacked(head: dict[str, Any], columns: bytes) -> list[Any]:
    rows = iter(unpack_rows(head["strings"], columns))
    entries = head["entries"]
    for _, event in entries:
        count = event.pop("count", 0)
        if not count:
            continue
        some = [next(rows) for _ in range(count)]
        event["tokens"], event["logprobs"], event["top"] = (
            list(column) for column in zip(*some, strict=True)
        )
        event.setdefault("text", "".join(event["tokens"]))
    return list(entries)
