"""What a client can read beside completions: health, the model list, whether a model is warm.

Owns these three routes and their bodies. It must not know what stands behind a model.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from starlette.responses import Response
from starlette.routing import Route

from ..errors import NotFound
from .shape import encode

if TYPE_CHECKING:
    from starlette.requests import Request

    from ..wire import Model
    from .backend import Backend
    from .desk import Desk


class Readings:
    """``desk`` knows who may read, and whether the database answers."""

    def __init__(self, backend: Backend, desk: Desk) -> None:
        self._backend, self._desk = backend, desk
        self._started = time.monotonic()

    def routes(self) -> list[Route]:
        """The routes, to be joined to an application."""
        return [
            Route("/health", self.health, methods=["GET"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{name:path}/status", self.status, methods=["GET"]),
            Route("/v1/models/{name:path}", self.model, methods=["GET"]),
        ]

    async def health(self, request: Request) -> Response:
        """Readiness; needs no key."""
        backends, degraded = self._backend.health()
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
        limits = self._desk.capabilities
        return _json({"object": "list", "data": [_entry(model, limits) for model in self._backend.models]})

    async def model(self, request: Request) -> Response:
        """One entry of that list, as OpenAI's library retrieves it."""
        self._desk.reader(request, "models")
        name = request.path_params["name"]
        for model in self._backend.models:
            if model.id == name:
                return _json(_entry(model, self._desk.capabilities))
        raise NotFound(f"There is no model {name[:200]!r} here; GET /v1/models lists them.")

    async def status(self, request: Request) -> Response:
        """Whether a model is warm."""
        self._desk.reader(request, "status")
        return _json(await self._backend.status(request.path_params["name"]))


def _entry(model: Model, limits: dict[str, int | None]) -> dict[str, Any]:
    entry: dict[str, Any] = to_builtins(model)
    known = {name: value for name, value in entry["capabilities"].items() if value is not None}
    entry["capabilities"] = known | limits | {"activations": False, "chat_template": None}
    return entry


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")
