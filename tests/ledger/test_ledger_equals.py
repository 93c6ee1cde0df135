"""The ledger equals the server's own metering, to the token, whatever happens to requests and jobs.

A real server, real HTTP, both real books. What the client could only guess is flagged as an estimate in the ledger and
compared as such; everything else must be equal, request by request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from acs_jupyter import AsyncClient, errors, rollout
from acs_jupyter.ledger import close, ledger, report
from acs_jupyter.local.keys import Keys
from acs_jupyter.local.store import Store
from tests.conftest import UNHURRIED
from tests.support.desks import until
from tests.support.leavers import LEAVE, Side
from tests.support.servers import Running, serving

BUDGET = 200_000
unlike = itertools.count()
FAULTS = (
    "vllm_oom",
    "upstream_server_error",
    "error",
    "cut",
    "truncated",
    "blank",
    "no_usage",
    "crlf",
    "cold",
)


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    folder = tmp_path_factory.mktemp("server")
    with serving("--scripted", *UNHURRIED, "--data", str(folder), "--job-workers", "2") as server:
        yield server, folder


# -- what may happen ------------------------------------------------------------------------------

prompts = st.one_of(
    st.sampled_from(["", "Hello there", "é 🎉 x", "The lighthouse keeper"]),
    st.lists(st.integers(1, 300), min_size=1, max_size=6),
    st.lists(st.sampled_from(["One", "Two words", "🎉"]), min_size=2, max_size=3),
    st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=4), min_size=2, max_size=3),
)
complete = st.fixed_dictionaries(
    {
        "what": st.just("complete"),
        "prompt": prompts,
        "max_tokens": st.integers(1, 40),
        "n": st.integers(1, 3),
    },
    optional={
        "stream": st.booleans(),
        "logprobs": st.integers(0, 2),
        "echo": st.just(True),
        "stop": st.just(" the"),
        "seed": st.integers(0, 99),
    },
)
several = st.fixed_dictionaries({"what": st.just("several"), "count": st.integers(2, 6)})
leave = st.fixed_dictionaries(
    {
        "what": st.just("leave"),
        "chunk": st.integers(1, 9),
        "n": st.integers(1, 3),
        "prompts": st.integers(1, 2),
        "how": st.sampled_from(["stream", "async", "task", "pump", "rollout"]),
        "fast": st.booleans(),
    }
)
fault = st.fixed_dictionaries(
    {
        "what": st.just("fault"),
        "fault": st.sampled_from(FAULTS),
        "stream": st.booleans(),
        "times": st.integers(1, 2),
    }
)
job = st.fixed_dictionaries(
    {
        "what": st.just("job"),
        "end": st.sampled_from(["wait", "twice", "elsewhere", "cancel", "fail", "late"]),
        "max_tokens": st.integers(1, 20),
        "n": st.integers(1, 2),
    }
)
refused = st.fixed_dictionaries({"what": st.just("refused")})
many = st.fixed_dictionaries(
    {
        "what": st.just("rollout"),
        "count": st.integers(1, 8),
        "batch": st.sampled_from([1, 3]),
        "failing": st.integers(0, 2),
        "stopped": st.booleans(),
    }
)
mix = st.lists(st.one_of(complete, several, leave, fault, job, refused, many), min_size=3, max_size=9)


def do_complete(side: Side, prompt: Any, **fields: Any) -> None:
    with side.client() as client:
        client.complete(prompt, **fields)


def do_several(side: Side, count: int) -> None:
    async def go() -> None:
        async with side.client(AsyncClient) as client:
            await asyncio.gather(*(client.complete(f"number {i}", max_tokens=5 + i) for i in range(count)))

    asyncio.run(go())


def do_leave(side: Side, how: str, **shape: Any) -> None:
    """Leave when the first step of every choice has come. The next one is minutes away, or the engine far ahead."""
    chunk, n, prompts, fast = (shape[name] for name in ("chunk", "n", "prompts", "fast"))
    side.count += 1
    speed = "" if fast else f"rate=0.01 chunk={chunk} "
    prompt = [f"#scripted {speed}tokens=300\n{i} of {side.count}" for i in range(prompts)]
    before, known = len(side.rows()), len(report.entries(ledger()))
    LEAVE[how](side, prompt if prompts > 1 else prompt[0], (1 if fast else chunk) * n * prompts, n)
    sent = prompts if how == "rollout" else 1
    until(lambda: len(side.rows()) >= before + sent)
    new = report.entries(ledger())[known:]
    assert [entry["source"] for entry in new] == ["usage"] * sent  # nothing is guessed


def do_fault(side: Side, fault: str, stream: bool, times: int) -> None:
    side.count += 1
    before = len(side.rows())
    script = (
        f"tokens=6 retry_after=0 wait=0.05{next(unlike):06d}"  # the server counts how often it met a script
    )
    prompt = f"#scripted fault={fault} times={times} {script}\n{side.count} {side.key}"
    with side.client() as client, contextlib.suppress(errors.AcsError):
        client.complete(prompt, max_tokens=6, stream=stream)
    until(lambda: len(side.rows()) > before)


def do_job(side: Side, end: str, max_tokens: int, n: int) -> None:
    side.count += 1
    script = {"cancel": "rate=0.01 chunk=3", "fail": "fault=vllm_oom"}.get(end, "tokens=4")
    fields = {"max_tokens": max_tokens + 9 * (end == "cancel"), "n": n, "tag": str(side.count)}
    prompt = f"#scripted {script}\nx"
    with side.client() as client:
        made = client.jobs.submit(prompt, **fields)
        if end == "twice":
            assert client.jobs.submit(prompt, **fields).id == made.id
        if end == "cancel":
            until(lambda: client.jobs.get(made).status == "running")
            client.jobs.cancel(made)
            until(lambda: client.jobs.get(made).status == "cancelled")
            return
        if end == "elsewhere":
            close()  # another kernel, which knows the job's id and nothing else
            with side.client() as other:
                other.jobs.wait(made.id, 20)
            return
        with contextlib.suppress(errors.ApiError):
            client.jobs.wait(made, 20)
        if end == "late":
            client.jobs.submit(prompt, **fields)
            client.jobs.result(made)


def do_refused(side: Side) -> None:
    with side.client() as client, ledger().scope("cell", "small", 5), pytest.raises(errors.BudgetExceeded):
        client.complete("much too long", max_tokens=10)


def do_rollout(side: Side, count: int, batch: int, failing: int, stopped: bool) -> None:
    """Some prompts, some of which fail; perhaps stopped at a budget and gone on with."""
    side.count += 1
    prompts = [f"number {i} of {side.count}" for i in range(count)]
    prompts += [f"#scripted fault=vllm_oom\n{i} of {side.count}" for i in range(failing)]
    into = side.folder / f"{side.key[7:15]}-{side.count}.db"
    options = {
        "max_tokens": 5,
        "temperature": 0.0,
        "batch": batch,
        "retries": 0,
        "starts": 0,
        "progress": False,
    }
    with side.client() as client:
        if stopped:
            rollout(prompts, client=client, into=into, budget=60, **options)
        run = rollout(prompts, client=client, into=into, **options)
        assert run.stats.done >= count * (batch == 1)


DO: dict[str, Any] = {
    "complete": do_complete,
    "several": do_several,
    "leave": do_leave,
    "fault": do_fault,
    "job": do_job,
    "refused": do_refused,
    "rollout": do_rollout,
}


def compare(side: Side) -> None:
    book = ledger()
    theirs = {row.request_id: (row.prompt_tokens, row.completion_tokens) for row in side.rows()}
    mine = report.entries(book)
    assert {entry["state"] for entry in mine} <= {"settled", "released"}, mine
    sure = [entry for entry in mine if entry["source"] in ("usage", "continuous")]
    guessed = {entry["request_id"] for entry in mine if entry["source"] == "estimate"}
    for entry in sure:
        counted = entry["prompt_tokens"], entry["completion_tokens"]
        assert counted == theirs.get(entry["request_id"]), entry
    for entry in mine:  # what nobody counted here is never below what the server bills
        if entry["source"] == "estimate" and entry["request_id"] in theirs:
            prompt, completion = theirs[entry["request_id"]]
            assert entry["prompt_tokens"] >= prompt, entry
            assert entry["completion_tokens"] >= completion, entry
    known = {entry["request_id"] for entry in sure} | guessed
    assert {name: spent for name, spent in theirs.items() if sum(spent) and name not in known} == {}
    estimated = sum(e["prompt_tokens"] + e["completion_tokens"] for e in mine if e["source"] == "estimate")
    total = sum(sum(spent) for name, spent in theirs.items() if name not in guessed)
    used = book.store.rows("SELECT sum(used), sum(held) FROM accounts WHERE kind = 'month'")[0]
    assert used in {(total + estimated, 0), (None, None)}


@given(mix)
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a shrunk mix would take minutes to find
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_ledger_equals_the_servers_own_metering(
    metered: tuple[Running, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mix: list[dict[str, Any]]
) -> None:
    server, folder = metered
    store = Store(folder)
    key = Keys(store).create("an example", BUDGET)
    store.close()
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / f"{key[7:15]}.sqlite3"))
    side = Side(server, folder, key)
    try:
        for step in mix:
            DO[step["what"]](side, **{name: value for name, value in step.items() if name != "what"})
        compare(side)
    finally:
        close()
