"""A session's log as numbered messages: what a window sends, and when.

Owns the window's place in the log, its own fold of what it has seen, batching and sequence numbers. It must
not know comms or traits: ``send`` takes a message away. It reads the log by its own cursor and never what a
notification carries, so a state and the messages after it can neither miss an event nor hold one twice.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from ..log import events as ev
from ..log.session import Session
from .outward import plain, trimmed
from .packing import pack

if TYPE_CHECKING:
    from ..log.events import AnyEvent

RATE = 30.0
"""Messages a second, at most: as quick to the eye as 60, and half the work."""

THIN = 6
"""A stream of no more tokens a message than this makes do with two thirds of the messages: its envelopes
outweigh its tokens, and nobody sees the difference."""

COUNT_EVERY = 0.5
"""Seconds between running token counts: a message may carry three tokens, and a count weighs as one."""

_log = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], None]
Pack = Callable[[Session, int, float], str]
"""A session after message ``seq``, the last of which happened ``at``, as one string."""
Ahead = Callable[[Session, "list[AnyEvent]"], None]


class Feed:
    """Follows some runs of a session (``runs=None``: all of them).

    ``send(message)`` gets each message; ``closed()`` is called when a followed run has closed and its last
    message is out. ``skip`` names events that do not cross. Both calls can come from any thread.
    With ``grows`` branches of followed runs are followed from when they open. ``pack`` makes what a whole state
    travels as; ``ahead`` is called with events before they are sent.
    """

    def __init__(
        self,
        session: Session,
        runs: Iterable[str] | None,
        send: Send,
        *,
        closed: Callable[[], None] = lambda: None,
        skip: tuple[type[AnyEvent], ...] = (),
        rate: float = RATE,
        grows: bool = False,
        pack: Pack = lambda session, seq, at: pack(session.state(), seq, at),
        ahead: Ahead = lambda session, events: None,
    ) -> None:
        self.runs = None if runs is None else list(runs)
        self._session: Session = session
        self._grows = grows and runs is not None
        self._unplaced: dict[str, ev.RunOpened] = {}
        self._asleep: weakref.ref[Session] | None = None
        self._waits = False
        self._send = send
        self._closed = closed
        self._skip = skip
        self._pack, self._ahead = pack, ahead
        self._pause = 1.0 / rate
        self._lock = threading.RLock()
        self._at = 0.0
        self._mirror = Session(clock=lambda: self._at)
        self._own: set[str] = set()
        self._pending: list[AnyEvent] = []
        self._seq = 0
        self._sent_at = self._counted_at = float("-inf")
        self._thin = False
        self._count: dict[str, ev.Spent] = {}
        self._timer: threading.Timer | None = None
        self._final: str | None = None
        self._held = 0
        with self._lock:
            self._unsubscribe = session.subscribe(self._notified)
            self._cursor = 0 if self._has_past() else len(session)
            self._take()
            self._pending.clear()  # the past travels as a state
            self._release_when_over()

    def packed(self) -> str:
        """The state as a browser has it after everything sent so far; ``""`` when nothing has happened."""
        with self._lock:
            self.flush()
            if self._final is not None:
                return self._final
            return self._pack(self._mirror, self._seq, self._at) if self._mirror.runs else ""

    def resync(self) -> None:
        """Send the whole state again."""
        with self._lock:
            snapshot = self.packed()
            self._send({"seq": self._seq, "snapshot": snapshot})

    def beside(self, make: Callable[[Session], dict[str, Any] | None]) -> bool:
        """Send a message beside the log, made of what the browser has been told; says whether there was one."""
        with self._lock:
            message = make(self._mirror)
            if message is not None:
                self._send(message)
            return message is not None

    def open_runs(self) -> list[str]:
        """The followed runs that are still coming."""
        with self._lock:
            return [key for key, run in self._mirror.runs.items() if run.outcome == "open"]

    @property
    def tokens(self) -> int:
        """Tokens of the followed runs so far."""
        with self._lock:
            return self._held + sum(len(node.tokens) for node in self._mirror.nodes.values())

    def flush(self) -> None:
        """Send what is pending, now."""
        with self._lock:
            self._disarm()
            if not self._pending:
                return
            # Counted first: an interrupt between here and the sending leaves a gap, which a browser notices.
            self._seq += 1
            pending, self._pending = self._pending, []
            self._sent_at = time.monotonic()
            self._ahead(self._mirror, pending)
            events = [plain(event) for event in self._without_counts(ev.merged(pending))]
            if not events:
                self._seq -= 1
            else:
                self._thin = sum(len(event.get("tokens", ())) for event in events) <= THIN
                self._send({"seq": self._seq, "at": round(self._at, 3), "events": events})

    def close(self) -> None:
        """Send the rest and follow no longer."""
        with self._lock:
            self.flush()
            self._unsubscribe()
            self._asleep = None

    def _notified(self, batch: list[AnyEvent]) -> None:
        if self._asleep is not None:  # it ended while another thread came here
            self._wait(batch)
            return
        with self._lock:
            closing = self._take_whole()
            if closing:
                self.flush()
                self._release_when_over()
            elif self._pending:
                self._flush_or_arm()
        if closing:
            self._closed()

    def _flush_or_arm(self) -> None:
        pause = self._pause * 1.5 if self._thin else self._pause
        wait = self._sent_at + pause - time.monotonic()
        if wait <= 0 or isinstance(
            self._pending[-1], ev.NodeOpened
        ):  # a message has one time: a run's beginning its own
            self.flush()
        elif self._timer is None:
            self._timer = threading.Timer(wait, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def _without_counts(self, events: list[AnyEvent]) -> list[AnyEvent]:
        """Hold running counts back a while; a final count replaces them, the end of the run releases them."""
        kept: list[AnyEvent] = []
        for event in events:
            if isinstance(event, ev.Spent) and event.source == "continuous":
                self._count[event.run] = event
                continue
            if isinstance(event, ev.Spent):
                self._count.pop(event.run, None)
            elif isinstance(event, ev.RunClosed) and event.run in self._count:
                kept.append(self._count.pop(event.run))
            kept.append(event)
        if self._count and self._sent_at - self._counted_at >= COUNT_EVERY:
            self._counted_at = self._sent_at
            kept += self._count.values()
            self._count.clear()
        return kept

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_whole(self) -> bool:
        """Read the log on. A KeyboardInterrupt can come anywhere, also here: what it broke is made again."""
        try:
            closing = self._take()
            if not closing or self._holds_all():
                return closing
        except Exception:  # noqa: BLE001 - whatever it was, the session must go on
            _log.warning("a window lost its place in the log and reads it again", exc_info=True)
        self._pending.clear()
        self._mirror = Session(clock=lambda: self._at)
        self._own.clear()
        self._cursor = 0
        closing = self._take()
        self._pending.clear()
        self._seq += 1
        self.resync()
        return closing

    def _holds_all(self) -> bool:
        """Whether nothing is missing from the nodes of closed runs; those of open ones may be written to now."""
        mine, theirs = self._mirror, self._session.nodes
        return all(
            len(mine.nodes[node].tokens) == len(theirs[node].tokens)
            and len(mine.nodes[node].text) == len(theirs[node].text)
            for run in mine.runs.values()
            if run.outcome != "open"
            for node in run.nodes
        )

    def _take(self, end: int | None = None) -> bool:
        """Read the log on, to an ``end`` if there is one; says whether something has come to its end."""
        closing = False
        entries = self._session.since(self._cursor)
        for at, event in entries[: None if end is None else end - self._cursor]:
            self._cursor += 1
            for seen in self._seen(event):
                self._at = at
                self._mirror.apply([seen])
                self._pending.append(seen)
                closing = closing or isinstance(seen, (ev.RunClosed, ev.SeamSought))
        return closing

    def _seen(self, event: AnyEvent) -> Iterator[AnyEvent]:
        if isinstance(event, self._skip):
            return
        if isinstance(event, ev.Revised):
            if self.runs is None:  # a window on some runs shows them as they were
                yield event
            return
        if isinstance(event, ev.RunOpened) and self._grows and not self._follows(event.run):
            self._unplaced[event.run] = event  # its first node says whether it is a branch
        elif isinstance(event, ev.NodeOpened):
            yield from self._seen_node(event)
        elif isinstance(event, (ev.TokensArrived, ev.PromptScored, ev.SeamSought, ev.Finished)):
            if event.node in self._own:
                yield event
        elif self._follows(event.run):
            yield trimmed(event)

    def _seen_node(self, event: ev.NodeOpened) -> Iterator[AnyEvent]:
        opened = self._unplaced.pop(event.run, None)
        if opened is not None and self._is_branch(event):
            self.runs = [*(self.runs or ()), event.run]
            yield trimmed(opened)
        if not self._follows(event.run):
            return
        self._own.add(event.node)
        if event.parent is not None and event.parent not in self._mirror.nodes:
            # What stands before the window's runs is one text.
            yield ev.NodeOpened(event.parent, event.run, text=self._session.text_to(event.parent))
        if event.origin is None or event.origin.node in self._mirror.nodes:
            yield event
        else:
            yield from self._uprooted(event)

    def _is_branch(self, event: AnyEvent) -> bool:
        return (
            isinstance(event, ev.NodeOpened) and event.origin is not None and event.origin.node in self._own
        )

    def _matters(self, event: AnyEvent) -> bool:
        return self._is_branch(event) or (isinstance(event, ev.SeamSought) and event.node in self._own)

    def _uprooted(self, event: ev.NodeOpened) -> Iterator[AnyEvent]:
        """A branch of what is not followed: it begins with its own copy of what it kept."""
        node = self._session.nodes[event.node]
        yield msgspec.structs.replace(event, origin=None)
        tokens, logprobs, top = node.tokens[: node.kept], node.logprobs[: node.kept], node.top[: node.kept]
        text = "".join(tokens) if tokens or event.origin is None else event.origin.text
        yield ev.TokensArrived(node.id, text, tuple(tokens), tuple(logprobs), tuple(top))

    def _follows(self, run: str) -> bool:
        return self.runs is None or run in self.runs

    def _has_past(self) -> bool:
        return self.runs is None or any(run in self._session.runs for run in self.runs)

    def _release_when_over(self) -> None:
        """When every followed run has closed: stop listening, keep the packed state only."""
        if self.runs is None or any(run not in self._mirror.runs for run in self.runs) or self.open_runs():
            return
        self._final, self._held = self.packed(), self.tokens
        # The front end's registry keeps every window; a window that is over must not keep what it looked at.
        self._unsubscribe()
        self._unsubscribe = lambda: None
        if self._grows:
            if not self._waits:
                self._session.subscribe(self._wait)  # what ends this would hold the session, so it is let go
            self._waits, self._asleep = True, weakref.ref(self._session)
        else:
            self._own.clear()
        self._session = self._mirror = Session()

    def _wait(self, batch: list[AnyEvent]) -> None:
        """After the end a branch can open, or be asked about: the log is read once more up to here, and followed."""
        with self._lock:
            session = self._asleep() if self._asleep is not None else None
            if session is None or not any(map(self._matters, batch)):
                return
            self._session, self._asleep, self._final, self._held = session, None, None, 0
            self._mirror = Session(clock=lambda: self._at)
            self._own.clear()
            place, self._cursor = self._cursor, 0
            self._take(place)
            self._pending.clear()
            self._unsubscribe = session.subscribe(self._notified)
        self._notified(batch)
