"""Answers of this server that no client reads as values, as structs, so that the specification can show them.

Owns the shapes of health, status, job and error bodies. It must not know how they are filled.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from ..wire import Choice, Usage


class Completion(Struct, kw_only=True):
    """A finished completion. Choices are ordered by prompt, then by sample."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None
    system_fingerprint: str | None = None


class ErrorDetail(Struct, kw_only=True):
    """Branch on ``code``; ``message`` is for people. Some codes carry further members."""

    code: str
    message: str
    type: str
    retryable: bool | UnsetType = UNSET
    retry_after_seconds: float | UnsetType = UNSET


class Error(Struct, kw_only=True):
    """Every error of /v1 has this form; ``request_id`` equals the header X-Request-Id."""

    error: ErrorDetail
    request_id: str


class Stage(Struct, kw_only=True):
    """How far a model has come that is starting."""

    stage: Literal[
        "waiting_for_gpu",
        "container_started",
        "weights_loading",
        "weights_loaded",
        "engine_ready",
        "serving",
        "failed",
    ]
    stage_label: str
    stage_age_s: float


class ModelStatus(Struct, kw_only=True):
    """Whether a model answers at once; advice, not a promise."""

    id: str
    object: Literal["model.status"]
    warm: bool
    boot: Stage | None


class Job(Struct, kw_only=True):
    """How a completion job stands. Times are seconds since 1970, ``null`` where they do not apply."""

    id: str
    object: Literal["completion.job"]
    status: Literal["queued", "running", "succeeded", "failed", "cancelled", "interrupted", "expired"]
    cancel_requested: bool
    usage_pending: bool
    usage: Usage | None
    model: str
    request_id: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    expires_at: float | None
    result_expires_at: float | None
    record_expires_at: float | None
    result_available: bool
    status_url: str
    result_url: str


class Database(Struct, kw_only=True):
    """Where keys and usage are kept."""

    ok: bool
    latency_ms: float | None


class Wrapper(Struct, kw_only=True):
    """The server itself."""

    uptime_seconds: float
    database: Database


class Backend(Struct, kw_only=True):
    """What stands behind one model."""

    model_id: str
    status: str
    gpu_shape: str
    breaker_state: Literal["closed", "open", "half_open"]
    breaker_consecutive_failures: int
    breaker_last_failure_kind: str | None
    last_completion_at: float | None
    last_completion_seconds_ago: float | None
    warm_estimate: Literal["warm", "cold"]


class Health(Struct, kw_only=True):
    """``degraded``: some model rests after failures. ``down``: nothing can be served."""

    status: Literal["ok", "degraded", "down"]
    wrapper: Wrapper
    backends: list[Backend]
    degraded_backends: list[str]
