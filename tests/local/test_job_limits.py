"""Jobs and the rest of the server: one budget, one gate, one rate, one set of keys."""

from __future__ import annotations

import time

from acs_jupyter.local.desk import Limits as DeskLimits
from tests.support.contract import envelope
from tests.support.desks import until as until_true
from tests.support.job_server import JobServer, job_server, outcome, status, submit, until

SLOW = "#scripted rate=20\nslow"


def used(server: JobServer) -> list[tuple[str, int, int, int, str]]:
    entries = server.desk.ledger.entries()
    return [(e.endpoint, e.prompt_tokens, e.completion_tokens, e.status, e.source) for e in entries]


def test_a_job_is_metered_once_under_its_own_request_id() -> None:
    with job_server() as server:
        http = server.stranger()
        job = submit(http, "k", "One two", max_tokens=5, n=2).json()
        usage = outcome(http, job["id"]).json()["usage"]
        for _ in range(3):
            outcome(http, job["id"])
            submit(http, "k", "One two", max_tokens=5, n=2)
        assert used(server) == [("completion-jobs", usage["prompt_tokens"], 10, 200, "usage")]
        assert server.desk.ledger.entries()[0].request_id == job["request_id"]
        assert (server.desk.budget.reserved, server.desk.gate.active) == (0, 0)


def test_a_budget_used_up_meanwhile_rejects_late_and_blocks_no_reading() -> None:
    with job_server(workers=1) as server:
        http = server.stranger(budget=60)
        first = submit(http, "a", SLOW, max_tokens=20).json()["id"]
        second = submit(http, "b", "two", max_tokens=40).json()["id"]
        third = submit(http, "c", "three", max_tokens=40).json()["id"]
        assert outcome(http, first).status_code == 200
        clamped = outcome(http, second)
        assert clamped.status_code == 200
        assert clamped.headers["x-acs-max-tokens-clamped"].startswith("requested=40,applied=")
        assert "reason=budget,source=client" in clamped.headers["x-acs-max-tokens-clamped"]
        late = outcome(http, third)
        assert (late.status_code, late.json()["error"]["code"]) == (429, "budget_exceeded")
        assert late.headers["x-should-retry"] == "false"
        assert server.engine.begun[-1] == "two"
        assert outcome(http, first).status_code == 200
        assert outcome(http, second).content == clamped.content
        envelope(http.post("completions", json={"prompt": "x", "max_tokens": 1}), 429, "budget_exceeded")
        assert server.desk.budget.reserved == 0


def test_what_a_cancelled_job_made_is_counted() -> None:
    with job_server() as server:
        http = server.stranger()
        job = submit(http, "k", SLOW, max_tokens=400).json()["id"]
        until(http, job, "running")
        time.sleep(0.3)
        assert server.desk.budget.reserved > 400
        http.post(f"completion-jobs/{job}/cancel")
        until(http, job, "cancelled")
        [(endpoint, prompt, made, code, source)] = used(server)
        assert (endpoint, code, source) == ("completion-jobs", 499, "cut")
        assert prompt > 0
        assert 1 <= made <= 40
        assert (server.desk.budget.reserved, server.desk.gate.active) == (0, 0)


def test_failures_cost_nothing() -> None:
    with job_server() as server:
        http = server.stranger()
        for fault in ("vllm_oom", "error code=vllm_engine_dead", "html502"):
            job = submit(http, fault.replace(" ", ""), f"#scripted fault={fault}\nx").json()["id"]
            assert outcome(http, job).status_code == 502
        assert {(prompt, made, source) for _, prompt, made, _, source in used(server)} == {(0, 0, "none")}
        assert server.desk.budget.reserved == 0


def test_a_revoked_key_reads_nothing() -> None:
    with job_server() as server:
        key = server.desk.keys.create()
        http = server.client(key)
        job = submit(http, "k").json()["id"]
        assert outcome(http, job).status_code == 200
        server.desk.keys.revoke(key.split("-")[2])
        for path in ("", "/result"):
            envelope(http.get(f"completion-jobs/{job}{path}"), 401, "key_revoked")
        envelope(submit(http, "k"), 401, "key_revoked")


def test_submissions_share_the_rate_and_polls_do_not() -> None:
    with job_server(desk=DeskLimits(starts=4, reads=1)) as server:
        http = server.stranger()
        job = submit(http, "1").json()["id"]
        assert http.post("completions", json={"prompt": "x", "max_tokens": 1}).status_code == 200
        assert submit(http, "1").status_code == 200
        assert submit(http, "", "x").status_code == 400  # counts, too
        refused = submit(http, "2")
        envelope(refused, 429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 50
        envelope(http.post("completions", json={"prompt": "x", "max_tokens": 1}), 429, "rate_limited")
        assert outcome(http, job).status_code == 200
        assert [status(http, job) for _ in range(70)] == ["succeeded"] * 70
        assert http.post(f"completion-jobs/{job}/cancel").status_code == 200


def test_jobs_and_requests_stand_in_one_line() -> None:
    with job_server(desk=DeskLimits(active=1, waiting=1, starts=0)) as server:
        http = server.stranger()
        longest = submit(http, "long", SLOW, max_tokens=40).json()["id"]  # two seconds
        until(http, longest, "running")
        jobs = [longest, *(submit(http, str(i), f"{SLOW}{i}", max_tokens=6).json()["id"] for i in range(3))]
        gate = server.desk.gate
        until_true(lambda: (gate.active, gate.waiting) == (1, 1))
        envelope(http.post("completions", json={"prompt": "x", "max_tokens": 1}), 429, "queue_full")
        assert server.engine.busy <= 1
        assert {outcome(http, job).status_code for job in jobs} == {200}  # no job fails for want of room
        assert len(server.engine.begun) == 4
        assert (server.desk.gate.active, server.desk.gate.waiting) == (0, 0)


def test_cancelling_a_job_that_waits_at_the_gate() -> None:
    with job_server(desk=DeskLimits(active=1, waiting=1, starts=0)) as server:
        http = server.stranger()
        jobs = [submit(http, str(i), SLOW, max_tokens=400, seed=i).json()["id"] for i in range(3)]
        for job in jobs:
            until(http, job, "running")
        for job in reversed(jobs):
            http.post(f"completion-jobs/{job}/cancel")
            until(http, job, "cancelled")
        assert server.engine.begun == [SLOW]
        assert (server.desk.gate.active, server.desk.gate.waiting, server.desk.budget.reserved) == (0, 0, 0)
