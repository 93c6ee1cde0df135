"""The server or the engine behind it fails: 500 to 504.

Owns one class a code, with its status, whether a retry can help, and advice. It must not know how an error is read.
"""

from __future__ import annotations

from .base import ApiError


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
    advice = (
        "The model is paused after failures; send again later, choose another, or have long pauses waited for with "
        "Client(longest_wait=SECONDS)."
    )


class ColdBoot(ServerFailure):
    """The model is starting."""

    code = "modal_cold_boot"
    status = 503
    advice = "The model is starting: send one request and wait for it; it may take minutes."


class JobInterrupted(ServerFailure):
    """The server lost the job while it ran; it is never run again by itself."""

    code = "job_interrupted"
    status = 503
    can_retry = False
    advice = (
        "It is not run again by itself and may have been billed: give the operator job id and request id; "
        "another tag runs it anew."
    )


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
    advice = "Try again later."


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
