"""The budget's side of completion jobs: a hold from the submission until the job's use is known.

Owns when a job's hold is kept, given back or settled. It must not know the ledger behind the meter, nor how questions
travel. A hold belongs to its job, not to this process: with a ledger it is found again by idempotency key and job id.

What a job used is taken from its result's ``usage``, or from ``usage`` in its metadata where a server tells it there.
A job that failed used nothing, as the service counts. One that was stopped without a word about its use, and may have
started, is settled with the most it can have used, as an estimate that is corrected when the server says more. While
the server says ``usage_pending`` nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from ..errors import AcsError, ApiError, JobCancelled, JobExpired, JobInterrupted, JobNotFound
from ..machine.interrupts import uninterrupted
from ..reader import SLACK
from ..wire import Answer, CompletionRequest, Job, Usage
from .terms import FAILED, SUCCEEDED, WAITING

if TYPE_CHECKING:
    from ..connection import Connection
    from ..metering import Ledgered
    from .flow import Operation, Outcome

STOPPED = frozenset({"cancelled", "canceled", "interrupted", "expired"})


class Holds:
    """The holds of one client's jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tickets: dict[str, Any] = {}
        self._in_doubt: dict[str, Any] = {}
        """Without a ledger: holds of submissions that may have arrived, under their idempotency keys."""

    @contextmanager
    def submitting(self, request: CompletionRequest, flow: Operation) -> Iterator[None]:
        """The hold while a job is submitted. It stays when the job is new, and when nobody knows whether it is."""
        meter, ledgered = self._connection.meter, self._connection.ledgered
        if meter is None:
            yield
            return
        if ledgered is not None:
            ticket = None
            try:
                with uninterrupted():
                    ticket = ledgered.reserve_job(request, flow.key)
                yield
            finally:
                if ticket is not None:
                    with uninterrupted():
                        self._submitted(ledgered, ticket, flow)
            return
        ticket = self._in_doubt.pop(flow.key, None)
        found = ticket is not None
        ticket = ticket if found else meter.reserve(request, flow.key)
        try:
            yield
        finally:
            job = flow.job if flow.error is None else None
            if job is not None and (found or flow.is_new) and job.id not in self._tickets:
                self._tickets[job.id] = ticket
            elif job is None and (found or flow.may_have_arrived):
                self._in_doubt[flow.key] = ticket
            else:
                meter.release(ticket)

    def _submitted(self, ledgered: Ledgered, ticket: Any, flow: Operation) -> None:
        error, before = flow.error, ticket.before
        if flow.job is not None and error is None:
            name = flow.job.id
            if before is not None and (name == before.job or not (flow.is_new or before.job)):
                ledgered.name_job(
                    before, name
                )  # found: what was settled by a guess is corrected by its result
                ledgered.withdraw(ticket)
            elif flow.is_new or ticket.found:
                ledgered.name_job(
                    ticket, name
                )  # also when the server had forgotten another: this is new work
            else:
                ledgered.withdraw(ticket)  # it was paid for when it was submitted
            return
        if isinstance(error, ApiError) and error.status < 500:
            ledgered.note(ticket, request_id=error.request_id, headers={}, error=error)
        if not flow.may_have_arrived:
            ledgered.withdraw(ticket)
        # Else it may have been stored: submitting it again, under the same key, finds out.

    def unsettled(self, flow: Outcome) -> bool:
        """Whether the job has ended in a way that only its metadata, not asked for yet, can put a number to."""
        ended = isinstance(flow.error, JobCancelled | JobExpired)
        return ended and self._connection.ledgered is not None and self._ticket(str(flow.job_id)) is not None

    def succeeded(self, job_id: str, answer: Answer, request_id: str | None, headers: Any) -> None:
        """A result was read."""
        ticket, meter, ledgered = self._ticket(job_id), self._connection.meter, self._connection.ledgered
        if ticket is None or meter is None:
            return
        if ledgered is not None:
            ledgered.note(ticket, request_id=request_id, headers=headers, error=None)
        usage = answer.usage
        if _believed(usage, ticket) and (usage.completion_tokens or not _text_of(answer)):
            meter.settle(ticket, usage.prompt_tokens, usage.completion_tokens, "usage")
        else:
            meter.settle(ticket, *_at_most(answer, ticket), "estimate")
        self._tickets.pop(job_id, None)

    def failed(
        self, job_id: str, error: AcsError, job: Job | None, *, usage: Usage | None = None, gone: bool = False
    ) -> None:
        """The job's outcome is an error; ``job``: its metadata as far as they are known, ``usage``: what stood beside
        the error, ``gone``: the service has no metadata of it any more."""
        meter, ledgered = self._connection.meter, self._connection.ledgered
        # Not for a poll that failed: then the job may still run. An outcome is never retryable.
        if meter is None or not isinstance(error, ApiError) or error.retryable or error.status == 401:
            return
        gone = gone or (isinstance(error, JobNotFound) and error.final)
        if error.status == 404 and (ledgered is None or not gone):
            return
        ticket = self._ticket(job_id)
        if ticket is None:
            return
        if ledgered is not None:
            request_id = job.request_id if job is not None else None
            ledgered.note(ticket, request_id=request_id or error.request_id, headers={}, error=error)
        if _believed(usage, ticket) and usage.prompt_tokens + usage.completion_tokens:
            meter.settle(ticket, usage.prompt_tokens, usage.completion_tokens, "usage")
            self._tickets.pop(job_id, None)
        elif ledgered is None:
            if not isinstance(error, JobInterrupted):
                self._release(job_id)
        elif gone:  # nobody will ever say what it used
            ledgered.settle(ticket, ticket.prompt_most, ticket.completion_most, "estimate")
        elif job is not None:
            self.seen(job, error, ticket)
        # Else nobody has said how the job stands: it may run, and its hold stays until somebody does.

    def seen(self, job: Job, error: AcsError | None = None, ticket: Any = None) -> None:
        """Metadata came: a job that has ended may be settled by it."""
        ledgered = self._connection.ledgered
        if ledgered is None or job.status in WAITING or job.usage_pending:
            return
        ticket = ticket or self._ticket(job.id)
        if ticket is None:
            return
        ledgered.note(ticket, request_id=job.request_id, headers={}, error=error)
        told = _usage(job)
        if _believed(told, ticket):
            ledgered.settle(ticket, told.prompt_tokens, told.completion_tokens, "usage")
        elif (job.status in STOPPED and not _never_started(job)) or (
            job.status in SUCCEEDED and isinstance(error, JobExpired)
        ):
            ledgered.settle(ticket, ticket.prompt_most, ticket.completion_most, "estimate")
        elif job.status in STOPPED or (error is not None and job.status in FAILED):
            ledgered.release(ticket)

    def _release(self, job_id: str) -> None:
        ticket, meter = self._ticket(job_id), self._connection.meter
        if ticket is not None and meter is not None:
            meter.release(ticket)
            self._tickets.pop(job_id, None)

    def _ticket(self, job_id: str) -> Any:
        if job_id not in self._tickets and self._connection.ledgered is not None:
            return self._connection.ledgered.job(job_id)
        return self._tickets.get(job_id)


def _never_started(job: Job) -> bool:
    """Whether the server says so; one that tells no times leaves it open."""
    return job.started_at is None and "started_at" in job.fields


def _text_of(answer: Answer) -> bool:
    return any(choice.text for choice in answer.choices or ())


def _at_most(answer: Answer, ticket: Any) -> tuple[int, int]:
    """The most that an answer without usage can have cost: no token is less than a byte, and one ends each choice."""
    choices = answer.choices or ()
    text = sum(len(choice.text.encode("utf-8", "surrogatepass")) + 1 for choice in choices)
    most = getattr(ticket, "completion_most", text)
    stopped = any(
        choice.finish_reason == "stop" for choice in choices
    )  # by a text that is not in the answer, too
    return getattr(ticket, "prompt_most", 0), most if stopped else min(most, text)


def _believed(usage: Usage | None, ticket: Any) -> TypeGuard[Usage]:
    """Whether a count can be true: a job takes no more than is held for it, but for a server's own marks."""
    if usage is None or not usage.possible:
        return False
    return not hasattr(ticket, "completion_most") or (
        usage.prompt_tokens <= 2 * ticket.prompt_most + SLACK
        and usage.completion_tokens <= 2 * ticket.completion_most + SLACK
    )


def _usage(job: Job) -> Usage | None:
    said = job.fields.get("usage")
    if not isinstance(said, dict):
        return None
    counts = said.get("prompt_tokens"), said.get("completion_tokens")
    if not all(isinstance(count, int) and not isinstance(count, bool) for count in counts):
        return None
    return Usage(*counts)  # type: ignore[arg-type]
