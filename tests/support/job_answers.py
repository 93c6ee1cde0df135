"""Both clients' jobs carried out step by step, and the answers a server gives about one."""

from __future__ import annotations

import asyncio
from typing import Any

from acs_jupyter import AsyncClient, Client
from tests.support.player import Player, Step, whole

KEY = "acs-bm-testtest-do-not-show-me"
LAST = object()
"""Stands for what the step before returned."""
ASK = {"model": "m", "max_tokens": 4}


class Sync:
    """Carries out steps ``(method, arguments..., fields)`` on one client; returns what the last one gave."""

    def __call__(
        self, base: str, *steps: tuple[Any, ...], key: str = KEY, client: dict[str, Any] | None = None
    ) -> Any:
        last = None
        with Client(base, key, **(client or {})) as c:
            for name, *arguments in steps:
                given, fields = _split(arguments, last)
                last = getattr(c.jobs, name)(*given, **fields)
        return last


class Async:
    def __call__(
        self, base: str, *steps: tuple[Any, ...], key: str = KEY, client: dict[str, Any] | None = None
    ) -> Any:
        async def go() -> Any:
            last = None
            async with AsyncClient(base, key, **(client or {})) as c:
                for name, *arguments in steps:
                    given, fields = _split(arguments, last)
                    last = await getattr(c.jobs, name)(*given, **fields)
            return last

        return asyncio.run(go())


def _split(arguments: list[Any], last: Any) -> tuple[list[Any], dict[str, Any]]:
    fields = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
    return [last if argument is LAST else argument for argument in arguments], fields


def job(status: str = "queued", http: str = "200 OK", **more: Any) -> list[Step]:
    return whole(
        {"id": "job_1", "status": status, "usage_pending": False, "request_id": "req_job", **more}, http
    )


NEW = job(http="202 Accepted")
PENDING = whole({"id": "job_1", "status": "running"}, "202 Accepted", Retry_After="0")


def completion(text: str = " Paris", count: int = 1) -> list[Step]:
    choices = [
        {"index": i, "text": text, "logprobs": None, "finish_reason": "length", "stop_reason": None}
        for i in range(count)
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": 3 + count}
    return whole(
        {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": "checkpoint",
            "choices": choices,
            "usage": usage,
        },
        X_Request_Id="req_of_this_poll",
        X_Acs_Upstream_Model="checkpoint",
    )


def refusal(code: str, status: str, **headers: str) -> list[Step]:
    return whole(
        {"error": {"code": code, "message": "no", "type": "x"}, "request_id": "req_7"}, status, **headers
    )


def asked(server: Player) -> list[str]:
    """Every request so far: method and what follows ``/v1/completion-jobs``."""
    return [" ".join(r.line.split(" ")[:2]).replace("/v1/completion-jobs", "") for r in server.requests]


SUBMIT, RESULT, SHOW, CANCEL = "POST ", "GET /job_1/result", "GET /job_1", "POST /job_1/cancel"
