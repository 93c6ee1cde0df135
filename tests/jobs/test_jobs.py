"""Both clients' jobs: what is sent, what counts as an outcome, what is only a poll that failed, when waiting ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, Session, errors
from acs_jupyter.jobs.terms import idempotency_key
from acs_jupyter.wire import Job, decode_job
from tests.support.job_answers import (
    ASK,
    CANCEL,
    KEY,
    LAST,
    NEW,
    PENDING,
    RESULT,
    SHOW,
    SUBMIT,
    Async,
    Sync,
    asked,
    completion,
    job,
    refusal,
)
from tests.support.player import CLOSE, HANG, Player, Step, head, whole
from tests.support.servers import Running, serving


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Sync:
    made: Callable[[], Sync] = request.param
    return made()


# -- submitting -----------------------------------------------------------------------------------


def test_submit_wait_and_what_comes_back(api: Sync) -> None:
    with Player([NEW, PENDING, PENDING, completion()]) as server:
        got = api(server.base, ("submit", "The capital is", {**ASK, "seed": 5}), ("wait", LAST))
        assert asked(server) == [SUBMIT, RESULT, RESULT, RESULT]
    assert server.requests[0].json == {"prompt": "The capital is", "seed": 5, **ASK}
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert got.text == str(got) == " Paris"
    assert got.prompt == "The capital is"
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage_source) == (3, 1, "usage")
    assert (got.run, got.request_id, got.id) == ("job_1", "req_job", "cmpl-1")
    assert (got.model, got.finish_reason, got.outcome) == ("checkpoint", "length", "done")
    assert got.headers == {"x-acs-upstream-model": "checkpoint"}


def test_the_key_comes_from_the_content(api: Sync) -> None:
    calls: list[tuple[Any, ...]] = [
        ("submit", "a", {"model": "m", "max_tokens": 4, "seed": 1}),
        ("submit", "a", {"seed": 1, "max_tokens": 4, "model": "m", "stream": False}),
        ("submit", "a", {"model": "m", "max_tokens": 4, "seed": 2}),
        ("submit", "a", {"model": "m", "max_tokens": 4, "seed": 1, "tag": "second"}),
        ("submit", ["a"], {"model": "m", "max_tokens": 4, "seed": 1}),
        ("submit", "a", {"model": "m2", "max_tokens": 4, "seed": 1}),
        ("submit", "a", {**ASK, "idempotency_key": "my-own~!"}),
    ]
    with Player([NEW]) as server:
        api(server.base, *calls)
    keys = [r.headers["idempotency-key"] for r in server.requests]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 6
    assert keys[6] == "my-own~!"
    assert all(1 <= len(key) <= 128 and key.isascii() and " " not in key for key in keys)
    with Client("http://127.0.0.1:9", KEY, model="m") as c:  # the default model counts as named
        assert idempotency_key(c.request("a", max_tokens=4, seed=1)) == keys[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_tokens": 4}, "model"),
        ({"model": "m"}, "max_tokens"),
        ({**ASK, "stream": True}, "/v1/completions"),
        ({**ASK, "prompt_logprobs": 0}, "/v1/completions"),
        ({**ASK, "logprobs": 1}, "/v1/completions"),
        ({**ASK, "max_tokens": 4097}, "4096"),
        ({**ASK, "max_tokens": 2000, "n": 3}, "6000"),
        ({**ASK, "user": "x" * 65536}, "65536"),
        ({**ASK, "idempotency_key": ""}, "idempotency_key"),
        ({**ASK, "idempotency_key": "a b"}, "idempotency_key"),
        ({**ASK, "idempotency_key": "é"}, "idempotency_key"),
        ({**ASK, "idempotency_key": "x" * 129}, "idempotency_key"),
        ({**ASK, "best": 1}, "best"),
    ],
)
def test_what_a_job_cannot_do_is_not_sent(api: Sync, fields: dict[str, Any], words: str) -> None:
    with Player([NEW]) as server:
        with pytest.raises(errors.InvalidRequest, match=words):
            api(server.base, ("submit", "Hi", fields))
        assert server.requests == []


def test_submitting_again_costs_nothing_so_it_is_tried_again(api: Sync) -> None:
    answers: list[list[Step]] = [
        [CLOSE],
        [head(length=100), b'{"id":', CLOSE],
        whole(b"<html>bad gateway</html>", "502 Bad Gateway", "text/html", Retry_After="0"),
        NEW,
    ]
    with Player(answers) as server:
        got = api(server.base, ("submit", "Hi", ASK))
        assert len(server.requests) == 4
    assert got.id == "job_1"
    assert len({r.headers["idempotency-key"] for r in server.requests}) == 1
    assert len({r.body for r in server.requests}) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "count"),
    [
        (refusal("idempotency_conflict", "409 Conflict"), errors.JobConflict, 1),
        (refusal("something_new", "409 Conflict"), errors.JobConflict, 1),
        (refusal("budget_exceeded", "429 Too Many Requests"), errors.BudgetExceeded, 1),
        (refusal("invalid_api_key", "401 Unauthorized"), errors.Unauthorized, 1),
        (refusal("request_too_large", "413 Content Too Large"), errors.RequestTooLarge, 1),
        (refusal("job_store_full", "429 Too Many Requests"), errors.JobStoreFull, 1),
        (refusal("job_limit_reached", "429 Too Many Requests", Retry_After="0"), errors.JobLimitReached, 3),
        (refusal("x", "503 Unavailable", Retry_After="0", X_Should_Retry="false"), errors.ServerFailure, 1),
        (refusal("x", "503 Unavailable", Retry_After="0"), errors.ServerFailure, 3),
        (whole({"status": "queued"}, "202 Accepted", Retry_After="0"), errors.Interrupted, 1),
    ],
)
def test_refused_submissions(api: Sync, answer: list[Step], kind: type[errors.AcsError], count: int) -> None:
    with Player([answer]) as server:
        retries = 2 if count > 1 else 0
        with pytest.raises(kind) as caught:
            api(server.base, ("submit", "Hi", ASK), client={"retries": retries or 0})
        assert len(server.requests) == count
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.hint


def test_no_retry_where_none_is_due(api: Sync) -> None:
    for code, status in (
        ("budget_exceeded", "429 Too Many Requests"),
        ("job_store_full", "429 Too Many Requests"),
    ):
        with Player([refusal(code, status, Retry_After="0")]) as server:
            with pytest.raises(errors.TooManyRequests):
                api(server.base, ("submit", "Hi", ASK))
            assert len(server.requests) == 1


# -- deadlines ------------------------------------------------------------------------------------


def test_a_deadline_ends_the_waiting_only(api: Sync) -> None:
    slow = whole({"id": "job_1", "status": "running"}, "202 Accepted", Retry_After="1")
    with Player([NEW, slow]) as server:
        begun = time.monotonic()
        with pytest.raises(errors.JobPending) as caught:
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST, 0.4))
        assert 0.3 < time.monotonic() - begun < 1.5
        assert asked(server) == [SUBMIT, RESULT]  # and no cancelling
    assert caught.value.job_id == "job_1"
    assert "running" in str(caught.value)
    assert "goes on" in str(caught.value)


def test_a_deadline_holds_against_silence_and_long_waits(api: Sync) -> None:
    for answer in ([HANG], refusal("x", "503 Unavailable", Retry_After="300")):
        with Player([NEW, answer], routes={"/job_1": job("running")}) as server:
            begun = time.monotonic()
            with pytest.raises(errors.JobPending):
                api(server.base, ("submit", "Hi", ASK), ("wait", LAST, {"deadline": 0.2}))
            assert time.monotonic() - begun < 3


def test_a_deadline_of_nothing_asks_once(api: Sync) -> None:
    with Player([NEW, completion()]) as server:
        assert api(server.base, ("submit", "Hi", ASK), ("wait", LAST, 0)).text == " Paris"
    with Player([NEW, PENDING]) as server:
        with pytest.raises(errors.JobPending):
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST, 0))
        assert asked(server) == [SUBMIT, RESULT]
        for wrong in (-1, float("nan")):
            with pytest.raises(errors.InvalidRequest):
                api(server.base, ("wait", "job_1", wrong))


def test_result_asks_once(api: Sync) -> None:
    with Player([NEW, PENDING]) as server:
        with pytest.raises(errors.JobPending) as caught:
            api(server.base, ("submit", "Hi", ASK), ("result", LAST))
        assert asked(server) == [SUBMIT, RESULT]
    assert caught.value.job_id == "job_1"


def test_retry_after_is_obeyed(api: Sync) -> None:
    for told in (PENDING[0:0], refusal("rate_limited", "429 Too Many Requests", Retry_After="1")):
        answer = told or whole({"id": "job_1"}, "202 Accepted", Retry_After="1")
        with Player([NEW, answer, completion()], routes={"/job_1": job("running")}) as server:
            begun = time.monotonic()
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST))
            assert 0.95 < time.monotonic() - begun < 2.5


# -- looking, cancelling, remembering -------------------------------------------------------------


def test_get_and_cancel(api: Sync) -> None:
    with Player([job("running"), job("cancelled", usage_pending=True)]) as server:
        assert api(server.base, ("get", "job_1")).status == "running"
        told = api(server.base, ("cancel", "job_1"))
        assert asked(server) == [SHOW, CANCEL]
    assert (told.status, told.usage_pending) == ("cancelled", True)
    with Player([refusal("no", "404 Not Found")]) as server, pytest.raises(errors.JobNotFound) as caught:
        api(server.base, ("cancel", "job_1"))
    assert caught.value.job_id == "job_1"


@pytest.mark.parametrize("name", ["a/b", "../x", "a?b=c", "ü #"])
def test_an_id_stays_one_step_of_the_path(api: Sync, name: str) -> None:
    with Player([job()]) as server:
        api(server.base, ("get", name))
        path = server.requests[0].line.split(" ")[1]
    assert path.startswith("/v1/completion-jobs/")
    assert path.count("/") == 3
    assert "?" not in path
    for wrong in ("", ".", ".."):
        with pytest.raises(errors.InvalidRequest):
            api("http://127.0.0.1:9", ("get", wrong))


def test_a_job_submitted_elsewhere_has_a_result_without_its_prompt(api: Sync) -> None:
    with Player([job("succeeded", model="m"), completion(count=3)]) as server:
        got = api(server.base, ("result", "job_1"))
        assert asked(server) == [SHOW, RESULT]
    assert got.texts == [" Paris"] * 3
    assert (got.run, got.request_id, got.prompt) == ("job_1", "req_job", "")
    assert got.usage.completion_tokens == 3


def test_reading_twice_into_one_session_is_one_run(api: Sync) -> None:
    session = Session()
    with Player([NEW, completion()]) as server:
        steps = [("submit", "Hi", ASK)] + [("wait", "job_1", {"session": session})] * 2
        got = api(server.base, *steps)
    assert got.text == " Paris"
    assert list(session.runs) == ["job_1"]
    assert len(session.nodes) == 2
    with Player([NEW, completion(count=2)]) as server, pytest.raises(errors.Interrupted) as caught:
        api(server.base, ("submit", "Hi", ASK), ("wait", LAST))
    assert caught.value.job_id == "job_1"


def test_metadata_is_read_with_tolerance() -> None:
    told = decode_job(
        b'{"id":"j","status":"new","expires_at":"2026-01-01T00:00:00Z","usage_pending":"?","more":[1]}'
    )
    assert (told.id, told.status, told.expires_at, told.usage_pending) == (
        "j",
        "new",
        "2026-01-01T00:00:00Z",
        None,
    )
    assert told.fields["more"] == [1]
    assert decode_job(b'{"job_id":"h"}').id == "h"
    assert decode_job(b"{}", "known") == Job(id="known")


def test_cancelling_the_waiting_task_cancels_no_job() -> None:
    async def go(base: str) -> None:
        async with AsyncClient(base, KEY) as c:
            waiting = asyncio.ensure_future(c.jobs.wait("job_1"))
            await asyncio.sleep(0.3)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    with Player([job("running"), whole({"id": "job_1"}, "202 Accepted", Retry_After="1")]) as server:
        asyncio.run(go(server.base))
        assert asked(server) == [SHOW, RESULT]


def test_nothing_shows_the_key() -> None:
    with Client("http://127.0.0.1:9", KEY) as c:
        assert KEY not in repr(c.jobs) + repr(vars(c.jobs))


# -- against the local server ---------------------------------------------------------------------


def test_the_real_thing(api: Sync, scripted_server: Running) -> None:
    tag = f"{type(api).__name__}-{time.time_ns()}"
    fields = {"model": "scripted", "max_tokens": 6, "seed": 3, "n": 2, "logprobs": 0, "tag": tag}

    def go(*steps: tuple[Any, ...]) -> Any:
        return api(scripted_server.base, *steps, key=scripted_server.key)

    got = go(("submit", "Hello there", fields), ("wait", LAST, 20))
    assert len(got.choices) == 2
    assert len(got.tokens) == 6
    assert "".join(token.text for token in got.tokens) == got.text
    assert got.usage.completion_tokens == 12
    again = go(("submit", "Hello there", fields), ("result", LAST))
    assert (again.run, again.texts, again.request_id) == (got.run, got.texts, got.request_id)
    assert go(("result", got.run)).texts == got.texts
    assert go(("get", got.run)).status == "succeeded"
    few = {"model": "scripted", "max_tokens": 1}
    slow = go(("submit", "#scripted rate=1\nx", {**few, "max_tokens": 99, "tag": tag}))
    with pytest.raises(errors.JobPending):
        go(("wait", slow, 0.1))
    go(("cancel", slow))
    with pytest.raises(errors.JobCancelled):
        go(("wait", slow, 10))
    mine = {**few, "idempotency_key": tag}
    with pytest.raises(errors.JobConflict):
        go(("submit", "a", mine), ("submit", "b", mine))
    with pytest.raises(errors.EngineOutOfMemory) as caught:
        go(("submit", "#scripted fault=vllm_oom\nx", {**few, "tag": tag}), ("wait", LAST, 10))
    assert caught.value.job_id
    with pytest.raises(errors.JobNotFound):
        go(("result", "job_none"))


def test_waiting_over_a_restart_of_the_server(tmp_path: Any) -> None:
    """A job and a waiting client both outlive the server between them."""
    port = 0
    arguments = ("--scripted", "--key", KEY, "--data", str(tmp_path), "--job-workers", "1")
    with serving(*arguments) as server, Client(server.base, KEY) as client:
        port = int(server.root.rsplit(":", 1)[1])
        slow = client.jobs.submit("#scripted rate=2\nx", model="scripted", max_tokens=500)
        queued = client.jobs.submit("Hello", model="scripted", max_tokens=3)
        while client.jobs.get(slow).status != "running":
            time.sleep(0.02)
        server.process.kill()
        server.process.wait()
        with serving("--scripted", "--key", KEY, "--data", str(tmp_path), "--port", str(port)):
            assert client.jobs.wait(queued, 20).usage.completion_tokens == 3
            with pytest.raises(errors.JobInterrupted) as caught:
                client.jobs.wait(slow, 20)
            assert client.jobs.get(slow).usage_pending is True
    assert caught.value.job_id == slow.id
