"""The server refuses a request: 400 to 429.

Owns one class a code, with its status, whether a retry can help, and advice. It must not know how an error is read.
``BudgetRefused`` is the one that is not the server's: the local ledger says it in the server's place.
"""

from __future__ import annotations

from .base import ApiError


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
    advice = "`%acs models`, or models() of a client, lists the ids."


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
    advice = "Check its id, and use the API key that began it."


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
    advice = "Use another idempotency key, or leave it out: then it is made from the request."


class JobCancelled(Conflict):
    """The job was cancelled; it has no result."""

    code = "job_cancelled"
    advice = "To run it after all, give another tag (or idempotency key)."


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
    advice = (
        "Results are kept 24 hours; to run it again, as new paid work, give another tag (or idempotency key)."
    )


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
    advice = "Slow down: send fewer requests at once."


class BudgetExceeded(TooManyRequests):
    """The key's token budget is used up."""

    code = "budget_exceeded"
    can_retry = False
    advice = "The budget resets on the 1st (UTC); ask the operator to raise it."


class BudgetRefused(BudgetExceeded):
    """A local limit would be exceeded: the request never left this machine, no socket was opened."""

    code = "budget_refused"
    status = 0
    advice = "Lower max_tokens or n, or raise the limit."


class QueueFull(TooManyRequests):
    """Too many requests of this key are active and waiting."""

    code = "queue_full"
    advice = "Keep fewer requests in flight."


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
    advice = "Start fewer requests a minute."


class ActivationQuotaExceeded(TooManyRequests):
    """Monthly activation quota used up."""

    code = "activation_quota_exceeded"
    can_retry = False
    advice = "The quota resets on the 1st (UTC); ask the operator to raise it."


class HarvestQuotaExceeded(TooManyRequests):
    """Monthly harvest quota used up."""

    code = "harvest_quota_exceeded"
    can_retry = False
    advice = "The quota resets on the 1st (UTC); ask the operator to raise it."


class HarvestConcurrencyExceeded(TooManyRequests):
    """Too many harvest jobs at once."""

    code = "harvest_concurrency_exceeded"
    advice = "Wait for a running job."


class HarvestCapacityExceeded(TooManyRequests):
    """The service has no room for another harvest job."""

    code = "harvest_capacity_exceeded"
    advice = "Try again later."
