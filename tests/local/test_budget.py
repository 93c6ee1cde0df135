"""Budgets: what fits is held, what was used is settled, and nothing stays behind."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter as Tally
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acs_jupyter import Client
from acs_jupyter.errors import BudgetExceeded, UpstreamServerError
from acs_jupyter.local.budget import Budget, Purpose, fitting
from acs_jupyter.local.desk import Desk, Limits, Ticket
from acs_jupyter.local.keys import Keys
from acs_jupyter.local.ledger import Ledger, month_of, read_log
from acs_jupyter.local.scripted import ScriptedEngine
from acs_jupyter.local.store import Store
from acs_jupyter.wire import parse_clamp
from tests.support.contract import ASK, envelope
from tests.support.desks import Counter, counter, until
from tests.support.servers import serving
from tests.support.sse import chunks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from acs_jupyter.local.engine import Step, Task

CLAMPED = "x-acs-max-tokens-clamped"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Counter]:
    with counter(tmp_path) as running:
        yield running


def post(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("completions", json=ASK | body)


# What fits


@pytest.mark.parametrize(
    ("budget", "body", "applied"),
    [
        (100, {"max_tokens": 98}, None),  # exactly: the prompt is 2
        (100, {"max_tokens": 99}, 98),
        (100, {"max_tokens": 500, "n": 3}, 32),  # 98 // 3
        (100, {"prompt": ["Hello", "Hello"], "max_tokens": 500}, 48),  # (100 - 4) // 2
        (3, {"max_tokens": 5}, 1),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_clamp(served: Counter, budget: int, body: dict[str, Any], applied: int | None, stream: bool) -> None:
    answer = post(served.client(served.new_key(budget)), **body, stream=stream)
    assert answer.status_code == 200
    expected = body["max_tokens"] if applied is None else applied
    if applied is None:
        assert CLAMPED not in answer.headers
    else:
        header = f"requested={body['max_tokens']},applied={applied},reason=budget,source=client"
        assert answer.headers[CLAMPED] == header
    [entry] = served.quiet()
    many = body.get("n", 1) * (len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1)
    assert entry.completion_tokens == many * expected
    assert entry.prompt_tokens + entry.completion_tokens <= budget


def test_clamp_of_the_default(served: Counter) -> None:
    answer = served.client(served.new_key(50)).post("completions", json={"prompt": "Hello", "stream": True})
    assert answer.headers[CLAMPED] == "requested=32000,applied=48,reason=budget,source=default"
    both = served.client(served.new_key(50)).post("completions", json={"prompt": "Hello"})
    assert both.headers[CLAMPED] == "requested=32000,applied=48,reason=deadline+budget,source=default"
    assert both.json()["usage"]["completion_tokens"] == 48


def test_our_client_reads_the_clamp(served: Counter) -> None:
    for stream in (False, True):
        with Client(served.base, served.new_key(20)) as client:
            found = client.complete("Hello", max_tokens=64, stream=stream)
        assert found.clamp == parse_clamp("requested=64,applied=18,reason=budget,source=client")
        assert found.finish_reason == "length"


@pytest.mark.parametrize(
    ("before", "body", "begins"),
    [
        (10, {"max_tokens": 1}, "Monthly token budget exhausted for this API key"),
        (8, {"max_tokens": 1}, "Prompt alone would exceed"),
        (6, {"max_tokens": 1, "n": 3}, "Monthly token budget exhausted for this API key"),
    ],
)
def test_nothing_fits(served: Counter, before: int, body: dict[str, Any], begins: str) -> None:
    client = served.client(served.new_key(10))
    assert post(client, max_tokens=before - 2).status_code == 200
    for stream in (False, True):
        answer = post(client, **body, stream=stream)
        error = envelope(answer, 429, "budget_exceeded")
        assert error["message"].startswith(begins)
        assert error["retryable"] is False
        assert "retry-after" not in answer.headers
    assert len(served.quiet()) == 1
    assert post(served.client()).status_code == 200
    prefix = served.desk.keys.listed()[0].prefix
    assert served.desk.keys.set_budget(prefix, 0)
    assert post(client, **body).status_code == 200


@given(
    limit=st.integers(1, 500),
    used=st.integers(0, 600),
    held=st.integers(0, 300),
    prompt=st.integers(0, 100),
    choices=st.integers(1, 16),
)
def test_what_fits_is_the_most_that_fits(limit: int, used: int, held: int, prompt: int, choices: int) -> None:
    left = limit - used - held - prompt
    if left < choices:
        with pytest.raises(BudgetExceeded):
            fitting(limit, used, held, prompt, choices)
        return
    tokens = fitting(limit, used, held, prompt, choices)
    assert tokens >= 1
    assert choices * tokens <= left < choices * (tokens + 1)


def test_requests_side_by_side_do_not_overshoot(served: Counter) -> None:
    key = served.new_key(1000)

    def one(_: int) -> int:
        with httpx.Client(base_url=served.base, headers={"Authorization": f"Bearer {key}"}) as client:
            return client.post("completions", json=ASK | {"max_tokens": 90, "n": 2}).status_code

    found = Tally[int]()
    threads = [threading.Thread(target=lambda i=i: found.update([one(i)])) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    served.quiet()
    assert set(found) <= {200, 429}
    assert found[200] >= 5
    assert served.used(key) <= 1000


# When it begins and ends


def test_the_month_turns(served: Counter) -> None:
    served.clock.set(2026, 11, 30, 23, 59, 59)
    client = served.client(served.new_key(10))
    assert post(client, max_tokens=8).status_code == 200
    envelope(post(client), 429, "budget_exceeded")
    served.clock.go(1)
    assert month_of(served.clock.now) == "2026-12"
    assert post(client, max_tokens=8).headers.get(CLAMPED) is None
    envelope(post(client), 429, "budget_exceeded")
    assert [entry.month for entry in served.quiet()] == ["2026-11", "2026-12"]


def test_a_request_over_the_turn_belongs_to_its_start(served: Counter) -> None:
    served.clock.set(2026, 12, 31, 23, 59, 59)
    key = served.new_key(100)
    client = served.client(key)
    body = {"prompt": "#scripted rate=100", "max_tokens": 1000, "stream": True}
    with client.stream("POST", "completions", json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        served.clock.go(2)
        whole = post(served.client(key), max_tokens=98)
        assert CLAMPED not in whole.headers  # the new month has its full budget, whatever still runs
    entries = served.quiet()
    assert [(e.month, month_of(e.at)) for e in entries] == [("2027-01", "2027-01"), ("2026-12", "2027-01")]
    assert served.used(key, "2027-01") == 100
    assert 0 < served.used(key, "2026-12") < 100


def test_two_keys_are_two_budgets(served: Counter) -> None:
    one, two = served.new_key(10), served.new_key(10)
    assert post(served.client(one), max_tokens=8).status_code == 200
    envelope(post(served.client(one)), 429, "budget_exceeded")
    assert CLAMPED not in post(served.client(two), max_tokens=8).headers
    assert (served.used(one), served.used(two)) == (10, 10)


# What is settled


def test_the_log_has_counts_and_no_text(served: Counter, tmp_path: Path) -> None:
    key = served.new_key()
    body = {"prompt": "SECRET-PROMPT here", "max_tokens": 3, "user": "SECRET-USER"}
    answer = served.client(key).post("completions", json=body, headers={"X-Request-Id": "trace-7"})
    [entry] = served.quiet()
    assert read_log(tmp_path) == [entry]
    assert (entry.request_id, entry.prefix, entry.endpoint) == ("trace-7", key[7:15], "completions")
    assert (entry.model, entry.status, entry.source) == ("scripted", 200, "usage")
    usage = answer.json()["usage"]
    assert (entry.prompt_tokens, entry.completion_tokens) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )
    assert entry.at == served.clock.now
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"trace-7" in stored
    for text in (b"SECRET", answer.json()["choices"][0]["text"].encode()):
        assert text not in stored


def test_a_stream_is_metered_without_being_asked(served: Counter) -> None:
    answer = post(served.client(), stream=True, max_tokens=7, n=2)
    assert all("usage" not in chunk for chunk in chunks(answer.text))
    [entry] = served.quiet()
    assert (entry.prompt_tokens, entry.completion_tokens, entry.source) == (2, 14, "usage")


def test_the_ledger_is_written_before_the_end_is_told(served: Counter) -> None:
    for number in range(1, 11):
        post(served.client(), stream=number % 2 == 0)
        assert len(served.desk.ledger.entries()) == number


def test_stop_strings_are_settled_as_reported(served: Counter) -> None:
    body = {"prompt": '#scripted say="one two three four"', "stop": " three", "max_tokens": 50}
    usage = post(served.client(), **body).json()["usage"]
    [entry] = served.quiet()
    assert entry.completion_tokens == usage["completion_tokens"]
    assert entry.prompt_tokens == usage["prompt_tokens"]


def test_leaving_in_mid_stream_pays_for_what_came(served: Counter) -> None:
    key = served.new_key(5000)
    client = served.client(key)
    body = {"prompt": "#scripted rate=100", "max_tokens": 2000, "stream": True}
    with client.stream("POST", "completions", json=body) as stream:
        lines = (line for line in stream.iter_lines() if line)
        for _ in range(5):
            next(lines)
        assert served.desk.budget.reserved > 2000
    [entry] = served.quiet()
    assert (entry.status, entry.source) == (499, "cut")
    assert entry.prompt_tokens > 0
    assert 5 <= entry.completion_tokens < 500
    assert served.used(key) == entry.prompt_tokens + entry.completion_tokens
    assert post(served.client(key)).status_code == 200


def test_leaving_a_json_answer_pays_for_what_was_made(served: Counter) -> None:
    with httpx.Client(base_url=served.base, timeout=0.3) as hasty:
        hasty.headers = served.client().headers
        with pytest.raises(httpx.ReadTimeout):
            hasty.post("completions", json={"prompt": "#scripted rate=100", "max_tokens": 2000})
    [entry] = served.quiet()
    assert (entry.status, entry.source) == (499, "cut")
    assert 1 <= entry.completion_tokens < 500
    assert post(served.client()).status_code == 200


def test_leaving_before_anything_came_is_free(served: Counter) -> None:
    with httpx.Client(base_url=served.base, timeout=0.2, headers=served.client().headers) as hasty:
        for stream in (False, True):
            with pytest.raises(httpx.ReadTimeout):
                hasty.post(
                    "completions", json={"prompt": "#scripted ttft=9", "max_tokens": 5, "stream": stream}
                )
    assert [(e.prompt_tokens, e.completion_tokens, e.source) for e in served.quiet()] == [(0, 0, "none")] * 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ["upstream_server_error", "modal_cold_boot", "circuit_open", "html502"])
def test_refusals_of_the_engine_are_free(served: Counter, fault: str, stream: bool) -> None:
    answer = post(served.client(), prompt=f"#scripted fault={fault}", stream=stream)
    assert answer.status_code >= 500
    [entry] = served.quiet()
    assert (entry.prompt_tokens, entry.completion_tokens) == (0, 0)
    assert (entry.status, entry.source) == (answer.status_code, "none")
    assert post(served.client()).status_code == 200


def test_an_error_in_a_200_is_free(served: Counter) -> None:
    for script in ("fault=error", "fault=cold wait=0 code=modal_cold_boot"):
        answer = post(served.client(), prompt=f"#scripted {script}")
        assert (answer.status_code, "error" in answer.json()) == (200, True)
    assert [(e.completion_tokens, e.source) for e in served.quiet()] == [(0, "none")] * 2


@pytest.mark.parametrize("fault", ["error", "cut", "truncated"])
def test_a_stream_that_breaks_pays_for_what_was_made(served: Counter, fault: str) -> None:
    body = {"prompt": f"#scripted fault={fault} after=4 rate=200", "max_tokens": 300, "stream": True}
    with served.client().stream("POST", "completions", json=body) as stream:
        frames = []
        try:
            frames = [line for line in stream.iter_lines() if line]
        except httpx.RemoteProtocolError:
            assert fault == "cut"
        assert "data: [DONE]" not in frames
    [entry] = served.quiet()
    assert entry.source == "cut"
    assert 4 <= entry.completion_tokens < 300
    assert post(served.client()).status_code == 200


class Failing(ScriptedEngine):
    """Breaks after the third token."""

    async def generate(self, task: Task) -> AsyncIterator[list[Step]]:
        made = 0
        async for burst in super().generate(task):
            for step in burst:
                yield [step]
                made += 1
                if made == 3:
                    raise RuntimeError("broken")


def test_an_engine_that_fails(tmp_path: Path) -> None:
    with counter(tmp_path, engine=Failing()) as served:
        client = served.client()
        failed = post(client, max_tokens=9)
        envelope(failed, 502, "upstream_server_error")
        assert failed.headers["retry-after"] == "1"
        assert "upstream_server_error" in post(client, max_tokens=9, stream=True).text
        free, kept = served.quiet()
        assert (free.completion_tokens, free.status, free.source) == (0, 502, "none")
        assert (kept.completion_tokens, kept.status, kept.source) == (3, 502, "cut")
        assert post(client, max_tokens=2).json()["usage"]["completion_tokens"] == 2


def test_ending_the_server_settles_what_runs(tmp_path: Path) -> None:
    body = {"prompt": "#scripted rate=50", "max_tokens": 3000, "stream": True}
    with serving("--scripted", "--data", str(tmp_path)) as server, httpx.Client(timeout=20) as client:
        url = f"{server.base}/completions"
        with client.stream("POST", url, json=body, headers=server.auth) as stream:
            lines = stream.iter_lines()
            next(lines)
            server.process.terminate()
            assert server.process.wait(10) == 0
    [entry] = read_log(tmp_path)
    assert entry.source == "cut"
    assert entry.completion_tokens >= 1


def test_what_cannot_be_written_still_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    keys, ledger = Keys(store), Ledger(store)
    caller = keys.require(f"Bearer {keys.create(budget=100)}")
    budget = Budget(store, keys, ledger, lambda: 0.0)

    def one() -> None:
        what = Purpose("r", "completions", "m")
        held = budget.reserve(caller, what, prompt=10, choices=1, max_tokens=20)
        for completion in (15, 99):  # the second settlement changes nothing
            budget.settle(held, prompt=10, completion=completion, status=200, source="usage")

    def refuse() -> None:
        raise sqlite3.OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(store, "writing", refuse)
        one()
    assert (budget.reserved, ledger.used(caller.id, "1970-01"), ledger.entries()) == (0, 25, [])
    one()
    assert (ledger.used(caller.id, "1970-01"), len(ledger.entries())) == (50, 2)
    store.close()


def test_old_rows_go_and_sums_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for now in (0.0, 30 * 86_400.0, 410 * 86_400.0):
        desk = Desk(store, "my-own-key", now=lambda now=now: now)  # type: ignore[misc]
        caller = desk.keys.require("Bearer my-own-key")
        with desk.ticket(caller, f"at-{now:g}", "completions") as ticket:
            ticket.hold(model="m", prompt=1, choices=1, asked=1, chosen=True, hurried=False)
            ticket.reported(1, 1)
            ticket.done()
    assert [entry.request_id for entry in desk.ledger.entries()] == ["at-2.592e+06", "at-3.5424e+07"]
    assert desk.ledger.used(caller.id, "1970-01") == 4
    store.close()


# Any mix


BODIES: dict[str, dict[str, Any]] = {
    "json": {"max_tokens": 5},
    "stream": {"max_tokens": 6, "stream": True, "stream_options": {"include_usage": True}},
    "many": {"max_tokens": 3, "n": 4, "prompt": ["a", "b c"]},
    "large": {"max_tokens": 400, "n": 2},
    "scored": {"max_tokens": 2, "prompt_logprobs": 1},
    "unknown": {"nonsense": 1},
    "model": {"model": "other"},
    "long": {"prompt": [1] * 70_000},
    "broken": {"prompt": "#scripted fault=upstream_server_error"},
    "error": {"prompt": "#scripted fault=error"},
    "cut": {"prompt": "#scripted fault=cut after=1 rate=500", "max_tokens": 40, "stream": True},
    "engine": {"stop": [""]},
}
LEAVING: dict[str, dict[str, Any]] = {
    "leave early": {"prompt": "#scripted ttft=5", "max_tokens": 5},
    "leave late": {"prompt": "#scripted rate=100", "max_tokens": 500, "stream": True},
}


async def act(client: httpx.AsyncClient, what: str) -> int | None:
    """Do one thing; the tokens its answer reports, ``None`` when it reports nothing."""
    try:
        if what in LEAVING:
            async with client.stream("POST", "completions", json=ASK | LEAVING[what], timeout=0.1) as stream:
                async for _ in stream.aiter_lines():
                    break
            return None
        if what == "json?":
            answer = await client.post("completions", content=b"{")
        elif what == "key":
            answer = await client.post("completions", json=ASK, headers={"Authorization": "Bearer x"})
        else:
            answer = await client.post("completions", json=ASK | BODIES[what])
    except httpx.TransportError:
        return None
    if answer.status_code != 200 or "usage" not in answer.text:
        return None
    body = chunks(answer.text)[-1] if BODIES[what].get("stream") else answer.json()
    return int(body["usage"]["total_tokens"])


ACTIONS = [*BODIES, *LEAVING, "json?", "key"]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=24),
    budget=st.sampled_from([0, 60, 400]),
    active=st.integers(1, 3),
    waiting=st.integers(0, 4),
)
def test_nothing_stays_behind(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str], budget: int, active: int, waiting: int
) -> None:
    folder = tmp_path_factory.mktemp("mix")
    with counter(folder, Limits(active=active, waiting=waiting)) as served:
        key = served.new_key(budget)

        async def all_at_once() -> list[int | None]:
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(base_url=served.base, headers=headers, timeout=20) as client:
                return await asyncio.gather(*(act(client, what) for what in actions))

        reported = asyncio.run(all_at_once())
        entries = served.quiet()
        paid = [e.prompt_tokens + e.completion_tokens for e in entries]
        ended = sorted(p for p, e in zip(paid, entries, strict=True) if e.source == "usage")
        assert ended == sorted(tokens for tokens in reported if tokens is not None)
        assert served.used(key) == sum(paid)
        assert not budget or served.used(key) <= budget
        assert post(served.client()).status_code == 200
        until(lambda: served.desk.gate.active == 0)


# Work without a request of its own


def test_a_ticket_for_work_behind_the_counter(tmp_path: Path) -> None:
    store = Store(tmp_path)
    desk = Desk(store, "my-own-key", limits=Limits(window_tokens=10), now=lambda: 0.0)
    key = desk.keys.create(budget=100)
    caller = desk.keys.require(f"Bearer {key}")
    assert desk.keys.caller(caller.id) == caller
    own = desk.keys.require("Bearer my-own-key")
    assert desk.keys.caller(own.id) == own
    assert not desk.ticket(own, "r", "completions").limited
    assert desk.keys.caller("nobody") is None

    def hold(ticket: Ticket) -> int:
        return ticket.hold(model="m", prompt=5, choices=2, asked=20, chosen=True, hurried=False)

    with desk.ticket(caller, "job-1", "completion-jobs") as ticket:
        assert hold(ticket) == 20
        assert desk.budget.reserved == 45
        assert ticket.limited
        ticket.reported(None, 4)
        assert desk.budget.reserved == 45
        ticket.reported(7, 30)
        ticket.ended(200)
        assert desk.budget.reserved == 0
    with pytest.raises(BudgetExceeded), desk.ticket(caller, "job-2", "completion-jobs") as ticket:
        ticket.hold(model="m", prompt=63, choices=1, asked=1, chosen=True, hurried=False)

    def break_down() -> None:
        with desk.ticket(caller, "job-3", "completion-jobs") as ticket:
            hold(ticket)
            ticket.reported(5, 3)
            raise UpstreamServerError("broken")

    with pytest.raises(UpstreamServerError):
        break_down()
    with desk.ticket(caller, "job-4", "completion-jobs") as ticket:  # left in the middle
        hold(ticket)
        ticket.reported(None, 3)
    assert desk.budget.reserved == 0
    assert [
        (e.request_id, e.status, e.prompt_tokens, e.completion_tokens) for e in desk.ledger.entries()
    ] == [
        ("job-1", 200, 7, 30),
        ("job-3", 502, 0, 0),
        ("job-4", 499, 5, 3),
    ]
    assert {e.endpoint for e in desk.ledger.entries()} == {"completion-jobs"}
    store.close()
