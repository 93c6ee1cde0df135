"""An upstream's failures in the words of the contract: status and body in, one error out.

Owns the table from what went wrong to a code, and which of them a new attempt may cure.
It must not know how a request travels. Addresses and keys are never part of a message.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ..errors import (
    ApiError,
    EngineContextLength,
    EngineDead,
    EngineOutOfMemory,
    EngineRefused,
    RateLimited,
    RequestTooLarge,
    UpstreamDeadline,
    UpstreamServerError,
    UpstreamUnreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTEXT = re.compile(
    r"max_model_len|context length|context window|maximum model length|maximum (input|prompt) length", re.I
)
_MEMORY = re.compile(r"out of memory|outofmemory|\boom\b", re.I)
_DEAD = re.compile(
    r"enginedead|engine\s?core|engine (is |has |process )?(dead|died)|background loop has errored|not running",
    re.I,
)
_LONGEST = 2000


def refused(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error for an upstream's own error answer."""
    message = _sentence(_read(body))
    if status >= 500:
        return _broken(status, message)
    if status in (401, 403, 407):
        return UpstreamServerError(
            "The upstream does not accept the key this server has for it.", retryable=False
        )
    if status == 429:
        wait = float(retry_after) if retry_after and re.fullmatch(r"\d{1,5}", retry_after) else 5.0
        return RateLimited(message or "The upstream takes no more requests now.", retry_after=wait)
    if status == 413:
        return RequestTooLarge(message or "The upstream finds the request too large.")
    if not 400 <= status < 500:
        return UpstreamServerError(f"The upstream answered {status} instead of a completion.", retry_after=1)
    kind = EngineContextLength if _CONTEXT.search(message) else EngineRefused
    return kind(message or f"The upstream refused the request with {status}.")


def _broken(status: int, message: str) -> ApiError:
    if _MEMORY.search(message):
        return EngineOutOfMemory(message)
    if _DEAD.search(message):
        return EngineDead(message, retry_after=30)
    return UpstreamServerError(message or f"The upstream failed with {status}.", retry_after=1)


def in_answer(payload: bytes) -> ApiError:
    """The error for an error that an upstream put into a good answer: a body, or a frame of a stream."""
    value = _read(payload)
    inner = value.get("error")
    codes = [each.get("code") for each in (inner, value) if isinstance(each, dict)]
    status = next((code for code in codes if isinstance(code, int) and 400 <= code < 600), 500)
    return refused(status, payload)


def unreachable(reason: str, attempts: int, model: str | None = None, silent: float = 0.0) -> ApiError:
    """No answer at all; ``reason`` is the kind of network failure, ``silent`` how long it lasts, in seconds."""
    whose = f" of '{model}'" if model else ""
    tried = "" if attempts == 1 else f" in {attempts} attempts"
    since = f", for {silent:.0f} seconds now" if silent >= 1 else ""
    error = UpstreamUnreachable(f"The upstream{whose} did not answer{tried}{since}: {reason}.", retry_after=1)
    return detailed(error, reason=reason, attempts=attempts)


def too_late(seconds: float) -> ApiError:
    """The upstream did not finish in its window."""
    return UpstreamDeadline(f"The upstream did not finish within {seconds:g} seconds.")


def detailed(error: ApiError, **details: Any) -> ApiError:
    """The error with more fields for its envelope."""
    vars(error)["details"] = vars(error).get("details", {}) | details
    return error


def presentable(error: ApiError, hide: Callable[[str], str]) -> ApiError:
    """The error as it may be told: without what ``hide`` hides, of bounded length, and with a UTF-8 form."""

    def told(value: Any) -> Any:
        return _encodable(hide(value)) if isinstance(value, str) else value

    error = error.redacted(told)
    error.message = error.message[:_LONGEST]  # cut behind hiding: half a secret is still one
    error.args = (error.message,)
    details = vars(error).get("details", {})
    return detailed(error, **{name: told(value) for name, value in details.items()})


def sick(error: ApiError) -> bool:
    """Whether an error speaks against the upstream's health: its own failures, not refusals or long work."""
    if isinstance(error, UpstreamDeadline):
        return False
    return error.status >= 500 and (error.retryable or isinstance(error, EngineOutOfMemory))


def curable(error: ApiError) -> bool:
    """Whether asking again at once may help."""
    return isinstance(error, UpstreamUnreachable | UpstreamServerError | EngineDead) and error.retryable


def _read(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # a proxy's page tells a user nothing, nor do ten thousand brackets
    return value if isinstance(value, dict) else {}


def _sentence(value: dict[str, Any]) -> str:
    # The sentence in an error of any shape; "" when there is none.
    for name in ("error", "message", "detail"):
        found = value.get(name)
        if isinstance(found, dict):
            found = found.get("message")
        if isinstance(found, str) and found:
            return _encodable(found)
    return ""


def _encodable(text: str) -> str:
    # JSON can spell a lone surrogate, which has no UTF-8 form: nothing could be sent or stored with one.
    return text.encode("utf-8", "replace").decode()
