"""One job as this machine remembers it, how it changes, and the one line that says how it stands.

Owns the entry, its outcomes and their words; cells, boards and commands all show these lines. It must not know where
entries are kept, nor how anything was asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from ..errors import AcsError, ApiError, JobCancelled, JobConflict, JobExpired, JobInterrupted, JobNotFound
from ..errors.base import one_line
from .terms import FAILED, SUCCEEDED, seconds_of

if TYPE_CHECKING:
    from ..wire import CompletionRequest, Job, Usage

SENDING = "sending"
"""The state of a job whose submission has not been answered: it may be there or not."""
RESULT_KEPT = 24 * 3600.0
"""Seconds a result is kept after the end, where the server does not say until when."""
SHOWN = 80
"""Characters of a prompt that stand for it in a list."""

_KINDS: tuple[tuple[type[AcsError], str], ...] = (
    (JobConflict, "conflict"),
    (JobCancelled, "cancelled"),
    (JobInterrupted, "interrupted"),
    (JobExpired, "expired"),
    (JobNotFound, "forgotten"),
)


class Entry(Struct, frozen=True, kw_only=True):
    """What is known of a job. Times are seconds since the epoch.

    ``outcome``: ``None`` while it has not ended as far as is known, else ``succeeded``, ``failed``, ``cancelled``,
    ``interrupted``, ``expired`` (never run, or its content is gone), ``forgotten`` (the service knows no such job),
    ``conflict`` or ``refused`` (it never became a job).
    """

    key: str
    model: str
    prompt: str
    tokens: int
    submitted_at: float
    tag: str | None = None
    job: str | None = None
    request_id: str | None = None
    state: str = SENDING
    outcome: str | None = None
    status: int | None = None
    code: str | None = None
    message: str | None = None
    advice: str | None = None
    problem: str | None = None
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    expires_at: float | None = None
    result_expires_at: float | None = None
    usage_pending: bool = False
    cancel_requested: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None

    @property
    def open(self) -> bool:
        """Whether it may still end."""
        return self.outcome is None

    @property
    def name(self) -> str:
        """What it is called in a line."""
        return f"job {self.job}" if self.job else f"submission {self.key[:18]}"


class Shown(NamedTuple):
    """An entry as it is shown: its row, and the beginning of its result where that has been read."""

    number: int
    entry: Entry
    preview: str | None = None


def submitted(request: CompletionRequest, key: str, tag: str | None, now: float) -> Entry:
    """The entry of a request that is about to be sent."""
    first = request.prompts[0] if request.prompts else ""
    shown = first if isinstance(first, str) else f"{len(first)} token ids"
    tokens = request.max_tokens if isinstance(request.max_tokens, int) else 0
    return Entry(
        key=key,
        tag=tag or None,
        model=str(request.model),
        prompt=shortened(shown),
        tokens=tokens * request.choice_count,
        submitted_at=now,
    )


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(text[: 4 * SHOWN].split())
    return flat if len(flat) <= SHOWN and len(text) <= 4 * SHOWN else flat[: SHOWN - 1] + "…"


def seen(entry: Entry, job: Job) -> Entry:
    """The entry after the server has told of the job. That a job stands well is not its outcome: the result is."""
    if entry.job != job.id:  # answered at last, accepted after a refusal, or made anew after it was forgotten
        entry = Entry(**{name: getattr(entry, name) for name in _OF_THE_REQUEST})
    said = {
        "job": job.id,
        "request_id": job.request_id or entry.request_id,
        "state": job.status or entry.state,
        "created_at": seconds_of(job.created_at) or entry.created_at or entry.submitted_at,
        "started_at": seconds_of(job.started_at) or entry.started_at,
        "ended_at": seconds_of(job.ended_at) or entry.ended_at,
        "expires_at": seconds_of(job.expires_at) or entry.expires_at,
        "result_expires_at": seconds_of(job.result_expires_at) or entry.result_expires_at,
        "usage_pending": bool(job.usage_pending),
        "cancel_requested": bool(job.cancel_requested),
    }
    if said["state"] == SENDING:
        said["state"] = "submitted"
    return msgspec.structs.replace(entry, problem=None, **said)


_OF_THE_REQUEST = ("key", "tag", "model", "prompt", "tokens", "submitted_at")


def succeeded(entry: Entry, usage: Usage, finish_reason: str | None, now: float) -> Entry:
    """The entry of a job whose result has been read. Usage that was held while it ran is settled by its end."""
    return msgspec.structs.replace(
        entry,
        outcome="succeeded",
        state=entry.state if entry.state in SUCCEEDED else "succeeded",
        ended_at=entry.ended_at or now,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usage_pending=entry.usage_pending and entry.state in SUCCEEDED,
        finish_reason=finish_reason,
        status=200,
        problem=None,
    )


def ended(entry: Entry, error: AcsError, now: float) -> Entry:
    """The entry of a job whose outcome is an error, or of a submission that was refused for good."""
    kind = next((word for kind, word in _KINDS if isinstance(error, kind)), None)
    outcome = kind or ("failed" if entry.job else "refused")
    return msgspec.structs.replace(
        entry,
        outcome=outcome,
        state=entry.state if entry.state in FAILED else outcome,
        ended_at=entry.ended_at or now,
        status=getattr(error, "status", None) or None,
        code=error.code,
        message=error.message,
        advice=error.hint,
        request_id=entry.request_id or error.request_id,
        problem=None,
    )


def troubled(entry: Entry, error: AcsError) -> Entry:
    """The entry after a question that failed: nothing is known of the job that was not known before."""
    return msgspec.structs.replace(entry, problem=one_line(f"{error.code}: {error.message}"))


def is_final(error: AcsError) -> bool:
    """Whether an error about a job is how it ended, rather than a question that failed."""
    return isinstance(error, ApiError) and (error.final or isinstance(error, JobNotFound))


def kind_of(entry: Entry) -> str:
    """``open``, ``good``, ``bad``, or ``doubt``: it may have been paid for, or may be there without an answer."""
    if entry.outcome == "succeeded":
        return "good"
    if entry.outcome == "interrupted" or entry.problem or (entry.open and entry.job is None):
        return "doubt"
    return "open" if entry.open else "bad"


def words(entry: Entry) -> str:
    """How it stands, without its name and times."""
    if entry.open:
        return _open_words(entry)
    if entry.outcome == "succeeded":
        spent = f"{entry.prompt_tokens or 0:,} + {entry.completion_tokens or 0:,} token"
        spent += "" if entry.completion_tokens == 1 else "s"
        why = f", {entry.finish_reason}" if entry.finish_reason else ""
        return f"succeeded, {spent}{why}{', usage not settled yet' if entry.usage_pending else ''}"
    said = f"{entry.status} " if entry.status else ""
    because = one_line(f"{said}{entry.code}: {entry.message}")
    pending = "Its usage is not settled yet." if entry.usage_pending else None
    return " ".join(filter(None, [f"{entry.outcome}, {because}", entry.advice, pending]))


def line(entry: Entry, now: float) -> str:
    """How it stands, as one line: name, state, times, and what to quote."""
    parts = [f"{entry.name}: {words(entry)}", *filter(None, [age(entry, now), expiry(entry, now)])]
    told = parts[0] + (f" ({', '.join(parts[1:])})" if len(parts) > 1 else "")
    return one_line(f"{told} [request {entry.request_id}]" if entry.request_id else told)


def age(entry: Entry, now: float) -> str:
    """Since when, while it is open."""
    if not entry.open:
        return ""
    return f"for {span(now - (entry.created_at or entry.submitted_at))}"


def expiry(entry: Entry, now: float) -> str:
    """What goes, and when; ``""`` when nothing is known to."""
    at = expires(entry)
    if at is None:
        return ""
    what = "unrun" if entry.open else "result"
    if at <= now:
        return "" if entry.open else "result gone"
    return f"expires unrun in {span(at - now)}" if what == "unrun" else f"result kept for {span(at - now)}"


def expires(entry: Entry) -> float | None:
    """When it expires unrun (while it waits), or when its result goes (once it succeeded)."""
    if entry.outcome == "succeeded":
        return entry.result_expires_at or (entry.ended_at or entry.submitted_at) + RESULT_KEPT
    return entry.expires_at if entry.open and entry.state in ("queued", "pending") else None


def span(seconds: float) -> str:
    """A length of time in the two units that matter."""
    whole = max(0, int(seconds))
    for unit, size, below, small in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small} {below}"
    return f"{whole} s"


def _open_words(entry: Entry) -> str:
    if entry.job is None:
        why = f" ({entry.problem})" if entry.problem else ""
        return f"not confirmed by the server{why}; submitting the same again finds it and pays once"
    state = "cancelling" if entry.cancel_requested else entry.state.replace("_", " ")
    return f"{state}; could not be asked just now ({entry.problem})" if entry.problem else state
