"""All jobs of one key at one server, followed by one thread for everybody who looks.

Owns the poller, the results read so far, and who is told. It must not know widgets or magics. However many windows and
cells look on, a job is asked about once per ``Retry-After``; nobody looking on stops it, since a result is to be read
before the server drops it. What is known of the jobs lies in the notes (``notes.py``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..client import Client
from ..errors import AcsError, InvalidRequest, JobPending
from ..machine.forking import Lock
from .entry import SENDING, Entry, Shown, expires, is_final, shortened
from .handle import JobHandle
from .rounds import Rounds
from .terms import WAITING
from .terms import idempotency_key as key_of

if TYPE_CHECKING:
    from ..completion import Completion
    from ..secret import Secret
    from ..wire import CompletionRequest
    from .journal import Row

FOUND_AGAIN_WITHIN = 24 * 3600.0
"""Seconds in which a submission without an answer is sent again by itself; the service runs no job later than that."""
PREVIEWS = 12
"""How many results of earlier kernels are read at once; the others when they are opened."""

_CLOSING = 2.0
_log = logging.getLogger(__name__)


class Watch:
    """See the module. ``client`` belongs to the watch. Callbacks come from its thread, with no arguments."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.jobs = client.jobs
        self._rounds = Rounds()
        self._results: dict[str, Completion] = {}
        self._errors: dict[str, AcsError] = {}
        self._listeners: list[Callable[[], None]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._picked_up = False
        self._closed = False

    # -- what is known ----------------------------------------------------------------------------

    def rows(self) -> list[Shown]:
        """All jobs of this key that the journal knows, newest first."""
        return [Shown(row.number, row.entry, self._preview(row)) for row in self.jobs.notes.rows()]

    def entry(self, job: str) -> Entry | None:
        """What is known of a job."""
        return self.jobs.notes.entry(job)

    def handle(self, job: str) -> JobHandle:
        """A job by its id."""
        return JobHandle(self, job)

    def result(self, job: str) -> Completion | None:
        """What a job gave, if that has been read already."""
        return self._results.get(job)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Be told when something may have changed; call what this returns to end it."""
        self._listeners.append(callback)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(callback)

        return end

    # -- what is done -----------------------------------------------------------------------------

    def submit(
        self, request: CompletionRequest, *, idempotency_key: str | None = None, tag: str | None = None
    ) -> JobHandle:
        """Submit, or find the job this request has; returns at once, and the poller asks how it ends."""
        key = idempotency_key if idempotency_key is not None else key_of(request, tag)
        self.pick_up(but=key)
        before = {row.number: row.entry.job for row in self.jobs.notes.rows() if row.entry.key == key}
        job = self.jobs.submit_request(request, idempotency_key=key, tag=tag)
        if job.id not in self._results:
            self._errors.pop(job.id, None)
            self._follow(job.id)
        after = next((row.number for row in self.jobs.notes.rows() if row.entry.job == job.id), None)
        instead_of = before.get(after) if after is not None else None
        return JobHandle(
            self, job.id, found=job.found, instead_of=instead_of if instead_of != job.id else None
        )

    def read(self, job: str) -> Completion:
        """What a job gave, asked for now unless it is known. Raises as :meth:`JobHandle.completion`."""
        if job in self._results:
            return self._results[job]
        try:
            self._results[job] = self.jobs.result(job)
        finally:
            self._tell()
        self._rounds.drop(job)
        return self._results[job]

    def wait(self, job: str, deadline: float | None = None) -> Completion:
        """Wait for the poller to learn a job's outcome; it is not asked twice for that."""
        if deadline is not None and not deadline >= 0:
            raise InvalidRequest(f"deadline={deadline}: expected seconds from now, 0 or more.")
        if job not in self._results and job not in self._errors:
            self._follow(job)
        end = None if deadline is None else time.monotonic() + deadline
        with self._changed:
            while job not in self._results and job not in self._errors:
                left = 1.0 if end is None else end - time.monotonic()
                if left <= 0:
                    entry = self.entry(job)
                    error = JobPending(f"The job has not ended ({entry.state if entry else 'not known'}).")
                    error.job_id = job
                    raise error
                self._changed.wait(min(left, 1.0))
        self._tell()  # windows and copies have it when whoever waited goes on
        if job not in self._results:
            raise self._errors[job]
        return self._results[job]

    def cancel(self, job: str) -> None:
        """Cancel a job, now."""
        try:
            state = self.jobs.cancel(job).status
        finally:
            self._tell()
        self._follow(job, now=state not in WAITING)

    def pick_up(self, but: str | None = None) -> int:
        """Follow what earlier kernels left unfinished, once; how many. ``but``: a key about to be submitted anyway."""
        if self._picked_up:
            return 0
        self._picked_up = True
        unfinished = finished = 0
        for row in self.jobs.notes.rows():
            entry = row.entry
            if entry.job is not None and entry.open:
                unfinished += 1
                self._follow(entry.job)
            elif entry.job is not None and entry.outcome == "succeeded" and not _gone(entry):
                finished += 1
                if finished <= PREVIEWS:
                    self._follow(entry.job)
            elif entry.open and entry.key != but and _may_be_sent_again(entry):
                unfinished += 1
                self._in_background(partial(self._send_again, row))
        return unfinished

    def close(self) -> None:
        """Ask no more. The jobs go on."""
        self._closed = True
        self._rounds.wake()
        self._listeners.clear()
        self.client.close()  # ends a question under way
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSING)

    def in_background(self, job: str, what: Callable[[str], object]) -> None:
        """Do something that asks the server, without holding up the caller; what goes wrong is noted at the job."""
        self._in_background(partial(what, job))

    # -- the poller -------------------------------------------------------------------------------

    def _follow(self, job: str, *, now: bool = False) -> None:
        """Ask about a job until it has ended. One that is followed already keeps its turn, unless it has news now."""
        self._rounds.add(job, again=now)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name="acs-jobs", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while not self._closed:
            job = self._rounds.take()
            if job is None:
                continue
            try:
                self._ask(job)
            except Exception:  # noqa: BLE001 - the others are still to be asked about
                if self._closed:
                    return
                _log.warning("asking about a job failed", exc_info=True)
                self._rounds.unreachable(job)
            self._tell()

    def _ask(self, job: str) -> None:
        try:
            self._results[job] = self.jobs.result(job)
        except JobPending as error:
            if not error.state:
                with contextlib.suppress(AcsError):
                    self.jobs.get(job)
            self._rounds.later(job, error.retry_after)
        except AcsError as error:
            if is_final(error):
                self._errors[job] = error
                self._rounds.drop(job)
            else:
                self._rounds.unreachable(job, getattr(error, "retry_after", None))
        else:
            self._rounds.drop(job)
            with contextlib.suppress(AcsError):
                self.jobs.get(job)  # until when it is kept, and whether its usage is settled

    def _send_again(self, row: Row) -> None:
        request = self.jobs.notes.request_of(row)
        if request is None:
            return
        with contextlib.suppress(AcsError):  # the row says how it went
            job = self.jobs.submit_request(request, idempotency_key=row.entry.key, tag=row.entry.tag)
            self._follow(job.id)
        self._tell()

    def _in_background(self, what: Callable[[], object]) -> None:
        def run() -> None:
            with contextlib.suppress(AcsError):
                what()

        threading.Thread(target=run, name="acs-jobs-asked", daemon=True).start()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
        for listener in list(self._listeners):
            try:
                listener()
            except Exception:  # noqa: BLE001 - a window that is gone must not end the watch
                _log.debug("a listener failed", exc_info=True)

    def _preview(self, row: Row) -> str | None:
        completion = self._results.get(row.entry.job or "")
        return None if completion is None else shortened(completion.text)


def _may_be_sent_again(entry: Entry) -> bool:
    return entry.state == SENDING and time.time() - entry.submitted_at < FOUND_AGAIN_WITHIN


def _gone(entry: Entry) -> bool:
    return (expires(entry) or 0.0) <= time.time()


_watches: dict[tuple[str, Secret, int], Watch] = {}
_lock = Lock()


def shared(base: str, secret: Secret) -> Watch:
    """This process's one watch for a key at a server. It picks up what earlier kernels left, when first used."""
    with _lock:
        here = (base, secret, os.getpid())  # a thread does not come along into a fork
        if here not in _watches:
            _watches[here] = Watch(Client(base, secret))
        return _watches[here]


def close() -> None:
    """End all watches of this process."""
    with _lock:
        while _watches:
            _watches.popitem()[1].close()
