"""Every fault of the scripted engine, in both clients, streamed and not: typed, kept, freed, settled."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, Session, errors
from tests.support.servers import Running, serving

TOKENS = 12
AFTER = 4
# The error's class for a stream and for a JSON body; None where the answer comes whole.
FAULTS: dict[str, tuple[type[errors.AcsError] | None, type[errors.AcsError] | None]] = {
    "cold": (None, None),
    "error": (errors.UpstreamError, errors.UpstreamError),
    "cut": (errors.Interrupted, errors.ConnectionFailed),
    "truncated": (errors.Interrupted, errors.Interrupted),
    "blank": (errors.Interrupted, errors.Interrupted),
    "slow": (None, None),
    "no_usage": (None, None),
    "crlf": (None, None),
    "html502": (errors.UpstreamServerError, errors.UpstreamServerError),
    "rate_limited": (errors.RateLimited, errors.RateLimited),
    "queue_full": (errors.QueueFull, errors.QueueFull),
    "budget_exceeded": (errors.BudgetExceeded, errors.BudgetExceeded),
    "circuit_open": (errors.CircuitOpen, errors.CircuitOpen),
    "upstream_deadline": (errors.UpstreamDeadline, errors.UpstreamDeadline),
    "internal_error": (errors.ServerFailure, errors.ServerFailure),
    "vllm_oom": (errors.EngineOutOfMemory, errors.EngineOutOfMemory),
}


class Meter:
    """Writes down how each hold ended."""

    def __init__(self) -> None:
        self.held = 0
        self.ends: list[tuple[int, int, str] | None] = []

    def reserve(self, request: Any, run: str) -> None:
        self.held += 1

    def settle(self, ticket: Any, prompt: int, completion: int, source: str) -> None:
        self.ends.append((prompt, completion, source))

    def release(self, ticket: Any) -> None:
        self.ends.append(None)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving("--scripted", "--starts", "100000", "--reads", "100000") as running:
        yield running


def busy(server: Running) -> int:
    with urllib.request.urlopen(f"{server.root}/health") as answer:
        return int(json.load(answer)["backends"][0]["active_choices"])


def attempt(server: Running, kind: str, session: Session, meter: Meter, **fields: Any) -> Exception | None:
    options: dict[str, Any] = {"retries": 0, "meter": meter, "timeout": 30}
    try:
        if kind == "sync":
            with Client(server.base, server.key, **options) as client:
                client.complete(session=session, **fields)
        else:
            asyncio.run(_attempt(server, session, options, fields))
    except errors.AcsError as error:
        return error
    return None


async def _attempt(
    server: Running, session: Session, options: dict[str, Any], fields: dict[str, Any]
) -> None:
    async with AsyncClient(server.base, server.key, **options) as client:
        await client.complete(session=session, **fields)


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "json"])
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_typed_kept_freed_and_settled(
    server: Running, fault: str, kind: str, streamed: bool
) -> None:
    session, meter = Session(), Meter()
    prompt = f"#scripted tokens={TOKENS} fault={fault} after={AFTER}"
    fields = {"prompt": prompt, "max_tokens": 50, "logprobs": 1, "stream": streamed}
    error = attempt(server, kind, session, meter, **fields)
    expected = FAULTS[fault][0 if streamed else 1]
    assert type(error) is (expected or type(None)), error
    (run,) = session.runs.values()
    node = session.nodes[run.nodes[0]]
    if expected is None:
        assert (run.outcome, len(node.tokens)) == ("done", TOKENS)
    else:
        assert run.outcome in ("failed", "interrupted")
        assert run.error is not None
        assert run.error["code"] == error.code  # type: ignore[union-attr]
        if streamed and fault in ("error", "cut", "truncated"):
            assert len(node.tokens) == AFTER
            assert run.outcome == "interrupted"
    assert meter.held == len(meter.ends) == 1
    if node.tokens:
        assert meter.ends[0] is not None
        _, spent, source = meter.ends[0]
        cut = {
            "no_usage": TOKENS,
            "error": 50,
            "cut": 50,
            "truncated": 50,
        }  # the most where nobody has counted
        if source == "estimate":
            assert spent >= cut[fault]
        else:
            assert spent == len(node.tokens)
    deadline = time.monotonic() + 5
    while busy(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert busy(server) == 0
    good = attempt(server, kind, Session(), Meter(), prompt="#scripted tokens=2", max_tokens=5)
    assert good is None
