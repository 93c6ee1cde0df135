"""Both clients as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, errors
from acs_jupyter.completion import Completion, Token
from tests.support.player import Step, whole

KEY = "acs-bm-testtest-do-not-show-me"


class Sync:
    """Runs a client's calls; its twin does the same on an event loop."""

    def complete(
        self, base: str, *args: Any, client: dict[str, Any] | None = None, **fields: Any
    ) -> Completion:
        with Client(base, KEY, **(client or {})) as c:
            return c.complete(*args, **fields)

    def tokens(
        self, base: str, *args: Any, take: int | None = None, **fields: Any
    ) -> tuple[list[Token], Completion]:
        got: list[Token] = []
        with Client(base, KEY) as c:
            running = c.stream(*args, **fields)
            try:
                for token in running:
                    got.append(token)
                    if len(got) == take:
                        break
            except errors.AcsError as error:
                error.completion = running.completion
                raise
            return got, running.completion

    def models(self, base: str) -> Any:
        with Client(base, KEY) as c:
            return c.models()


class Async:
    def complete(
        self, base: str, *args: Any, client: dict[str, Any] | None = None, **fields: Any
    ) -> Completion:
        async def go() -> Completion:
            async with AsyncClient(base, KEY, **(client or {})) as c:
                return await c.complete(*args, **fields)

        return asyncio.run(go())

    def tokens(
        self, base: str, *args: Any, take: int | None = None, **fields: Any
    ) -> tuple[list[Token], Completion]:
        async def go() -> tuple[list[Token], Completion]:
            got: list[Token] = []
            async with AsyncClient(base, KEY) as c, c.stream(*args, **fields) as running:
                async for token in running:
                    got.append(token)
                    if len(got) == take:
                        break
                await running.close()
                return got, running.completion

        return asyncio.run(go())

    def models(self, base: str) -> Any:
        async def go() -> Any:
            async with AsyncClient(base, KEY) as c:
                return await c.models()

        return asyncio.run(go())


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Sync:
    made: Callable[[], Sync] = request.param
    return made()


@pytest.fixture(params=[True, False], ids=["stream", "json"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def body(text: str = " Paris", **extra: Any) -> dict[str, Any]:
    return {
        "id": "cmpl-1", "object": "text_completion", "model": "checkpoint",
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": "length", "stop_reason": None}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}, **extra,
    }  # fmt: skip


def refusal(code: str, status: str = "429 Too Many Requests", **headers: str) -> list[Step]:
    error = {"error": {"code": code, "message": "no", "type": "x"}, "request_id": "req_7"}
    return whole(error, status, **headers)


class Ledger:
    """A meter that writes down what it is told."""

    def __init__(self, refuse: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.refuse = refuse

    def reserve(self, request: Any, run: str) -> str:
        self.calls.append(("reserve", request.max_tokens))
        if self.refuse:
            raise errors.BudgetRefused("4 asked, 3 left.")
        return run

    def settle(self, ticket: Any, prompt: int, completion: int, source: str) -> None:
        self.calls.append(("settle", prompt, completion, source))

    def release(self, ticket: Any) -> None:
        self.calls.append(("release",))
