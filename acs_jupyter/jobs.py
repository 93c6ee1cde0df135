"""Completion jobs of a client: submit once, ask later, from this process or the next.

Owns the two drivers (sync and async) of the flows in ``job_flow.py``, and what a client remembers of its jobs:
requests, last metadata, budget holds. It must not know the ledger behind the meter, nor decide about retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from .completion import Completion
from .connection import reason_of
from .errors import AcsError, ApiError, InvalidRequest, JobInterrupted
from .job_flow import POLL_FAILURES, Ask, Flow, Operation, Outcome, cancellation, lookup, submission
from .job_notes import Notes, notes_for
from .job_record import record
from .session import Session
from .wire import CompletionRequest, Job, Prompt

if TYPE_CHECKING:
    from .client import AsyncClient, Client
    from .connection import Connection

_LOST = (httpx.TransportError, httpx.StreamError, httpx.DecodingError)


class _Board:
    """What both drivers share."""

    def __init__(self, client: Connection) -> None:
        self._connection = client
        self._requests: dict[str, CompletionRequest] = {}
        self._jobs: dict[str, Job] = {}
        self._tickets: dict[str, Any] = {}
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
        meter = self._connection.meter
        ticket = meter.reserve(request, flow.key) if meter else None
        kept = False
        try:
            yield
            if flow.job is not None:
                self._requests[flow.job.id] = request
                self._jobs[flow.job.id] = flow.job
                kept = flow.is_new and flow.error is None
                if kept and meter:
                    self._tickets[flow.job.id] = ticket
        finally:
            if meter and not kept:
                meter.release(ticket)

    def _submission(
        self, request: CompletionRequest, key: str | None, tag: str | None, deadline: float | None
    ) -> Operation:
        return submission(request, key, tag, deadline=_seconds(deadline), **self._options)

    def _outcome(self, job: Job | str, *, once: bool, deadline: float | None = None) -> Outcome:
        job_id = job if isinstance(job, str) else job.id
        known = self._jobs.get(job_id) if isinstance(job, str) else job
        retries = self._connection.retries if once else max(POLL_FAILURES, self._connection.retries)
        return Outcome(_checked(job_id), job=known, once=once, deadline=_seconds(deadline), retries=retries)

    def _told(self, flow: Operation) -> Job:
        if flow.error is not None:
            raise flow.error
        assert flow.job is not None
        self._jobs[flow.job.id] = flow.job
        return flow.job

    def _looked_up(self, flow: Operation) -> Job:
        if flow.error is None and flow.job is not None:
            self.notes.seen(flow.job)
        elif flow.error is not None and flow.job_id is not None:
            self.notes.failed(flow.job_id, flow.error)
        return self._told(flow)

    def _completed(self, flow: Outcome, session: Session | None) -> Completion:
        job_id = str(flow.job_id)
        meter, error = self._connection.meter, flow.error
        self._note_down(job_id, flow.job, error)
        if error is not None:
            if meter and isinstance(error, ApiError) and not isinstance(error, JobInterrupted):
                self._release(job_id, error)
            raise error
        assert flow.answer is not None
        completion = record(
            job_id,
            flow.answer,
            flow.headers,
            job=flow.job,
            request=self._requests.get(job_id) or self.notes.request(job_id),
            session=session if session is not None else Session(),
        )
        self.notes.read(completion)
        if meter and job_id in self._tickets:
            spent = completion.usage
            ticket = self._tickets.pop(job_id)
            meter.settle(ticket, spent.prompt_tokens, spent.completion_tokens, "usage")
        return completion

    def _note_down(self, job_id: str, job: Job | None, error: AcsError | None) -> None:
        known = self._jobs.get(job_id)
        if job is not None and job.status and (known is None or job.status != known.status):
            self._jobs[job_id] = job
            self.notes.seen(job)
        if error is not None:
            self.notes.failed(job_id, error)

    def _release(self, job_id: str, error: ApiError) -> None:
        # Not for a poll that failed: then the job may still run. An outcome is never retryable.
        if self._connection.meter and not error.retryable and job_id in self._tickets and error.status != 401:
            self._connection.meter.release(self._tickets.pop(job_id))


class Jobs(_Board):
    """``client.jobs``. A job outlives the connection, the kernel and this object; its id is all one needs."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._client = client

    def submit(
        self,
        prompt: Prompt,
        *,
        idempotency_key: str | None = None,
        tag: str | None = None,
        deadline: float | None = None,
        **fields: Any,
    ) -> Job:
        """Submit a request, or find the job this very request already has.

        ``idempotency_key`` is made from the request's content unless given, so running a cell again finds its job;
        ``tag`` sets jobs with equal requests apart. It is in the journal before it is sent: when the answer is lost,
        or not there within ``deadline`` seconds, submitting again finds the job. Raises :class:`InvalidRequest` for
        what a job cannot carry, :class:`JobConflict` when the key belongs to another request.
        """
        request = self._request(prompt, fields)
        return self.submit_request(request, idempotency_key=idempotency_key, tag=tag, deadline=deadline)

    def submit_request(
        self,
        request: CompletionRequest,
        *,
        idempotency_key: str | None = None,
        tag: str | None = None,
        deadline: float | None = None,
    ) -> Job:
        """:meth:`submit` for a request that is made already."""
        flow = self._submission(request, idempotency_key, tag, deadline)
        with self._held(request, flow), self._written_down(request, flow, tag):
            self._carry(flow)
        return msgspec.structs.replace(self._told(flow), found=not flow.is_new)

    def get(self, job: Job | str) -> Job:
        """How a job stands. That it stands well does not say that it succeeded: :meth:`result` does."""
        flow = lookup(_id(job), **self._options)
        self._carry(flow)
        return self._looked_up(flow)

    def cancel(self, job: Job | str) -> Job:
        """Cancel a job: at once while it is queued, soon when it runs, without effect when it has ended."""
        flow = cancellation(_id(job), **self._options)
        self._carry(flow)
        return self._looked_up(flow)

    def result(self, job: Job | str, *, session: Session | None = None) -> Completion:
        """What a job gave; raises its outcome when that is an error, :class:`JobPending` when there is none yet."""
        flow = self._outcome(job, once=True)
        self._carry(flow)
        return self._completed(flow, session)

    def wait(
        self, job: Job | str, deadline: float | None = None, *, session: Session | None = None
    ) -> Completion:
        """Ask until the job has ended, or ``deadline`` seconds have passed; then :class:`JobPending` is raised.

        A deadline, an interrupt or a lost connection ends the waiting only: the job goes on.
        """
        flow = self._outcome(job, once=False, deadline=deadline)
        self._carry(flow)
        return self._completed(flow, session)

    def _carry(self, flow: Flow) -> None:
        http, base = self._client._http, self._client.base_url
        while True:
            if flow.delay:
                time.sleep(flow.delay)
            ask = flow.ask()
            if ask is None:
                return
            try:
                answer = http.request(ask.method, base + ask.path, **_sent(ask))
            except _LOST as error:
                flow.lost(reason_of(error))
            else:
                flow.answered(answer.status_code, answer.headers, answer.content)


class AsyncJobs(_Board):
    """The asynchronous twin of :class:`Jobs`; the same names, to be awaited."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__(client)
        self._client = client

    async def submit(
        self,
        prompt: Prompt,
        *,
        idempotency_key: str | None = None,
        tag: str | None = None,
        deadline: float | None = None,
        **fields: Any,
    ) -> Job:
        """See :meth:`Jobs.submit`."""
        request = self._request(prompt, fields)
        return await self.submit_request(request, idempotency_key=idempotency_key, tag=tag, deadline=deadline)

    async def submit_request(
        self,
        request: CompletionRequest,
        *,
        idempotency_key: str | None = None,
        tag: str | None = None,
        deadline: float | None = None,
    ) -> Job:
        """:meth:`submit` for a request that is made already."""
        flow = self._submission(request, idempotency_key, tag, deadline)
        with self._held(request, flow), self._written_down(request, flow, tag):
            await self._carry(flow)
        return msgspec.structs.replace(self._told(flow), found=not flow.is_new)

    async def get(self, job: Job | str) -> Job:
        """See :meth:`Jobs.get`."""
        flow = lookup(_id(job), **self._options)
        await self._carry(flow)
        return self._looked_up(flow)

    async def cancel(self, job: Job | str) -> Job:
        """See :meth:`Jobs.cancel`."""
        flow = cancellation(_id(job), **self._options)
        await self._carry(flow)
        return self._looked_up(flow)

    async def result(self, job: Job | str, *, session: Session | None = None) -> Completion:
        """See :meth:`Jobs.result`."""
        flow = self._outcome(job, once=True)
        await self._carry(flow)
        return self._completed(flow, session)

    async def wait(
        self, job: Job | str, deadline: float | None = None, *, session: Session | None = None
    ) -> Completion:
        """See :meth:`Jobs.wait`. Cancelling the task ends the waiting only."""
        flow = self._outcome(job, once=False, deadline=deadline)
        await self._carry(flow)
        return self._completed(flow, session)

    async def _carry(self, flow: Flow) -> None:
        http, base = self._client._http, self._client.base_url
        while True:
            if flow.delay:
                await asyncio.sleep(flow.delay)
            ask = flow.ask()
            if ask is None:
                return
            try:
                answer = await http.request(ask.method, base + ask.path, **_sent(ask))
            except _LOST as error:
                flow.lost(reason_of(error))
            else:
                flow.answered(answer.status_code, answer.headers, answer.content)


def _id(job: Job | str) -> str:
    return _checked(job if isinstance(job, str) else job.id)


def _seconds(deadline: float | None) -> float | None:
    if deadline is not None and not deadline >= 0:
        raise InvalidRequest(f"deadline={deadline}: expected seconds from now, 0 or more.")
    return deadline


def _checked(job_id: str) -> str:
    if not job_id or job_id in (".", ".."):
        raise InvalidRequest(f"job={job_id!r} is not a job's id.")
    return job_id


def _sent(ask: Ask) -> dict[str, Any]:
    return {"headers": ask.headers, "content": ask.content, "timeout": httpx.Timeout(ask.timeout)}
