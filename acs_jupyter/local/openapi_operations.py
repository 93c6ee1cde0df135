"""The operations of the public API: methods, paths, errors, headers.

Owns this list. It must not know how the document is made of it, nor how a request is answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_AUTH = {401: ("invalid_api_key", "missing_authorization", "key_revoked", "key_disabled")}
_COMPLETION_ERRORS: dict[int, tuple[str, ...]] = {
    400: (
        "invalid_request", "bad_json", "model_not_found", "context_length_exceeded",
        "full_vocab_prompt_too_long", "deadline_infeasible", "vllm_invalid_request", "vllm_context_length",
    ),
    413: ("request_too_large",),
    429: ("budget_exceeded", "queue_full", "rate_limited"),
    502: ("upstream_unreachable", "upstream_server_error", "vllm_oom", "vllm_engine_dead"),
    503: ("circuit_open", "modal_cold_boot"),
    504: ("upstream_deadline",),
}  # fmt: skip
_JOB: dict[int, tuple[str, ...]] = {**_AUTH, 404: ("job_not_found", "not_found")}
_SHOWN = ("X-Acs-Upstream-Model", "X-Acs-Upstream-Gpu", "X-Acs-Max-Tokens-Clamped")


@dataclass(frozen=True)
class Operation:
    """One method of one path. ``errors``: codes by status; ``answer``: media type to schema name or schema of a 200."""

    method: str
    path: str
    summary: str
    errors: dict[int, tuple[str, ...]]
    answer: dict[str, str | dict[str, Any]]
    body: str | None = None
    parameters: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    secured: bool = True
    description: str = ""
    also: dict[int, tuple[str, str, tuple[str, ...]]] = field(default_factory=dict)
    """Further good answers by status: what each means, the name of its schema, and its headers."""


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "post", "/v1/completions", "Continue a prompt",
        errors={**_AUTH, **_COMPLETION_ERRORS},
        answer={
            "application/json": {"anyOf": [{"$ref": "#/components/schemas/Completion"},
                                           {"$ref": "#/components/schemas/Error"}]},
            "text/event-stream": {"description": "Frames `data: {...}`, each one a chunk of a completion."},
        },
        body="CompletionRequest",
        parameters=("X-Request-Id", "X-Acs-Workload"),
        headers=(*_SHOWN, "X-Acs-On-Leave"),
        description=(
            "Unknown fields, wrong types and values out of range are refused. Rules between fields: prompts x n x "
            "max_tokens is at most 32000; with several prompts or n above 1 max_tokens must be set; stream_options "
            "needs stream; prompt_logprobs other than 0 cannot be streamed. With stream, frames end with "
            "`data: [DONE]`, or with an error frame and without it. While a model starts, a 200 may begin with "
            "spaces (JSON) or comments (stream) and still carry an error: look for `error` before `choices`."
        ),
    ),
    Operation(
        "post", "/v1/chat/completions", "Always refused: base models have no chat",
        errors={400: ("chat_completions_unsupported",)}, answer={}, secured=False,
    ),
    Operation(
        "post", "/v1/completion-jobs", "Submit a completion that runs without you",
        errors={
            400: (
                "invalid_request", "bad_json", "model_not_found", "context_length_exceeded",
                "vllm_invalid_request",
            ),
            **_AUTH,
            409: ("idempotency_conflict",),
            413: ("request_too_large",),
            429: ("rate_limited", "job_limit_reached", "job_store_full"),
        },
        answer={"application/json": "Job"},
        also={202: ("The job is new; it runs once.", "Job", ())},
        body="CompletionRequest",
        parameters=("Idempotency-Key", "X-Request-Id"),
        description=(
            "The same key with the same parameters gives the job that is there (200); with others it is refused. "
            "model and max_tokens must be set; there is no stream, no prompt_logprobs, and logprobs is 0 at "
            "most; prompts x n x max_tokens is at most 4096, and the body at most 64 KiB."
        ),
    ),
    Operation(
        "get", "/v1/completion-jobs/{id}", "How a job stands",
        errors=_JOB, answer={"application/json": "Job"}, parameters=("job",),
    ),
    Operation(
        "get", "/v1/completion-jobs/{id}/result", "What a job gave",
        errors={
            **_AUTH,
            **_COMPLETION_ERRORS,
            404: ("job_not_found", "not_found"),
            409: ("job_cancelled",),
            410: ("job_expired",),
            502: (*_COMPLETION_ERRORS[502], "upstream_error", "job_result_too_large"),
            503: (*_COMPLETION_ERRORS[503], "job_interrupted"),
        },
        answer={"application/json": "Completion"},
        also={202: ("The job has not ended: ask again.", "Job", ("Retry-After",))},
        parameters=("job",), headers=_SHOWN,
        description=(
            "An outcome that is a failure has the status and the code that the completion would have had, "
            "X-Should-Retry: false, and the request_id of the job."
        ),
    ),
    Operation(
        "post", "/v1/completion-jobs/{id}/cancel", "End a job",
        errors=_JOB, answer={"application/json": "Job"}, parameters=("job",),
        description="A queued job ends at once, a running one as soon as its engine has let go; an ended one stays.",
    ),
    Operation(
        "get", "/v1/models", "Models, their limits and abilities",
        errors={**_AUTH, 429: ("rate_limited",)}, answer={"application/json": "ModelList"},
    ),
    Operation(
        "get", "/v1/models/{id}", "One model of that list",
        errors={**_AUTH, 404: ("not_found",), 429: ("rate_limited",)},
        answer={"application/json": "Model"}, parameters=("id",),
    ),
    Operation(
        "get", "/v1/models/{id}/status", "Whether a model is warm",
        errors={400: ("model_not_found",), **_AUTH, 404: ("not_found",), 429: ("rate_limited",)},
        answer={"application/json": "ModelStatus"}, parameters=("id",),
    ),
    Operation(
        "get", "/health", "Readiness of the server and of each model",
        errors={}, answer={"application/json": "Health"}, secured=False,
    ),
)  # fmt: skip
"""Further routes of /v1 add theirs here."""
