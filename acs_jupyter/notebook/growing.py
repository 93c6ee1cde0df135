"""Branches grown on request: from an intent to a run in the same session, on the pump's own thread.

Owns the runs under way of one session, and the order of an exact branch: first the ids, then the branch. It must not
know windows; what cannot be done is told in one line, through the function that came with the intent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from ..connection import streamed_if_possible
from ..errors import AcsError
from ..ledger import place
from ..log.branching import plan
from ..log.events import Origin, SeamSought
from ..log.intents import AnyIntent, Branching, Cancel, Edit, Fork, Locate, Resample
from ..log.session import Fork as Plan
from ..log.session import Session
from ..pump import Also, Handle, Pump
from ..token_ids import Found, Unknown, differing, found, probes, scoring_fields
from ..wire import request_fields


class Tell(Protocol):
    """Takes one line for whoever asked; ``""`` takes back the last one. ``stops``: the run that it speaks of, which
    stands in no window and can be stopped by that name."""

    def __call__(self, line: str, stops: str = "") -> None: ...  # noqa: D102  # see the class


_NONE, _NOWHERE, _STOPPED = "No branch was begun.", "Where is not known.", "It was stopped."


class Grower:
    """Runs of one session that windows ask for. Safe to call from any thread; no call waits for the network.

    ``pump`` gives the pump of now, and may raise :class:`AcsError`. ``ended`` is called, on the pump's thread, when a
    branch has ended and its record could be written; ``begun`` with a branch's run; ``also``: see :class:`Pump`.
    """

    def __init__(self, session: Session, pump: Callable[[], Pump]) -> None:
        self.session = session
        self.ended: Callable[[], None] = lambda: None
        self.begun: Callable[[str], None] = lambda run: None
        self.also: Also = list
        self._pump = pump
        self._here = place.Here()  # a branch belongs to the cell that it grew from, and to its limits
        self._handles: dict[str, Handle] = {}
        self._questions: dict[
            str, tuple[Tell, str]
        ] = {}  # of those under way: who asked, and the line about it
        self._lock = threading.Lock()

    def adopt(self, handle: Handle) -> None:
        """A run that somebody else started: it is stopped with the others."""
        with self._lock:
            self._handles[handle.run] = handle

    def obey(self, intent: AnyIntent, tell: Tell) -> None:
        """Do what a window asks for."""
        if isinstance(intent, Cancel):
            self._stop(intent.run, intent.node)
        elif isinstance(intent, (Fork, Resample, Edit)):
            self._say(tell)
            self._telling(tell, lambda: self._begin(intent, tell))
        elif isinstance(intent, Locate):
            self._telling(tell, lambda: self._locate(intent.node, tell), _NOWHERE)

    def _say(self, tell: Tell, line: str = "") -> None:
        """Tell a line. What the same window waits for is told behind it, with its Stop: it has one line for all."""
        with self._lock:
            waiting = [(asked, run) for run, (who, asked) in self._questions.items() if who == tell]
        if not waiting:
            tell(line)
            return
        asked, run = waiting[-1]
        tell(f"{line} {asked}".strip(), run)

    def _telling(self, tell: Tell, act: Callable[[], None], instead: str = _NONE) -> None:
        try:
            act()
        except (AcsError, ValueError, LookupError) as error:
            self._say(tell, _refusal(error, instead))

    def _stop(self, run: str | None, node: str | None) -> None:
        with self._lock:
            handles = [handle for key, handle in self._handles.items() if run in (None, key)]
        for handle in handles:
            if node is None:
                handle.stop()
            else:
                handle.leave(node)

    def _begin(self, intent: Branching, tell: Tell) -> None:
        made = plan(self.session, intent)
        if isinstance(intent, Edit) or not intent.exact:
            self._start(made, made.request.prompt, made.origin, tell)
            return
        self._recover(made, intent, tell)

    def _start(self, made: Plan, prompt: Any, origin: Origin | None, tell: Tell) -> None:
        fields = streamed_if_possible({**request_fields(made.request), "prompt": prompt})
        self.begun(self.send(fields, made.parents, origin, tell))

    def send(
        self, fields: dict[str, Any], parents: list[str] | None, origin: Origin | None, tell: Tell
    ) -> str:
        """Begin a run; its id. Raises :class:`AcsError` when it cannot be sent."""
        pump = self._pump()
        request = pump.client.request(**fields)
        with self._lock, self._here.again():
            handle = pump.start(request, self.session, parents=parents, origin=origin, also=self.also)
            self._handles[handle.run] = handle
        handle.detach(lambda one: self._over(one, tell))
        return handle.run

    def _over(self, handle: Handle, tell: Tell) -> None:
        with self._lock:
            self._handles.pop(handle.run, None)
        if handle.run in self.session.runs:
            self.ended()  # what went wrong, if anything did, stands in the branch
        else:
            self._say(tell, _refusal(handle.failure))

    def _score(
        self, prompts: list[str], like: dict[str, Any], line: str, tell: Tell, then: Callable[[Handle], None]
    ) -> None:
        """Ask how the server reads texts. The answer stands in a session of its own: it is no continuation."""
        pump = self._pump()
        with self._lock, self._here.again():
            handle = pump.start(pump.client.request(**scoring_fields(prompts, like)), Session())
            self._handles[handle.run] = handle
            self._questions[handle.run] = tell, line
        self._say(tell)

        def over(one: Handle) -> None:
            with self._lock:
                self._handles.pop(one.run, None)
                self._questions.pop(one.run, None)
            then(one)

        handle.detach(over)

    # -- by token ids -----------------------------------------------------------------------------

    def _recover(self, made: Plan, intent: Fork | Resample, tell: Tell) -> None:
        after = intent.text if isinstance(intent, Fork) else ""
        text = str(made.request.prompt)
        text = text[: len(text) - len(after)]
        self._score(
            probes(text, after),
            request_fields(made.request),
            "Asking for the token ids of the text …",
            tell,
            lambda handle: self._telling(
                tell, lambda: self._recovered(handle, made, intent, (text, after), tell)
            ),
        )

    def _recovered(
        self, handle: Handle, made: Plan, intent: Fork | Resample, texts: tuple[str, str], tell: Tell
    ) -> None:
        assert made.origin is not None  # every branch of a continuation has one
        written = self.session.nodes[intent.node].tokens[: intent.token]
        ids: Found = found(*texts, _scores(handle), written)
        origin = Origin(
            made.origin.node,
            made.origin.tokens,
            made.origin.text,
            exact=True,
            seam=ids.differs,
            cost=handle.completion.usage.total_tokens,
        )
        self._say(tell)
        self._start(made, [*ids.ids, *ids.after], origin, tell)

    # -- where a text was read otherwise ----------------------------------------------------------

    def _locate(self, node: str, tell: Tell) -> None:
        here = self.session.nodes.get(node)
        sent = self.session.runs[here.run].request if here and here.origin else {}
        if not isinstance(sent.get("prompt"), str):
            raise Unknown("This is no branch that was sent as text.")
        self._score(
            [sent["prompt"]],
            sent,
            "Asking how the server reads the text …",
            tell,
            lambda handle: self._telling(tell, lambda: self._located(handle, node, tell), _NOWHERE),
        )

    def _located(self, handle: Handle, node: str, tell: Tell) -> None:
        here = self.session.nodes[node]
        read = [entries[0][1] for entries in _scores(handle)[0] if entries]
        seam = differing(read, here.tokens[: here.kept])
        self.session.apply([SeamSought(node, seam, handle.completion.usage.total_tokens)])
        self._say(tell)
        self.ended()


def _scores(handle: Handle) -> list[list[Any]]:
    """The scores of each prompt of an answer; raises :class:`Unknown` with what went wrong."""
    scored = handle.completion
    if scored.outcome != "done":
        failed = scored.error
        told = f"{failed['code']}: {failed['message']}" if failed else str(handle.failure or _STOPPED)
        raise Unknown(told)
    return [handle.session.nodes[node].scores or [] for node in handle.session.roots]


def _refusal(error: BaseException | None, instead: str = _NONE) -> str:
    return f"{instead} {' '.join(str(error or _STOPPED).split())}"
