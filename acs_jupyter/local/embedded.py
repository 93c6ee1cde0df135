"""An engine of this process as a backend: tasks planned, run, and answered as JSON or as a stream.

Owns the way from a checked request through the engine to its bytes, and faults played on purpose. It must not know a
particular engine, nor paths and keys.
"""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from ..errors import ApiError, UpstreamServerError
from ..wire import UPSTREAM_GPU, UPSTREAM_MODEL
from .assemble import run
from .desk import CLIENT_LEFT
from .guard import log
from .jobs import Done
from .respond import CutHere, Streamed, envelope, kept_alive, while_connected
from .service import check_model, plan, scores
from .shape import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from starlette.requests import Request

    from ..wire import CompletionRequest, Model
    from .desk import Ticket
    from .engine import Engine, Task
    from .faults import Disturbance

    Disturb = Callable[[Task], Disturbance | None]


class Embedded:
    """See the module. ``disturb`` may spoil answers on purpose, for tests."""

    def __init__(self, engine: Engine, disturb: Disturb | None) -> None:
        self._engine, self._disturb = engine, disturb
        self._last: float | None = None

    @property
    def models(self) -> list[Model]:
        """The one model."""
        return [self._engine.model]

    def health(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The engine, which never rests."""
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
        return [backend], []

    async def status(self, name: str) -> dict[str, Any]:
        """An engine of this process always is warm."""
        check_model(self._engine, name)
        return {"id": name, "object": "model.status", "warm": True, "boot": None}

    async def check(self, parsed: CompletionRequest) -> Task:
        """The task of a request, or the error that stands before any work."""
        return await plan(self._engine, parsed, {})

    async def answer(
        self, request: Request, body: bytes, parsed: CompletionRequest, ticket: Ticket
    ) -> Response | Streamed:
        """A completion as JSON or as a stream."""
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
            answer = self._answer(task)
            frames: AsyncIterator[bytes] = self._frames(answer, task, ticket, request_id)
            if disturbance is not None:
                frames = disturbance.stream(frames, request_id)
            media = "text/event-stream; charset=utf-8"
            return Streamed(kept_alive(frames), media, headers, lambda: answer.farewell(*ticket.left()))
        if disturbance is not None and disturbance.spoils_json:
            if disturbance.fails:
                ticket.failed(200)
            parts = disturbance.json(self._whole(task, ticket), request_id)
            return Streamed(parts, disturbance.media_type, headers)
        whole = await while_connected(request.receive, ticket.in_time(self._whole(task, ticket)))
        if whole is None:
            return Response(status_code=CLIENT_LEFT)  # it is gone and reads nothing
        return Response(whole, headers=headers, media_type="application/json")

    async def job(self, parsed: CompletionRequest, ticket: Ticket, request_id: str) -> Done:
        """The same limits, the same budget, the same faults; no request window."""
        task = await self.check(parsed)
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
            answer = self._answer(task)
            await self._score(answer, task, ticket)
            bursts = ticket.counted(run(self._engine, task))
            steps = [step async for burst in bursts for step in burst]
        except ApiError:
            raise
        except Exception as problem:
            raise _engine_failed(problem) from problem
        self._last = time.time()
        ticket.done()
        return answer.body(steps)

    async def _frames(
        self, answer: Answer, task: Task, ticket: Ticket, request_id: str
    ) -> AsyncGenerator[bytes]:
        try:
            await self._score(answer, task, ticket)
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

    def _answer(self, task: Task) -> Answer:
        engine = self._engine
        return Answer(task, engine.model.served_model_name or engine.model.id, engine.fingerprint)

    async def _score(self, answer: Answer, task: Task, ticket: Ticket) -> None:
        answer.scores = await scores(self._engine, task)
        if answer.scores is not None:
            ticket.scored()

    def _headers(self) -> dict[str, str]:
        model = self._engine.model
        shown = {
            UPSTREAM_MODEL: model.served_model_name or model.id,
            UPSTREAM_GPU: model.gpu_shape or "unknown",
        }
        return {name: value.encode("ascii", "replace").decode() for name, value in shown.items()}


def _engine_failed(problem: Exception) -> UpstreamServerError:
    log.error("the engine failed: %s", type(problem).__name__)
    return UpstreamServerError("The engine failed while it worked on this request.", retry_after=1)
