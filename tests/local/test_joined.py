"""Upstreams behind the desk: keys, budgets, gate, rate and jobs hold for what another server answers."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from acs_jupyter.local.desk import Limits
from acs_jupyter.local.ledger import month_of, read_log
from tests.conftest import UNHURRIED
from tests.support.command import run
from tests.support.contract import envelope
from tests.support.desks import until
from tests.support.gateway import QUICK, SERVED
from tests.support.job_server import outcome, submit
from tests.support.job_server import until as until_job
from tests.support.joined import LEFT, joined
from tests.support.player import CLOSE, DONE, HANG, chunk, frames, head, stream, whole
from tests.support.servers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import Running

SLOW = "#scripted rate=20\nslow"
METER = {"include_usage": True, "continuous_usage_stats": True}
TEXT = [{"index": 0, "text": "a" * 700, "logprobs": None, "finish_reason": "length", "stop_reason": None}]
BODY = json.dumps(
    {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": SERVED, "choices": TEXT,
     "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}, indent=1
).encode()  # fmt: skip


def ended(result: httpx.Response, status: int, code: str) -> None:
    """A job's result that is a failure."""
    assert (result.status_code, result.json()["error"]["code"]) == (status, code)
    assert result.headers["x-should-retry"] == "false"


@pytest.fixture
def behind(scripted_server: Running) -> dict[str, str]:
    return {"base": scripted_server.base, "key": scripted_server.key}


def events(body: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("shape", ["json", "stream", "stream with usage"])
def test_a_budget_clamps_and_is_settled_by_the_report(behind: Any, shape: str) -> None:
    body: dict[str, Any] = {"prompt": "Hello there", "max_tokens": 200, "n": 2}
    if shape != "json":
        body["stream"] = True
    if shape == "stream with usage":
        body["stream_options"] = {"include_usage": True}
    with joined(**behind, budget=100) as server:
        got = server.client.post("completions", json=body)
        # Text is not counted by this upstream: 11 bytes and a start token are held for the prompt.
        assert got.headers["x-acs-max-tokens-clamped"] == (
            "requested=200,applied=44,reason=budget,source=client"
        )
        [(prompt, completion, *rest)] = server.rows()
        assert rest == [200, "usage"]
        if shape == "json":
            usage = got.json()["usage"]
            assert (usage["prompt_tokens"], usage["completion_tokens"]) == (prompt, completion)
        else:
            told = [event["usage"] for event in events(got.text) if event.get("usage")]
            assert [(u["prompt_tokens"], u["completion_tokens"]) for u in told] == (
                [(prompt, completion)] if shape == "stream with usage" else []
            )
            assert got.text.endswith("data: [DONE]\n\n")
        assert completion == 88
        assert 0 < prompt <= 12


def test_the_same_request_costs_the_same_in_every_shape(behind: Any) -> None:
    body = {"prompt": ["One", "Two words"], "max_tokens": 5, "n": 2}
    with joined(**behind, budget=1000) as server:
        usage = server.client.post("completions", json=body).json()["usage"]
        server.client.post("completions", json=body | {"stream": True})
        server.client.post("completions", json=body | {"stream": True, "stream_options": METER})
        rows = server.rows()
        caller = server.desk.keys.require(server.client.headers["authorization"])
        used = server.desk.ledger.used(caller.id, month_of(server.desk.ledger.entries()[0].at))
    assert rows == [(usage["prompt_tokens"], usage["completion_tokens"], 200, "usage")] * 3
    assert used == 3 * usage["total_tokens"]


def test_an_exhausted_budget_asks_nothing_of_the_upstream(behind: Any) -> None:
    with joined(**behind, budget=10) as server:
        error = envelope(server.client.post("completions", json={"prompt": "x" * 40}), 429, "budget_exceeded")
        assert error["retryable"] is False
        assert server.rows() == []


def test_a_client_that_leaves_pays_the_running_usage() -> None:
    with (
        playing_stream(*frames([" a", " b", " c"]), HANG) as upstream,
        joined(upstream, budget=100) as server,
    ):
        body = {"prompt": [1, 2], "max_tokens": 50, "stream": True, "stream_options": METER}
        with server.client.stream("POST", "completions", json=body) as got:
            lines = got.iter_lines()  # held: the answer ends with it
            for _ in range(3):
                next(line for line in lines if line.startswith("data: {"))
            assert server.desk.budget.reserved == 52
        assert server.rows() == [(3, 3, LEFT, "cut")]


def test_a_client_that_leaves_pays_what_it_saw(behind: Any) -> None:
    with joined(**behind, budget=1000) as server:
        body = {"prompt": SLOW, "max_tokens": 400, "stream": True}
        seen = 0
        with server.client.stream("POST", "completions", json=body) as got:
            for line in got.iter_lines():
                seen += line.startswith("data: {")
                if seen == 3:
                    break
        [(prompt, completion, status, source)] = server.rows()
    assert (status, source) == (LEFT, "cut")
    assert prompt == len(SLOW) + 1  # as it was held, since nothing was reported
    assert 3 <= completion < 20


@contextmanager
def playing_stream(*steps: Any, **options: Any) -> Iterator[str]:
    with playing(stream(*steps, **options)) as base:
        yield base


@contextmanager
def playing(*answers: Any) -> Iterator[str]:
    from tests.support.upstreams import playing as player

    with player(*answers) as upstream:
        yield upstream.base


BROKEN = b'data: {"error":{"message":"CUDA out of memory","type":"x","code":500}}\n\n'


@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_costs_nothing(behind: Any, streamed: bool) -> None:
    with joined(**behind, budget=100) as server:
        body = {"prompt": "#scripted fault=vllm_oom", "max_tokens": 5, "stream": streamed}
        envelope(server.client.post("completions", json=body), 502, "upstream_server_error")
        assert server.rows() == [(0, 0, 502, "none")]


def test_an_error_behind_keepalives_costs_nothing() -> None:
    late = [0.5, *whole({"error": {"message": "no", "code": 400}}, "400 Bad Request")]
    patience = replace(QUICK, cold=0.1, warm=0.1)
    with playing(late) as base, joined(base, budget=100, patience=patience) as server:
        got = server.client.post("completions", json={"prompt": [1], "max_tokens": 5})
        assert (got.status_code, got.json()["error"]["code"]) == (200, "vllm_invalid_request")
        assert server.rows() == [(0, 0, 400, "none")]


def test_what_came_before_an_error_in_a_stream_is_paid() -> None:
    ask = {"prompt": [1], "max_tokens": 9, "stream": True}
    plain = [b'data: {"choices":[{"index":0,"text":" a"}]}\n\n'] * 2
    with (
        playing(stream(*plain, BROKEN, DONE), stream(BROKEN, DONE)) as base,
        joined(base, budget=100) as server,
    ):
        assert "vllm_oom" in server.client.post("completions", json=ask).text
        assert "vllm_oom" in server.client.post("completions", json=ask).text
        assert server.rows() == [(1, 2, 502, "cut"), (0, 0, 502, "none")]


def test_a_body_that_breaks_off_costs_nothing() -> None:
    with playing([head(), chunk(b'{"a":1'), CLOSE]) as base, joined(base, budget=100) as server:
        with pytest.raises(httpx.RemoteProtocolError):
            server.client.post("completions", json={"prompt": [1], "max_tokens": 9})
        assert server.rows() == [(0, 0, 502, "none")]


def test_an_upstream_without_usage_is_no_client_that_left() -> None:
    with playing(whole({"choices": TEXT})) as base, joined(base, budget=100) as server:
        assert server.client.post("completions", json={"prompt": [1], "max_tokens": 9}).status_code == 200
        # The prompt as held, and a token for four bytes of text, but no more than was asked for.
        assert server.rows() == [(1, 9, 200, "cut")]


def test_the_gate_holds_and_opens_again(behind: Any) -> None:
    with joined(**behind, limits=Limits(active=1, waiting=1, starts=0)) as server:
        body = {"prompt": SLOW, "max_tokens": 400, "stream": True}
        quick = {"prompt": "x", "max_tokens": 1}
        with server.client.stream("POST", "completions", json=body) as got:
            parts = got.iter_raw()  # held: the answer ends with it
            next(parts)
            with pytest.raises(httpx.ReadTimeout):
                server.client.post("completions", json=quick, timeout=0.3)
            until(lambda: server.desk.gate.waiting == 0)
            assert server.desk.gate.active == 1
        assert server.client.post("completions", json=quick).status_code == 200
        assert server.rows()[-1][2:] == (200, "usage")


def test_a_full_queue_and_the_rate_are_told(behind: Any) -> None:
    with joined(**behind, limits=Limits(active=1, waiting=0, starts=3)) as server:
        body = {"prompt": SLOW, "max_tokens": 400, "stream": True}
        quick = {"prompt": "x", "max_tokens": 1}
        with server.client.stream("POST", "completions", json=body) as got:
            parts = got.iter_raw()  # held: the answer ends with it
            next(parts)
            envelope(server.client.post("completions", json=quick), 429, "queue_full")
        server.rows()
        assert server.client.post("completions", json=quick).status_code == 200
        refused = server.client.post("completions", json=quick)
        envelope(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        [model] = server.client.get("models").json()["data"]
        assert model["capabilities"]["max_inflight_per_key"] == 1
        assert model["capabilities"]["rate_limit_per_minute"] == 3


def test_the_window_lowers_and_refuses(behind: Any) -> None:
    with joined(**behind, limits=Limits(window_tokens=8, starts=0)) as server:
        long = {"prompt": "x", "max_tokens": 9}
        envelope(server.client.post("completions", json=long), 400, "deadline_infeasible")
        assert server.client.post("completions", json=long | {"stream": True}).status_code == 200
        got = server.client.post("completions", json={"prompt": "x"})
        assert got.headers["x-acs-max-tokens-clamped"].endswith(",applied=8,reason=deadline,source=default")
        assert got.json()["usage"]["completion_tokens"] == 8
        job = submit(server.client, "k", "x", model="m", max_tokens=9).json()["id"]
        assert outcome(server.client, job).json()["usage"]["completion_tokens"] == 9
        server.rows()


def test_the_window_is_the_deadline_of_upstreams() -> None:
    body = {"prompt": [1], "max_tokens": 1}
    with playing([0.6, *whole(BODY)]) as base:
        for window, expected in (("0", 200), ("0.3", 504)):
            with serving("--upstream", base, "--window", window) as front:
                got = httpx.post(f"{front.base}/completions", json=body, headers=front.auth)
            assert got.status_code == expected


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_job_gives_the_body_of_its_upstream(encoding: str) -> None:
    with playing(whole(BODY)) as base, joined(base, budget=50) as server:
        job = submit(server.client, "k", [1, 2], model="m", max_tokens=200).json()
        assert outcome(server.client, job["id"]).status_code == 200
        path = f"completion-jobs/{job['id']}/result"
        got = server.client.get(path, headers={"Accept-Encoding": encoding})
        [row] = server.desk.ledger.entries()
        assert server.rows() == [(3, 2, 200, "usage")]
    assert got.content == BODY
    assert got.headers.get("content-encoding", "identity") == encoding
    assert got.headers["cache-control"] == "private, no-store"
    assert got.headers["vary"] == "Accept-Encoding"
    assert got.headers["x-acs-upstream-model"] == SERVED
    assert got.headers["x-acs-max-tokens-clamped"] == "requested=200,applied=48,reason=budget,source=client"
    assert (row.endpoint, row.request_id) == ("completion-jobs", job["request_id"])


def test_jobs_fail_and_end_as_upstreams_do(behind: Any) -> None:
    with joined(**behind, budget=1000) as server:
        http = server.client
        bad = submit(http, "bad", "#scripted fault=vllm_oom", model="m").json()["id"]
        ended(outcome(http, bad), 502, "upstream_server_error")
        slow = submit(http, "slow", SLOW, model="m", max_tokens=400).json()["id"]
        until_job(http, slow, "running")
        until(lambda: server.front.fleet.upstreams[0].active == 1)
        http.post(f"completion-jobs/{slow}/cancel")
        ended(outcome(http, slow), 409, "job_cancelled")
        envelope(submit(http, "none", model="other"), 400, "model_not_found")
        assert server.rows() == [(0, 0, 502, "none"), (0, 0, LEFT, "none")]


def test_a_result_above_its_size_is_paid() -> None:
    large = BODY.replace(b"aaa", b"a" * 10_000)
    assert len(large) > 2 * 2**20
    with playing(whole(large)) as base, joined(base) as server:
        job = submit(server.client, "k", [1], model="m").json()["id"]
        ended(outcome(server.client, job), 502, "job_result_too_large")
        assert server.rows() == [(3, 2, 200, "usage")]


def test_health_tells_a_breaker_and_a_lost_database() -> None:
    with playing(whole(BODY)) as base:
        pass
    with joined(base, patience=replace(QUICK, retries=0, breaker_failures=1)) as server:
        health = f"{server.front.root}/health"
        assert httpx.get(health).json()["status"] == "degraded"  # it was never reached
        envelope(
            server.client.post("completions", json={"prompt": [1], "max_tokens": 1}),
            502, "upstream_unreachable",
        )  # fmt: skip
        assert httpx.get(health).json()["status"] == "degraded"
        envelope(
            server.client.post("completions", json={"prompt": [1], "max_tokens": 1}), 503, "circuit_open"
        )
        assert server.rows() == [(0, 0, 502, "none"), (0, 0, 503, "none")]
        server.desk.store.close()
        down = httpx.get(health)
        assert (down.status_code, down.json()["status"]) == (503, "down")


def test_two_commands_and_a_key_with_a_budget(tmp_path: Path) -> None:
    folder = tmp_path / "acs"
    made = run("keys", "create", "--data", str(folder), "--budget", "60")
    key = made.stdout.strip()
    with (
        serving("--scripted", *UNHURRIED, "--data", str(tmp_path / "upstream")) as upstream,
        serving(
            "--upstream", upstream.base, "--upstream-key-env", "UP", "--data", str(folder), UP=upstream.key
        ) as front,
        httpx.Client(base_url=front.base + "/", headers={"Authorization": f"Bearer {key}"}) as client,
    ):
        got = client.post("completions", json={"prompt": "Hello", "max_tokens": 500, "stream": True})
        assert got.headers["x-acs-max-tokens-clamped"].startswith("requested=500,applied=54,reason=budget")
        job = submit(client, "k", "x", max_tokens=1)
        assert outcome(client, job.json()["id"]).status_code == 200
        [backend] = httpx.get(f"{front.root}/health").json()["backends"]
        assert backend["active_choices"] == 0
    ours = [(e.prompt_tokens, e.completion_tokens, e.status) for e in read_log(folder)]
    theirs = [(e.prompt_tokens, e.completion_tokens, e.status) for e in read_log(tmp_path / "upstream")]
    assert ours == theirs
    assert [row[1:] for row in ours] == [(54, 200), (1, 200)]
