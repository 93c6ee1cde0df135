"""A request on a kept connection that is closed: sent again only when nobody can have read it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, errors, resending, rollout
from acs_jupyter.ledger import ledger, report
from tests.support.player import CLOSE, Player, whole
from tests.support.sockets import take

KEY = "acs-bm-0123abcd-do-not-show-me-anywhere"
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
ANSWER = {
    "id": "c",
    "model": "m",
    "choices": [{"index": 0, "text": "yes", "finish_reason": "stop"}],
    "usage": USAGE,
}


class Resetting:
    """Answers one request a connection and resets the connection when the next one comes."""

    def __init__(self, *, first: bool = False, works: float = 0.0) -> None:
        self.met = self.reset = 0
        self._first, self._works = first, works
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Resetting:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        body = json.dumps(ANSWER).encode()
        top = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if not self._first:
            take(connection)
            self.met += 1
            connection.sendall(top.encode() + body)
        if connection.recv(65536):
            self.reset += 1
            time.sleep(self._works)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def twice(kind: str, base: str) -> list[Any]:
    """What two requests, one after the other, come to."""
    if kind == "sync":
        with Client(base, KEY, model="m", retries=0) as client:
            return [_of(lambda: client.complete("a", max_tokens=1, stream=False)) for _ in range(2)]

    async def go() -> list[Any]:
        found: list[Any] = []
        async with AsyncClient(base, KEY, model="m", retries=0) as client:
            for _ in range(2):
                try:
                    found.append((await client.complete("a", max_tokens=1, stream=False)).text)
                except errors.AcsError as error:
                    found.append(error.code)
        return found

    return asyncio.run(go())


def _of(act: Any) -> Any:
    try:
        return act().text
    except errors.AcsError as error:
        return error.code


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_one_that_was_reset_on_a_used_connection_is_sent_once_more(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resending, "AT_ONCE", 5.0)  # a busy machine resets late
    with Resetting() as server:
        assert twice(kind, server.base) == ["yes", "yes"]
        assert (server.met, server.reset) == (2, 1)
    assert [entry["source"] for entry in report.entries(ledger())] == ["usage", "usage"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_one_that_may_have_been_read_is_not(kind: str) -> None:
    with Player([whole(ANSWER), [CLOSE]]) as server:
        assert twice(kind, server.base) == ["yes", "connection_failed"]
        assert len(server.requests) == 2
    with Resetting(first=True) as resetting:  # a new connection: nothing says that it was not read
        assert twice(kind, resetting.base) == ["connection_failed", "connection_failed"]
        assert resetting.reset == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_one_that_was_reset_after_a_while_may_have_run(kind: str) -> None:
    """A balancer between resets connections that are idle for it, while the server works."""
    with Resetting(works=0.5) as server:
        assert twice(kind, server.base) == ["yes", "connection_failed"]
        assert (server.met, server.reset) == (1, 1)
    counted = [(e["prompt_tokens"], e["completion_tokens"], e["source"]) for e in report.entries(ledger())]
    assert counted == [(3, 1, "usage"), (2, 1, "estimate")]


def test_a_rollout_sends_none_again_that_was_reset_after_a_while(tmp_path: Path) -> None:
    with Resetting(works=0.5) as server, Client(server.base, KEY, model="m") as client:
        made = rollout(
            ["a", "b"], client=client, into=tmp_path / "r.db", max_tokens=1, prompt_logprobs=0, in_flight=1,
            retries=0, progress=False,
        )  # fmt: skip
        assert (server.met, server.reset) == (2, 1)  # the list of models, then "a"
    assert list(made.frame().error.fillna("")) == ["", "connection_failed"]
    assert [entry["source"] for entry in report.entries(ledger())] == ["usage", "estimate"]
