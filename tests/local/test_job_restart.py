"""Jobs and the end of a server, soft and hard: nothing is run twice, nothing finished is lost, nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from acs_jupyter.errors import JobLimitReached, JobStoreFull
from acs_jupyter.local.job_store import JobStore, StoreBusy
from acs_jupyter.local.job_values import End, Limits, New, Owner
from acs_jupyter.local.jobs import Done, Jobs
from acs_jupyter.wire import CompletionRequest
from tests.support.job_server import DAY, START, job_server, outcome, status, submit, until
from tests.support.servers import ROOT, environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "acs-bm-testtest-survives-a-restart"
SLOW = "#scripted rate=5\nslow"
COUNTER = """
import os
from acs_jupyter.local import scripted
real = scripted.ScriptedEngine.generate
def generate(self, task):
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(task.texts[0].splitlines()[-1] + "\\n")
    return real(self, task)
scripted.ScriptedEngine.generate = generate
"""


class Process:
    """A real ``acs-jupyter serve`` on one folder that writes down every run it begins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(COUNTER)

    @contextmanager
    def serving(self, *more: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
        path = f"{self.folder / 'site'}{os.pathsep}{ROOT}"
        arguments = ("--scripted", "--key", KEY, "--data", str(self.folder / "data"), *more)
        with (
            serving(*arguments, RUNS=str(self.folder / "runs"), PYTHONPATH=path) as server,
            httpx.Client(base_url=server.base + "/", headers=server.auth, timeout=30) as client,
        ):
            yield client, server.process

    @property
    def runs(self) -> list[str]:
        return (self.folder / "runs").read_text().split()


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_kill_with_queued_and_running_jobs(process: Process) -> None:
    with process.serving("--job-workers", "2") as (http, server):
        done = submit(http, "done", "done").json()["id"]
        result = outcome(http, done).content
        running = [submit(http, f"r{i}", f"{SLOW}{i}", max_tokens=500).json()["id"] for i in range(2)]
        for job in running:
            until(http, job, "running")
        queued = [submit(http, f"q{i}", f"queued{i}").json()["id"] for i in range(3)]
        assert {status(http, job) for job in queued} == {"queued"}
        server.kill()
        server.wait()
    assert sorted(process.runs) == ["done", "slow0", "slow1"]
    with process.serving() as (http, server):
        for job in queued:
            assert outcome(http, job).status_code == 200
        assert outcome(http, done).content == result
        for i, job in enumerate(running):
            answer = outcome(http, job)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "job_interrupted")
            told = until(http, job, "interrupted")
            assert told["usage_pending"] is True
            assert told["record_expires_at"] is None
            assert (
                submit(http, f"r{i}", f"{SLOW}{i}", max_tokens=500).status_code == 200
            )  # found, not run again
            assert http.post(f"completion-jobs/{job}/cancel").json()["status"] == "interrupted"
        time.sleep(0.2)
        server.kill()
        server.wait()
    with process.serving() as (http, _):  # and once more: nothing changes
        assert {status(http, job) for job in queued} == {"succeeded"}
        assert {status(http, job) for job in running} == {"interrupted"}
    assert sorted(process.runs) == ["done", "queued0", "queued1", "queued2", "slow0", "slow1"]


def test_killed_again_and_again_while_it_works(process: Process) -> None:
    """Whatever the moment: a job that was begun is never begun again."""
    with process.serving("--job-workers", "1") as (http, server):
        jobs = [
            submit(http, str(i), f"#scripted rate=40\njob{i}", max_tokens=4).json()["id"] for i in range(8)
        ]
        server.kill()
        server.wait()
    for pause in (0.0, 0.13, 0.3, 0.05):
        with process.serving("--job-workers", "1") as (_, server):
            time.sleep(pause)
            server.kill()
            server.wait()
    with process.serving() as (http, _):
        told = {job: until(http, job, "succeeded", "interrupted") for job in jobs}
        answers = {job: outcome(http, job).status_code for job in jobs}
    assert {answers[job] for job in jobs if told[job]["status"] == "succeeded"} == {200}
    assert {answers[job] for job in jobs if told[job]["status"] == "interrupted"} <= {503}
    assert len(process.runs) == len(set(process.runs)) <= 8
    started = [job for job in jobs if told[job]["status"] == "succeeded"]
    assert len(started) <= len(process.runs)


def test_a_soft_end_lets_short_jobs_finish_and_stops_long_ones(tmp_path: Path) -> None:
    with job_server(tmp_path, workers=2, grace=1.0) as server:
        http = server.client()
        short = submit(http, "short", "#scripted rate=20\nx", max_tokens=6).json()["id"]
        long = submit(http, "long", SLOW, max_tokens=500).json()["id"]
        until(http, long, "running")
        queued = submit(http, "queued", "queued").json()["id"]
        begun = time.monotonic()
    assert 0.8 < time.monotonic() - begun < 3
    assert server.engine.busy == 0
    begun_before = list(server.engine.begun)
    with job_server(tmp_path) as server:
        http = server.client()
        assert outcome(http, short).status_code == 200
        assert outcome(http, long).json()["error"]["code"] == "job_interrupted"
        told = until(http, long, "interrupted")
        assert told["usage_pending"] is False  # the work was really stopped: nothing is unknown
        assert outcome(http, queued).status_code == 200
        # The short one's end may free a worker for it just before the server ends: once, here or there.
        assert [*begun_before, *server.engine.begun].count("queued") == 1


def test_pending_usage_keeps_the_record_until_it_is_settled(process: Process) -> None:
    with process.serving() as (http, server):
        job = submit(http, "k", SLOW, max_tokens=500).json()["id"]
        until(http, job, "running")
        server.kill()
        server.wait()
    data = process.folder / "data"
    now = time.time()
    owner = Owner("stranger")
    store = JobStore(data, now)
    store.retire(now + 30 * DAY)
    assert store.add(_new(owner, "x"), now + 30 * DAY)[1]
    store.close()
    with process.serving() as (http, _):
        assert until(http, job, "interrupted")["usage_pending"] is True
        assert outcome(http, job).status_code == 410  # large content goes all the same
        busy = _reconcile(data)
        assert (busy.returncode, "another server" in busy.stderr) == (2, True)
        assert busy.stderr.endswith("Stop the server first.\n")
    unknown = _reconcile(data, "job_nobody_made")
    assert (unknown.returncode, "no job 'job_nobody_made'" in unknown.stderr) == (2, True)
    assert re.fullmatch(r"1 job: \d{3} tokens counted as used\n", _reconcile(data, job).stdout)
    assert _reconcile(data).stdout == "No job's usage is pending.\n"
    assert _reconcile(process.folder / "nowhere").returncode == 2
    store = JobStore(data, now)
    store.retire(now + 30 * DAY)
    store.close()
    with process.serving() as (http, _):
        assert http.get(f"completion-jobs/{job}").status_code == 404


def _reconcile(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acs_jupyter", "jobs", "reconcile", *words, "--data", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


def test_one_server_a_folder(process: Process) -> None:
    with process.serving():
        command = [sys.executable, "-m", "acs_jupyter", "serve", "--scripted", "--port", "0", "--data"]
        second = subprocess.run(
            [*command, str(process.folder / "data")],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert second.returncode == 2
        [line] = second.stderr.splitlines()
        assert "another server holds it" in line


def test_the_variables_folder_may_be_taken(tmp_path: Path) -> None:
    with (
        serving("--scripted", "--data", str(tmp_path)),
        serving("--scripted", ACS_LOCAL_DATA=str(tmp_path)) as second,
    ):
        with httpx.Client(base_url=second.base + "/", headers=second.auth) as http:
            assert outcome(http, submit(http, "k").json()["id"]).status_code == 200
        [line] = second.log
        assert "another server holds it" in line
        assert "memory" in line


def test_without_a_folder_nothing_is_written_down(tmp_path: Path) -> None:
    places = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "XDG_DATA_HOME")}
    with serving("--scripted", ACS_LOCAL_DATA="", **places) as server:
        with httpx.Client(base_url=server.base + "/", headers=server.auth) as http:
            job = submit(http, "SECRET-KEY", "#scripted say=SECRET-ANSWER\nSECRET").json()["id"]
            assert "SECRET-ANSWER" in outcome(http, job).text
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not [path for path in files if path.name.startswith("jobs") or b"SECRET" in path.read_bytes()]


def test_files_are_private_and_content_leaves_them(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with job_server(folder) as server:
        http = server.client()
        said = (
            f'#scripted say="{"SECRET-ANSWER " * 900}"\n' + "SECRET-PROMPT " * 900
        )  # more than a page of each
        job = submit(http, "SECRET-IDEMPOTENCY", said, max_tokens=4096).json()["id"]
        assert "SECRET-ANSWER" in outcome(http, job).text
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700
        cancelled = submit(http, "c", "SECRET-CANCELLED").json()["id"]
        http.post(f"completion-jobs/{cancelled}/cancel")
        assert b"SECRET-ANSWER" in _bytes(folder)
        server.now += DAY
        submit(http, "wake", "wake")
        end = time.monotonic() + 10
        while b"SECRET" in _bytes(folder) and time.monotonic() < end:
            time.sleep(0.05)
        assert b"SECRET" not in _bytes(folder)
        assert status(http, job) == "succeeded"
    assert b"acs-bm" not in _bytes(folder)


def _bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_nothing_of_a_job_is_logged(process: Process) -> None:
    arguments = ("--scripted", "--data", str(process.folder / "data"))
    with serving(*arguments) as server:
        with httpx.Client(base_url=server.base + "/", headers=server.auth) as http:
            for key, prompt in (
                ("a", "SECRET"),
                ("b", "#scripted fault=cut\nSECRET"),
                ("c", SLOW + "SECRET"),
            ):
                submit(http, key, prompt, max_tokens=100)
            time.sleep(0.3)
        server.process.kill()
        server.process.wait()
    with serving(*arguments) as again:
        time.sleep(0.1)
    assert "".join([*server.log, *again.log]) == ""


# -- the store by itself --------------------------------------------------------------------------


def _new(owner: Owner, key: str) -> New:
    return New(f"job_{owner.key}_{owner.account}_{key}", owner, key, "same", "req_1", "m", b"{}")


def _end() -> End:
    return End("succeeded", 200, b"{}", {})


def test_the_global_caps() -> None:
    store = JobStore(None, START)
    for i in range(128):
        store.add(_new(Owner(f"k{i}", f"a{i // 20}"), "x"), START)
    with pytest.raises(JobLimitReached, match="128"):
        store.add(_new(Owner("late", "late"), "x"), START)
    store.close()
    store = JobStore(None, START, Limits(active=2000))
    for i in range(1000):
        owner = Owner(f"k{i}", f"a{i // 20}")
        store.add(_new(owner, "x"), START)
        store.cancel(owner, _new(owner, "x").id, START)
    with pytest.raises(JobStoreFull, match="1000"):
        store.add(_new(Owner("late", "late"), "x"), START)
    store.close()


def test_a_claim_is_for_good_and_keys_take_turns() -> None:
    store = JobStore(None, START, Limits(active_per_key=50))
    one, two = Owner("one"), Owner("two")
    for i in range(4):
        store.add(_new(one, str(i)), START)
    for i in range(2):
        store.add(_new(two, str(i)), START)
    claimed = [store.claim(START + 1) for _ in range(7)]
    assert [(row.owner, row.idempotency) for row in claimed if row] == [
        ("one", "0"), ("two", "0"), ("one", "1"), ("two", "1"), ("one", "2"), ("one", "3"),
    ]  # fmt: skip
    assert claimed[6] is None
    assert all(row and row.usage_pending for row in claimed[:6])
    store.close()


def test_cancelling_between_the_claim_and_the_work() -> None:
    begun: list[str] = []

    async def work(request: CompletionRequest, owner: Owner, request_id: str) -> Done:
        begun.append(request_id)
        await asyncio.sleep(0)
        return Done(b"{}", {})

    async def go() -> str:
        store = JobStore(None, START)
        jobs = Jobs(store, work, clock=lambda: START)
        request = CompletionRequest(prompt="x", model="m", max_tokens=1)
        row, _ = await jobs.submit(Owner("one"), "k", request, "req_1")
        claimed = store.claim(START)
        assert claimed is not None
        assert (await jobs.cancel(Owner("one"), row.id)).status == "running"
        await jobs._run(claimed)
        ended = (await jobs.get(Owner("one"), row.id)).status
        await jobs.stop()
        return ended

    assert asyncio.run(go()) == "cancelled"
    assert begun == []


def test_an_end_is_written_once() -> None:
    store = JobStore(None, START)
    owner = Owner("one")
    row, is_new = store.add(_new(owner, "k"), START)
    assert is_new
    store.finish(row.id, _end(), START)  # not claimed: nothing to finish
    assert store.get(owner, row.id, START).status == "queued"
    store.claim(START)
    store.finish(row.id, _end(), START + 5)
    store.finish(row.id, End("failed", 502, b"x", {}), START + 6)
    last = store.get(owner, row.id, START + 7)
    assert (last.status, last.outcome, last.ended, last.request) == ("succeeded", 200, START + 5, None)
    store.close()


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StoreBusy, match="cannot be used"):
        JobStore(tmp_path, START)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreBusy, match="cannot be opened"):
        JobStore(tmp_path / "file" / "below", START)


def test_a_disk_that_refuses_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outcome is paid for: it is offered to the disk again."""
    real, left = JobStore.finish, [2]

    def finish(self: JobStore, *arguments: object) -> None:
        if left[0]:
            left[0] -= 1
            raise sqlite3.OperationalError("disk is full")
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JobStore, "finish", finish)
    with job_server() as server:
        http = server.client()
        job = submit(http, "k").json()["id"]
        assert outcome(http, job).status_code == 200
        assert left == [0]
        assert len(server.engine.begun) == 1
