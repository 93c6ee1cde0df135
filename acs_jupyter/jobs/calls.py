"""Completion jobs of a client: submit once, ask later, from this process or the next.

Owns the two drivers (sync and async) of the flows in ``flow.py``, and what a client remembers of its jobs:
requests and last metadata. It must not know the ledger behind the meter, nor decide about retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from ..completion import Completion
from ..connection import LOST, NOT_SENT
from ..errors import AcsError, BudgetRefused, InvalidRequest
from ..log.session import Session
from ..machine.patience import aside, beside
from ..plain import has_utf8
from ..resending import Sending
from ..wire import CompletionRequest, Job, Prompt
from .flow import POLL_FAILURES, Ask, Flow, Operation, Outcome, cancellation, lookup, submission
from .holds import Holds
from .notes import Notes, notes_for
from .record import record

if TYPE_CHECKING:
    from ..client import AsyncClient, Client
    from ..connection import Connection


class _Board:
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
        job_id = _id(job)
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
        try:
            with self._held(request, flow), self._written_down(request, flow, tag):
                self._carry(flow)
        except BudgetRefused as error:
            refusal = error
        else:
            return msgspec.structs.replace(self._told(flow), found=not flow.is_new)
        known = self._paid_before(refusal)
        self._carry(known)
        return self._found(known, refusal)

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
        inquiry = self._inquiry(flow)
        if inquiry is not None:
            self._carry(inquiry)
        return self._completed(flow, session, inquiry)

    def wait(
        self, job: Job | str, deadline: float | None = None, *, session: Session | None = None
    ) -> Completion:
        """Ask until the job has ended, or ``deadline`` seconds have passed; then :class:`JobPending` is raised.

        A deadline, an interrupt or a lost connection ends the waiting only: the job goes on.
        """
        flow = self._outcome(job, once=False, deadline=deadline)
        self._carry(flow)
        inquiry = self._inquiry(flow)
        if inquiry is not None:
            self._carry(inquiry)
        return self._completed(flow, session, inquiry)

    def _carry(self, flow: Flow) -> None:
        http, base = self._client._http, self._client.base_url
        self._connection._check_open()
        while True:
            self._say(flow)
            if flow.delay:
                time.sleep(flow.delay)
            ask = flow.ask()
            if ask is None:
                return
            try:
                steps = {"trace": Sending(flow.sending).saw}
                answer = http.request(ask.method, base + ask.path, extensions=steps, **_sent(ask))
            except NOT_SENT as error:
                flow.lost(self._connection._reason(error), sent=False)
            except LOST as error:
                flow.lost(self._connection._reason(error))
            else:
                flow.answered(answer.status_code, *self._read(ask, answer))


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
        try:
            async with beside(self._held(request, flow)), beside(self._written_down(request, flow, tag)):
                await self._carry(flow)
        except BudgetRefused as error:
            refusal = error
        else:
            return msgspec.structs.replace(self._told(flow), found=not flow.is_new)
        known = self._paid_before(refusal)
        await self._carry(known)
        return await aside(partial(self._found, known, refusal))

    async def get(self, job: Job | str) -> Job:
        """See :meth:`Jobs.get`."""
        flow = lookup(_id(job), **self._options)
        await self._carry(flow)
        return await aside(partial(self._looked_up, flow))

    async def cancel(self, job: Job | str) -> Job:
        """See :meth:`Jobs.cancel`."""
        flow = cancellation(_id(job), **self._options)
        await self._carry(flow)
        return await aside(partial(self._looked_up, flow))

    async def result(self, job: Job | str, *, session: Session | None = None) -> Completion:
        """See :meth:`Jobs.result`."""
        flow = self._outcome(job, once=True)
        await self._carry(flow)
        return await self._read_down(flow, session)

    async def wait(
        self, job: Job | str, deadline: float | None = None, *, session: Session | None = None
    ) -> Completion:
        """See :meth:`Jobs.wait`. Cancelling the task ends the waiting only."""
        flow = self._outcome(job, once=False, deadline=deadline)
        await self._carry(flow)
        return await self._read_down(flow, session)

    async def _read_down(self, flow: Outcome, session: Session | None) -> Completion:
        """:meth:`_completed`, with the files aside and the session's events on this loop."""
        inquiry = await aside(partial(self._inquiry, flow))
        if inquiry is not None:
            await self._carry(inquiry)
        request = await aside(partial(self._booked, flow, inquiry))
        completion = self._completion(flow, request, session)
        await aside(partial(self.notes.read, completion))
        return completion

    async def _carry(self, flow: Flow) -> None:
        http, base = self._client._http, self._client.base_url
        self._connection._check_open()
        while True:
            self._say(flow)
            if flow.delay:
                await asyncio.sleep(flow.delay)
            ask = flow.ask()
            if ask is None:
                return
            try:
                steps = {"trace": Sending(flow.sending).saw_async}
                answer = await http.request(ask.method, base + ask.path, extensions=steps, **_sent(ask))
            except NOT_SENT as error:
                flow.lost(self._connection._reason(error), sent=False)
            except LOST as error:
                flow.lost(self._connection._reason(error))
            else:
                flow.answered(answer.status_code, *self._read(ask, answer))


def _seconds(deadline: object) -> float | None:
    if deadline is not None and not _is_seconds(deadline):
        raise InvalidRequest(f"deadline={deadline!r}: expected seconds from now, 0 or more.")
    return None if deadline is None else float(deadline)  # type: ignore[arg-type]


def _id(job: object) -> str:
    job_id = job.id if isinstance(job, Job) else job
    if not isinstance(job_id, str) or not job_id or job_id in (".", "..") or not has_utf8(job_id):
        raise InvalidRequest(f"job={job_id!r} is not a job's id; `acs-jupyter jobs list` lists them.")
    return job_id


def _is_seconds(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0


def _sent(ask: Ask) -> dict[str, Any]:
    return {"headers": ask.headers, "content": ask.content, "timeout": httpx.Timeout(ask.timeout)}
