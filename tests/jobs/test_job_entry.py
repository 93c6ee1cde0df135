"""Keys made from content, and the one line that says how a job stands. Pure: nothing is asked or kept."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acs_jupyter import errors
from acs_jupyter.checks import build_request, parse_request
from acs_jupyter.jobs import entry as job_entry
from acs_jupyter.jobs.entry import Entry
from acs_jupyter.jobs.rounds import LONGEST_PAUSE, SLOWEST, Rounds
from acs_jupyter.jobs.terms import fingerprint, idempotency_key, seconds_of
from acs_jupyter.wire import Job, Unchecked, Usage, decode_job

NOW = 1_800_000_000.0
ASKED: dict[str, Any] = {
    "prompt": "Vor 1 Jahr: é\n",
    "model": "m",
    "max_tokens": 16,
    "temperature": 1,
    "top_p": 0.5,
    "stop": ["\n"],
    "seed": 7,
}


def key(tag: str | None = None, **fields: Any) -> str:
    return idempotency_key(build_request({**ASKED, **fields}), tag)


def test_the_key_of_a_request_never_changes() -> None:
    """A changed derivation would make paid jobs anew: then the version in front must change too."""
    said = (
        '{"request":{"max_tokens":16,"model":"m","prompt":"Vor 1 Jahr: é\\n","seed":7,"stop":["\\n"],'
        '"temperature":1,"top_p":0.5},"tag":"%s"}'
    )
    assert key() == f"acsj1-{hashlib.sha256((said % '').encode()).hexdigest()}"
    assert key("é") == f"acsj1-{hashlib.sha256((said % 'é').encode()).hexdigest()}"
    assert key()[:14] == "acsj1-78447de4"


def test_keys_are_canonical() -> None:
    names = list(ASKED)
    random.Random(1).shuffle(names)
    shuffled = json.dumps({name: ASKED[name] for name in names}, indent=3)
    escaped = json.dumps(ASKED, ensure_ascii=True)
    nulls = json.dumps({**ASKED, "user": None, "logprobs": None, "prompt_logprobs": None}, ensure_ascii=False)
    for body in (shuffled, escaped, nulls, json.dumps({**ASKED, "temperature": 1.0})):
        assert idempotency_key(parse_request(body.encode())) == key()
    assert key("") == key(None)
    loose = Unchecked(
        **{name: ASKED[name] for name in ("prompt", "model")}, given={**ASKED, "temperature": 1.0}
    )
    assert idempotency_key(loose) == key()
    assert len(key()) == 70
    assert key().isascii()


def test_what_is_another_request_has_another_key() -> None:
    decomposed = "Vor 1 Jahr: e\u0301\n"
    others = [
        key("a"), key(prompt=ASKED["prompt"] + " "), key(prompt=decomposed), key(seed=8), key(model="M"),
        key(n=1), key(stop="\n"), key(stop=["\n", "\n"]), key(logprobs=0), key(user="tag"), key(temperature=0),
        key(prompt=[1, 2]), key(prompt=[[1, 2]]), key(prompt=["1", "2"]),
    ]  # fmt: skip
    assert len({key(), *others}) == len(others) + 1
    assert fingerprint(build_request(ASKED)) != fingerprint(build_request({**ASKED, "seed": 8}))


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(0, 2**63 - 1))
def test_keys_survive_the_wire(prompt: str, seed: int) -> None:
    request = build_request({"prompt": prompt, "model": "m", "max_tokens": 1, "seed": seed})
    assert idempotency_key(parse_request(msgspec.json.encode(request))) == idempotency_key(request)


# -- entries ------------------------------------------------------------------------------------


def new(**fields: Any) -> Entry:
    return job_entry.submitted(build_request({**ASKED, **fields}), "k" * 30, "t", NOW)


def queued(**more: Any) -> Entry:
    job = Job(id="j1", status="queued", request_id="r1", created_at=NOW, expires_at=NOW + 86_400, **more)
    return job_entry.seen(new(), job)


def outcome(error: errors.ApiError) -> errors.ApiError:
    error.final, error.retryable = True, False
    return error


LINES = [
    (
        new(),
        "submission kkkkkkkkkkkkkkkkkk: not confirmed by the server; submitting the same again finds it and pays once "
        "(for 1 min 5 s)",
    ),
    (queued(), "job j1: queued (for 1 min 5 s, expires unrun in 23 h 58 min) [request r1]"),
    (job_entry.seen(queued(), Job(id="j1", status="in_progress")), "job j1: in progress (for 1 min 5 s) [request r1]"),
    (
        job_entry.seen(queued(), Job(id="j1", status="running", cancel_requested=True)),
        "job j1: cancelling (for 1 min 5 s) [request r1]",
    ),
    (
        job_entry.troubled(queued(), errors.ConnectionFailed("no\nroute")),
        "job j1: queued; could not be asked just now (connection_failed: no route) (for 1 min 5 s, "
        "expires unrun in 23 h 58 min) [request r1]",
    ),
    (
        job_entry.succeeded(queued(), Usage(3, 1200), "length", NOW + 5),
        "job j1: succeeded, 3 + 1,200 tokens, length (result kept for 23 h 59 min) [request r1]",
    ),
    (
        job_entry.ended(queued(), outcome(errors.JobCancelled("It was.")), NOW),
        "job j1: cancelled, 409 job_cancelled: It was. To run it after all, give another tag (or idempotency key). "
        "[request r1]",
    ),
    (
        job_entry.ended(queued(), outcome(errors.JobExpired("Gone.")), NOW),
        "job j1: expired, 410 job_expired: Gone. Results are kept 24 hours; to run it again, "
        "as new paid work, give another tag (or idempotency key). [request r1]",
    ),
    (
        job_entry.ended(queued(), outcome(errors.BudgetExceeded("Used up.")), NOW),
        "job j1: failed, 429 budget_exceeded: Used up. The budget resets on the 1st (UTC); ask the operator to raise "
        "it. [request r1]",
    ),
    (
        job_entry.ended(queued(usage_pending=True), outcome(errors.JobInterrupted("Lost.")), NOW),
        "job j1: interrupted, 503 job_interrupted: Lost. It is not run again by itself and may have been billed: "
        "give the operator job id and request id; another tag runs it anew. Its usage is not settled yet. [request r1]",
    ),
    (
        job_entry.ended(new(), errors.JobConflict("Another."), NOW),
        "submission kkkkkkkkkkkkkkkkkk: conflict, 409 idempotency_conflict: Another. Use another idempotency key, or "
        "leave it out: then it is made from the request.",
    ),
    (
        job_entry.ended(new(), errors.JobStoreFull("Full."), NOW),
        "submission kkkkkkkkkkkkkkkkkk: refused, 429 job_store_full: Full. Ended jobs are forgotten after seven days; "
        "for many prompts use requests instead of jobs.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "told"), LINES, ids=[told.split(":")[1][:16] for _, told in LINES])
def test_every_outcome_is_one_line(entry: Entry, told: str) -> None:
    assert job_entry.line(entry, NOW + 65) == told


def test_a_line_cannot_steer_a_terminal() -> None:
    entry = job_entry.seen(new(), Job(id="j\x1b[31m", status="a\nb", request_id="\u202er"))
    line = job_entry.line(entry, NOW)
    assert line.isprintable()
    assert "\n" not in line


def test_good_standing_is_no_outcome_and_another_id_is_another_job() -> None:
    stands_well = job_entry.seen(queued(), Job(id="j1", status="succeeded"))
    assert (stands_well.open, job_entry.kind_of(stands_well)) == (True, "open")
    done = job_entry.succeeded(stands_well, Usage(1, 1), "stop", NOW)
    assert job_entry.seen(done, Job(id="j1", status="succeeded")).outcome == "succeeded"
    anew = job_entry.seen(done, Job(id="j2", status="queued"))
    assert (anew.job, anew.outcome, anew.completion_tokens, anew.tag) == ("j2", None, None, "t")
    accepted = job_entry.seen(
        job_entry.ended(new(), errors.JobStoreFull("x"), NOW), Job(id="j1", status="queued")
    )
    assert (accepted.outcome, accepted.code) == (None, None)


def test_what_is_shown_of_a_prompt() -> None:
    assert new(prompt="a\n b" + "x" * 500).prompt == "a b" + "x" * 76 + "…"
    assert new(prompt=[5, 6, 7]).prompt == "3 token ids"
    assert new(prompt=["one", "two"], n=2).tokens == 64


def test_times_of_every_kind() -> None:
    assert seconds_of(5) == 5
    assert seconds_of("1970-01-01T00:01:00Z") == seconds_of("1970-01-01T00:01:00") == 60
    assert seconds_of("soon") is seconds_of(None) is None
    assert [job_entry.span(s) for s in (-3, 59, 60, 3599, 3600, 90_000)] == [
        "0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "1 d 1 h",
    ]  # fmt: skip
    told = decode_job(
        b'{"id":"j","status":"queued","created_at":"2027-01-15T08:00:00+00:00","expires_at":[]}'
    )
    assert job_entry.seen(new(), told).created_at == NOW


# -- whose turn it is ---------------------------------------------------------------------------


def test_rounds_obey_the_server_and_slow_down() -> None:
    now = [0.0]
    rounds = Rounds(lambda: now[0])
    rounds.add("a")
    rounds.add("b")
    assert rounds.take() == "a"
    rounds.later("a", 7.0)
    assert rounds.take() == "b"
    rounds.later("b", None)
    assert rounds.next() == (None, 1.0)
    now[0] = 1.0
    assert rounds.take() == "b"
    rounds.drop("b")
    assert rounds.next() == (None, 6.0)
    now[0] = 1000.0
    assert rounds.take() == "a"
    rounds.later("a", 1.0)
    assert rounds.next() == (None, SLOWEST)


def test_a_server_that_cannot_be_asked_is_left_alone() -> None:
    now = [0.0]
    rounds = Rounds(lambda: now[0])
    rounds.add("a")
    rounds.add("b")
    waits = []
    for _ in range(9):
        job = rounds.take()
        assert job is not None
        rounds.unreachable(job)
        waits.append(rounds.next()[1])
        now[0] += waits[-1]
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == LONGEST_PAUSE
    job = rounds.take()
    assert job is not None
    rounds.later(job, 1.0)
    rounds.unreachable("b")
    assert rounds.next()[1] == pytest.approx(1.0)
