"""Budgets and servers that are killed: what a request held stays held, seen and charged, until it is settled."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import httpx

from acs_jupyter.local.holds import Hold, Holds
from acs_jupyter.local.ledger import Ledger, read_log
from acs_jupyter.local.store import FILE, Store
from tests.support.job_server import submit, until
from tests.support.servers import environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW = {"prompt": [1, 2, 3], "max_tokens": 40, "stream": True}
SLOW_JOB = "#scripted rate=1\nslow"


@contextmanager
def server(folder: Path, key: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    with (
        serving("--scripted", "--rate", "5", ACS_LOCAL_DATA=str(folder)) as running,
        httpx.Client(
            base_url=running.base + "/", headers={"Authorization": f"Bearer {key}"}, timeout=30
        ) as client,
    ):
        yield client, running.process


def command(folder: Path, *words: str) -> str:
    line = [sys.executable, "-m", "acs_jupyter", *words, "--data", str(folder)]
    return subprocess.run(line, capture_output=True, text=True, env=environment(), check=True).stdout


def used(folder: Path, prefix: str) -> int:
    """Tokens of a key over the whole log; the sum a month says the same."""
    store = Store(folder)
    try:
        entries = [entry for entry in Ledger(store).entries() if entry.prefix == prefix]
        told = {Ledger(store).used(entry.key_id, entry.month) for entry in entries}
    finally:
        store.close()
    total = sum(entry.prompt_tokens + entry.completion_tokens for entry in entries)
    assert told == {total}
    return total


def count(folder: Path) -> int:
    """Rows of the table."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        return int(db.execute("SELECT count(*) FROM holds").fetchone()[0])


def left_behind(folder: Path) -> list[Hold]:
    store = Store(folder)
    try:
        return list(Holds(store).left_behind().values())
    finally:
        store.close()


def test_budgets_add_up_after_a_kill(tmp_path: Path) -> None:
    key = command(tmp_path, "keys", "create", "--budget", "400").strip()
    prefix = key.split("-")[2]
    with server(tmp_path, key) as (http, process):
        first = http.post("completions", json={"prompt": [1], "max_tokens": 2}).json()["usage"][
            "total_tokens"
        ]
        job = submit(http, "k", SLOW_JOB, max_tokens=100).json()["id"]
        until(http, job, "running")
        with http.stream("POST", "completions", json=SLOW) as answer:
            lines = answer.iter_lines()  # held: the answer ends with it
            next(lines)
            while count(tmp_path) < 2:  # a job is called running before it holds anything
                time.sleep(0.01)
            process.kill()
            process.wait()
    stream, job_holds = sorted(hold.tokens for hold in left_behind(tmp_path))
    assert stream == 43
    assert 100 < job_holds <= 101 + len(SLOW_JOB)
    assert used(tmp_path, prefix) == first
    shown = command(tmp_path, "keys", "list")
    assert f"{prefix}: {43 + job_holds} tokens held for 2 requests of a server that was killed" in shown

    with server(tmp_path, key) as (http, process):
        left = 400 - first - 43 - job_holds
        refused = http.post("completions", json={"prompt": [1] * left, "max_tokens": 1})
        assert refused.json()["error"]["code"] == "budget_exceeded"
        assert f"{43 + job_holds} held by a killed server" in refused.json()["error"]["message"]
        fits = http.post("completions", json={"prompt": [1] * (left - 2), "max_tokens": 9})
        assert ",applied=2,reason=budget," in fits.headers["x-acs-max-tokens-clamped"]

    assert command(tmp_path, "jobs", "reconcile") == f"1 job: {job_holds} tokens counted as used\n"
    assert used(tmp_path, prefix) == 400 - 43
    assert command(tmp_path, "keys", "settle", prefix, "--release") == "1 request: 43 tokens released\n"
    assert command(tmp_path, "keys", "settle").startswith("No server that was killed holds anything")
    assert used(tmp_path, prefix) == 400 - 43
    assert [(entry.status, entry.source) for entry in read_log(tmp_path)] == [
        (200, "usage"), (200, "usage"), (500, "held"), (500, "none"),
    ]  # fmt: skip


def test_two_servers_on_one_file_see_what_the_other_holds(tmp_path: Path) -> None:
    key = command(tmp_path, "keys", "create", "--budget", "100").strip()
    with (
        server(tmp_path, key) as (one, _),
        server(tmp_path, key) as (other, _),
        one.stream("POST", "completions", json=SLOW) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        refused = other.post("completions", json={"prompt": [1] * 57, "max_tokens": 1})
        assert refused.json()["error"]["code"] == "budget_exceeded"
        assert "43 held by running requests" in refused.json()["error"]["message"]
        assert "killed" not in refused.json()["error"]["message"]
        fits = other.post("completions", json={"prompt": [1] * 50, "max_tokens": 9})
        assert ",applied=7,reason=budget," in fits.headers["x-acs-max-tokens-clamped"]


def test_a_hold_of_another_machine_is_not_called_lost(tmp_path: Path) -> None:
    store = Store(tmp_path)
    row = ("r", "id", "prefix", "completions", "m", 1, 2, "2026-01", 0.0, "another boot", 1, "1")
    with store.writing() as db:
        db.execute(f"INSERT INTO holds VALUES (NULL, {', '.join('?' * 12)})", row)
    holds = Holds(store)
    assert holds.of_others("id", "2026-01") == 3
    assert holds.left_behind() == {}
    store.close()


def test_a_settled_hold_is_gone(tmp_path: Path) -> None:
    key = command(tmp_path, "keys", "create").strip()
    with server(tmp_path, key) as (http, _):
        http.post("completions", json={"prompt": "x", "max_tokens": 1})
        http.post("completions", json={"prompt": "x", "max_tokens": 1, "n": 2, "temperature": 0})
    assert count(tmp_path) == 0


def test_a_job_settles_its_own_hold_alone(tmp_path: Path) -> None:
    """Request ids are chosen by clients: three requests share one here."""
    mine, other = (command(tmp_path, "keys", "create", "--budget", "5000").strip() for _ in range(2))
    same = {"X-Request-Id": "chosen"}
    with server(tmp_path, mine) as (http, process):
        http.headers.update(same)
        job = submit(http, "k", SLOW_JOB, max_tokens=1000 - len(SLOW_JOB)).json()["id"]
        until(http, job, "running")
        with (
            http.stream("POST", "completions", json=SLOW) as one,
            http.stream(
                "POST", "completions", json=SLOW, headers={"Authorization": f"Bearer {other}"}
            ) as two,
        ):
            held = one.iter_lines(), two.iter_lines()
            for lines in held:
                next(lines)
            while count(tmp_path) < 3:
                time.sleep(0.01)
            process.kill()
            process.wait()
    told = command(tmp_path, "jobs", "reconcile", job)
    [entry] = read_log(tmp_path)
    tokens = entry.prompt_tokens + entry.completion_tokens
    assert told == f"1 job: {tokens:,} tokens counted as used\n"
    assert (entry.endpoint, entry.prefix, entry.source) == ("completion-jobs", mine.split("-")[2], "held")
    assert [hold.endpoint for hold in left_behind(tmp_path)] == ["completions"] * 2
    assert command(tmp_path, "keys", "list").count("43 tokens held for 1 request") == 2


def test_of_equal_holds_the_one_nearest_the_start_is_the_jobs() -> None:
    from acs_jupyter.local.job_values import Row
    from acs_jupyter.local.reconcile import held_by

    def hold(at: float, **other: str) -> Hold:
        who = {"request_id": "r", "key_id": "key", "endpoint": "completion-jobs"} | other
        return Hold(
            prefix="p", model="m", prompt_tokens=1, completion_tokens=2, month="2026-01", at=at, **who
        )

    def job(started: float) -> Row:
        rest = {"created": 0.0, "ended": None, "content_gone": False, "request": None, "outcome": None}
        texts = dict.fromkeys(("id", "account", "idempotency", "fingerprint", "model", "status"), "x")
        flags = {"seq": 1, "cancel_requested": False, "usage_pending": True, "result": None, "headers": None}
        return Row(owner="key", request_id="r", started=started, **rest, **texts, **flags)  # type: ignore[arg-type]

    holds = {
        1: hold(5), 2: hold(100.1), 3: hold(200.1), 4: hold(100, key_id="other"), 5: hold(100, endpoint="completions"),
    }  # fmt: skip
    assert held_by([job(100), job(200)], holds) == [2, 3]
    assert held_by([job(100)], {}) == []
