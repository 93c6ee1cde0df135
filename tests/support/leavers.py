"""All the ways to leave a stream early, and a server whose log tells what each of them cost."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acs_jupyter import AsyncClient, Client, Session, rollout
from acs_jupyter.ledger import ledger
from acs_jupyter.local.ledger import Entry, read_log
from acs_jupyter.pump import Pump
from tests.support.desks import until
from tests.support.servers import Running


@dataclass
class Side:
    """A server, its data folder, and a key of this example alone."""

    server: Running
    folder: Path
    key: str
    count: int = 0

    def rows(self) -> list[Entry]:
        prefix = self.key.split("-")[2]
        return [entry for entry in read_log(self.folder) if entry.prefix == prefix]

    def client(self, kind: type = Client) -> Any:
        return kind(self.server.base, self.key, model="scripted", retries=1, timeout=30)


def leave_stream(side: Side, prompt: Any, count: int, n: int) -> None:
    with side.client() as client, client.stream(prompt, logprobs=0, max_tokens=999, n=n) as tokens:
        coming = iter(tokens)
        for _ in range(count):
            next(coming)


def leave_async(side: Side, prompt: Any, count: int, n: int) -> None:
    async def go() -> None:
        async with (
            side.client(AsyncClient) as client,
            client.stream(prompt, logprobs=0, max_tokens=999, n=n) as tokens,
        ):
            coming = aiter(tokens)
            for _ in range(count):
                await anext(coming)

    asyncio.run(go())


def seen(session: Session) -> int:
    return sum(len(node.tokens) for node in session.nodes.values())


def leave_task(side: Side, prompt: Any, count: int, n: int) -> None:
    async def go() -> None:
        async with side.client(AsyncClient) as client:
            session, came = Session(), asyncio.Event()
            session.subscribe(lambda _: seen(session) >= count and came.set())
            fields = {"session": session, "logprobs": 0, "max_tokens": 999, "n": n}
            task = asyncio.create_task(client.complete(prompt, **fields))
            await came.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())


def leave_pump(side: Side, prompt: Any, count: int, n: int) -> None:
    pump = Pump(side.client(AsyncClient))
    session, came = Session(), threading.Event()
    session.subscribe(lambda _: seen(session) >= count and came.set())
    options = {"include_usage": True, "continuous_usage_stats": True}
    fields = {"logprobs": 0, "max_tokens": 999, "n": n, "stream": True, "stream_options": options}
    handle = pump.start(pump.client.request(prompt, **fields), session)
    handle.detach()
    assert came.wait(20)
    handle.stop()
    until(lambda: handle.done)
    pump.close()


def leave_rollout(side: Side, prompt: Any, count: int, n: int) -> None:
    prompts = [prompt] if isinstance(prompt, str) else prompt
    with side.client() as client:
        into = side.folder / f"{side.key[7:15]}-{side.count}-left.db"
        made = rollout(
            prompts, client=client, into=into, max_tokens=999, n=n, progress=False, starts=0, bg=True
        )
        book = ledger()
        least = count // len(prompts)
        until(lambda: made.stats.done + sum(came(t, least) for t in list(book.open.values())) >= len(prompts))
        made.stop(drop=True)
        made.wait(20)


def came(ticket: Any, least: int) -> bool:
    return ticket.seen is not None and ticket.seen[1] >= least


LEAVE: dict[str, Any] = {
    "stream": leave_stream,
    "async": leave_async,
    "task": leave_task,
    "pump": leave_pump,
    "rollout": leave_rollout,
}
