"""The routes: HTTP in, the service's contract out.

Owns paths, methods and headers. It must not know a particular engine, nor how a port is opened.
Keys, budgets and limits are behind the desk; jobs get a module of their own and are joined here.
"""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import to_builtins
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from ..checks import parse_request
from ..errors import ApiError, ChatCompletionsUnsupported, NotFound, RequestTooLarge, UpstreamServerError
from ..wire import UPSTREAM_GPU, UPSTREAM_MODEL
from .assemble import run
from .compress import Gzip
from .desk import CLIENT_LEFT, Desk
from .guard import Guard, log
from .job_routes import JobRoutes, Private
from .jobs import Done, Jobs
from .openapi import PAGE, PAGE_POLICY, specification
from .respond import CutHere, Streamed, envelope, error_response, kept_alive, while_connected
from .service import check_model, plan, scores
from .shape import Answer, encode
from .store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from starlette.requests import Request

    from ..wire import CompletionRequest, Model
    from .desk import Ticket
    from .engine import Engine, Task
    from .faults import Disturbance
    from .fleet import Fleet
    from .job_store import JobStore
    from .job_values import Owner
    from .relay import Relay

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
    routes = _Routes(engine, desk, disturb)
    board = Jobs(jobs, routes.job, **job_options) if jobs else None
    app = Starlette(
        lifespan=board.lifespan if board else None,
        routes=[
            Route("/health", routes.health, methods=["GET"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{name:path}/status", routes.status, methods=["GET"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/openapi.json", _specification, methods=["GET"]),
            Route("/swagger", _swagger, methods=["GET"]),
            *(JobRoutes(board, desk, routes.planned).routes() if board else ()),
        ],
        exception_handlers={HTTPException: _http_error, ApiError: _api_error, ClientDisconnect: _client_left},
    )
    app.router.redirect_slashes = False
    return Guard(Gzip(Private(app)), hosts)


class _Routes:
    def __init__(
        self, engine: Engine | Fleet, desk: Desk, disturb: Callable[[Task], Disturbance | None] | None
    ) -> None:
        self._desk, self._disturb = desk, disturb
        is_fleet = not hasattr(engine, "generate")
        self._fleet = cast("Fleet", engine) if is_fleet else None
        self._engine = cast("Engine", engine)  # not touched when there is a fleet
        self._started = time.monotonic()
        self._last: float | None = None

    async def health(self, request: Request) -> Response:
        """Readiness; needs no key."""
        if self._fleet is not None:
            backends, degraded = self._fleet.health(time.time())
            return self._health(backends, degraded)
        model = self._engine.model
        ago = None if self._last is None else round(time.time() - self._last, 3)
        backend = {
            "model_id": model.id,
            "status": model.status,
            "gpu_shape": model.gpu_shape,
            "breaker_state": "closed",
            "breaker_consecutive_failures": 0,
            "breaker_last_failure_kind": None,
            "last_completion_at": self._last,
            "last_completion_seconds_ago": ago,
            "warm_estimate": "warm",
            "active_choices": self._engine.busy,
        }
        return self._health([backend], [])

    def _health(self, backends: list[dict[str, Any]], degraded: list[str]) -> Response:
        latency = self._desk.store.latency()
        wrapper = {
            "uptime_seconds": round(time.monotonic() - self._started, 3),
            "database": {"ok": latency is not None, "latency_ms": latency and round(latency, 3)},
        }
        status = "down" if latency is None else "degraded" if degraded else "ok"
        body = {"status": status, "wrapper": wrapper, "backends": backends, "degraded_backends": degraded}
        return _json(body, 503 if latency is None else 200)

    async def models(self, request: Request) -> Response:
        """The models that are served."""
        self._desk.reader(request, "models")
        served = self._fleet.models if self._fleet is not None else [self._engine.model]
        return _json({"object": "list", "data": [_entry(model, self._desk.capabilities) for model in served]})

    async def status(self, request: Request) -> Response:
        """Whether a model is warm; an engine of this process always is."""
        self._desk.reader(request, "status")
        name = request.path_params["name"]
        if self._fleet is not None:
            return _json(await self._fleet.status(name))
        check_model(self._engine, name)
        return _json({"id": name, "object": "model.status", "warm": True, "boot": None})

    async def chat(self, request: Request) -> Response:
        """Base models have no chat; this is said before the key is looked at."""
        raise ChatCompletionsUnsupported("There is no chat here: send a prompt to /v1/completions.")

    async def completions(self, request: Request) -> Response | Streamed | Relay:
        """A completion as JSON or as a stream."""
        ticket = self._desk.admit(request)
        body = await _body(request)
        if not await ticket.turn(request.receive):
            return Response(status_code=CLIENT_LEFT)
        parsed = parse_request(body)
        if self._fleet is not None:
            forward = await self._fleet.plan(parsed)
            return forward.answer(body, request.state.request_id)
        return await self._own(request, ticket, parsed)

    async def _own(self, request: Request, ticket: Ticket, parsed: CompletionRequest) -> Response | Streamed:
        task = await plan(self._engine, parsed, request.headers)
        ticket.reserve(task, self._engine.model.id)
        headers = self._headers() | ticket.headers
        disturbance = self._disturb(task) if self._disturb else None
        if disturbance is not None:
            page = disturbance.refuse()
            if page is not None:
                return page
        request_id = request.state.request_id
        if parsed.streamed:
            frames: AsyncIterator[bytes] = self._frames(task, ticket, request_id)
            if disturbance is not None:
                frames = disturbance.stream(frames, request_id)
            return Streamed(kept_alive(frames), "text/event-stream; charset=utf-8", headers)
        if disturbance is not None and disturbance.spoils_json:
            if disturbance.fails:
                ticket.failed(200)
            parts = disturbance.json(self._whole(task, ticket), request_id)
            return Streamed(parts, disturbance.media_type, headers)
        whole = await while_connected(request.receive, ticket.in_time(self._whole(task, ticket)))
        if whole is None:
            return Response(status_code=CLIENT_LEFT)  # it is gone and reads nothing
        return Response(whole, headers=headers, media_type="application/json")

    async def planned(self, parsed: CompletionRequest) -> Task:
        """The task of a request, or the error that stands before any work."""
        return await plan(self._engine, parsed, {})

    async def job(self, parsed: CompletionRequest, owner: Owner, request_id: str) -> Done:
        """A JSON completion for nobody who waits: the same limits, the same budget, no request window."""
        async with self._desk.passage(owner.key, request_id) as ticket:
            task = await self.planned(parsed)
            ticket.reserve(task, self._engine.model.id, hurried=False)
            headers = self._headers() | ticket.headers
            disturbance = self._disturb(task) if self._disturb else None
            page = disturbance.refuse() if disturbance else None
            if page is not None:
                ticket.failed(page.status_code)
                return Done(bytes(page.body), {})
            if disturbance is None or not disturbance.spoils_json:
                return Done(await self._whole(task, ticket), headers)
            if disturbance.fails:
                ticket.failed(502)
            body = b""
            with suppress(CutHere):
                async for part in disturbance.json(self._whole(task, ticket), request_id):
                    body += part
            return Done(body, headers)

    async def _whole(self, task: Task, ticket: Ticket) -> bytes:
        try:
            answer = await self._answer(task, ticket)
            bursts = ticket.counted(run(self._engine, task))
            steps = [step async for burst in bursts for step in burst]
        except ApiError:
            raise
        except Exception as problem:
            raise _engine_failed(problem) from problem
        self._last = time.time()
        ticket.done()
        return answer.body(steps)

    async def _frames(self, task: Task, ticket: Ticket, request_id: str) -> AsyncGenerator[bytes]:
        try:
            answer = await self._answer(task, ticket)
            async with aclosing(ticket.counted(run(self._engine, task))) as bursts:
                async for burst in bursts:
                    yield answer.frames(burst)
        except Exception as problem:  # noqa: BLE001 - the stream has begun: it ends with an error frame
            error = problem if isinstance(problem, ApiError) else _engine_failed(problem)
            ticket.failed(error.status, kept=True)
            yield b"data: " + envelope(error, request_id) + b"\n\n"
            return
        self._last = time.time()
        ticket.done()
        yield answer.closing()

    async def _answer(self, task: Task, ticket: Ticket) -> Answer:
        engine = self._engine
        found = await scores(engine, task)
        if found is not None:
            ticket.scored()
        return Answer(task, engine.model.served_model_name or engine.model.id, engine.fingerprint, found)

    def _headers(self) -> dict[str, str]:
        model = self._engine.model
        shown = {
            UPSTREAM_MODEL: model.served_model_name or model.id,
            UPSTREAM_GPU: model.gpu_shape or "unknown",
        }
        return {name: value.encode("ascii", "replace").decode() for name, value in shown.items()}


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise RequestTooLarge(f"The body is above {MAX_BODY} bytes.")
        parts.append(part)
    return b"".join(parts)


def _engine_failed(problem: Exception) -> UpstreamServerError:
    log.error("the engine failed: %s", type(problem).__name__)
    return UpstreamServerError("The engine failed while it worked on this request.", retry_after=1)


def _entry(model: Model, limits: dict[str, int | None]) -> dict[str, Any]:
    entry: dict[str, Any] = to_builtins(model)
    known = {name: value for name, value in entry["capabilities"].items() if value is not None}
    entry["capabilities"] = known | limits | {"activations": False, "chat_template": None}
    return entry


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


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
    if error.status_code == 404:
        return error_response(NotFound(f"There is no {request.url.path} here."), request.state.request_id)
    code = "method_not_allowed" if error.status_code == 405 else "invalid_request"
    problem = ApiError(
        f"{request.method} {request.url.path}: {error.detail}.", code=code, status=error.status_code
    )
    return error_response(problem, request.state.request_id)
