"""What is a job's outcome, and what is only a poll that failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acs_jupyter import errors
from tests.support.job_answers import (
    ASK,
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
from tests.support.player import CLOSE, Player, Step, head, whole


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Sync:
    made: Callable[[], Sync] = request.param
    return made()


# -- outcome or bad moment ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("budget_exceeded", "429 Too Many Requests", errors.BudgetExceeded),
        ("upstream_server_error", "502 Bad Gateway", errors.UpstreamServerError),
        ("vllm_oom", "502 Bad Gateway", errors.EngineOutOfMemory),
        ("circuit_open", "503 Service Unavailable", errors.CircuitOpen),
        ("upstream_deadline", "504 Gateway Timeout", errors.UpstreamDeadline),
        ("brand_new", "502 Bad Gateway", errors.UpstreamServerError),
    ],
)
@pytest.mark.parametrize("method", ["wait", "result"])
def test_an_outcome_is_never_asked_for_again(
    api: Sync, method: str, code: str, status: str, kind: type[errors.ApiError]
) -> None:
    answers = [NEW, refusal(code, status, Retry_After="0"), job("failed")]
    with Player(answers) as server:
        with pytest.raises(kind) as caught:
            api(server.base, ("submit", "Hi", ASK), (method, LAST))
        assert asked(server) == [SUBMIT, RESULT, SHOW]
    error = caught.value
    assert (error.code, error.status, error.retryable) == (code, int(status[:3]), False)
    assert (error.job_id, error.request_id) == ("job_1", "req_7")
    assert "job_1" in str(error)


@pytest.mark.parametrize("state", ["queued", "running", "succeeded"])
@pytest.mark.parametrize(
    "status", ["429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable"]
)
def test_a_poll_that_failed_is_no_outcome(api: Sync, state: str, status: str) -> None:
    answers = [
        NEW,
        refusal("upstream_server_error", status, Retry_After="0"),
        job(state),
        PENDING,
        completion(),
    ]
    with Player(answers) as server:
        got = api(server.base, ("submit", "Hi", ASK), ("wait", LAST))
        assert asked(server) == [SUBMIT, RESULT, SHOW, RESULT, RESULT]
    assert got.text == " Paris"


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_however_often_the_same_poll_fails(api: Sync, state: str) -> None:
    pair = [refusal("circuit_open", "503 Service Unavailable", Retry_After="0"), job(state)]
    with Player([NEW, *pair * 5, completion()]) as server:
        assert api(server.base, ("submit", "Hi", ASK), ("wait", LAST)).text == " Paris"
        assert len(server.requests) == 12


def test_a_limit_on_reading_is_no_outcome_even_when_the_job_has_failed(api: Sync) -> None:
    limited = refusal("rate_limited", "429 Too Many Requests", Retry_After="0")
    answers = [NEW, limited, job("failed"), refusal("vllm_oom", "502 Bad Gateway"), job("failed")]
    with Player(answers) as server:
        with pytest.raises(errors.EngineOutOfMemory):
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST))
        assert asked(server) == [SUBMIT, RESULT, SHOW, RESULT, SHOW]


def test_a_proxys_page_is_no_outcome(api: Sync) -> None:
    page = whole(b"<html>bad gateway</html>", "502 Bad Gateway", "text/html", Retry_After="0")
    answers = [
        NEW,
        page,
        job("failed"),
        page,
        page,
        job("failed"),
        refusal("vllm_oom", "502 Bad Gateway"),
        job("failed"),
    ]
    with Player(answers) as server, pytest.raises(errors.EngineOutOfMemory):
        api(server.base, ("submit", "Hi", ASK), ("wait", LAST))


@pytest.mark.parametrize(
    ("faults", "count"),
    [
        ([[CLOSE]], 1),
        ([[head(length=999), b'{"id": "cmpl', CLOSE]], 1),
        ([whole(b'{"id": "cmpl-1", "choi')], 1),
        ([whole({"id": "x"})], 1),
        ([[CLOSE], PENDING, [CLOSE]], 3),
    ],
)
def test_a_broken_answer_is_asked_for_again(api: Sync, faults: list[list[Step]], count: int) -> None:
    with Player([NEW, *faults, completion()]) as server:
        assert api(server.base, ("submit", "Hi", ASK), ("wait", LAST)).text == " Paris"
        assert len(server.requests) == 2 + count


@pytest.mark.parametrize(
    ("answers", "kind", "code"),
    [
        ([refusal("job_cancelled", "409 Conflict")], errors.JobCancelled, "job_cancelled"),
        ([refusal("nope", "409 Conflict")], errors.JobCancelled, "nope"),
        ([whole(b"", "409 Conflict"), job("cancelled")], errors.JobCancelled, "job_cancelled"),
        ([refusal("job_expired", "410 Gone")], errors.JobExpired, "job_expired"),
        ([whole(b"gone", "410 Gone", "text/plain"), job("expired")], errors.JobExpired, "job_expired"),
        ([refusal("job_not_found", "404 Not Found")], errors.JobNotFound, "job_not_found"),
        ([refusal("whatever", "503 Unavailable"), job("interrupted")], errors.JobInterrupted, "whatever"),
        ([refusal("internal_error", "503 Unavailable", Retry_After="0"), job("interrupted"),
          refusal("lost", "503 Unavailable"), job("interrupted")], errors.JobInterrupted, "lost"),
        ([refusal("invalid_api_key", "401 Unauthorized")], errors.Unauthorized, "invalid_api_key"),
        ([refusal("vllm_invalid_request", "400 Bad Request"), job("failed")], errors.EngineRefused,
         "vllm_invalid_request"),
        ([whole({"error": {"code": "vllm_oom", "message": "m"}})], errors.EngineOutOfMemory, "vllm_oom"),
    ],
)  # fmt: skip
def test_ends_have_types_and_advice(
    api: Sync, answers: list[list[Step]], kind: type[errors.ApiError], code: str
) -> None:
    with Player([NEW, *answers]) as server:
        with pytest.raises(kind) as caught:
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST), client={"meter": None})
        assert len(server.requests) == 1 + len(answers)
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.job_id) == (code, "job_1")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("state", ["zombie", "", "FAILED?"])
def test_a_state_nobody_knows_lets_the_result_decide(api: Sync, state: str) -> None:
    pairs = [refusal("vllm_oom", "502 Bad Gateway", Retry_After="0"), job(state)] * 3
    with Player([NEW, *pairs]) as server:
        with pytest.raises(errors.EngineOutOfMemory):
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST))
        assert asked(server) == [SUBMIT, *[RESULT, SHOW] * 3]
    with Player([NEW, *pairs[:2], completion()]) as server:
        assert api(server.base, ("submit", "Hi", ASK), ("wait", LAST)).text == " Paris"


def test_metadata_that_fails_is_asked_again(api: Sync) -> None:
    answers = [
        refusal("rate_limited", "429 Too Many Requests", Retry_After="0"), job("running"), completion(),
    ]  # fmt: skip
    with Player(answers) as server:
        got = api(server.base, ("wait", "job_1"))
        assert asked(server) == [SHOW, SHOW, RESULT]
    assert got.request_id == "req_job"


def test_failures_count_in_a_row_only(api: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acs_jupyter.jobs.booking.POLL_FAILURES", 1)
    once = [refusal("x", "503 Unavailable", Retry_After="0"), job("running"), PENDING]
    with Player([NEW, *once * 3, completion()]) as server:
        got = api(server.base, ("submit", "Hi", ASK), ("wait", LAST), client={"retries": 0})
    assert got.text == " Paris"


def test_a_key_that_is_refused_is_not_how_a_job_ended(api: Sync) -> None:
    answers = [NEW, refusal("invalid_api_key", "401 Unauthorized")]
    with Player(answers) as server, pytest.raises(errors.Unauthorized) as caught:
        api(server.base, ("submit", "Hi", ASK), ("wait", LAST))
    assert caught.value.hint == "Check api_key."  # given so, not by ACS_API_KEY


def test_waiting_gives_up_after_many_failures(api: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acs_jupyter.jobs.booking.POLL_FAILURES", 1)
    with Player([NEW, [CLOSE]]) as server:
        with pytest.raises(errors.ConnectionFailed) as caught:
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST), client={"retries": 0})
        assert len(server.requests) == 3
    assert caught.value.job_id == "job_1"
