"""What stands before every route: request ids, the Host header, and no answer without an envelope.

Owns those three, and logs neither prompts nor completions. It must not know keys, engines or completions.
"""

from __future__ import annotations

import logging
import re
from contextlib import ExitStack
from secrets import token_hex
from typing import TYPE_CHECKING

from ..errors import ApiError, ServerFailure
from ..wire import REQUEST_ID
from .respond import error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("acs_jupyter.local")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


class Guard:
    """The outermost ASGI layer. ``hosts``: names by which the server may be called; ``None`` means any."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a failure inside becomes a 500 with the envelope, when nothing was sent yet."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        request_id = _request_id(headers.get(REQUEST_ID.encode()))
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        state["leaving"] = ExitStack()  # what a request holds is given back here, however it ended
        started = ended = False

        async def tagged(message: Message) -> None:
            nonlocal started, ended
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            if message["type"] == "http.response.start":
                started = True
                state["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), (REQUEST_ID.encode(), request_id.encode())]
            await send(message)

        try:
            self._check_host(headers.get(b"host", ""))
            await self._app(scope, receive, tagged)
        except ApiError as error:
            await error_response(error, request_id)(scope, receive, tagged)
        except Exception as problem:
            # Starlette raises again behind an answer that it has given.
            if started and not ended:
                raise
            if not started:
                await error_response(failure(problem, request_id), request_id)(scope, receive, tagged)
        finally:
            _leave(state["leaving"], request_id)

    def _check_host(self, host: str) -> None:
        name = re.sub(r":\d+$", "", host.strip().lower())
        if self._hosts is not None and name not in self._hosts:
            raise ApiError(
                "The Host header does not name this machine's loopback.", code="host_not_allowed", status=403
            )


def failure(problem: Exception, request_id: str) -> ServerFailure:
    """What is told of a failure nobody expected; the log names it, never its content."""
    log.error("request %s failed: %s", request_id, type(problem).__name__)
    return ServerFailure("The server failed; the request id helps to find out why.")


def _leave(holding: ExitStack, request_id: str) -> None:
    try:
        holding.close()
    except Exception as problem:  # noqa: BLE001 - the answer is out; all of the stack was called
        log.error("request %s was not left cleanly: %s", request_id, type(problem).__name__)


def _request_id(inbound: str | None) -> str:
    return inbound if inbound and _ID.fullmatch(inbound) else f"req_{token_hex(10)}"
