"""Error bodies of every shape, read into the exceptions of ``errors.py``.

Owns the shapes: the service's envelope, vLLM's own, a proxy's HTML, nothing at all. It must not know when an
error is looked for, nor what is done about it. A server may repeat what it was sent: ``redact`` takes a key out of
every word of it, before anything is cut short.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from . import wire
from .errors import CATALOGUE, ApiError, class_for

Redact = Callable[[str], str]
_MOST = 65_536
"""Bytes of a foreign body that are looked at."""


def unchanged(text: str) -> str:
    """The text, where no key is known."""
    return text


def error_from_body(
    status: int,
    headers: Mapping[str, str],
    raw: bytes,
    request_id: str | None,
    redact: Redact = unchanged,
) -> ApiError:
    """The error of a status and a body of any shape: the service's, vLLM's own, HTML, or nothing."""
    if 300 <= status < 400:
        place = redact(headers.get("location", "elsewhere").partition("?")[0])
        message = f"The server redirects to {place}; set ACS_API_BASE to the address it should be."
        return ApiError(message, code="redirected", status=status, request_id=request_id).redacted(redact)
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    info = None
    if isinstance(body, dict):
        named = body.get("request_id")
        request_id = named if isinstance(named, str) and named else request_id
        found = body.get("error")
        info = info_of(body if found is None else found)
    if info is None:
        message = _readable(raw, redact) or f"The server answered {status} without a message."
        info = wire.ErrorInfo(message=message)
    return make_error(info, status=status, request_id=request_id, headers=headers).redacted(redact)


def make_error(
    info: wire.ErrorInfo, *, status: int | None, request_id: str | None, headers: Mapping[str, str]
) -> ApiError:
    """The exception for an error body; ``status`` is ``None`` when it came inside a 200."""
    number = _http_status(info.code)
    code = info.code if isinstance(info.code, str) and info.code and number is None else None
    cls = class_for(code, status or number or 0)
    error = cls(
        info.message or f"The server answered with {code or status or number or 'an error'}.",
        code=code,
        status=status or number,
        request_id=request_id,
        retry_after=_seconds(headers.get(wire.RETRY_AFTER)) if status else info.retry_after_seconds,
        retryable=_retryable(info, code, status, cls),
    )
    error.own = code in CATALOGUE or info.retryable is not None
    return error


def _retryable(
    info: wire.ErrorInfo, code: str | None, status: int | None, cls: type[ApiError]
) -> bool | None:
    if not cls.can_retry:
        return None
    if status is None and info.retryable is None and code not in CATALOGUE:
        return False  # the engine may have run: whether it did is said by the code alone
    return info.retryable


def info_of(found: Any) -> wire.ErrorInfo | None:
    """What stands under ``error``, whatever its shape; ``None`` when it is nothing."""
    if isinstance(found, str):
        return wire.ErrorInfo(message=found)
    if not isinstance(found, dict):
        return wire.ErrorInfo(message=json.dumps(found)[:300]) if found not in (None, False) else None
    code, retryable = found.get("code"), found.get("retryable")
    return wire.ErrorInfo(
        code=code if isinstance(code, str | int) and not isinstance(code, bool) else None,
        message=_first_text(found, "message", "raw", "detail"),
        type=found.get("type") if isinstance(found.get("type"), str) else None,
        retryable=retryable if isinstance(retryable, bool) else None,
        retry_after_seconds=_seconds(found.get("retry_after_seconds")),
    )


def told_error(said: dict[str, Any]) -> wire.ErrorInfo | None:
    """The error of an object without ``error``: vLLM's own shape, or a bare ``detail``; else ``None``."""
    if said.get("error") is not None or isinstance(said.get("choices"), list):
        return None
    vllm = isinstance(said.get("message"), str) and ("code" in said or "type" in said)
    bare = any(isinstance(said.get(name), str) for name in ("detail", "raw"))
    return info_of(said) if said.get("object") == "error" or vllm or bare else None


def _first_text(found: dict[str, Any], *names: str) -> str:
    for name in names:
        value = found.get(name)
        if value and isinstance(value, str):
            return value
    value = found.get("message")
    return "" if value is None else json.dumps(value)


def _http_status(code: str | int | None) -> int | None:
    if isinstance(code, str) and re.fullmatch("[45][0-9][0-9]", code):
        return int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _seconds(told: Any) -> float | None:
    try:
        value = float(told) if isinstance(told, str | int | float) and told != "" else None
    except (ValueError, OverflowError):
        return None
    return value if value is not None and 0 <= value < math.inf else None


def _readable(raw: bytes, redact: Redact) -> str:
    """A foreign body as one short line: tags dropped, whitespace folded, the key taken out before it is cut."""
    text = redact(raw[:_MOST].decode("utf-8", "replace"))[:4000]
    text = re.sub(r"(?is)<(script|style|head).*?</\1>|<[^>]*>", " ", text)
    return redact(" ".join(text.split()))[:300]
