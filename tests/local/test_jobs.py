"""Completion jobs over real HTTP: idempotency, limits, outcomes, cancelling, retention by a clock in hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter.local.job_values import Limits
from tests.support.contract import envelope
from tests.support.job_server import (
    DAY,
    HOUR,
    START,
    JobServer,
    job_server,
    outcome,
    status,
    submit,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

SLOW = "#scripted rate=2\nslow"
PATHS = (("GET", ""), ("GET", "/result"), ("POST", "/cancel"))


@pytest.fixture(scope="module")
def shared() -> Iterator[JobServer]:
    with job_server(limits=Limits(stored_per_account=10_000, stored=10_000)) as running:
        yield running


@pytest.fixture
def http(shared: JobServer) -> Iterator[httpx.Client]:
    client = shared.client()
    yield client
    client.close()


# -- submitting -----------------------------------------------------------------------------------


def test_a_job_is_the_same_work_as_a_request(http: httpx.Client) -> None:
    fields = {"seed": 7, "n": 2, "echo": True, "logprobs": 0, "max_tokens": 9, "stop": [" zzz"]}
    answer = submit(http, "same", ["One", "Two"], **fields)
    assert answer.status_code == 202
    job = answer.json()
    assert job["status"] in ("queued", "running")
    assert job["model"] == "scripted"
    assert job["request_id"] == answer.headers["x-request-id"]
    assert (job["status_url"], job["result_url"]) == (
        f"/v1/completion-jobs/{job['id']}",
        f"/v1/completion-jobs/{job['id']}/result",
    )
    result = outcome(http, job["id"])
    assert result.status_code == 200
    assert result.headers["x-acs-upstream-model"] == "scripted/deterministic"
    body = {"model": "scripted", "prompt": ["One", "Two"], **fields}
    direct = http.post("completions", json=body).json()
    assert result.json()["choices"] == direct["choices"]
    assert result.json()["usage"] == direct["usage"]
    told = http.get(job["status_url"].removeprefix("/v1/")).json()
    assert (told["status"], told["usage_pending"], told["result_available"]) == ("succeeded", False, True)
    assert START == told["created_at"] == told["started_at"] == told["ended_at"]
    assert told["expires_at"] == told["result_expires_at"] == START + DAY
    assert told["record_expires_at"] == START + 7 * DAY


def test_the_same_key_and_request_find_the_job(http: httpx.Client, shared: JobServer) -> None:
    first = submit(http, "again", "again", temperature=1, seed=None)
    raw = b'{ "max_tokens":4,"temperature":1.0, "prompt":"again", "model":"scripted" }'
    second = http.post("completion-jobs", content=raw, headers={"Idempotency-Key": "again"})
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["id"] == second.json()["id"]
    assert outcome(http, first.json()["id"]).status_code == 200
    assert submit(http, "again", "again").status_code == 409  # another temperature
    assert http.post("completion-jobs", content=raw, headers={"Idempotency-Key": "again"}).status_code == 200
    assert shared.engine.begun.count("again") == 1
    assert submit(http, "another", "again").json()["id"] != first.json()["id"]


def test_ten_submissions_at_the_same_moment_are_one_job(shared: JobServer) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: submit(shared.client(), "at-once", "at once"), range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    [job] = {answer.json()["id"] for answer in answers}
    assert outcome(shared.client(), job).status_code == 200
    assert shared.engine.begun.count("at once") == 1


@pytest.mark.parametrize("change", [{"prompt": "x"}, {"max_tokens": 5}, {"seed": 1}, {"user": "u"}, {"n": 2}])
def test_another_request_under_a_key_is_a_conflict(http: httpx.Client, change: dict[str, Any]) -> None:
    submit(http, "conflict", "conflict")
    envelope(submit(http, "conflict", **{"prompt": "conflict", **change}), 409, "idempotency_conflict")


@pytest.mark.parametrize("key", [None, b"", b"a b", b"x" * 129, "é".encode(), b"a\tb"])
def test_bad_idempotency_keys(http: httpx.Client, shared: JobServer, key: bytes | None) -> None:
    headers = {} if key is None else {b"Idempotency-Key": key}
    body = {"model": "scripted", "prompt": "never-run", "max_tokens": 1}
    error = envelope(http.post("completion-jobs", json=body, headers=headers), 400, "invalid_request")
    assert "Idempotency-Key" in error["message"]
    assert "never-run" not in shared.engine.begun


@pytest.mark.parametrize("key", ["!", "~" * 128])
def test_the_longest_and_the_shortest_key(http: httpx.Client, key: str) -> None:
    assert submit(http, key).status_code == 202


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": "other"}, "other"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 4097}, "4096"),
        ({"max_tokens": 1025, "n": 4}, "4096"),
        ({"max_tokens": 2049, "prompt": ["a", "b"]}, "4096"),
        ({"stream": True}, "stream"),
        ({"stream": True, "stream_options": {"include_usage": True}}, "stream"),
        ({"prompt_logprobs": 0}, "prompt_logprobs"),
        ({"prompt_logprobs": 5}, "prompt_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"logprobs": 1}, "logprobs"),
        ({"apply_steering_vectors": []}, "apply_steering_vectors"),
        ({"output_residual_stream": True}, "output_residual_stream"),
        ({"temperature": True}, "temperature"),
        ({"stop": [""]}, "stop"),
    ],
)
def test_what_a_job_cannot_do_is_refused_before_it_runs(
    http: httpx.Client, shared: JobServer, change: dict[str, Any], word: str
) -> None:
    before, key = len(shared.engine.begun), repr(change).replace(" ", "")
    answer = submit(http, key, **{"prompt": "refused", **change})
    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]
    assert len(shared.engine.begun) == before
    ok = submit(http, key, "refused")  # nothing was stored under the key
    assert ok.status_code == 202
    outcome(http, ok.json()["id"])


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 4096},
        {"max_tokens": 256, "n": 16},
        {"max_tokens": 2048, "prompt": ["a", "b"]},
        {"prompt": [5, 6, 7]},
        {"logprobs": 0},
        {"stream": False},
        {"prompt_logprobs": None, "logprobs": None, "stream_options": None},
    ],
)
def test_what_a_job_can_do(http: httpx.Client, fields: dict[str, Any]) -> None:
    answer = submit(http, f"can-{sorted(fields)}".replace(" ", ""), **fields)
    assert answer.status_code == 202, answer.text
    assert outcome(http, answer.json()["id"]).status_code == 200


def test_the_request_has_at_most_64_kib(http: httpx.Client) -> None:
    start, end = b'{"model":"scripted","max_tokens":1,"prompt":"', b'"}'
    room = 64 * 1024 - len(start) - len(end)
    fits = http.post(
        "completion-jobs", content=start + b"a" * room + end, headers={"Idempotency-Key": "fits"}
    )
    assert fits.status_code == 202
    over = start + b"a" * (room + 1) + end
    answer = http.post("completion-jobs", content=over, headers={"Idempotency-Key": "over"})
    assert "65537" in envelope(answer, 413, "request_too_large")["message"]
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("body", "code"), [(b"{", "bad_json"), (b"[]", "invalid_request"), (b"", "bad_json")]
)
def test_bad_bodies(http: httpx.Client, body: bytes, code: str) -> None:
    envelope(http.post("completion-jobs", content=body, headers={"Idempotency-Key": "b"}), 400, code)


def test_every_answer_is_private(http: httpx.Client, shared: JobServer) -> None:
    job = submit(http, "private").json()["id"]
    outcome(http, job)
    stranger = shared.client("wrong-key-wrong")
    answers = [
        submit(http, "private"), submit(http, "private", "other"), submit(http, "", "x"), submit(stranger, "x"),
        *(http.request(verb, f"completion-jobs/{job}{path}") for verb, path in PATHS),
        *(http.request(verb, f"completion-jobs/none{path}") for verb, path in PATHS),
        http.get("completion-jobs"), http.delete(f"completion-jobs/{job}"),
    ]  # fmt: skip
    assert [a.status_code for a in answers] == [200, 409, 400, 401, 200, 200, 200, 404, 404, 404, 405, 405]
    assert {a.headers["cache-control"] for a in answers} == {"private, no-store"}
    assert "cache-control" not in http.get("models").headers


def test_jobs_belong_to_one_key() -> None:
    with job_server() as server:
        mine, other = server.stranger(), server.client()
        job = submit(mine, "k", "mine").json()["id"]
        outcome(mine, job)
        told = [
            envelope(other.request(v, f"completion-jobs/{job}{p}"), 404, "job_not_found") for v, p in PATHS
        ]
        unknown = [
            envelope(other.request(v, f"completion-jobs/no{p}"), 404, "job_not_found") for v, p in PATHS
        ]
        assert told == unknown
        assert status(mine, job) == "succeeded"
        theirs = submit(other, "k", "theirs")  # the same idempotency key under another API key: no conflict
        assert theirs.status_code == 202
        assert theirs.json()["id"] != job
        assert mine.get(f"completion-jobs/{theirs.json()['id']}").status_code == 404


# -- outcomes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        ("fault=budget_exceeded", 429, "budget_exceeded"),
        ("fault=vllm_oom", 502, "vllm_oom"),
        ("fault=circuit_open", 503, "circuit_open"),
        ("fault=upstream_deadline", 504, "upstream_deadline"),
        ("fault=context_length_exceeded", 400, "context_length_exceeded"),
        ("fault=error code=vllm_engine_dead", 502, "vllm_engine_dead"),
        ("fault=cold code=modal_cold_boot wait=0.01", 503, "modal_cold_boot"),
        ("fault=truncated", 502, "upstream_server_error"),
        ("fault=cut", 502, "upstream_server_error"),
        ("fault=blank wait=0.01", 502, "upstream_server_error"),
        ("fault=html502", 502, "upstream_server_error"),
    ],
)
def test_a_failure_keeps_its_own_status(http: httpx.Client, script: str, code: int, error: str) -> None:
    submitted = submit(http, script.replace(" ", "-"), f"#scripted {script}\nx").json()
    answers = [outcome(http, submitted["id"]) for _ in range(2)]  # and it stays
    for answer in answers:
        assert answer.status_code == code
        assert answer.json()["error"]["code"] == error
        assert answer.json()["request_id"] == submitted["request_id"]
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
    told = until(http, submitted["id"], "failed")
    assert told["usage_pending"] is False
    assert submit(http, script.replace(" ", "-"), f"#scripted {script}\nx").json()["id"] == submitted["id"]


def test_slow_and_cold_answers_succeed(http: httpx.Client) -> None:
    for script in ("fault=cold wait=0.05", "fault=slow bytes=200", "fault=no_usage", "fault=crlf"):
        job = submit(http, script.replace(" ", "-"), f"#scripted {script}\nx").json()["id"]
        assert outcome(http, job).json()["choices"][0]["text"], script


def test_a_result_above_its_size_fails_explicitly() -> None:
    with job_server(limits=Limits(result_bytes=1000)) as server:
        http = server.client()
        small = submit(http, "small", max_tokens=4).json()["id"]
        large = submit(http, "large", max_tokens=400).json()["id"]
        assert outcome(http, small).status_code == 200
        answer = outcome(http, large)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "job_result_too_large")
        assert "1000" in answer.json()["error"]["message"]


# -- cancelling -----------------------------------------------------------------------------------


def test_cancelling_in_every_state() -> None:
    with job_server(workers=1) as server:
        http = server.client()
        running = submit(http, "r", SLOW, max_tokens=400).json()["id"]
        until(http, running, "running")
        queued = submit(http, "q", "never-run").json()["id"]
        assert http.post(f"completion-jobs/{queued}/cancel").json()["status"] == "cancelled"
        asked = http.post(f"completion-jobs/{running}/cancel")
        assert (asked.status_code, asked.json()["cancel_requested"]) == (200, True)
        told = until(http, running, "cancelled")
        assert told["usage_pending"] is False
        assert server.engine.busy == 0
        for job in (queued, running):
            answer = outcome(http, job)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "job_cancelled")
            again = http.post(f"completion-jobs/{job}/cancel")
            assert (again.status_code, again.json()["status"]) == (200, "cancelled")
        done = submit(http, "d", "quick").json()["id"]
        assert outcome(http, done).status_code == 200
        assert http.post(f"completion-jobs/{done}/cancel").json()["status"] == "succeeded"
        assert outcome(http, done).status_code == 200
        assert "never-run" not in server.engine.begun


# -- limits ---------------------------------------------------------------------------------------


def test_eight_active_jobs_a_key() -> None:
    with job_server(workers=2) as server:
        http = server.client()
        jobs = [submit(http, str(i), SLOW, max_tokens=400, seed=i).json()["id"] for i in range(8)]
        refused = submit(http, "9", "nine")
        assert "8 active jobs" in envelope(refused, 429, "job_limit_reached")["message"]
        assert refused.headers["retry-after"] == "5"
        assert (
            submit(http, "3", SLOW, max_tokens=400, seed=3).status_code == 200
        )  # a known one is still found
        http.post(f"completion-jobs/{jobs[7]}/cancel")
        assert submit(http, "9", "nine").status_code == 202


def test_limits_of_account_and_server() -> None:
    with job_server(workers=0) as server:
        clients = [server.stranger() for _ in range(5)]
        for i in range(32):
            assert submit(clients[i % 4], str(i)).status_code == 202
        error = envelope(submit(clients[4], "33"), 429, "job_limit_reached")
        assert "32" in error["message"]


def test_a_hundred_stored_jobs() -> None:
    with job_server(workers=0) as server:
        clients = [server.stranger() for _ in range(4)]
        for i in range(100):
            job = submit(clients[i % 4], str(i)).json()["id"]
            clients[i % 4].post(f"completion-jobs/{job}/cancel")
        refused = submit(clients[0], "new")
        error = envelope(refused, 429, "job_store_full")
        assert error["retryable"] is False
        assert submit(clients[0], "0").status_code == 200
        server.now += 7 * DAY
        assert submit(clients[0], "new").status_code == 202


# -- retention ------------------------------------------------------------------------------------


def test_a_queued_job_expires_after_a_day() -> None:
    with job_server(workers=0) as server:
        http = server.client()
        job = submit(http, "k").json()
        assert job["expires_at"] == START + DAY
        server.now += DAY - 1
        assert status(http, job["id"]) == "queued"
        server.now += 1
        assert status(http, job["id"]) == "expired"
        envelope_of = outcome(http, job["id"])
        assert (envelope_of.status_code, envelope_of.json()["error"]["code"]) == (410, "job_expired")
        assert submit(http, "k").json()["id"] == job["id"]
        server.now = START + 8 * DAY
        assert http.get(f"completion-jobs/{job['id']}").status_code == 404
        assert submit(http, "k").json()["id"] != job["id"]


@pytest.mark.parametrize("script", ["", "#scripted fault=vllm_oom\n"])
def test_content_goes_after_a_day_and_the_record_after_seven(script: str) -> None:
    with job_server() as server:
        http = server.client()
        job = submit(http, "k", script + "x").json()["id"]
        first = outcome(http, job).status_code
        server.now += DAY - 1
        assert outcome(http, job).status_code == first
        server.now += 1
        gone = outcome(http, job)
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "job_expired")
        told = until(http, job, "failed" if script else "succeeded")
        assert told["result_available"] is False
        assert submit(http, "k", script + "x").status_code == 200
        assert submit(http, "k", "other").status_code == 409
        server.now = START + 7 * DAY - 1
        assert status(http, job)
        server.now += 1
        assert http.get(f"completion-jobs/{job}").status_code == 404
        assert http.get(f"completion-jobs/{job}/result").status_code == 404
        assert submit(http, "k", "other").status_code == 202


def test_reading_a_result_needs_nothing_but_the_key(http: httpx.Client, shared: JobServer) -> None:
    job = submit(http, "again-and-again", "once").json()["id"]
    bodies = {outcome(http, job).content for _ in range(5)}
    assert len(bodies) == 1
    assert shared.engine.begun.count("once") == 1


def test_many_jobs_run_once_each() -> None:
    with job_server(workers=4, limits=Limits(active_per_key=100, active_per_account=100)) as server:
        http = server.client()
        jobs = [submit(http, str(i), f"job {i}").json()["id"] for i in range(40)]
        assert {outcome(http, job).status_code for job in jobs} == {200}
        assert sorted(server.engine.begun) == sorted(f"job {i}" for i in range(40))
        server.now += HOUR
        assert len({http.get(f"completion-jobs/{job}").json()["id"] for job in jobs}) == 40
