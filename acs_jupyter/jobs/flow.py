"""A completion job from the client's side as pure steps: what to ask next, what the answer means, how long to wait.

Owns the difference between a poll that failed and an outcome that is a failure, the order of questions, and deadlines.
It must not know sockets: the drivers in ``jobs.py`` carry bytes.

The result endpoint answers with the status the *job* has: a 429 or 503 there may be how the job ended, or a server
that could not be asked just now. Metadata tells which. An ended job's outcome is raised and never asked for again;
everything else is asked again. Reading is free, so asking again costs nothing; submitting again under the same
idempotency key finds the same job.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from .. import wire
from ..checks import beyond_job, job_too_large
from ..errors import (
    AcsError,
    ApiError,
    ConnectionFailed,
    Interrupted,
    InvalidRequest,
    JobCancelled,
    JobConflict,
    JobInterrupted,
)
from ..failures import info_of, make_error
from ..lenient import decode_answer, decode_job
from ..plain import has_utf8
from ..retrying import LONGEST_WAIT, bound
from ..wire import Answer, CompletionRequest, Job, Usage
from .terms import (
    ABOUT_READING,
    FAILED,
    PATH,
    SUCCEEDED,
    WAITING,
    about_jobs,
    error_of,
    idempotency_key,
    may_ask_again,
    outcome,
    path_of,
    pending,
    retyped,
)

ASK_TIMEOUT = 60.0
"""Seconds one question may take; no question about a job waits for the job."""
POLL_FAILURES = 8
"""How many polls may fail in a row before waiting ends."""
SURE = frozenset({404, 409, 410})
"""Statuses that a result has for good, in the service's own words. Any other may be how the job ended, or come from
whatever stands between; so may these without such words."""
CERTAIN = 3
"""How often a refusal must be the same before it counts, where nothing else tells."""


class Ask(NamedTuple):
    """One HTTP request, below the base URL."""

    method: str
    path: str
    headers: Mapping[str, str] | None = None
    content: bytes | None = None
    timeout: float = ASK_TIMEOUT


class Flow:
    """Sleep ``delay``, send ``ask()``, hand back ``answered`` or ``lost``, until ``ask()`` is ``None``.

    Then ``error`` says what went wrong, if anything did.
    """

    def __init__(
        self,
        *,
        retries: int,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.delay = 0.0
        self.error: AcsError | None = None
        self.job: Job | None = None
        self._done = False
        self._retries, self._failures = retries, 0
        self._clock = clock
        self._until = None if deadline is None else clock() + deadline
        self._asked = False
        self.problem: AcsError | None = None

    @property
    def job_id(self) -> str | None:
        """The job it is about, once it is known."""
        return self.job.id if self.job else None

    def ask(self) -> Ask | None:
        """The next question, or ``None`` at the end."""
        if not self._done and self._asked and self._until is not None and self._clock() >= self._until:
            self._end(pending(self.job, self.problem))
        if self._done:
            return None
        self._asked = True
        left = ASK_TIMEOUT if self._until is None else max(1.0, self._until - self._clock())
        return self._question()._replace(timeout=min(ASK_TIMEOUT, left))

    def answered(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """An answer came, whole."""
        raise NotImplementedError

    def sending(self) -> None:
        """The first byte of a question goes out."""

    def lost(self, reason: str, *, sent: bool = True) -> None:
        """No whole answer came. Every question here may be asked again. ``sent``: the server may have read it."""
        self._ask_again(ConnectionFailed(f"The server cannot be reached ({reason})."))

    def _question(self) -> Ask:
        raise NotImplementedError

    def _end(self, error: AcsError | None = None) -> None:
        self._done = True
        self.delay = 0.0
        self.error = error
        if error is not None and error.job_id is None:
            error.job_id = self.job_id

    def _wait(self, seconds: float) -> None:
        left = seconds if self._until is None else self._until - self._clock()
        self.delay = max(0.0, min(seconds, left))

    def _ask_again(self, problem: AcsError) -> None:
        self._failures += 1
        self.problem = problem
        told = getattr(problem, "retry_after", None)
        if self._failures > self._retries or (told is not None and told > self._longest_wait(problem)):
            self._end(problem)
        else:
            longest = min(30.0, 0.5 * 2 ** (self._failures - 1))
            self._wait(longest * (1 - 0.25 * random.random()) if told is None else told)

    def _longest_wait(self, problem: AcsError) -> float:
        return bound(problem)

    def _went_well(self) -> None:
        self._failures, self.problem = 0, None

    def _metadata(self, content: bytes) -> Job | None:
        try:
            job = decode_job(content, self.job_id)
        except ValueError:
            broken = Interrupted("The answer about the job cannot be read.", advice="Ask again.")
            self._ask_again(broken)
            return None
        if job.request_id is None and self.job is not None:
            job = msgspec.structs.replace(job, request_id=self.job.request_id)
        self.job = job
        return job


class Operation(Flow):
    """Submit, look up or cancel: one question, one job.

    After a submission: ``is_new`` (it had not been there, as far as can be told), ``may_have_arrived`` (a question was
    sent whose answer never came: then a job that is found may be the one that it made).
    """

    def __init__(self, ask: Ask, *, job: Job | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.job = job
        self.is_new = False
        self.may_have_arrived = False
        self._own = ask

    def ask(self) -> Ask | None:
        """See :meth:`Flow.ask`."""
        self._before = self.may_have_arrived
        return super().ask()

    def sending(self) -> None:
        """See :meth:`Flow.sending`."""
        self.may_have_arrived = True

    def lost(self, reason: str, *, sent: bool = True) -> None:
        """See :meth:`Flow.lost`."""
        self.may_have_arrived = sent or self._before
        super().lost(reason, sent=sent)

    def answered(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """See :meth:`Flow.answered`."""
        self.may_have_arrived = True
        if status in (200, 202):
            job = self._metadata(content)
            if job is not None:
                self.is_new = status == 202 or self._before
                if self.is_new and job.request_id is None:
                    self.job = msgspec.structs.replace(job, request_id=headers.get(wire.REQUEST_ID))
                self._end()
            return
        error = about_jobs(error_of(status, headers, content), JobConflict)
        if error.status < 500:
            self.may_have_arrived = self._before  # this one was refused; a gateway's 502 may hide anything
        if may_ask_again(error, headers):
            self._ask_again(error)
        else:
            self._end(error)

    @property
    def key(self) -> str:
        """The idempotency key of a submission."""
        return (self._own.headers or {}).get(wire.IDEMPOTENCY_KEY, "")

    def _question(self) -> Ask:
        return self._own


class Outcome(Flow):
    """Asks for a result until the job has one; with ``once`` a job that has not ended is the end of it.

    ``job`` is what is known already. Without it metadata is asked for first: it names the request id.
    """

    def __init__(self, job_id: str, *, job: Job | None = None, once: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.job = job
        self.answer: Answer | None = None
        self.usage: Usage | None = None
        """What stood beside an error."""
        self.headers: Mapping[str, str] = {}
        self._id, self._once = job_id, once
        self._asking_result = job is not None
        self._refusal: ApiError | None = None
        self._ours = False
        self._refusals: dict[tuple[int, str], int] = {}

    @property
    def job_id(self) -> str | None:
        """The job it is about."""
        return self._id

    def answered(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """See :meth:`Flow.answered`."""
        if self._asking_result:
            self._result(status, headers, content)
        else:
            self._how_it_stands(status, headers, content)

    @property
    def _request_id(self) -> str | None:
        return self.job.request_id if self.job else None

    def _question(self) -> Ask:
        path = path_of(self._id)
        return Ask("GET", path + "/result" if self._asking_result else path)

    def _longest_wait(self, problem: AcsError) -> float:
        return LONGEST_WAIT  # who waits for a job has asked to wait

    def _result(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        if status == 202:
            self._went_well()
            state = ""
            with contextlib.suppress(ValueError):
                # A body is a kindness here: it may say how far it is.
                told = decode_job(content, self._id)
                state = told.status
                self.job = msgspec.structs.replace(told, request_id=told.request_id or self._request_id)
            error = error_of(status, headers, b"")
            if self._once:
                self._end(pending(self.job, None, state=state, retry_after=error.retry_after))
            else:
                wish = 1.0 if error.retry_after is None else error.retry_after
                self._wait(min(LONGEST_WAIT, max(0.05, wish)))
        elif status == 200:
            self._read(headers, content)
        else:
            error = about_jobs(error_of(status, headers, content), JobCancelled)
            worded = content.lstrip().startswith(b"{")
            with contextlib.suppress(ValueError):
                self.usage = decode_answer(content).usage if worded else None
            if status in (401, 403) or (worded and status in SURE):
                self._end(outcome(error) if status in SURE else error)
            else:  # how it ended, a bad moment, or a proxy's page? Ask.
                self._refusal, self._asking_result = error, False
                self._ours = worded and error.code not in ABOUT_READING

    def _read(self, headers: Mapping[str, str], content: bytes) -> None:
        try:
            answer = decode_answer(content)
        except ValueError:
            self._ask_again(Interrupted("The result cannot be read.", advice="It is kept: ask again."))
            return
        if answer.error is not None:
            info = answer.error if isinstance(answer.error, wire.ErrorInfo) else info_of(answer.error)
            info, self.usage = info or wire.ErrorInfo(), answer.usage
            self._end(outcome(make_error(info, status=None, request_id=answer.request_id, headers=headers)))
        elif answer.choices is None:
            self._ask_again(Interrupted("The result holds no choices.", advice="It is kept: ask again."))
        else:
            self.answer, self.headers = answer, headers
            self._end()

    def _how_it_stands(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        if status != 200:
            error = about_jobs(error_of(status, headers, content), JobConflict)
            if may_ask_again(error, headers):
                self._ask_again(error)
            else:
                gone = status in (404, 410) and content.lstrip().startswith(b"{")
                self._end(outcome(error) if gone else error)
            return
        job = self._metadata(content)
        if job is None:
            return
        self._asking_result = True
        refusal, self._refusal = self._refusal, None
        if refusal is None:
            self._went_well()
            return
        if self._is_outcome(job.status, refusal):
            self._end(outcome(retyped(refusal, JobInterrupted) if job.status == "interrupted" else refusal))
        else:
            self._ask_again(refusal)

    def _is_outcome(self, state: str, refusal: ApiError) -> bool:
        if state in WAITING | SUCCEEDED:
            return False
        if state in FAILED and (self._ours or refusal.status in SURE):
            return True
        # A state nobody knows, or a refusal that looks like a proxy's: it counts once it has stayed the same.
        mark = (refusal.status, refusal.code)
        self._refusals[mark] = self._refusals.get(mark, 0) + 1
        return self._refusals[mark] >= CERTAIN


def submission(request: CompletionRequest, key: str | None, tag: str | None, **options: Any) -> Operation:
    """The flow that submits a request. Raises :class:`InvalidRequest` for what a job cannot carry."""
    body = wire.encode_request(request)
    problem = beyond_job(request) or job_too_large(len(body))
    if problem:
        raise InvalidRequest(problem)
    if tag is not None and not (isinstance(tag, str) and has_utf8(tag)):
        raise InvalidRequest(f"tag={tag!r}: expected a text.")
    if key is None:
        key = idempotency_key(request, tag)
    elif (
        not isinstance(key, str)
        or not 1 <= len(key) <= 128
        or not all("!" <= letter <= "~" for letter in key)
    ):
        raise InvalidRequest(f"idempotency_key={key!r}: expected 1 to 128 visible ASCII characters.")
    headers = {"content-type": "application/json", wire.IDEMPOTENCY_KEY: key}
    return Operation(Ask("POST", PATH, headers, body), **options)


def lookup(job_id: str, **options: Any) -> Operation:
    """The flow that asks how a job stands."""
    return Operation(Ask("GET", path_of(job_id)), job=Job(id=job_id), **options)


def cancellation(job_id: str, **options: Any) -> Operation:
    """The flow that cancels a job."""
    return Operation(Ask("POST", path_of(job_id) + "/cancel"), job=Job(id=job_id), **options)
