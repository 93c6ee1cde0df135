"""The routes: HTTP in, the service's contract out.

Owns paths, methods and headers. It must not know a particular engine, nor how a port is opened.
Keys, budgets, limits and jobs get modules of their own and are joined here.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec import to_builtins
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from ..checks import parse_request
from ..errors import ApiError, ChatCompletionsUnsupported, NotFound, RequestTooLarge, UpstreamServerError
from ..wire import UPSTREAM_GPU, UPSTREAM_MODEL
from .assemble import run
from .compress import Gzip
from .guard import Guard, KeyCheck, log
from .openapi import PAGE, PAGE_POLICY, specification
from .respond import Streamed, envelope, error_response, kept_alive, while_connected
from .service import check_model, plan, scores
from .shape import Answer, encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from starlette.requests import Request

    from ..wire import Model
    from .engine import Engine, Task
    from .faults import Disturbance
    from .fleet import Fleet
    from .relay import Relay

MAX_BODY = 50 * 2**20
"""Largest request body in bytes; above it stands the 413."""


def create_app(
    engine: Engine | Fleet,
    key: str,
    *,
    hosts: frozenset[str] | None,
    disturb: Callable[[Task], Disturbance | None] | None = None,
) -> Guard:
    """The ASGI application over one engine or some upstreams. ``disturb`` may spoil answers on purpose, for tests."""
    routes = _Routes(engine, KeyCheck(key), disturb)
    app = Starlette(
        routes=[
            Route("/health", routes.health, methods=["GET"]),
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{name:path}/status", routes.status, methods=["GET"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/openapi.json", _specification, methods=["GET"]),
            Route("/swagger", _swagger, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, ApiError: _api_error},
    )
    app.router.redirect_slashes = False
    return Guard(Gzip(app), hosts)


class _Routes:
    def __init__(
        self, engine: Engine | Fleet, keys: KeyCheck, disturb: Callable[[Task], Disturbance | None] | None
    ) -> None:
        self._keys, self._disturb = keys, disturb
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
        wrapper = {
            "uptime_seconds": round(time.monotonic() - self._started, 3),
            "database": {"ok": True, "latency_ms": 0.0},
        }
        status = "degraded" if degraded else "ok"
        return _json(
            {"status": status, "wrapper": wrapper, "backends": backends, "degraded_backends": degraded}
        )

    async def models(self, request: Request) -> Response:
        """The models that are served."""
        self._keys.require(request.headers.get("authorization"))
        served = self._fleet.models if self._fleet is not None else [self._engine.model]
        return _json({"object": "list", "data": [_entry(model) for model in served]})

    async def status(self, request: Request) -> Response:
        """Whether a model is warm; an engine of this process always is."""
        self._keys.require(request.headers.get("authorization"))
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
        self._keys.require(request.headers.get("authorization"))
        body_bytes = await _body(request)
        parsed = parse_request(body_bytes)
        if self._fleet is not None:
            forward = await self._fleet.plan(parsed)
            return forward.answer(body_bytes, request.state.request_id)
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


def _entry(model: Model) -> dict[str, Any]:
    entry: dict[str, Any] = to_builtins(model)
    known = {name: value for name, value in entry["capabilities"].items() if value is not None}
    entry["capabilities"] = known | {"activations": False, "chat_template": None}
    return entry


def _json(value: dict[str, Any]) -> Response:
    return Response(encode(value), media_type="application/json")


async def _specification(request: Request) -> Response:
    return Response(specification(), media_type="application/json")


async def _swagger(request: Request) -> Response:
    headers = {"Content-Security-Policy": PAGE_POLICY}
    return Response(PAGE.read_bytes(), headers=headers, media_type="text/html")


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
