"""Every way a request can go wrong, as one tree of exceptions with advice.

    AcsError
    |-- NotConfigured            no base URL or no key: nothing was sent
    |-- ClientClosed            used after close(): nothing was sent
    |-- InvalidRequest           refused before sending: a field, its value, its bound; FileNotRead, FileNotUnderstood
    |-- LedgerFailed             the budget ledger cannot be used: nothing was sent
    |-- ConnectionFailed         no answer at all
    |-- Interrupted              an answer began and was cut; what came is kept
    |-- NoPromptLogprobs         an answer without the scores that were asked for
    |-- JobPending               a completion job has not ended; it goes on
    '-- ApiError                 the server said no
        |-- BadRequest           400: one class per code below it
        |-- Unauthorized         401
        |-- ScopeDenied          403
        |-- NotFound             404: JobNotFound, ...
        |-- Conflict             409: JobConflict, JobCancelled, ...
        |-- Expired              410: JobExpired
        |-- RequestTooLarge      413
        |-- TooManyRequests      429: BudgetExceeded, QueueFull, RateLimited, ...
        |   '-- BudgetExceeded   ... and below it BudgetRefused: a local limit, nothing was sent
        '-- ServerFailure        5xx: UpstreamDeadline, CircuitOpen, ColdBoot, JobInterrupted, ...

Owns codes, statuses, whether a retry can help, and one line of advice for each.
It must not know how a request travels. Codes are those of the service's error table; an unknown code
becomes the class of its status, so a newer server never breaks an older client.
"""

from __future__ import annotations

from typing import Any

from .base import (
    AcsError,
    ApiError,
    ClientClosed,
    ConnectionFailed,
    FileNotRead,
    FileNotUnderstood,
    Interrupted,
    InvalidRequest,
    JobPending,
    LedgerFailed,
    NoPromptLogprobs,
    NotConfigured,
)
from .breakdowns import (
    CircuitOpen,
    ColdBoot,
    EngineDead,
    EngineOutOfMemory,
    HarvestUnavailable,
    JobInterrupted,
    JobResultTooLarge,
    ServerFailure,
    ServerRestarting,
    UpstreamDeadline,
    UpstreamError,
    UpstreamServerError,
    UpstreamUnreachable,
)
from .refusals import (
    AccountNotApproved,
    AccountSuspended,
    ActivationPromptTooLong,
    ActivationQuotaExceeded,
    ActivationsUnsupported,
    BadJson,
    BadRequest,
    BudgetExceeded,
    BudgetRefused,
    ChatCompletionsUnsupported,
    Conflict,
    ContextLengthExceeded,
    DeadlineInfeasible,
    EngineContextLength,
    EngineRefused,
    Expired,
    FullVocabPromptTooLong,
    HarvestCapacityExceeded,
    HarvestConcurrencyExceeded,
    HarvestJobNotFound,
    HarvestNotCancellable,
    HarvestQuotaExceeded,
    HarvestUnsupported,
    JobCancelled,
    JobConflict,
    JobExpired,
    JobLimitReached,
    JobNotFound,
    JobStoreFull,
    KeyDisabled,
    KeyRevoked,
    MissingAuthorization,
    ModelNotFound,
    NotFound,
    QueueFull,
    RateLimited,
    RequestTooLarge,
    ScopeDenied,
    TooManyRequests,
    Unauthorized,
)

__all__ = [
    "CATALOGUE",
    "AccountNotApproved",
    "AccountSuspended",
    "AcsError",
    "ActivationPromptTooLong",
    "ActivationQuotaExceeded",
    "ActivationsUnsupported",
    "ApiError",
    "BadJson",
    "BadRequest",
    "BudgetExceeded",
    "BudgetRefused",
    "ChatCompletionsUnsupported",
    "CircuitOpen",
    "ClientClosed",
    "ColdBoot",
    "Conflict",
    "ConnectionFailed",
    "ContextLengthExceeded",
    "DeadlineInfeasible",
    "EngineContextLength",
    "EngineDead",
    "EngineOutOfMemory",
    "EngineRefused",
    "Expired",
    "FileNotRead",
    "FileNotUnderstood",
    "FullVocabPromptTooLong",
    "HarvestCapacityExceeded",
    "HarvestConcurrencyExceeded",
    "HarvestJobNotFound",
    "HarvestNotCancellable",
    "HarvestQuotaExceeded",
    "HarvestUnavailable",
    "HarvestUnsupported",
    "Interrupted",
    "InvalidRequest",
    "JobCancelled",
    "JobConflict",
    "JobExpired",
    "JobInterrupted",
    "JobLimitReached",
    "JobNotFound",
    "JobPending",
    "JobResultTooLarge",
    "JobStoreFull",
    "KeyDisabled",
    "KeyRevoked",
    "LedgerFailed",
    "MissingAuthorization",
    "ModelNotFound",
    "NoPromptLogprobs",
    "NotConfigured",
    "NotFound",
    "QueueFull",
    "RateLimited",
    "RequestTooLarge",
    "ScopeDenied",
    "ServerFailure",
    "ServerRestarting",
    "TooManyRequests",
    "Unauthorized",
    "UpstreamDeadline",
    "UpstreamError",
    "UpstreamServerError",
    "UpstreamUnreachable",
    "class_for",
]


def _tree(cls: type[ApiError]) -> list[type[ApiError]]:
    found = [cls]
    for child in cls.__subclasses__():
        found.extend(_tree(child))
    return found


def _catalogue() -> dict[str, type[ApiError]]:
    # The first class that claims a code keeps it: a family head before its members. No server says BudgetRefused.
    table: dict[str, type[ApiError]] = {}
    for cls in _tree(ApiError):
        if isinstance(cls.__dict__.get("code"), str) and cls is not BudgetRefused:
            table.setdefault(cls.__dict__["code"], cls)
    return table


CATALOGUE: dict[str, type[ApiError]] = _catalogue()
"""``error.code`` to its class."""

_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest, 401: Unauthorized, 403: ScopeDenied, 404: NotFound, 409: Conflict, 410: Expired,
    413: RequestTooLarge, 429: TooManyRequests, 502: UpstreamServerError, 504: UpstreamDeadline,
}  # fmt: skip


def class_for(code: Any, status: int) -> type[ApiError]:
    """The class of a code; for an unknown code, the class of its status."""
    if isinstance(code, str) and code in CATALOGUE:
        return CATALOGUE[code]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ServerFailure if status >= 500 or status < 400 else BadRequest
