"""Error bodies of every shape, read into the exceptions of ``errors.py``.

Owns the shapes: the service's envelope, vLLM's own, a proxy's HTML, nothing at all. It must not know when an
error is looked for, nor what is done about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from . import wire
from .errors import ApiError, class_for


def error_from_body(status: int, headers: Mapping[str, str], raw: bytes, request_id: str | None) -> ApiError:
    """The error of a status and a body of any shape: the service's, vLLM's own, HTML, or nothing."""
    if 300 <= status < 400:
        place = headers.get("location", "elsewhere").partition("?")[0]
        message = f"The server redirects to {place}; set ACS_API_BASE to the address it should be."
        return ApiError(message, code="redirected", status=status, request_id=request_id)
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        found = body.get("error", body)
        if isinstance(found, dict):
            named = body.get("request_id")
            request_id = named if isinstance(named, str) and named else request_id
            return make_error(_info(found), status=status, request_id=request_id, headers=headers)
        if isinstance(found, str):
            return make_error(
                wire.ErrorInfo(message=found), status=status, request_id=request_id, headers=headers
            )
    message = _readable(raw) or f"The server answered {status} without a message."
    return make_error(wire.ErrorInfo(message=message), status=status, request_id=request_id, headers=headers)


def make_error(
    info: wire.ErrorInfo, *, status: int | None, request_id: str | None, headers: Mapping[str, str]
) -> ApiError:
    """The exception for an error body; ``status`` is ``None`` when it came inside a 200."""
    code = info.code if isinstance(info.code, str) and info.code else None
    cls = class_for(code, status or (info.code if isinstance(info.code, int) else 0))
    return cls(
        info.message or f"The server answered with {code or status}.",
        code=code,
        status=status,
        request_id=request_id,
        retry_after=_seconds(headers.get(wire.RETRY_AFTER)) if status else info.retry_after_seconds,
        retryable=info.retryable if cls.can_retry else None,
    )


def _info(found: dict[str, Any]) -> wire.ErrorInfo:
    def text(name: str) -> str | None:
        value = found.get(name)
        return value if isinstance(value, str) else None

    code = found.get("code")
    retryable = found.get("retryable")
    return wire.ErrorInfo(
        code=code if isinstance(code, str | int) and not isinstance(code, bool) else None,
        message=text("message") or text("raw") or text("detail") or "",
        type=text("type"),
        retryable=retryable if isinstance(retryable, bool) else None,
    )


def _seconds(header: str | None) -> float | None:
    try:
        value = float(header) if header else None
    except ValueError:
        return None
    return value if value is not None and value >= 0 else None


def _readable(raw: bytes) -> str:
    """A foreign body as one short line: tags dropped, whitespace folded."""
    text = raw[:4000].decode("utf-8", "replace")
    text = re.sub(r"(?is)<(script|style|head).*?</\1>|<[^>]*>", " ", text)
    return " ".join(text.split())[:300]
