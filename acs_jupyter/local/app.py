"""The routes: HTTP in, the service's contract out.

Owns paths, methods and headers. It must not know a particular engine, nor how a port is opened.
Keys, budgets, limits and jobs get modules of their own and are joined here.
"""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from ..checks import parse_request
from ..errors import ApiError, ChatCompletionsUnsupported, NotFound, RequestTooLarge, UpstreamServerError
from ..wire import UPSTREAM_GPU, UPSTREAM_MODEL
from .assemble import run
from .guard import Guard, log
from .job_routes import JobRoutes, Private
from .jobs import Done, Jobs
from .keys import KeyCheck
from .respond import CutHere, Streamed, envelope, error_response, kept_alive, while_connected
from .service import check_model, plan, scores
from .shape import Answer, encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from starlette.requests import Request

    from ..wire import CompletionRequest
    from .engine import Engine, Task
    from .faults import Disturbance
    from .job_store import JobStore
    from .job_values import Owner
    from .keys import Caller

MAX_BODY = 50 * 2**20
"""Largest request body in bytes; above it stands the 413."""


def create_app(
    engine: Engine,
    key: str,
    *,
    hosts: frozenset[str] | None,
    disturb: Callable[[Task], Disturbance | None] | None = None,
    store: JobStore | None = None,
    **job_options: Any,
) -> Guard:
    """The ASGI application over one engine. ``disturb`` may spoil answers on purpose, for tests.

    With ``store`` it takes completion jobs, and runs them between the startup and the shutdown of its lifespan;
    ``job_options`` are those of :class:`Jobs`.
    """
    routes = _Routes(engine, KeyCheck(key), disturb)
    jobs = Jobs(store, routes.whole, **job_options) if store else None
    app = Starlette(
        lifespan=jobs.lifespan if jobs else None,
        routes=[
            Route("/health", routes.health, methods=["GET"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{name:path}/status", routes.status, methods=["GET"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            *(JobRoutes(jobs, routes.admit, routes.planned).routes() if jobs else ()),
        ],
        exception_handlers={HTTPException: _http_error, ApiError: _api_error},
    )
    app.router.redirect_slashes = False
    return Guard(Private(app), hosts)


class _Routes:
    def __init__(
        self, engine: Engine, keys: KeyCheck, disturb: Callable[[Task], Disturbance | None] | None
    ) -> None:
        self._engine, self._keys, self._disturb = engine, keys, disturb
        self._started = time.monotonic()
        self._last: float | None = None

    async def health(self, request: Request) -> Response:
        """Readiness; needs no key."""
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
        wrapper = {
            "uptime_seconds": round(time.monotonic() - self._started, 3),
            "database": {"ok": True, "latency_ms": 0.0},
        }
        return _json({"status": "ok", "wrapper": wrapper, "backends": [backend], "degraded_backends": []})

    def admit(self, request: Request) -> Caller:
        """The caller, or the contract's 401."""
        caller = self._keys.require(request.headers.get("authorization"))
        request.state.caller = caller
        return caller

    async def models(self, request: Request) -> Response:
        """The one model that is served."""
        self.admit(request)
        model: dict[str, Any] = to_builtins(self._engine.model)
        known = {name: value for name, value in model["capabilities"].items() if value is not None}
        model["capabilities"] = known | {"activations": False, "chat_template": None}
        return _json({"object": "list", "data": [model]})

    async def status(self, request: Request) -> Response:
        """Whether a model is warm; here it always is."""
        self.admit(request)
        name = request.path_params["name"]
        check_model(self._engine, name)
        return _json({"id": name, "object": "model.status", "warm": True, "boot": None})

    async def chat(self, request: Request) -> Response:
        """Base models have no chat; this is said before the key is looked at."""
        raise ChatCompletionsUnsupported("There is no chat here: send a prompt to /v1/completions.")

    async def completions(self, request: Request) -> Response | Streamed:
        """A completion as JSON or as a stream."""
        self.admit(request)
        parsed = parse_request(await _body(request))
        task = await plan(self._engine, parsed, request.headers)
        disturbance = self._disturb(task) if self._disturb else None
        if disturbance is not None:
            page = disturbance.refuse()
            if page is not None:
                return page
        request_id = request.state.request_id
        if parsed.streamed:
            frames: AsyncIterator[bytes] = self._frames(task, request_id)
            if disturbance is not None:
                frames = disturbance.stream(frames, request_id)
            return Streamed(kept_alive(frames), "text/event-stream; charset=utf-8", self._headers())
        if disturbance is not None and disturbance.spoils_json:
            parts = disturbance.json(self._whole(task), request_id)
            return Streamed(parts, disturbance.media_type, self._headers())
        body = await while_connected(request.receive, self._whole(task))
        if body is None:
            return Response(status_code=499)  # the client is gone and reads nothing
        return Response(body, headers=self._headers(), media_type="application/json")

    async def planned(self, parsed: CompletionRequest) -> Task:
        """The task of a request, or the error that stands before any work."""
        return await plan(self._engine, parsed, {})

    async def whole(self, parsed: CompletionRequest, owner: Owner, request_id: str) -> Done:
        """A JSON completion for nobody who waits: the work of a job."""
        task = await self.planned(parsed)
        disturbance = self._disturb(task) if self._disturb else None
        page = disturbance.refuse() if disturbance else None
        if page is not None:
            return Done(bytes(page.body), {})
        if disturbance is None or not disturbance.spoils_json:
            return Done(await self._whole(task), self._headers())
        body = b""
        with suppress(CutHere):
            async for part in disturbance.json(self._whole(task), request_id):
                body += part
        return Done(body, self._headers())

    async def _whole(self, task: Task) -> bytes:
        try:
            answer = await self._answer(task)
            steps = [step async for burst in run(self._engine, task) for step in burst]
        except ApiError:
            raise
        except Exception as problem:
            raise _engine_failed(problem) from problem
        self._last = time.time()
        return answer.body(steps)

    async def _frames(self, task: Task, request_id: str) -> AsyncGenerator[bytes]:
        try:
            answer = await self._answer(task)
            async with aclosing(run(self._engine, task)) as bursts:
                async for burst in bursts:
                    yield answer.frames(burst)
        except Exception as problem:  # noqa: BLE001 - the stream has begun: it ends with an error frame
            error = problem if isinstance(problem, ApiError) else _engine_failed(problem)
            yield b"data: " + envelope(error, request_id) + b"\n\n"
            return
        self._last = time.time()
        yield answer.closing()

    async def _answer(self, task: Task) -> Answer:
        engine = self._engine
        found = await scores(engine, task)
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


def _json(value: dict[str, Any]) -> Response:
    return Response(encode(value), media_type="application/json")


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error, request.state.request_id)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return error_response(NotFound(f"There is no {request.url.path} here."), request.state.request_id)
    code = "method_not_allowed" if error.status_code == 405 else "invalid_request"
    problem = ApiError(
        f"{request.method} {request.url.path}: {error.detail}.", code=code, status=error.status_code
    )
    return error_response(problem, request.state.request_id)
