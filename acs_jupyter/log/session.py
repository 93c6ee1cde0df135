"""The log and the tree it folds into.

Owns the nodes, the runs, the order in which things happened, and how all of it is saved and loaded.
It must not know transports, widgets or pandas; its only I/O is its own file. ``js/src/state.ts`` folds the
same events into the same state.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ..errors import FileNotRead, FileNotUnderstood
from ..wire import CompletionRequest
from . import events as ev
from .arrangement import Arrangement
from .events import AnyEvent, Origin
from .tree import Node, Run, check_place, node_state, run_state, shared, take_over

FORMAT = "acs-session"
FORMAT_VERSION = 1

_log = logging.getLogger(__name__)

Subscriber = Callable[[list[AnyEvent]], None]


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch that is not sent yet: its request, the nodes it hangs on, and what it begins with."""

    request: CompletionRequest
    parents: list[str] | None
    origin: Origin | None


class Session:
    """An append-only log of events, and the tree they make.

    ``clock`` gives seconds since the epoch. Events come in through :meth:`apply` and nowhere else.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.nodes: dict[str, Node] = {}
        self.runs: dict[str, Run] = {}
        self.roots: list[str] = []
        self.arrangement = Arrangement()
        # Two lists of one length rather than pairs: nothing here for the garbage collector to walk through.
        self._times: list[float] = []
        self._events: list[AnyEvent] = []
        self._clock = clock
        self._writing = threading.Lock()  # a branch can stream while another run does
        self._subscribers: list[Subscriber] = []
        # Runs of one session may be folded by several threads: one in the foreground, others in the background.
        self._folding = threading.RLock()

    def apply(self, events: Iterable[AnyEvent], *, at: float | None = None) -> None:
        """Fold events in, then tell the subscribers, once. ``at``: when they happened, if that was not now."""
        batch = ev.merged(events if isinstance(events, list) else list(events))
        if not batch:
            return
        with self._folding:
            self._fold(self.now() if at is None else at, batch)
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(batch)
            except Exception:  # noqa: BLE001  # a window that breaks must not break the run it looks at
                _log.warning("a view of the session failed", exc_info=True)

    def now(self) -> float:
        """The session's clock: seconds since the epoch."""
        return self._clock()

    @property
    def log(self) -> list[tuple[float, AnyEvent]]:
        """Everything that happened, in order: seconds since the epoch, event."""
        return self.since(0)

    def since(self, position: int) -> list[tuple[float, AnyEvent]]:
        """The log from a position on; a session's ``len()`` is the position after the last event."""
        events = self._events[position:]  # first: another thread may be between a time and its event
        return list(zip(self._times[position : position + len(events)], events, strict=True))

    def __len__(self) -> int:
        return len(self._events)

    def __bool__(self) -> bool:
        return True

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call ``subscriber`` with each batch after it is folded; returns the function that ends it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def copy(self) -> Session:
        """The same log folded once more: a state of this moment, whole, that nobody writes to."""
        same = Session(clock=self._clock)
        for at, event in self.log:
            same._fold(at, [event])
        return same

    def path(self, node: str) -> list[Node]:
        """The nodes from the root to ``node``."""
        found: list[Node] = []
        step: str | None = node
        while step is not None:
            found.append(self.nodes[step])
            step = self.nodes[step].parent
        return found[::-1]

    def text_to(self, node: str) -> str:
        """The whole text from the root to the end of ``node``; a prompt the server echoed counts once."""
        return "".join(self.own_text(step) for step in self.path(node))

    def own_text(self, node: Node) -> str:
        """The node's text without the prompt that the server repeated in front of it."""
        return node.text[self.echoed(node) :]

    def echoed(self, node: Node) -> int:
        """How many characters of the node's text repeat what stands before it."""
        if not node.echo or node.parent is None:
            return 0
        before = self.text_to(node.parent)
        return len(before) if before and node.text.startswith(before) else 0

    def fork(self, node: str, *, token: int | None = None, replacement: str = "", **changes: Any) -> Fork:
        """What goes on from the end of ``node``, or branches before its ``token``-th token.

        ``replacement`` is the text put in the token's place. Sampling parameters are those of the node's run, with
        ``changes`` on top (``None``: not sent). Pure: nothing is sent or changed. Raises ``IndexError`` when there is
        no such token and ``ValueError`` when there is no text to branch from: the prompt was token ids, or the place
        is within a character or within a prompt that the server repeated.
        """
        here = self.nodes[node]
        known = len(here.tokens)
        if token is not None and not 0 <= token < known:
            raise IndexError(f"node {node} has {known} tokens; there is no token {token}")
        count = known if token is None else token
        kept = "".join(here.tokens[:count]) if known else here.text
        if token is not None:
            check_place(here, count, len(kept) < self.echoed(here))
        origin = Origin(node, count, replacement) if known else Origin(node, 0, kept + replacement)
        return self._forked(here, kept[self.echoed(here) :] + replacement, origin, changes)

    def edit(self, node: str, text: str, *, token: int = 0, **changes: Any) -> Fork:
        """What goes on from other text in the place of ``node``'s; the node itself stays as it is.

        ``text`` stands for what follows the first ``token`` tokens. Tokens that the old and the new text begin with
        are kept, with what is known of them.
        """
        here = self.nodes[node]
        text = "".join(here.tokens[:token]) + text
        kept = 0 if here.echo or here.choice is None else shared(here, text)
        rest = text[sum(map(len, here.tokens[:kept])) :]
        return self._forked(here, text, Origin(node, kept, rest), changes)

    def _forked(self, here: Node, text: str, origin: Origin, changes: dict[str, Any]) -> Fork:
        above = self.path(here.id)[:-1]
        if any(node.ids is not None for node in [*above, here]):
            raise ValueError(
                f"node {here.id} follows token ids whose text is not known; it cannot be continued as text"
            )
        before = "".join(self.own_text(node) for node in above)
        fields = {**self.runs[here.run].request, "echo": False, **changes, "prompt": before + text}
        given = {name: value for name, value in fields.items() if value is not None}
        request = msgspec.convert(given, CompletionRequest)
        if here.choice is not None:
            return Fork(request, [here.parent] if here.parent else None, origin)
        unchanged = (
            text == here.text
        )  # a prompt sampled again keeps its node; an edited one is a root of its own
        return Fork(request, [here.id] if unchanged else None, None)

    def state(self) -> dict[str, Any]:
        """The folded state as plain values; equal to what the TypeScript reducer makes of the same log."""
        state = {
            "roots": list(self.roots),
            "nodes": {key: node_state(node) for key, node in self.nodes.items()},
            "runs": {key: run_state(run) for key, run in self.runs.items()},
        }
        return {**state, "loom": self.arrangement.state()} if self.arrangement.revised else state

    def lines(self) -> Iterator[bytes]:
        """The log as JSON lines: a header, then one event a line with its time."""
        yield json.dumps({"format": FORMAT, "version": FORMAT_VERSION}).encode() + b"\n"
        for at, event in self.log:
            yield msgspec.json.encode([at, event]) + b"\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the log to a file, see :meth:`lines`. Atomic; of a link, the file it leads to is replaced."""
        target = Path(path).resolve()
        handle, name = tempfile.mkstemp(prefix=target.name, dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(self.lines())
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, torn: bool = False) -> Session:
        """Read what :meth:`save` wrote.

        Raises :class:`InvalidRequest` with the file when it is not there (an ``OSError``, too), with its line when
        it is none (a ``ValueError``, too).

        A run that was still open then is closed as interrupted: nothing more comes for it. ``torn``: a last line
        without its end, which a killed writer leaves, is passed over.
        """
        session = cls()
        with _opened(path) as file:
            _check_header(file.readline(), path)
            for number, line in enumerate(file, start=2):
                if torn and not line.endswith(b"\n"):
                    break
                try:
                    at, event = _entry_decoder.decode(line)
                    session._fold(at, [event])
                except (ValueError, KeyError) as error:
                    raise FileNotUnderstood(
                        f"{path}, line {number}: not a session event ({error})."
                    ) from None
        session.interrupt_open()
        return session

    def interrupt_open(self, *, at: float | None = None) -> None:
        """Close the runs that are still open as interrupted: nothing more comes for them in this session.

        ``at``: seconds since the epoch; the time of the last event by default.
        """
        for run in [key for key, run in self.runs.items() if run.outcome == "open"]:
            self._fold(max(self._times) if at is None else at, [ev.RunClosed(run, "interrupted")])

    def _fold(self, at: float, batch: list[AnyEvent]) -> None:
        fold, times, events = _FOLD, self._times, self._events
        with self._writing:
            for event in batch:
                fold[type(event)](self, at, event)
                times.append(at)
                events.append(event)

    def _tokens_arrived(self, at: float, event: ev.TokensArrived) -> None:
        node = self.nodes[event.node]
        if not len(event.tokens) == len(event.logprobs) == len(event.top):
            raise ValueError(f"node {event.node}: tokens, logprobs and alternatives are not of one number")
        node.parts.append(event.text)
        if event.tokens:
            node.tokens.extend(event.tokens)
            node.logprobs.extend(event.logprobs)
            node.top.extend(event.top)
        run = self.runs[node.run]
        if run.first_token_at is None:
            run.first_token_at = at
            run.note = None

    def _spent(self, at: float, event: ev.Spent) -> None:
        run = self.runs[event.run]
        run.prompt_tokens = event.prompt_tokens
        run.completion_tokens = event.completion_tokens
        run.usage_source = event.source

    def _run_opened(self, at: float, event: ev.RunOpened) -> None:
        self.runs[event.run] = Run(event.run, event.request, event.request_id, at)

    def _node_opened(self, at: float, event: ev.NodeOpened) -> None:
        if event.node in self.nodes:
            raise ValueError(f"node {event.node} is there already")
        run = self.runs[event.run]
        siblings = self.roots if event.parent is None else self.nodes[event.parent].children
        node = Node(event.node, event.run, event.parent, event.choice, event.ids, event.echo)
        if event.text:
            node.parts.append(event.text)
        if event.origin is not None:
            take_over(node, self.nodes[event.origin.node], event.origin)
        self.nodes[event.node] = node
        siblings.append(event.node)
        if event.choice is not None:
            run.nodes.append(event.node)

    def _served(self, at: float, event: ev.Served) -> None:
        run = self.runs[event.run]
        run.checkpoint = event.checkpoint or run.checkpoint
        run.completion_id = event.completion_id or run.completion_id
        run.request_id = event.request_id or run.request_id
        run.headers = {**run.headers, **event.headers}

    def _waited(self, at: float, event: ev.Waited) -> None:
        self.runs[event.run].note = event.note

    def _prompt_scored(self, at: float, event: ev.PromptScored) -> None:
        self.nodes[event.node].scores = event.positions

    def _seam_sought(self, at: float, event: ev.SeamSought) -> None:
        node = self.nodes[event.node]
        if node.origin is not None:
            node.origin = msgspec.structs.replace(node.origin, seam=event.seam, cost=event.cost)

    def _finished(self, at: float, event: ev.Finished) -> None:
        node = self.nodes[event.node]
        node.parts[:] = [node.text]  # complete: one string from here on
        node.finish_reason = event.finish_reason
        node.stop_reason = event.stop_reason

    def _failed(self, at: float, event: ev.Failed) -> None:
        run = self.runs[event.run]
        run.error = {
            "code": event.code,
            "message": event.message,
            "status": event.status,
            "retryable": event.retryable,
        }
        run.request_id = event.request_id or run.request_id

    def _revised(self, at: float, event: ev.Revised) -> None:
        self.arrangement.fold(event, self.nodes, self.roots, self.runs)

    def _run_closed(self, at: float, event: ev.RunClosed) -> None:
        run = self.runs[event.run]
        run.outcome = event.outcome
        run.note = None
        run.closed_at = at


_FOLD: dict[type, Callable[[Session, float, Any], None]] = {
    ev.RunOpened: Session._run_opened,
    ev.NodeOpened: Session._node_opened,
    ev.Served: Session._served,
    ev.Waited: Session._waited,
    ev.TokensArrived: Session._tokens_arrived,
    ev.PromptScored: Session._prompt_scored,
    ev.SeamSought: Session._seam_sought,
    ev.Finished: Session._finished,
    ev.Spent: Session._spent,
    ev.Failed: Session._failed,
    ev.RunClosed: Session._run_closed,
    ev.Revised: Session._revised,
}

_entry_decoder = msgspec.json.Decoder(tuple[float, AnyEvent])


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise FileNotRead(f"{path} cannot be read: {error.strerror}.") from None


def _check_header(line: bytes, path: str | os.PathLike[str]) -> None:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FileNotUnderstood(f"{path} is not a saved session.")
    if header.get("version") != FORMAT_VERSION:
        raise FileNotUnderstood(
            f"{path} is a session of version {header.get('version')}; this package reads 1."
        )


__all__ = ["Fork", "Node", "Run", "Session"]
