"""Every way a request can go wrong, as one tree of exceptions with advice.

    AcsError
    |-- NotConfigured            no base URL or no key: nothing was sent
    |-- InvalidRequest           refused before sending: a field, its value, its bound
    |-- BudgetRefused            the local budget would be exceeded: nothing was sent
    |-- ConnectionFailed         no answer at all
    |-- Interrupted              an answer began and was cut; what came is kept
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
        '-- ServerFailure        5xx: UpstreamDeadline, CircuitOpen, ColdBoot, JobInterrupted, ...

Owns codes, statuses, whether a retry can help, and one line of advice for each.
It must not know how a request travels. Codes are those of the service's error table; an unknown code
becomes the class of its status, so a newer server never breaks an older client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

E = TypeVar("E", bound="AcsError")


class AcsError(Exception):
    """Anything this package raises on purpose. ``str()`` is one line: what happened and what to do."""

    code: str = "error"
    advice: ClassVar[str] = ""

    def __init__(self, message: str, *, advice: str | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        self.completion: Any = None
        """What had arrived before it went wrong, as a completion, when the client knows it."""
        self.job_id: str | None = None
        """The completion job it is about, if it is about one."""
        self.hint = self.advice if advice is None else advice

    def redacted(self: E, redact: Callable[[str], str]) -> E:
        """The same error with its message passed through ``redact``: a server may repeat what it was sent."""
        self.message = redact(self.message)
        self.args = (self.message,)
        if self.request_id:
            self.request_id = redact(self.request_id)
        return self

    def __str__(self) -> str:
        parts = [f"{self.code}: {_one_line(self.message)}"]
        if self.hint:
            parts.append(self.hint)
        if self.job_id:
            parts.append(f"[job {self.job_id}]")
        if self.request_id:
            parts.append(f"[request {self.request_id}]")
        return " ".join(parts)


class NotConfigured(AcsError):
    """No base URL or no key is known."""

    code = "not_configured"
    advice = (
        "Set ACS_API_BASE and ACS_API_KEY, or start the embedded server: `%acs local` in a notebook, "
        "`acs-jupyter serve` in a terminal."
    )


class InvalidRequest(AcsError):
    """The request breaks a rule of the contract and was not sent."""

    code = "invalid_request"


class BudgetRefused(AcsError):
    """The local budget would be exceeded; no socket was opened."""

    code = "budget_refused"
    advice = "Lower max_tokens or n, or raise the limit."


class ConnectionFailed(AcsError):
    """The server could not be reached, or went away before it answered."""

    code = "connection_failed"
    advice = "Check ACS_API_BASE and that the server is running."


class Interrupted(AcsError):
    """The answer was cut before its end; what came is kept and may have been billed."""

    code = "interrupted"
    advice = "What arrived is kept; sending again is a new, separately billed run."


class JobPending(AcsError):
    """The job has not ended yet. Nothing was cancelled: it goes on without anybody waiting."""

    code = "job_pending"
    advice = "It goes on without you; wait for it again, or cancel it."


class ApiError(AcsError):
    """The server answered with an error.

    Attributes: ``code`` (str), ``status`` (HTTP status, or the code's own status when it came inside a 200),
    ``request_id``, ``retryable`` (bool), ``retry_after`` (seconds or ``None``), ``hint`` (advice, one line).
    """

    status: int = 0
    can_retry: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.code = code or type(self).code
        self.status = status or type(self).status
        self.retry_after = retry_after
        self.retryable = type(self).can_retry if retryable is None else retryable


class BadRequest(ApiError):
    """The server refused the request as it is."""

    code = "invalid_request"
    status = 400
    advice = "Correct the field the message names."


class BadJson(BadRequest):
    """The body is not JSON."""

    code = "bad_json"
    advice = "The body must be one JSON object in UTF-8."


class ModelNotFound(BadRequest):
    """No such model id."""

    code = "model_not_found"
    advice = "`%acs models` lists the ids."


class ChatCompletionsUnsupported(BadRequest):
    """Base models have no chat endpoint."""

    code = "chat_completions_unsupported"
    advice = "Use /v1/completions."


class ContextLengthExceeded(BadRequest):
    """Prompt and ``max_tokens`` do not fit the model."""

    code = "context_length_exceeded"
    advice = "Shorten the prompt, lower max_tokens, or split the batch."


class FullVocabPromptTooLong(BadRequest):
    """``prompt_logprobs=-1`` on a prompt over the cap."""

    code = "full_vocab_prompt_too_long"
    advice = "Use a fixed top-k, or score the text in pieces."


class DeadlineInfeasible(BadRequest):
    """``max_tokens`` cannot finish in the request window."""

    code = "deadline_infeasible"
    advice = "Stream it, lower max_tokens, or submit a job."


class EngineRefused(BadRequest):
    """The engine refused what the schema allows."""

    code = "vllm_invalid_request"
    advice = "The engine does not take this combination; correct what the message names."


class EngineContextLength(BadRequest):
    """The engine found the text too long."""

    code = "vllm_context_length"
    advice = "Shorten the prompt or lower max_tokens."


class ActivationsUnsupported(BadRequest):
    """The model has no activation engine."""

    code = "activations_unsupported"
    advice = "Choose a model whose capabilities list activations."


class ActivationPromptTooLong(BadRequest):
    """Too many captured positions."""

    code = "activation_prompt_too_long"
    advice = "Shorten the prompt or capture fewer layers."


class HarvestUnsupported(BadRequest):
    """The model cannot be harvested."""

    code = "harvest_unsupported"
    advice = "Choose another model."


class Unauthorized(ApiError):
    """The key was not accepted."""

    code = "invalid_api_key"
    status = 401
    advice = "Check ACS_API_KEY."


class MissingAuthorization(Unauthorized):
    """No bearer key was sent."""

    code = "missing_authorization"


class KeyRevoked(Unauthorized):
    """The key was revoked."""

    code = "key_revoked"
    advice = "Create a new key."


class KeyDisabled(Unauthorized):
    """The key is paused."""

    code = "key_disabled"
    advice = "Enable the key on your keys page."


class AccountSuspended(Unauthorized):
    """The account is suspended."""

    code = "account_suspended"
    advice = "Write to the operator."


class AccountNotApproved(Unauthorized):
    """The account waits for approval."""

    code = "account_not_approved"
    advice = "Wait for the approval mail."


class ScopeDenied(ApiError):
    """The key may not do this."""

    code = "scope_denied"
    status = 403
    advice = "Use a key with this scope."


class NotFound(ApiError):
    """No such thing, or not yours."""

    code = "not_found"
    status = 404
    advice = "Check ACS_API_BASE; for a job, its id, and that it was made with this key."


class HarvestJobNotFound(NotFound):
    """No such harvest job."""

    code = "harvest_job_not_found"


class JobNotFound(NotFound):
    """No such completion job under this key."""

    code = "job_not_found"
    advice = "Use the API key that submitted it; a job is forgotten seven days after its end."


class Conflict(ApiError):
    """The request clashes with what is there."""

    code = "conflict"
    status = 409
    advice = "Use another idempotency key, or the same request."


class JobConflict(Conflict):
    """The idempotency key belongs to a job with another request."""

    code = "idempotency_conflict"


class JobCancelled(Conflict):
    """The job was cancelled; it has no result."""

    code = "job_cancelled"
    advice = "Submit it under another idempotency key (or tag=) to run it after all."


class HarvestNotCancellable(Conflict):
    """The harvest job has ended."""

    code = "harvest_not_cancellable"
    advice = "Nothing to do: it has ended."


class Expired(ApiError):
    """The content was kept for its time and is gone."""

    code = "expired"
    status = 410
    advice = "Results are kept 24 hours; submit anew if you still need it."


class JobExpired(Expired):
    """The job's content was kept for its time and is gone, or it waited too long to run."""

    code = "job_expired"
    advice = "Results are kept 24 hours; submit under another idempotency key (or tag=) to run it again."


class RequestTooLarge(ApiError):
    """The body is over the size limit."""

    code = "request_too_large"
    status = 413
    advice = "Split the request."


class TooManyRequests(ApiError):
    """A limit was met."""

    code = "too_many_requests"
    status = 429
    can_retry = True
    advice = "Slow down."


class BudgetExceeded(TooManyRequests):
    """The key's token budget is used up."""

    code = "budget_exceeded"
    can_retry = False
    advice = "The budget resets on the 1st (UTC); ask the operator to raise it."


class QueueFull(TooManyRequests):
    """Too many requests of this key are active and waiting."""

    code = "queue_full"
    advice = "Keep at most 16 requests in flight."


class JobLimitReached(TooManyRequests):
    """Too many completion jobs are active."""

    code = "job_limit_reached"
    advice = "Wait for jobs to end, or cancel some."


class JobStoreFull(TooManyRequests):
    """Too many completion jobs are stored."""

    code = "job_store_full"
    can_retry = False
    advice = "Ended jobs are forgotten after seven days; for many prompts use requests instead of jobs."


class RateLimited(TooManyRequests):
    """Too many requests started within a minute."""

    code = "rate_limited"
    advice = "Start fewer than 600 requests a minute."


class ActivationQuotaExceeded(TooManyRequests):
    """Monthly activation quota used up."""

    code = "activation_quota_exceeded"
    can_retry = False


class HarvestQuotaExceeded(TooManyRequests):
    """Monthly harvest quota used up."""

    code = "harvest_quota_exceeded"
    can_retry = False


class HarvestConcurrencyExceeded(TooManyRequests):
    """Too many harvest jobs at once."""

    code = "harvest_concurrency_exceeded"
    advice = "Wait for a running job."


class HarvestCapacityExceeded(TooManyRequests):
    """The service has no room for another harvest job."""

    code = "harvest_capacity_exceeded"
    advice = "Try again later."


class ServerFailure(ApiError):
    """The server or the engine behind it failed."""

    code = "internal_error"
    status = 500
    can_retry = True
    advice = "Try again once; if it stays, report it with the request id."


class UpstreamUnreachable(ServerFailure):
    """The engine did not answer."""

    code = "upstream_unreachable"
    status = 502
    advice = "Try again in a moment."


class EngineOutOfMemory(ServerFailure):
    """The engine ran out of memory."""

    code = "vllm_oom"
    status = 502
    can_retry = False
    advice = "Send a smaller request."


class EngineDead(ServerFailure):
    """The engine died."""

    code = "vllm_engine_dead"
    status = 502
    advice = "It restarts by itself; try again in a few minutes."


class UpstreamServerError(ServerFailure):
    """The engine answered with a failure."""

    code = "upstream_server_error"
    status = 502
    advice = "Try again in a moment."


class UpstreamError(ServerFailure):
    """The engine failed in the middle of a stream."""

    code = "upstream_error"
    status = 502
    advice = "Try again in a moment."


class CircuitOpen(ServerFailure):
    """The model failed often and is paused."""

    code = "circuit_open"
    status = 503
    advice = "The model is paused after failures; wait a minute or choose another."


class ColdBoot(ServerFailure):
    """The model is starting."""

    code = "modal_cold_boot"
    status = 503
    advice = "The model is starting; one request waits for it."


class JobInterrupted(ServerFailure):
    """The server lost the job while it ran; it is never run again by itself."""

    code = "job_interrupted"
    status = 503
    can_retry = False
    advice = "It may have been billed: give the operator job id and request id before you submit it anew."


class JobResultTooLarge(ServerFailure):
    """The job's result was above the size that is kept."""

    code = "job_result_too_large"
    status = 502
    can_retry = False
    advice = "Ask for less: lower max_tokens or n, or use a request instead of a job."


class HarvestUnavailable(ServerFailure):
    """Harvest is not available now."""

    code = "harvest_unavailable"
    status = 503


class ServerRestarting(ServerFailure):
    """The server restarts."""

    code = "server_restarting"
    status = 503
    advice = "The server restarts; send again."


class UpstreamDeadline(ServerFailure):
    """The request did not finish in its window."""

    code = "upstream_deadline"
    status = 504
    can_retry = False
    advice = "The same request would time out again: lower max_tokens, stream it, or submit a job."


def _tree(cls: type[ApiError]) -> list[type[ApiError]]:
    found = [cls]
    for child in cls.__subclasses__():
        found.extend(_tree(child))
    return found


def _catalogue() -> dict[str, type[ApiError]]:
    # The first class that claims a code keeps it: a family head before its members.
    table: dict[str, type[ApiError]] = {}
    for cls in _tree(ApiError):
        if isinstance(cls.__dict__.get("code"), str):
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


def _one_line(text: str) -> str:
    """One line that cannot steer a terminal: control and format characters are named."""
    flat = "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in " ".join(text.split()))
    return flat if len(flat) <= 600 else flat[:599] + "…"
