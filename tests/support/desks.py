"""A local server in this process, so that a test holds its clock and can look behind the counter."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn

from acs_jupyter.local.app import create_app
from acs_jupyter.local.desk import Desk, Limits
from acs_jupyter.local.faults import Faults
from acs_jupyter.local.malformed import protocol
from acs_jupyter.local.scripted import ScriptedEngine
from acs_jupyter.local.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from acs_jupyter.local.ledger import Entry

OWN = "acs-bm-0123abcd-the-servers-own-key-of-this-test"


@dataclass
class Clock:
    """``now`` in seconds since 1970, ``ticks`` for intervals; both stand still until a test moves them."""

    now: float = datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()
    ticks: float = 1000.0

    def go(self, seconds: float) -> None:
        self.now += seconds
        self.ticks += seconds

    def set(self, *date: int) -> None:
        self.now = datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@dataclass
class Counter:
    """A running server seen from both sides."""

    base: str
    desk: Desk
    clock: Clock
    folder: Path
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, key: str = OWN) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        self.clients.append(httpx.Client(base_url=self.base + "/", headers=headers, timeout=30))
        return self.clients[-1]

    def new_key(self, budget: int = 0) -> str:
        return self.desk.keys.create("test", budget)

    def used(self, key: str, month: str = "2026-11") -> int:
        return self.desk.ledger.used(self.desk.keys.require(f"Bearer {key}").id, month)

    def quiet(self) -> list[Entry]:
        """Wait until nothing is held any more; the log. Fails when something stays."""
        desk = self.desk
        until(lambda: (desk.gate.active, desk.gate.waiting, desk.budget.reserved) == (0, 0, 0))
        return desk.ledger.entries()


@contextmanager
def counter(
    folder: Path, limits: Limits | None = None, engine: Any = None, budget: int = 0
) -> Iterator[Counter]:
    """Serve the scripted engine (or another) on a free port until the end."""
    clock = Clock()
    store = Store(folder)
    desk = Desk(
        store,
        OWN,
        own_budget=budget,
        limits=limits,
        now=lambda: clock.now,
        ticks=lambda: clock.ticks,
    )
    app = create_app(engine or ScriptedEngine(), OWN, hosts=None, disturb=Faults(), desk=desk)
    server = uvicorn.Server(
        uvicorn.Config(
            app, http=protocol(), port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=2
        )
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    clients: list[httpx.Client] = []
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        running = Counter(f"http://127.0.0.1:{port}/v1", desk, clock, folder, clients)
        yield running
    finally:
        for client in clients:
            client.close()
        server.should_exit = True
        thread.join(10)
        store.close()


def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.005)
