"""A job's hold: from its submission until its use is known, whatever is lost, refused or in the way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from acs_jupyter import Client, errors
from acs_jupyter.ledger import ledger, report, resolve
from acs_jupyter.ledger.rows import RESOLVED, End, end_entry
from tests.support.job_answers import ASK, KEY, LAST, NEW, PENDING, Async, Sync, completion, job, refusal
from tests.support.player import CLOSE, Player, Step, whole


@pytest.fixture(params=[Sync, Async], ids=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Sync:
    made: Callable[[], Sync] = request.param
    return made()


class Meter:
    def __init__(self) -> None:
        self.log: list[Any] = []

    def reserve(self, request: Any, run: str) -> Any:
        self.log.append(("reserve", run[:5]))
        return "ticket"

    def settle(self, ticket: Any, prompt_tokens: int, completion_tokens: int, source: str) -> None:
        self.log.append(("settle", prompt_tokens, completion_tokens, source))

    def release(self, ticket: Any) -> None:
        self.log.append(("release",))


def test_the_budget_is_held_until_the_outcome(api: Sync) -> None:
    held = ("reserve", "acsj1")
    cases: list[tuple[list[list[Step]], list[Any]]] = [
        ([NEW, PENDING, completion()], [held, ("settle", 3, 1, "usage")]),
        ([NEW, refusal("vllm_oom", "502 Bad Gateway"), job("failed")], [held, ("release",)]),
        ([NEW, refusal("x", "503 Unavailable"), job("interrupted")], [held]),
        ([NEW, refusal("invalid_api_key", "401 Unauthorized")], [held]),
        ([refusal("idempotency_conflict", "409 Conflict")], [held, ("release",)]),
        ([job("succeeded"), completion()], [held, ("release",)]),  # found: paid for when it was submitted
    ]
    for answers, expected in cases:
        meter = Meter()
        with Player(answers) as server, contextlib.suppress(errors.ApiError):
            api(server.base, ("submit", "Hi", ASK), ("wait", LAST), client={"meter": meter})
        assert meter.log == expected


@pytest.mark.parametrize("status", ["400 Bad Request", "410 Gone", "413 Content Too Large"])
def test_a_proxys_no_leaves_a_job_as_it_is_and_its_hold_too(api: Sync, status: str) -> None:
    page = whole(b"<html>no</html>", status, "text/html")
    with Player([NEW, page, page, job("running"), completion()]) as server:
        with pytest.raises(errors.ApiError) as caught:
            api(server.base, ("submit", "Hi", ASK), ("result", LAST), client={"retries": 0})
        assert not caught.value.final
        assert [hold.job for hold in resolve.holds(ledger())] == ["job_1"]
        assert api(server.base, ("wait", "job_1")).text == " Paris"
        assert resolve.holds(ledger()) == []


def test_metadata_that_cannot_be_asked_for_settles_nothing(api: Sync) -> None:
    answers = [NEW, refusal("job_cancelled", "409 Conflict"), refusal("circuit_open", "503 Unavailable")]
    with Player(answers) as server, pytest.raises(errors.JobCancelled):
        api(server.base, ("submit", "Hi", ASK), ("result", LAST), client={"retries": 0})
    assert [hold.held for hold in resolve.holds(ledger())] == [7]


@pytest.mark.parametrize(
    ("state", "times", "spent", "source"),
    [
        ("cancelled", {}, 7, "estimate"),  # nobody says whether it had started
        ("cancelled", {"started_at": 5}, 7, "estimate"),
        ("cancelled", {"started_at": None}, 0, ""),
        ("cancelled", {"usage": {"prompt_tokens": 2, "completion_tokens": 1}}, 3, "usage"),
    ],
)
def test_a_job_that_was_stopped_is_never_settled_below_its_bill(
    api: Sync, state: str, times: dict[str, Any], spent: int, source: str
) -> None:
    answers = [NEW, refusal("job_cancelled", "409 Conflict"), job(state, **times)]
    with Player(answers) as server, pytest.raises(errors.JobCancelled):
        api(server.base, ("submit", "Hi", ASK), ("result", LAST), client={"retries": 0})
    [entry] = report.entries(ledger())
    assert (entry["prompt_tokens"] + entry["completion_tokens"], entry["source"]) == (spent, source)


def test_an_estimate_of_a_job_is_corrected_by_its_usage(api: Sync) -> None:
    told = {"prompt_tokens": 2, "completion_tokens": 1}
    answers = [NEW, refusal("job_cancelled", "409 Conflict"), job("cancelled"), job("cancelled", usage=told)]
    with Player(answers) as server:
        with pytest.raises(errors.JobCancelled):
            api(server.base, ("submit", "Hi", ASK), ("result", LAST), client={"retries": 0})
        assert report.entries(ledger())[0]["source"] == "estimate"
        api(server.base, ("get", "job_1"))
    [entry] = report.entries(ledger())
    assert (entry["prompt_tokens"], entry["completion_tokens"], entry["source"]) == (2, 1, "usage")


def test_a_result_without_usage_counts_its_text_at_most(api: Sync) -> None:
    silent = {"choices": [{"index": 0, "text": "ab", "finish_reason": "length"}]}
    with Player([NEW, whole(silent)]) as server:
        api(server.base, ("submit", "Hi", ASK), ("result", LAST))
    [entry] = report.entries(ledger())
    assert (entry["prompt_tokens"], entry["completion_tokens"], entry["source"]) == (3, 3, "estimate")


# -- the hold of a submission whose answer was lost ------------------------------------------------


class Holds:
    """Writes down what becomes of holds."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reserve(self, request: Any, run: str) -> int:
        self.calls.append("reserve")
        return len(self.calls)

    def settle(self, ticket: Any, prompt: int, completion: int, source: str) -> None:
        self.calls.append(f"settle {ticket} {prompt} {completion} {source}")

    def release(self, ticket: Any) -> None:
        self.calls.append(f"release {ticket}")


GATEWAY = whole(b"<html>bad gateway</html>", "502 Bad Gateway", "text/html")


@pytest.mark.parametrize(
    "lost", [[CLOSE], GATEWAY, whole(b"{", "202 Accepted")], ids=["cut", "gateway", "broken"]
)
def test_a_job_whose_answer_was_lost_keeps_its_hold(api: Sync, lost: list[Step]) -> None:
    meter = Holds()
    with Player([lost, job(), completion()]) as server:
        api(server.base, ("submit", "Hi", ASK), ("wait", LAST), client={"meter": meter})
    assert meter.calls == ["reserve", "settle 1 3 1 usage"]


def test_a_lost_submission_keeps_its_hold_until_it_is_found() -> None:
    meter = Holds()
    with (
        Player([[CLOSE], job(), completion()]) as server,
        Client(server.base, KEY, meter=meter, retries=0) as client,
    ):
        with pytest.raises(errors.ConnectionFailed):
            client.jobs.submit("Hi", **ASK)
        assert meter.calls == ["reserve"]
        client.jobs.wait(client.jobs.submit("Hi", **ASK))
    assert meter.calls == ["reserve", "settle 1 3 1 usage"]


def test_a_job_that_was_there_and_one_that_was_refused_hold_nothing(api: Sync) -> None:
    meter = Holds()
    with Player([job()]) as server:
        api(server.base, ("submit", "Hi", ASK), client={"meter": meter})
    with Player([refusal("invalid_request", "400 Bad Request")]) as server, pytest.raises(errors.BadRequest):
        api(server.base, ("submit", "Hi", ASK), client={"meter": meter})
    with pytest.raises(errors.ConnectionFailed):
        api("http://127.0.0.1:9", ("submit", "Hi", ASK), client={"meter": meter, "retries": 1})
    assert meter.calls == ["reserve", "release 1", "reserve", "release 3", "reserve", "release 5"]


# -- jobs that the ledger knows and the server does not, and the other way round -------------------


def result(prompt: int, made: int, job_id: str = "job_1") -> list[Step]:
    told = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
    return whole({"choices": [{"index": 0, "text": "abc", "finish_reason": "length"}], "usage": told})


def new(job_id: str) -> list[Step]:
    return job(http="202 Accepted", id=job_id)


def spent() -> list[tuple[str | None, str, int, str]]:
    return [
        (e["job"], e["state"], e["prompt_tokens"] + e["completion_tokens"], e["source"])
        for e in report.entries(ledger())
    ]


def test_a_job_that_the_server_forgot_is_an_entry_of_its_own(api: Sync) -> None:
    with Player([new("job_1"), new("job_2"), result(3, 2), result(3, 4)]) as server:
        first = api(server.base, ("submit", "Hi", ASK))
        second = api(server.base, ("submit", "Hi", ASK))
        assert spent() == [("job_1", "held", 0, ""), ("job_2", "held", 0, "")]
        api(server.base, ("result", second))
        api(server.base, ("result", first))
    assert spent() == [("job_1", "settled", 7, "usage"), ("job_2", "settled", 5, "usage")]


def test_a_limit_stops_a_job_that_only_the_ledger_knows(api: Sync) -> None:
    gone = refusal("job_not_found", "404 Not Found")
    with Player([new("job_1"), result(3, 4), gone, job("succeeded")]) as server:
        with Client(server.base, KEY) as client:
            ledger().set_month_limit(client.meter.key, 7)  # type: ignore[union-attr]
        api(server.base, ("submit", "Hi", ASK), ("result", LAST))
        with pytest.raises(errors.BudgetRefused):
            api(server.base, ("submit", "Hi", ASK))
        assert [r.line.split()[0] for r in server.requests] == ["POST", "GET", "GET"]
        found = api(server.base, ("submit", "Hi", ASK))  # the server has it: reading costs nothing
        assert (found.id, found.found) == ("job_1", True)
        assert [r.line.split()[0] for r in server.requests[3:]] == ["GET"]
    assert spent() == [("job_1", "settled", 7, "usage")]


@pytest.mark.parametrize("way", ["held", "estimate", "nothing"])
def test_what_was_settled_by_hand_is_corrected_by_its_job(api: Sync, way: str) -> None:
    with Player([[CLOSE], job("running"), result(2, 1)]) as server:
        with pytest.raises(errors.ConnectionFailed):
            api(server.base, ("submit", "Hi", ASK), client={"retries": 0})
        [hold] = resolve.holds(ledger())
        end = {"held": (3, 4), "estimate": (1, 0), "nothing": (0, 0)}[way]
        with ledger().store.writing() as db:
            end_entry(db, hold.entry, End(*end, RESOLVED), ledger().clock())
        api(server.base, ("submit", "Hi", ASK), ("result", LAST))
    assert [entry for entry in spent() if entry[1] != "released"] == [("job_1", "settled", 3, "usage")]
    assert resolve.holds(ledger()) == []


def test_a_lost_submission_counts_in_the_scopes_of_who_makes_it_new() -> None:
    with Player([[CLOSE], new("job_1"), result(3, 4)]) as server:
        with Client(server.base, KEY, retries=0) as client, pytest.raises(errors.ConnectionFailed):
            client.jobs.submit("Hi", **ASK)
        with (
            Client(server.base, KEY) as client,
            ledger().scope("cell", "small", 6),
            pytest.raises(errors.BudgetRefused),
        ):
            client.jobs.submit("Hi", **ASK)
        assert len(server.requests) == 1
        with Client(server.base, KEY) as client, ledger().scope("cell", "wide", 7) as scope:
            made = client.jobs.submit("Hi", **ASK)
            assert scope.held == 7
            client.jobs.result(made)
            assert (scope.spent, scope.held) == (7, 0)
    assert spent() == [("job_1", "settled", 7, "usage")]


EXPIRED, MISSING = refusal("job_expired", "410 Gone"), refusal("job_not_found", "404 Not Found")
USED = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
OOM = {"code": "vllm_oom", "message": "m"}


@pytest.mark.parametrize(
    ("answers", "total", "source"),
    [
        ([EXPIRED, job("succeeded", started_at=1)], 7, "estimate"),
        ([EXPIRED, job("succeeded", usage=USED)], 5, "usage"),
        ([EXPIRED, job("expired", started_at=None)], 0, ""),
        ([EXPIRED, MISSING], 7, "estimate"),
        ([EXPIRED, EXPIRED], 7, "estimate"),
        ([MISSING], 7, "estimate"),
        ([refusal("job_cancelled", "409 Conflict"), MISSING], 7, "estimate"),
        ([whole({"error": OOM, "usage": USED})], 5, "usage"),
        ([whole({"error": OOM, "usage": USED}, "502 Bad Gateway"), job("failed")], 5, "usage"),
        ([result(-5, -3)], 7, "estimate"),
        ([result(3, 10**15)], 7, "estimate"),
        ([result(10**15, 4)], 7, "estimate"),
        ([whole({"choices": [{"index": 0, "text": "ab", "finish_reason": "length"}], "usage": {}})], 6, "estimate"),
    ],
)  # fmt: skip
def test_a_job_that_has_ended_leaves_no_hold(
    api: Sync, answers: list[list[Step]], total: int, source: str
) -> None:
    with Player([NEW, *answers]) as server, contextlib.suppress(errors.ApiError):
        api(server.base, ("submit", "Hi", ASK), ("wait", LAST), client={"retries": 0})
    assert [(tokens, told) for _, _, tokens, told in spent()] == [(total, source)]
    assert resolve.holds(ledger()) == []


def test_what_a_failed_job_has_cost_is_counted_when_it_is_told_late(api: Sync) -> None:
    failed = [refusal("vllm_oom", "502 Bad Gateway"), job("failed")]
    with Player([NEW, *failed, job("failed", usage=USED)]) as server:
        with pytest.raises(errors.ApiError):
            api(server.base, ("submit", "Hi", ASK), ("result", LAST), client={"retries": 0})
        assert spent() == [("job_1", "released", 0, "")]
        api(server.base, ("get", "job_1"))
    assert spent() == [("job_1", "settled", 5, "usage")]


def test_a_job_that_is_gone_is_counted_by_another_kernel_too(api: Sync) -> None:
    with Player([NEW, MISSING]) as server:
        api(server.base, ("submit", "Hi", ASK))
        with pytest.raises(errors.JobNotFound):
            api(server.base, ("wait", "job_1"))
    assert [(tokens, told) for _, _, tokens, told in spent()] == [(7, "estimate")]
