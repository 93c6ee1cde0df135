"""The local server in this process, on a real socket, with clocks and hooks that a test holds."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import httpx
import uvicorn

from acs_jupyter.local.app import create_app
from acs_jupyter.local.fleet import Fleet, open_fleet
from acs_jupyter.local.malformed import protocol
from acs_jupyter.local.upstream import Patience
from tests.support.player import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from acs_jupyter.local.desk import Desk
    from acs_jupyter.local.job_store import JobStore

KEY = "front-door-key"
SERVED = "HuggingFaceTB/SmolLM2-135M"
MODELS = whole({"object": "list", "data": [{"id": SERVED, "object": "model", "max_model_len": 2048}]})
QUICK = Patience(backoff=0.01)


@dataclass
class Front:
    """``base`` ends in ``/v1``; ``fleet`` is what serves behind it."""

    base: str
    fleet: Fleet

    @property
    def root(self) -> str:
        return self.base.removesuffix("/v1")

    def client(self, **more: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.Client(base_url=self.base + "/", headers=headers, timeout=30, **more)


@contextmanager
def fronting(
    *specs: str,
    patience: Patience = QUICK,
    key: str | None = None,
    desk: Desk | None = None,
    jobs: JobStore | None = None,
    clock: Callable[[], float] | None = None,
    name: str | None = "m",
) -> Iterator[Front]:
    """A server in front of these upstreams; with ``jobs`` it has completion jobs."""
    fleet = open_fleet(specs, name=name, key=key, patience=patience)
    if clock is not None:
        for upstream in fleet.upstreams:
            upstream.clock = upstream.breaker._clock = clock
            if upstream.warm:
                upstream.heard()
    app = create_app(fleet, KEY, hosts=None, desk=desk, jobs=jobs)
    with _running(app, fleet.aclose, lifespan="on" if jobs else "off") as base:
        yield Front(base, fleet)


@contextmanager
def _running(app: Any, close: Callable[[], Any], *, lifespan: Literal["on", "off"] = "off") -> Iterator[str]:
    config = uvicorn.Config(
        app, http=protocol(), log_level="critical", access_log=False, lifespan=lifespan, server_header=False
    )
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    place = socket.create_server(("127.0.0.1", 0))

    async def run() -> None:
        await server.serve(sockets=[place])
        await close()
        await asyncio.sleep(0.01)  # closed transports say goodbye to the loop

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    try:
        while not server.started:
            thread.join(0.005)
            assert thread.is_alive()
        yield f"http://127.0.0.1:{place.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(10)
        with suppress(OSError):
            place.close()
