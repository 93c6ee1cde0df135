"""What is said of paths that are not there and of methods a path does not take.

Owns these words. It must not know routes beyond the root of the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ApiError, NotFound
from .respond import error_response

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response

_ROOT = "/v1"
_LONGEST = 200


def refusal(request: Request, error: HTTPException) -> Response:
    """The answer to a request that no route takes."""
    path: str = request.scope["path"]  # the URL also holds the Host header, which may be anything
    path = path if len(path) <= _LONGEST else path[:_LONGEST] + "…"
    if error.status_code == 404:
        return error_response(NotFound(f"There is no {path} here" + _instead(path)), request.state.request_id)
    headers = dict(error.headers or {})
    allowed = headers.get("Allow", "")
    code = "method_not_allowed" if error.status_code == 405 else "invalid_request"
    what = f"use {' or '.join(_methods(allowed))}" if allowed else str(error.detail)
    problem = ApiError(f"{request.method[:20]} {path}: {what}.", code=code, status=error.status_code)
    answer = error_response(problem, request.state.request_id)
    answer.headers.update(headers)
    return answer


def _instead(path: str) -> str:
    if path.rstrip("/") in ("", _ROOT):
        return ": /swagger shows what there is."
    if not path.startswith(_ROOT + "/"):
        return f": the paths of the API begin with {_ROOT}. /swagger shows them."
    return "."


def _methods(allowed: str) -> list[str]:
    # HEAD comes with every GET and is nothing to advise.
    return [name for name in sorted(part.strip() for part in allowed.split(",")) if name != "HEAD"]
