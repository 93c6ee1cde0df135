"""One prompt down several lanes: runs side by side that know nothing of each other, and what was run before.

Owns the lanes, which run belongs to which, and what stands in the log of a lane that could not be sent. It must not
know servers, windows or notebooks: it is given what makes a request of fields and what sends one.

Which lane a run belongs to is a mark in the session (``marks.py``), so that it is saved with it: a
*round* is a press of *Run*, of one lane or of all, and what a round shows is the last run of each lane up to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from ..completion import Completion
from ..errors import AcsError, InvalidRequest
from ..exchange import new_run
from ..log.events import Failed, NodeOpened, RunClosed, RunOpened, node_of
from .editing import edited
from .lanes import MOST_LANES, Lane, as_json, checked, read_lanes, with_clients
from .marks import Place, marked, marking, places

if TYPE_CHECKING:
    import pandas as pd

    from ..log.intents import LaneDraft
    from ..log.session import Session
    from ..pump import Handle
    from ..wire import CompletionRequest

COLUMNS = [
    "lane", "name", "round", "choice", "prompt", "text", "outcome", "finish_reason", "logprob", "tokens", "shared",
    "prompt_tokens", "completion_tokens", "model", "temperature", "error", "run",
]  # fmt: skip

Asked = Callable[[Any, str, dict[str, Any]], "CompletionRequest"]
"""A request of a prompt and fields, at the server of a lane's client (``None``: the shared one)."""
Start = Callable[[Any, "CompletionRequest", "Session"], "Handle"]
"""Sends it there."""


@dataclass(frozen=True)
class _Sent:
    """What one press sends down one lane, which is another one when somebody has edited it since."""

    place: Place
    prompt: str
    fields: dict[str, Any]


class Comparison:
    """Lanes over a session. Every method returns at once, but :meth:`wait`; runs go on in the background.

    ``lanes``: for each a model's name, or a mapping of request fields, with ``prompt`` for a prompt of its own and
    ``name``; ``shared``: fields of all lanes; ``clients``: by letter, for lanes with servers of their own. Raises
    :class:`InvalidRequest` when that cannot be read; a field that no server would take is told in its lane, when it is
    run. ``changed`` is called after each end of a run.
    """

    def __init__(
        self,
        prompt: str,
        lanes: Sequence[str | Mapping[str, Any]],
        session: Session,
        *,
        asked: Asked,
        start: Start,
        shared: Mapping[str, Any] | None = None,
        clients: Mapping[str, Any] | None = None,
        most: int = MOST_LANES,
    ) -> None:
        self.session, self.prompt = session, checked(prompt)
        self.shared = dict(shared or {})
        held = "lanes" in marked(session)
        if held and lanes:
            raise InvalidRequest(
                "This session has lanes of its own: give no others, or begin with another session."
            )
        found = restored(session) if held else read_lanes(lanes, most)
        self.lanes = with_clients(found, clients or {})
        self.changed: Callable[[], None] = lambda: None
        self._asked, self._start = asked, start
        self._handles: dict[int, Handle] = {}
        self._turn = threading.Condition()
        self._marking = threading.Lock()

    @property
    def round(self) -> int:
        """How often something was run."""
        return max((place.round for place in self._runs.values()), default=0)

    @property
    def running(self) -> list[int]:
        """The lanes that are still coming."""
        with self._turn:
            return sorted(place for place, handle in self._handles.items() if not self._over(handle.run))

    def _over(self, run: str) -> bool:
        # What is shown as ended can be run again, whether or not its thread has been through yet.
        return run in self.session.runs and self.session.runs[run].outcome != "open"

    def latest(self, round: int | None = None) -> list[str | None]:  # noqa: A002  # the word of the house
        """The run that each lane shows, of now or after an earlier round."""
        found: list[str | None] = [None] * len(self.lanes)
        for run, place in self._runs.items():
            if place.round <= (self.round if round is None else round) and place.lane < len(found):
                found[place.lane] = run
        return found

    def completion(self, lane: int | str, round: int | None = None) -> Completion | None:  # noqa: A002
        """What a lane gave, so far; ``None`` when it was not run."""
        run = self.latest(round)[self.place(lane)]
        return None if run is None else Completion(self.session, run)

    def place(self, lane: int | str) -> int:
        """The number of a lane that was told by number (from 0), letter or name."""
        for number, one in enumerate(self.lanes):
            if lane in (one.letter, one.name) or (lane == number and not isinstance(lane, bool)):
                return number
        names = ", ".join(f"{one.letter} ({one.name})" for one in self.lanes)
        raise InvalidRequest(f"lane={lane!r} is none of {names}: choose one.")

    def run(self, lane: int | str | None = None) -> None:
        """Send one lane, or all. Each is checked and its budget held by itself: one that is refused stops no other."""
        chosen = range(len(self.lanes)) if lane is None else [self.place(lane)]
        busy = [self.lanes[number].letter for number in self.running if number in chosen]
        if busy:
            raise InvalidRequest(
                f"Still running: {', '.join(busy)}. Stop it, or wait for its end, and run it again."
            )
        number = self.round + 1
        for place in chosen:
            self._send(place, number)

    def edit(self, drafts: Sequence[LaneDraft], lane: int | str | None = None) -> None:
        """Take the settings of one lane, or of all, from their forms; what runs goes on as it was sent."""
        self.lanes = edited(self.lanes, drafts, None if lane is None else self.place(lane))

    def stop(self, lane: int | str | None = None) -> None:
        """End one lane, or all, and keep what came."""
        chosen = None if lane is None else self.place(lane)
        with self._turn:
            handles = [handle for place, handle in self._handles.items() if chosen in (None, place)]
        for handle in handles:
            handle.stop()

    def stop_run(self, run: str | None) -> None:
        """The same, of the lane in which a run is coming."""
        with self._turn:
            handles = [handle for handle in self._handles.values() if run in (None, handle.run)]
        for handle in handles:
            handle.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs; false after ``timeout`` seconds. An interrupt stops all and keeps what came."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            with self._turn:
                while self._handles and (end is None or time.monotonic() < end):
                    self._turn.wait(0.1)  # in short turns: an interrupt must get through
                return not self._handles
        except KeyboardInterrupt:
            self.stop()
            raise

    def frame(self, *, every: bool = False) -> pd.DataFrame:
        """One row a choice of the last run of each lane; with ``every``, of all runs.

        ``lane`` (letter), ``name`` (of then), ``round``, ``choice`` (from 0), ``prompt``, ``text``, ``outcome``,
        ``finish_reason``, ``logprob`` (nats, summed) and ``tokens`` of this choice where its tokens are known,
        ``shared`` (characters that its text begins with like that of the first lane's choice of this number in the
        same round), ``prompt_tokens`` and ``completion_tokens`` (of the whole run, as billed), ``model``,
        ``temperature`` (as asked), ``error`` (one line), ``run`` (its id in the session).
        """
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        runs = self._runs if every else {run: self._runs[run] for run in self.latest() if run is not None}
        rows = [row for run, place in runs.items() for row in self._rows(run, place)]
        frame = pd.DataFrame(rows, columns=COLUMNS)
        return frame.astype(
            {"tokens": "Int64", "shared": "Int64", "prompt_tokens": "Int64", "completion_tokens": "Int64"}
        )

    # -- one lane ---------------------------------------------------------------------------------

    @property
    def _runs(self) -> dict[str, Place]:
        return places(self.session)

    def _send(self, place: int, number: int) -> None:
        lane = self.lanes[place]
        prompt = self.prompt if lane.prompt is None else lane.prompt
        own = getattr(lane.client, "model", None)
        fields = {**({"model": own} if own else {}), **self.shared, **lane.fields}
        sent = _Sent(Place(place, number, lane.name), prompt, fields)
        try:
            if lane.client is None and lane.server is not None:
                raise InvalidRequest(
                    f"Lane {lane.letter} was at {lane.server}: give Compare a client for it, "
                    f"clients={{'{lane.letter}': Client(...)}}."
                )
            handle = self._start(lane.client, self._asked(lane.client, prompt, fields), self.session)
        except AcsError as error:
            self._refused(new_run(), sent, error)
            self.changed()
            return
        self._mark(handle.run, sent)
        with self._turn:
            self._handles[place] = handle
        handle.detach(lambda one: self._ended(one, sent))

    def _ended(self, handle: Handle, sent: _Sent) -> None:
        if handle.run not in self.session.runs:  # it ended before it was opened
            failure = handle.failure
            error = failure if isinstance(failure, AcsError) else InvalidRequest("The run was not begun.")
            self._refused(handle.run, sent, error)
        with self._turn:
            if self._handles.get(sent.place.lane) is handle:
                del self._handles[sent.place.lane]
            self._turn.notify_all()
        self.changed()

    def _refused(self, run: str, sent: _Sent, error: AcsError) -> None:
        """A lane that was never sent is a run like others, which has failed and cost nothing."""
        line = " ".join(filter(None, (error.message, error.hint)))
        self._mark(run, sent)
        self.session.apply([
            RunOpened(run, {**as_json(sent.fields), "prompt": sent.prompt}),
            NodeOpened(f"{run}.p0", run, text=sent.prompt),
            NodeOpened(node_of(run, 0), run, f"{run}.p0", 0),
            Failed(run, error.code, " ".join(line.split())),
            RunClosed(run, "failed"),
        ])  # fmt: skip

    def _mark(self, run: str, sent: _Sent) -> None:
        with self._marking:
            runs = {**{key: list(of) for key, of in self._runs.items()}, run: list(sent.place)}
            held = {
                "lanes": [_kept(one) for one in self.lanes], "shared": as_json(self.shared), "runs": runs,
            }  # fmt: skip
            self.session.apply([marking(self.session, held)])

    def _rows(self, run: str, place: Place) -> list[list[Any]]:
        if run not in self.session.runs:
            return []
        one = Completion(self.session, run)
        first = self.completion(0, place.round)
        others = [] if first is None else first.texts
        usage, error = one.usage, one.error
        told = None if error is None else f"{error['code']}: {error['message']}"
        return [
            [
                place.letter, place.name, place.round, choice.index, one.prompt, choice.text, one.outcome,
                choice.finish_reason, choice.logprob, len(choice.tokens) or None,
                shared_start(choice.text, others[choice.index]) if choice.index < len(others) else None,
                usage.prompt_tokens, usage.completion_tokens, one.model, one.request.get("temperature"), told, run,
            ]
            for choice in one.choices
        ]  # fmt: skip


def _kept(lane: Lane) -> dict[str, Any]:
    """A lane as the mark holds it: all but its prompt, which stands in its runs, and its client."""
    kept = {
        "name": lane.name, "named": lane.named, "own": lane.prompt is not None, "fields": as_json(lane.fields)
    }  # fmt: skip
    return kept if lane.server is None else {**kept, "server": lane.server}


def restored(session: Session) -> list[Lane]:
    """The lanes of a saved session; prompts stand in its runs, and clients in no file."""
    held = marked(session)
    prompts: dict[int, Any] = {}
    for run, place in places(session).items():
        if run in session.runs:
            prompts[place.lane] = session.runs[run].request.get("prompt")
    return [
        Lane(
            letter, lane["name"], prompts.get(place, "") if lane.get("own") else None, dict(lane["fields"]),
            lane.get("named", True), server=lane.get("server"),
        )
        for place, (letter, lane) in enumerate(zip(ascii_uppercase, held["lanes"], strict=False))
    ]  # fmt: skip


def shared_prompt(session: Session, lanes: Sequence[Lane]) -> str:
    """The prompt that the lanes of a saved session shared last."""
    found = ""
    for run, place in places(session).items():
        if run in session.runs and lanes[place.lane].prompt is None:
            found = session.runs[run].request.get("prompt", "")
    return found


def shared_start(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(one), len(other))
