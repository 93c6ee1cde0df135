"""Completion jobs of a client: submit once, ask later, from this process or the next.

Owns the two drivers (sync and async) of the flows in ``flow.py``. It must not know what an answer means, nor what is
written down of it: ``booking.py`` does.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from ..completion import Completion
from ..errors import BudgetRefused
from ..log.session import Session
from ..machine.patience import aside, beside
from ..resending import Sending
from ..transport import LOST, NOT_SENT
from ..wire import CompletionRequest, Job, Prompt
from .booking import Booking, id_of
from .flow import Ask, Flow, Outcome, cancellation, lookup

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


class Jobs(Booking):
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
        flow = lookup(id_of(job), **self._options)
        self._carry(flow)
        return self._looked_up(flow)

    def cancel(self, job: Job | str) -> Job:
        """Cancel a job: at once while it is queued, soon when it runs, without effect when it has ended."""
        flow = cancellation(id_of(job), **self._options)
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


class AsyncJobs(Booking):
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
        flow = lookup(id_of(job), **self._options)
        await self._carry(flow)
        return await aside(partial(self._looked_up, flow))

    async def cancel(self, job: Job | str) -> Job:
        """See :meth:`Jobs.cancel`."""
        flow = cancellation(id_of(job), **self._options)
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


def _sent(ask: Ask) -> dict[str, Any]:
    return {"headers": ask.headers, "content": ask.content, "timeout": httpx.Timeout(ask.timeout)}
