"""The four routes of completion jobs.

Owns paths, the Idempotency-Key, metadata and the statuses of results. It must not know how a job is stored or run.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from ..checks import beyond_job, job_too_large, parse_request
from ..errors import ApiError, BadRequest, JobCancelled, JobExpired, JobInterrupted, class_for
from ..wire import IDEMPOTENCY_KEY, MAX_JOB_BODY, RETRY_AFTER, SHOULD_RETRY
from .bodies import read_body
from .job_values import Owner
from .respond import error_response
from .shape import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ..wire import CompletionRequest
    from .desk import Desk
    from .job_values import Limits, Row
    from .jobs import Jobs

PATH = "/v1/completion-jobs"
_VISIBLE = re.compile(r"[!-~]{1,128}")


class JobRoutes:
    """``desk`` knows callers and how often they may start; ``check`` refuses a completion that cannot run here."""

    def __init__(self, jobs: Jobs, desk: Desk, check: Callable[[CompletionRequest], Awaitable[Any]]) -> None:
        self._jobs, self._desk, self._check = jobs, desk, check

    def routes(self) -> list[Route]:
        """The routes, to be joined to an application."""
        one = PATH + "/{job}"
        return [
            Route(PATH, self.submit, methods=["POST"]),
            Route(one, self.metadata, methods=["GET"]),
            Route(one + "/result", self.result, methods=["GET"]),
            Route(one + "/cancel", self.cancel, methods=["POST"]),
        ]

    async def submit(self, request: Request) -> Response:
        """Store a job: 202 when it is new, 200 when it is already there."""
        self._desk.starter(request)
        owner = owner_of(request)
        key = _idempotency_key(request)
        wait = self._desk.limits.body_wait
        parsed = parse_request(
            await read_body(request, MAX_JOB_BODY, wait, lambda size: job_too_large(size) or "")
        )
        problem = beyond_job(parsed)
        if problem:
            raise BadRequest(problem)
        row = await self._jobs.known(owner, key, parsed)
        is_new = False
        if row is None:
            await self._check(parsed)
            self._desk.budget.check(request.state.caller)
            row, is_new = await self._jobs.submit(owner, key, parsed, request.state.request_id)
        return self._told(row, 202 if is_new else 200)

    async def metadata(self, request: Request) -> Response:
        """How a job stands; never what it gave."""
        return self._told(await self._jobs.get(self._owner(request), request.path_params["job"]))

    async def cancel(self, request: Request) -> Response:
        """End a job that has not ended; one that has stays as it is."""
        return self._told(await self._jobs.cancel(self._owner(request), request.path_params["job"]))

    async def result(self, request: Request) -> Response:
        """202 until the job has ended, then its completion or its error under the status they have."""
        row = await self._jobs.get(self._owner(request), request.path_params["job"])
        if not row.ended_for_good:
            return self._told(row, 202, {RETRY_AFTER: "1"})
        if row.status == "succeeded" and not row.content_gone:
            return Response(row.result, 200, json.loads(row.headers or "{}"), "application/json")
        answer = error_response(_outcome(row), row.request_id)
        answer.headers[SHOULD_RETRY] = "false"  # the outcome does not change by asking again
        return answer

    def _owner(self, request: Request) -> Owner:
        self._desk.caller(request)
        return owner_of(request)

    def _told(self, row: Row, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        told = described(row, self._jobs.limits) | {"usage": self._usage(row)}
        return Response(encode(told), status, headers, "application/json")

    def _usage(self, row: Row) -> dict[str, int] | None:
        """What an ended job has cost, so that a client can settle one that has no result; ``None`` while unknown."""
        if not row.ended_for_good or row.usage_pending:
            return None
        if row.started is None:
            return _counts(0, 0)
        spent = self._desk.ledger.of_request(row.request_id, row.owner)
        return None if spent is None else _counts(*spent)


class Private:
    """Marks every answer about jobs as private and not to be stored."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request through; add the header to what comes back."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (b"cache-control", b"private, no-store")]
            await send(message)

        mine = scope["type"] == "http" and scope["path"].startswith(PATH)
        await self._app(scope, receive, marked if mine else send)


def owner_of(request: Request) -> Owner:
    """Whose request it is: exactly one API key. The one place that says how a key is known here."""
    return Owner(request.state.caller.id)


def described(row: Row, limits: Limits) -> dict[str, Any]:
    """The metadata of a job. Times are seconds since the epoch; ``null`` where they do not apply."""
    ended = row.ended
    content = None if ended is None else ended + (0 if row.status == "expired" else limits.content_time)
    record = None if ended is None or row.usage_pending else ended + limits.record_time
    expires = row.created + limits.queue_time if row.status == "queued" else content
    return {
        "id": row.id,
        "object": "completion.job",
        "status": row.status,
        "cancel_requested": row.cancel_requested,
        "usage_pending": row.usage_pending,
        "model": row.model,
        "request_id": row.request_id,
        "created_at": _time(row.created),
        "started_at": _time(row.started),
        "ended_at": _time(ended),
        "expires_at": _time(expires),
        "result_expires_at": _time(content),
        "record_expires_at": _time(record),
        "result_available": row.ended_for_good and not row.content_gone,
        "status_url": f"{PATH}/{row.id}",
        "result_url": f"{PATH}/{row.id}/result",
    }


def _outcome(row: Row) -> ApiError:
    if row.status == "expired":
        return JobExpired("The job waited too long and was never run.")
    if row.content_gone:
        return JobExpired("The result was kept for its time and is gone.")
    if row.result is not None:
        told = msgspec.json.decode(row.result)
        kind = class_for(told["code"], row.outcome or 502)
        return kind(told["message"], code=told["code"], status=row.outcome, retryable=False)
    if row.status == "cancelled":
        return JobCancelled("The job was cancelled before it ran.")
    return JobInterrupted("The server that ran this job is gone; what became of it is not known.")


def _counts(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _time(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _idempotency_key(request: Request) -> str:
    given = request.headers.getlist(IDEMPOTENCY_KEY)
    if len(given) != 1 or not _VISIBLE.fullmatch(given[0]):
        raise BadRequest("The Idempotency-Key header must hold 1 to 128 visible ASCII characters.")
    return given[0]
