"""What a client knows of its jobs, and what becomes of an answer: in its journal, in its budget, for its caller.

Owns the requests and last metadata that it remembers, and the order in which an outcome is written down. Both drivers
(``calls.py``) share it. It must not know how a question travels, the ledger behind the meter, nor decide about retries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from ..completion import Completion
from ..errors import AcsError, BudgetRefused, InvalidRequest
from ..log.session import Session
from ..plain import has_utf8
from ..wire import CompletionRequest, Job, Prompt
from .flow import POLL_FAILURES, Ask, Flow, Operation, Outcome, lookup, submission
from .holds import Holds
from .notes import Notes, notes_for
from .record import record

if TYPE_CHECKING:
    from ..connection import Connection


class Booking:
    """What both drivers share."""

    def __init__(self, client: Connection) -> None:
        self._connection = client
        self._requests: dict[str, CompletionRequest] = {}
        self._jobs: dict[str, Job] = {}
        self._holds = Holds(client)
        self.notes: Notes = notes_for(client.base_url, client._secret)
        """What this machine knows of the key's jobs, from the journal."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.base_url!r})"

    @property
    def _options(self) -> dict[str, Any]:
        return {"retries": self._connection.retries}

    def _request(self, prompt: Prompt, fields: dict[str, Any]) -> CompletionRequest:
        if fields.get("stream") is False:
            fields = {**fields, "stream": None}
        return self._connection.request(prompt, **fields)

    @contextmanager
    def _written_down(self, request: CompletionRequest, flow: Operation, tag: str | None) -> Iterator[None]:
        """The journal knows of a submission before it is sent, and how it was answered."""
        row = self.notes.sending(request, flow.key, tag)
        yield
        self.notes.submitted(row, flow.job, flow.error)

    @contextmanager
    def _held(self, request: CompletionRequest, flow: Operation) -> Iterator[None]:
        """The budget's hold while a job is submitted; it stays until the outcome is known here."""
        with self._holds.submitting(request, flow):
            yield
            if flow.job is not None:
                self._requests[flow.job.id] = request
                self._jobs[flow.job.id] = flow.job

    def _submission(
        self, request: CompletionRequest, key: str | None, tag: str | None, deadline: float | None
    ) -> Operation:
        return submission(request, key, tag, deadline=_seconds(deadline), **self._options)

    def _outcome(self, job: Job | str, *, once: bool, deadline: float | None = None) -> Outcome:
        job_id = id_of(job)
        known = job if isinstance(job, Job) else self._jobs.get(job_id)
        retries = self._connection.retries if once else max(POLL_FAILURES, self._connection.retries)
        return Outcome(job_id, job=known, once=once, deadline=_seconds(deadline), retries=retries)

    def _read(self, ask: Ask, answer: httpx.Response) -> tuple[Mapping[str, str], bytes]:
        """What an answer says, without a key; a result's body is a model's text and stays as it is."""
        censor = self._connection._secret.censor
        headers = httpx.Headers([(name, censor(value)) for name, value in answer.headers.multi_items()])
        if answer.status_code == 200 and ask.path.endswith("/result"):
            return headers, answer.content
        text = answer.content.decode("utf-8", "surrogateescape")
        return headers, censor(text).encode("utf-8", "surrogateescape")

    def _say(self, flow: Flow) -> None:
        if flow.problem is not None and flow.delay:
            again = f"{flow.problem.code}: asking again in {flow.delay:.0f} s"
            self._connection._say(again, flow.delay)

    def _told(self, flow: Operation) -> Job:
        if flow.error is not None:
            raise self._connection._worded(flow.error)
        assert flow.job is not None
        self._jobs[flow.job.id] = flow.job
        return flow.job

    def _looked_up(self, flow: Operation) -> Job:
        if flow.error is None and flow.job is not None:
            self.notes.seen(flow.job)
        elif flow.error is not None and flow.job_id is not None:
            self.notes.failed(flow.job_id, flow.error)
        job = self._told(flow)
        self._holds.seen(job)
        return job

    def _paid_before(self, refusal: BudgetRefused) -> Operation:
        """The question for a job that is known here, when there is no room for another; asking costs nothing."""
        if refusal.job_id is None:
            raise refusal
        return lookup(refusal.job_id, retries=0)

    def _found(self, flow: Operation, refusal: BudgetRefused) -> Job:
        if flow.error is not None:  # submitting it might make it anew
            raise refusal
        return msgspec.structs.replace(self._looked_up(flow), found=True)

    def _inquiry(self, flow: Outcome) -> Operation | None:
        """What must still be asked to know what a job has used that ended without a result."""
        return lookup(str(flow.job_id), retries=0) if self._holds.unsettled(flow) else None

    def _booked(self, flow: Outcome, inquiry: Operation | None) -> CompletionRequest | None:
        """Write down how a job ended; raises its error, returns the request it was made of, if that is known."""
        job_id = str(flow.job_id)
        self._note_down(job_id, flow.job, flow.error)
        if flow.error is not None:
            known = inquiry if inquiry is not None and inquiry.error is None else flow
            gone = inquiry is not None and getattr(inquiry.error, "status", 0) in (404, 410)
            self._holds.failed(job_id, flow.error, known.job, usage=flow.usage, gone=gone)
            raise self._connection._worded(flow.error)
        assert flow.answer is not None
        self._holds.succeeded(job_id, flow.answer, flow.job.request_id if flow.job else None, flow.headers)
        return self._requests.get(job_id) or self.notes.request(job_id)

    def _completion(
        self, flow: Outcome, request: CompletionRequest | None, session: Session | None
    ) -> Completion:
        assert flow.answer is not None
        session = session if session is not None else Session()
        return record(
            str(flow.job_id),
            flow.answer,
            flow.headers,
            job=flow.job,
            request=request,
            session=session,
            redact=self._connection._secret.censor,
        )

    def _completed(self, flow: Outcome, session: Session | None, inquiry: Operation | None) -> Completion:
        completion = self._completion(flow, self._booked(flow, inquiry), session)
        self.notes.read(completion)
        return completion

    def _note_down(self, job_id: str, job: Job | None, error: AcsError | None) -> None:
        known = self._jobs.get(job_id)
        if job is not None and job.status and (known is None or job.status != known.status):
            self._jobs[job_id] = job
            self.notes.seen(job)
        if error is not None:
            self.notes.failed(job_id, error)


def _seconds(deadline: object) -> float | None:
    if deadline is not None and not _is_seconds(deadline):
        raise InvalidRequest(f"deadline={deadline!r}: expected seconds from now, 0 or more.")
    return None if deadline is None else float(deadline)  # type: ignore[arg-type]


def id_of(job: object) -> str:
    """A job's id. Raises :class:`InvalidRequest` for what is none, or would be another address."""
    job_id = job.id if isinstance(job, Job) else job
    if not isinstance(job_id, str) or not job_id or job_id in (".", "..") or not has_utf8(job_id):
        raise InvalidRequest(f"job={job_id!r} is not a job's id; `acs-jupyter jobs list` lists them.")
    return job_id


def _is_seconds(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0
