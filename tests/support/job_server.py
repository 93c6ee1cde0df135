"""A server in this process whose clock, limits and engine a test holds in its hands, reached over real HTTP."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn

from acs_jupyter.local.app import create_app
from acs_jupyter.local.desk import Desk
from acs_jupyter.local.desk import Limits as DeskLimits
from acs_jupyter.local.faults import Faults
from acs_jupyter.local.guard import LOOPBACK
from acs_jupyter.local.job_store import JobStore
from acs_jupyter.local.scripted import ScriptedEngine
from acs_jupyter.local.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from acs_jupyter.local.engine import Step, Task
    from acs_jupyter.local.job_values import Limits

KEY = "acs-bm-testtest-job-server-key"
START = 1_700_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR


class Counting(ScriptedEngine):
    """Remembers the prompt of everything that was ever begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []

    async def generate(self, task: Task) -> AsyncIterator[list[Step]]:
        self.begun.append(task.texts[0])
        async for burst in super().generate(task):
            yield burst


@dataclass
class JobServer:
    base: str
    engine: Counting
    desk: Desk
    now: float = START
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, key: str = KEY) -> httpx.Client:
        made = httpx.Client(base_url=self.base + "/", headers={"Authorization": f"Bearer {key}"}, timeout=30)
        self.clients.append(made)
        return made

    def stranger(self, budget: int = 0) -> httpx.Client:
        """A client with a key of its own."""
        return self.client(self.desk.keys.create(budget=budget))


@contextmanager
def job_server(
    folder: Path | None = None, limits: Limits | None = None, desk: DeskLimits | None = None, **options: Any
) -> Iterator[JobServer]:
    """``options`` are those of ``Jobs``; ``now`` is the first moment of the clock."""
    now = options.pop("now", START)
    options.setdefault("grace", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as place:
        base = f"http://127.0.0.1:{place.getsockname()[1]}/v1"
        running = JobServer(base, Counting(), Desk(Store(), KEY, limits=desk or DeskLimits(starts=0)), now)
        app = create_app(
            running.engine,
            KEY,
            hosts=LOOPBACK,
            disturb=Faults(),
            desk=running.desk,
            jobs=JobStore(folder, now, limits),
            clock=lambda: running.now,
            **options,
        )
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.005)
            yield running
        finally:
            for client in running.clients:
                client.close()
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def submit(client: httpx.Client, key: str, prompt: Any = "Hello", **fields: Any) -> httpx.Response:
    body = {"model": "scripted", "prompt": prompt, "max_tokens": 4, **fields}
    return client.post("completion-jobs", json=body, headers={"Idempotency-Key": key})


def status(client: httpx.Client, job: str) -> str:
    answer = client.get(f"completion-jobs/{job}")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["status"])


def until(client: httpx.Client, job: str, *states: str) -> dict[str, Any]:
    """The metadata once it shows one of these states."""
    end = time.monotonic() + 20
    while (told := client.get(f"completion-jobs/{job}").json()).get("status") not in states:
        assert time.monotonic() < end, told
        time.sleep(0.01)
    return dict(told)


def outcome(client: httpx.Client, job: str) -> httpx.Response:
    """The result once it is there."""
    end = time.monotonic() + 20
    while (answer := client.get(f"completion-jobs/{job}/result")).status_code == 202:
        assert answer.headers["retry-after"] == "1"
        assert time.monotonic() < end
        time.sleep(0.01)
    return answer
