"""What is given up while it waits for a connection was never sent, and costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from acs_jupyter import AsyncClient, Client, Session, rollout
from acs_jupyter.errors import ConnectionFailed
from acs_jupyter.ledger import ledger, report, resolve
from acs_jupyter.pump import Pump
from acs_jupyter.rollouts.lines import BatchClient
from tests.support.desks import until
from tests.support.ledger_others import KEY, month
from tests.support.player import DONE, HANG, Player, frames, stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def full() -> Iterator[str]:
    """A server that lets nobody in: the queue before its door is full, and whoever comes waits."""
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(socket.socket())
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        while True:
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0.3)
            try:
                waiting.connect(door.getsockname())
            except TimeoutError:
                break
        yield f"http://127.0.0.1:{door.getsockname()[1]}/v1"


def held() -> int:
    return len(resolve.holds(ledger()))


async def given_up(task: asyncio.Task[Any], count: int = 1) -> None:
    """Cancel a task once so many requests are held and it waits for its connection."""
    await asyncio.to_thread(until, lambda: held() == count)
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def nothing_was_spent() -> None:
    assert month() == (0, 0)
    assert report.entries(ledger()) == []


@pytest.mark.parametrize("what", ["complete", "job"])
def test_a_task_that_is_cancelled_while_it_connects(full: str, what: str) -> None:
    async def go() -> None:
        async with AsyncClient(full, KEY, model="m", retries=0) as client:
            asked = client.complete if what == "complete" else client.jobs.submit
            await given_up(asyncio.ensure_future(asked("Hi", max_tokens=40)))

    asyncio.run(go())
    nothing_was_spent()


def test_a_cell_that_is_stopped_while_it_connects(full: str) -> None:
    pump = Pump(AsyncClient(full, KEY, model="m", retries=0))
    session = Session()
    handle = pump.start(pump.client.request("Hi", max_tokens=40, stream=True), session)
    handle.detach()
    until(lambda: handle.run in session.runs)
    handle.stop()
    until(lambda: handle.done)
    pump.close()
    assert session.runs[handle.run].outcome == "stopped"
    nothing_was_spent()


def test_one_that_waits_for_a_place_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """All connections of the client are in use."""
    options = AsyncClient._options
    one = httpx.Limits(max_connections=1)
    monkeypatch.setattr(AsyncClient, "_options", lambda self: options(self) | {"limits": one})

    async def go(base: str) -> None:
        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            first = asyncio.ensure_future(client.complete("Hi", max_tokens=40))
            await asyncio.to_thread(until, lambda: len(server.requests) == 1)
            await given_up(asyncio.ensure_future(client.complete("Ho", max_tokens=40)), 2)
            assert month()[0] == 0
            await first

    with Player([stream(*list(frames(["a"])), 1.5, DONE)]) as server:
        asyncio.run(go(server.base))
        assert len(server.requests) == 1
    assert month() == (4, 0)


async def unlisted(_: BatchClient) -> Any:
    raise ConnectionFailed("no list")


def test_a_rollout_that_is_dropped_while_it_connects(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchClient, "models", unlisted)
    with Client(full, KEY, model="m", retries=0) as client:
        options: dict[str, Any] = {"max_tokens": 40, "bg": True, "progress": False, "starts": 0}
        run = rollout(["a", "b"], client=client, into=tmp_path / "run.db", **options)
        until(lambda: run.stats.in_flight == 2 and held() == 2)
        time.sleep(0.3)  # until both are at the door
        run.stop(drop=True)
        run.wait(20)
        assert list(run.frame(pending=True)["attempts"]) == [0, 0]
    nothing_was_spent()


def test_one_that_was_sent_counts_at_its_most() -> None:
    async def go(base: str) -> None:
        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            task = asyncio.ensure_future(client.complete("Hi", max_tokens=40))
            await asyncio.to_thread(until, lambda: len(server.requests) == 1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with Player([[HANG]]) as server:
        asyncio.run(go(server.base))
    assert month() == (43, 0)
