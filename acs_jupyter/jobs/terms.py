"""What a client says and hears about completion jobs: paths, idempotency keys, states, and errors told as a job's.

Owns the words for states and the line between an error about reading a job and the job's own. It must not know when
anything is asked, nor how it travels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from .. import wire
from ..errors import (
    AcsError,
    ApiError,
    BudgetExceeded,
    JobCancelled,
    JobExpired,
    JobInterrupted,
    JobNotFound,
    JobPending,
)
from ..failures import error_from_body
from ..wire import CompletionRequest, Job, request_fields

PATH = "/completion-jobs"

# The contract names some states only; these are read as what they say, any other as "not yet known".
WAITING = frozenset({"queued", "pending", "running", "in_progress", "cancelling", "cancel_requested"})
SUCCEEDED = frozenset({"succeeded", "success", "completed", "complete", "done"})
FAILED = frozenset({"failed", "failure", "error", "cancelled", "canceled", "interrupted", "expired"})

ABOUT_READING = frozenset(
    {"rate_limited", "queue_full", "too_many_requests", "server_restarting", "internal_error"}
)
"""Codes that a poll meets and a job hardly ends with; one of them alone is not taken for an outcome."""

_VAGUE = frozenset({"not_found", "conflict", "expired", "internal_error", "upstream_server_error"})

E = TypeVar("E", bound=ApiError)


def idempotency_key(request: CompletionRequest, tag: str | None = None) -> str:
    """A key from everything the request says and ``tag``: the same request finds its job, a tag makes another one.

    ``acsj1-`` and the SHA-256 of ``{"request": ..., "tag": ...}`` as JSON in UTF-8 with sorted names, without blanks.
    The order of fields does not count, an explicit ``null`` is absence, a whole number is the same with or without a
    point, an empty tag is none. Text counts character by character: nothing is normalised, as nothing is when it is
    sent. ``1`` is the version of this rule, so that another rule can never find, or hide, a job of this one.
    """
    said = msgspec.json.encode({"request": canonical(request), "tag": tag or ""}, order="sorted")
    return f"acsj1-{hashlib.sha256(said).hexdigest()}"


def fingerprint(request: CompletionRequest) -> str:
    """What makes two requests the same, whatever their tags."""
    return hashlib.sha256(msgspec.json.encode(canonical(request), order="sorted")).hexdigest()


def canonical(request: CompletionRequest) -> dict[str, Any]:
    """What a request says, each thing in one way only."""
    return {name: _whole(value) for name, value in request_fields(request).items() if value is not None}


def _whole(value: Any) -> Any:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


def seconds_of(time: float | str | None) -> float | None:
    """A time a server told, in seconds since the epoch; ``None`` when it is none."""
    if not isinstance(time, str):
        return time
    try:
        said = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp()


def path_of(job_id: str) -> str:
    """A job's path; whatever the id holds, it stays one step of it."""
    return f"{PATH}/{quote(job_id, safe='')}"


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> ApiError:
    """The error an answer holds."""
    return error_from_body(status, headers, content, headers.get(wire.REQUEST_ID))


def may_ask_again(error: ApiError, headers: Mapping[str, str]) -> bool:
    """Whether the same question may be answered later."""
    if headers.get(wire.SHOULD_RETRY, "").lower() == "false":
        return False
    return error.retryable or error.status >= 500


def about_jobs(error: ApiError, conflict: type[ApiError]) -> ApiError:
    """The error as one about a job; ``conflict`` says what a 409 means at this place."""
    kinds: dict[int, type[ApiError]] = {404: JobNotFound, 409: conflict, 410: JobExpired}
    return retyped(error, kinds[error.status]) if error.status in kinds else error


def retyped(error: ApiError, kind: type[E]) -> E:
    """The error in another class; a code that says something is kept."""
    if isinstance(error, kind):
        return error
    return kind(
        error.message,
        code=error.code if error.code not in _VAGUE else None,
        status=error.status,
        request_id=error.request_id,
        retryable=False,
    )


def outcome(error: ApiError) -> ApiError:
    """The error as how the job ended: asking again does not change it."""
    error.retryable, error.final = False, True
    if not isinstance(error, BudgetExceeded | JobInterrupted | JobCancelled | JobExpired | JobNotFound):
        error.hint = "The job ended so; another tag (or idempotency key) runs it again."
    return error


def pending(
    job: Job | None, problem: AcsError | None, *, state: str = "", retry_after: float | None = None
) -> JobPending:
    """The job has not ended; ``problem`` is what the last question met, ``retry_after`` the server's wish."""
    known = job.status if job and job.status else "not known"
    last = f"; the last question failed: {problem.message}" if problem else ""
    error = JobPending(f"The job has not ended as far as is known (state: {known}{last}).")
    error.state, error.retry_after = state, retry_after
    return error
