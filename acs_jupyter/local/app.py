"""The application: HTTP in, the service's contract out.

Owns paths, methods and the order of what stands before an answer. It must not know what completes a prompt (a backend
does), nor how a port is opened. Keys, budgets and limits are behind the desk; jobs and readings have their own routes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from ..checks import parse_request
from ..errors import ApiError, ChatCompletionsUnsupported
from .bodies import read_body
from .compress import Gzip
from .desk import CLIENT_LEFT, Desk
from .embedded import Embedded
from .forwarding import Forwarding
from .guard import Guard, failure
from .job_routes import JobRoutes, Private
from .jobs import Done, Jobs
from .missing import refusal
from .openapi import PAGE, PAGE_POLICY, specification
from .readings import Readings
from .respond import error_response
from .store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from ..wire import CompletionRequest
    from .backend import Answer, Backend
    from .engine import Engine, Task
    from .faults import Disturbance
    from .fleet import Fleet
    from .job_store import JobStore
    from .job_values import Owner

MAX_BODY = 50 * 2**20
"""Largest request body in bytes; above it stands the 413."""


def create_app(
    engine: Engine | Fleet,
    key: str,
    *,
    hosts: frozenset[str] | None,
    disturb: Callable[[Task], Disturbance | None] | None = None,
    desk: Desk | None = None,
    jobs: JobStore | None = None,
    **job_options: Any,
) -> Guard:
    """The ASGI application over one engine or some upstreams. ``disturb`` may spoil answers on purpose, for tests.

    Without a ``desk`` the one key and what it uses live in memory, under the contract's limits. With ``jobs`` there
    are completion jobs, run between startup and shutdown of the lifespan; ``job_options`` are those of :class:`Jobs`.
    """
    desk = desk or Desk(Store(), key)
    backend = _backend(engine, disturb)
    routes = _Routes(backend, desk)
    board = Jobs(jobs, routes.job, **job_options) if jobs else None
    app = Starlette(
        lifespan=board.lifespan if board else None,
        routes=[
            *Readings(backend, desk).routes(),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/openapi.json", _specification, methods=["GET"]),
            Route("/swagger", _swagger, methods=["GET"]),
            *(JobRoutes(board, desk, backend.check).routes() if board else ()),
        ],
        exception_handlers={
            HTTPException: _http_error,
            ApiError: _api_error,
            ClientDisconnect: _client_left,
            Exception: _failed,  # else Starlette answers with plain text
        },
    )
    app.router.redirect_slashes = False
    return Guard(Gzip(Private(app)), hosts)


def _backend(engine: Engine | Fleet, disturb: Callable[[Task], Disturbance | None] | None) -> Backend:
    if hasattr(engine, "generate"):
        return Embedded(cast("Engine", engine), disturb)
    return Forwarding(engine)


class _Routes:
    def __init__(self, backend: Backend, desk: Desk) -> None:
        self._backend, self._desk = backend, desk

    async def chat(self, request: Request) -> Response:
        """Base models have no chat; this is said before the key is looked at."""
        raise ChatCompletionsUnsupported("There is no chat here: send a prompt to /v1/completions.")

    async def completions(self, request: Request) -> Answer:
        """A completion as JSON or as a stream."""
        ticket = self._desk.admit(request)
        body = await read_body(request, MAX_BODY, self._desk.limits.body_wait, _too_large)
        if not await ticket.turn(request.receive):
            return Response(status_code=CLIENT_LEFT)
        return await self._backend.answer(request, body, parse_request(body), ticket)

    async def job(self, parsed: CompletionRequest, owner: Owner, request_id: str) -> Done:
        """A JSON completion for nobody who waits: the same limits, the same budget."""
        async with self._desk.passage(owner.key, request_id) as ticket:
            return await self._backend.job(parsed, ticket, request_id)


def _too_large(size: int) -> str:
    return f"The body is above {MAX_BODY} bytes."


async def _specification(request: Request) -> Response:
    return Response(specification(), media_type="application/json")


async def _swagger(request: Request) -> Response:
    headers = {"Content-Security-Policy": PAGE_POLICY}
    return Response(PAGE.read_bytes(), headers=headers, media_type="text/html")


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error, request.state.request_id)


async def _client_left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)  # in the middle of its own body


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(request, error)


async def _failed(request: Request, error: Exception) -> Response:
    return error_response(failure(error, request.state.request_id), request.state.request_id)
