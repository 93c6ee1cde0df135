"""The watch over jobs, and cells that submit them: one poller for all who look, one line for every outcome."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

from acs_jupyter import Client, errors
from acs_jupyter.checks import build_request
from acs_jupyter.jobs import watch as job_watch
from acs_jupyter.jobs.watch import Watch
from acs_jupyter.local.job_values import Limits
from acs_jupyter.widgets.job_table import browser_rows, plain_text, static_html
from acs_jupyter.widgets.jobs import JobWindow
from acs_jupyter.wire import CompletionRequest
from tests.jobs.test_job_journal import book  # noqa: F401 - a fixture
from tests.support.job_server import DAY, KEY, JobServer, job_server
from tests.support.player import CLOSE, Player, Step, whole
from tests.support.shells import Shell

pytestmark = pytest.mark.usefixtures("book")


def request(prompt: str = "Hello", **fields: Any) -> CompletionRequest:
    return build_request({"prompt": prompt, "model": "scripted", "max_tokens": 5, **fields})


@pytest.fixture
def watching() -> Iterator[Callable[..., Watch]]:
    made: list[Watch] = []

    def make(base: str, key: str = KEY) -> Watch:
        made.append(Watch(Client(base, key)))
        return made[-1]

    yield make
    for watch in made:
        watch.close()


def until(true: Callable[[], Any], seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)
    return found


def told(status: str, http: str = "200 OK", **more: Any) -> list[Step]:
    headers = {"Retry_After": more.pop("after")} if "after" in more else {}
    return whole({"id": "j1", "status": status, "request_id": "r1", **more}, http, **headers)


COMPLETION = whole(
    {
        "id": "cmpl-1",
        "model": "m",
        "choices": [{"index": 0, "text": " <b>Paris", "logprobs": None, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
)


class NoComm(BaseComm):
    def publish_msg(self, *_: Any, **__: Any) -> None:
        pass


def test_however_many_look_on_a_job_is_asked_about_once(
    watching: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comm, "create_comm", NoComm)
    waits = told("running", "202 Accepted", after="0.6")
    with Player(
        [told("queued", "202 Accepted"), waits, waits, waits, COMPLETION, told("succeeded")]
    ) as server:
        watch = watching(server.base)
        begun = time.monotonic()
        handle = watch.submit(request())
        windows = [JobWindow(watch), JobWindow(watch), JobWindow(watch, handle.id)]
        rows = [json.loads(window.rows) for window in windows]
        assert [row[0]["job"] for row in rows] == ["j1"] * 3
        assert handle.wait(20).text == " <b>Paris"
        took = time.monotonic() - begun
        until(lambda: all(json.loads(window.rows)[0]["state"] == "succeeded" for window in windows))
        until(lambda: len(server.requests) == 6)
        assert handle.wait(0).text == handle.completion().text == " <b>Paris"
        assert list(json.loads(until(lambda: windows[2].opened != "{}" and windows[2].opened))) == ["j1"]
        time.sleep(0.3)
        lines = [r.line.split(" ")[:2] for r in server.requests]
        shown = json.loads(windows[0].rows)[0]
    assert [line[0] for line in lines] == ["POST", "GET", "GET", "GET", "GET", "GET"]
    assert took >= 3 * 0.6
    assert (shown["preview"], shown["read"], shown["cancel"]) == ("<b>Paris", True, False)


def test_windows_ask_in_intents_and_ignore_the_rest(
    watching: Callable[..., Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comm, "create_comm", NoComm)
    running = told("running", "202 Accepted", after="30")
    answers = [told("queued", "202 Accepted"), running, told("running", cancel_requested=True), running]
    with Player(answers) as server:
        watch = watching(server.base)
        watch.submit(request())
        window = JobWindow(watch)
        until(lambda: len(server.requests) == 2)
        for nonsense in (
            {"type": "CancelJob"},
            {"type": "CancelJob", "job": 3},
            "x",
            {"type": "Delete", "job": "j1"},
        ):
            window._received(window, nonsense, [])
        window._received(window, {"type": "CancelJob", "job": "j1"}, [])
        until(lambda: "cancelling" in window.rows)
        time.sleep(0.2)
        lines = [" ".join(r.line.split(" ")[:2]) for r in server.requests]
    assert lines[2:] == ["POST /v1/completion-jobs/j1/cancel"]  # the server asked to be left alone for 30 s


def test_a_server_that_goes_away_is_said_and_asked_again(watching: Callable[..., Watch]) -> None:
    with Player([told("queued", "202 Accepted"), *[[CLOSE]] * 4, COMPLETION, told("succeeded")]) as server:
        watch = watching(server.base)
        seen: list[str] = []
        watch.subscribe(lambda: seen.extend(json.dumps(row) for row in browser_rows(watch.rows())))
        handle = watch.submit(request())
        assert handle.wait(30).text == " <b>Paris"
    assert any("could not be asked just now" in row and '"kind": "doubt"' in row for row in seen)


OUTCOMES: list[tuple[list[list[Step]], type[errors.AcsError], str]] = [
    (
        [whole({"error": {"code": "job_cancelled", "message": "x"}}, "409 No")],
        errors.JobCancelled,
        "cancelled, 409",
    ),
    (
        [whole({"error": {"code": "job_expired", "message": "x"}}, "410 No")],
        errors.JobExpired,
        "expired, 410",
    ),
    (
        [whole({"error": {"code": "budget_exceeded", "message": "x"}}, "429 No"), told("failed")],
        errors.BudgetExceeded,
        "failed, 429",
    ),
    (
        [whole({"error": {"code": "internal_error", "message": "x"}}, "503 No"), told("interrupted")] * 3,
        errors.JobInterrupted,
        "interrupted, 503",
    ),
    (
        [whole({"error": {"code": "vllm_oom", "message": "x"}}, "502 No"), told("failed")],
        errors.AcsError,
        "failed, 502",
    ),
    (
        [whole({"error": {"code": "job_not_found", "message": "x"}}, "404 No")],
        errors.JobNotFound,
        "forgotten, 404",
    ),
]


@pytest.mark.parametrize(("answers", "kind", "words"), OUTCOMES, ids=[words[:10] for _, _, words in OUTCOMES])
def test_outcomes_end_the_asking_and_are_one_line(
    watching: Callable[..., Watch], answers: list[list[Step]], kind: type[errors.AcsError], words: str
) -> None:
    with Player([told("queued", "202 Accepted"), *answers]) as server:
        watch = watching(server.base)
        handle = watch.submit(request())
        with pytest.raises(kind):
            handle.wait(30)
        count = len(server.requests)
        time.sleep(0.2)
        assert len(server.requests) == count
        [row] = browser_rows(watch.rows())
        assert row["words"].startswith(words)
        assert not row["cancel"]
        assert repr(handle).startswith(f"job j1: {words}")
        assert words in plain_text(watch.rows(), time.time())


def test_waiting_ends_at_the_deadline_and_the_job_goes_on(watching: Callable[..., Watch]) -> None:
    with Player([told("queued", "202 Accepted"), told("running", "202 Accepted", after="30")]) as server:
        handle = watching(server.base).submit(request())
        with pytest.raises(errors.JobPending, match="goes on without you"):
            handle.wait(0.1)
        with pytest.raises(errors.InvalidRequest):
            handle.wait(-1)
        assert not handle.done


def test_the_next_process_picks_up_and_reads(watching: Callable[..., Watch]) -> None:
    with job_server(now=time.time()) as server:
        before = watching(server.base)
        quick = before.submit(request("quick"))
        quick.wait(20)
        slow = before.submit(request("#scripted rate=1\nslow", max_tokens=90))
        before.close()
        after = watching(server.base)
        assert after.pick_up() == 1
        assert after.pick_up() == 0
        until(lambda: after.result(quick.id))
        assert after.result(quick.id).request["prompt"] == "quick"  # type: ignore[union-attr]
        until(lambda: after.entry(slow.id).state == "running")  # type: ignore[union-attr]
        after.cancel(slow.id)
        with pytest.raises(errors.JobCancelled):
            after.wait(slow.id, 20)
        assert len(server.engine.begun) == 2


def test_content_that_is_gone_and_a_job_that_is_forgotten(watching: Callable[..., Watch]) -> None:
    with job_server(now=time.time()) as server:
        first = watching(server.base).submit(request())
        first.wait(20)
        server.now += DAY + 60
        expired = watching(server.base).submit(request())
        assert expired.id == first.id
        with pytest.raises(errors.JobExpired, match=r"as new paid work, give another tag"):
            expired.wait(20)
        assert expired.instead_of is None
        server.now += 7 * DAY
        anew = watching(server.base).submit(request())
        assert anew.instead_of == first.id
        assert anew.wait(20).text
        assert len(server.engine.begun) == 2


def test_hostile_rows_are_text(watching: Callable[..., Watch]) -> None:
    evil = "<img src=x onerror=alert(1)>\u202e"
    with job_server(now=time.time()) as server:
        watch = watching(server.base)
        watch.submit(request(f'#scripted say="{evil}"\n{evil}', max_tokens=99), tag=evil).wait(20)
        rows = watch.rows()
    html = static_html(rows, time.time())
    assert "<img" not in html
    assert "&lt;img" in html
    assert "\u202e" not in html + json.dumps(browser_rows(rows), ensure_ascii=False)
    assert "<script" not in html
    assert "No jobs yet" in static_html([], 0)
    assert "No jobs yet" in plain_text([], 0)


# -- cells --------------------------------------------------------------------------------------


@pytest.fixture
def jobs(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobServer]:
    with job_server(now=time.time(), limits=Limits(active_per_key=2)) as server:
        monkeypatch.setenv("ACS_API_BASE", server.base)
        monkeypatch.setenv("ACS_API_KEY", KEY)
        yield server
    job_watch.close()


def test_a_cell_is_submitted_once(shell: Shell, jobs: JobServer) -> None:
    first = shell.run("%%acs --job -o job --max-tokens 6\nOnce upon a time")
    assert first.ok, first.out
    assert first.out.startswith("job job_")
    text = shell["job"].wait(20).text
    mine = shell["job"].id
    again = shell.run("%%acs --job -o job --max-tokens 6\nOnce upon a time")
    assert f"note: found {mine}, which this very request has already; nothing new is paid for." in again.out
    assert "found" not in first.out
    assert f"job {mine}: succeeded" in again.out
    assert again.out.rstrip("\n").endswith(text.rstrip("\n"))
    assert shell["job"].id == mine
    changed = (
        "%%acs --job -o job --max-tokens 7\nOnce upon a time",
        "%%acs --job -o job --max-tokens 6\nOnce upon a",
    )
    tagged = "%%acs --job -o job --max-tokens 6 --job-tag b\nOnce upon a time"
    ids = {mine}
    for cell in (*changed, tagged):
        assert shell.run(cell).ok
        ids.add(shell["job"].id)
        shell["job"].wait(20)
    assert len(ids) == 4
    assert len(jobs.engine.begun) == 4
    assert shell.run(f"%acs jobs {mine}").out.rstrip("\n").endswith(text.rstrip("\n"))
    listed = shell.run("%acs jobs").out
    assert Counter(line.split(":")[1].split(",")[0] for line in listed.splitlines()) == {" succeeded": 4}


def test_the_defaults_of_a_cell_are_dropped_and_its_own_words_are_not(
    shell: Shell,
    jobs: JobServer,
) -> None:
    assert shell.run("%acs set logprobs 20").ok
    assert shell.run("%acs set stream true").ok
    dry = json.loads(shell.run("%%acs --job --dry --job-tag t\nHi").out)
    key = dry.pop("Idempotency-Key")
    assert dry == {"prompt": "Hi", "model": "scripted", "max_tokens": 128}
    assert key.startswith("acsj1-")
    assert jobs.engine.begun == []
    refused = {
        "--logprobs 5": "logprobs=5: a job has 0 at most",
        "--prompt-logprobs 0": "prompt_logprobs=0: jobs have none",
        "--stream true": "stream: a job is not streamed",
        "--max-tokens 4097": "4097 is above 4096",
        "--max-tokens 2000 -n 3": "6000 is above 4096",
        "--stream-options '{\"include_usage\":true}'": "stream_options: a job is not streamed",
    }
    for options, words in refused.items():
        ran = shell.run(f"%%acs --job {options}\nHi")
        assert words in ran.out
        assert "Without --job a cell can do it." in ran.out
        assert len(ran.out.splitlines()) == 1
    assert "65536" in shell.run("%%acs --job\n" + "x" * 70_000).out
    assert "leave out --bg" in shell.run("%%acs --job --bg\nHi").out
    assert "--job-tag needs --job" in shell.run("%%acs --job-tag x\nHi").out
    assert "--idempotency-key needs --job" in shell.run("%%acs --idempotency-key x\nHi").out
    assert shell.run("%%acs --job --logprobs 0 --max-tokens 4 -o job\nHi").ok
    shell["job"].wait(20)
    assert len(jobs.engine.begun) == 1


def test_outcomes_in_a_cell_are_one_line(shell: Shell, jobs: JobServer) -> None:
    failing = "%%acs --job -o job\n#scripted fault=vllm_oom\nx"
    assert shell.run(failing).ok
    with pytest.raises(errors.AcsError):
        shell["job"].wait(20)
    for cell, words in (
        (failing, "vllm_oom: "),
        ("%acs jobs nothing", "job_not_found: "),
        ("%acs jobs cancel nothing", "job_not_found: "),
        ("%acs jobs cancel", "takes nothing, a job's id, or `cancel`"),
        ("%acs jobs a b c", "takes nothing, a job's id, or `cancel`"),
    ):
        ran = shell.run(cell)
        assert not ran.ok
        assert words in ran.out
        assert len(ran.out.splitlines()) == 1
    assert shell.run("%%acs --job --idempotency-key k -o slow --max-tokens 99\n#scripted rate=1\nx").ok
    conflict = shell.run("%%acs --job --idempotency-key k\nanother")
    assert "idempotency_conflict: " in conflict.out
    assert "submission k: conflict, 409" in shell.run("%acs jobs").out
    assert "cancelling" in shell.run(f"%acs jobs cancel {shell['slow'].id}").out
    with pytest.raises(errors.JobCancelled):
        shell["slow"].wait(20)
    ran = shell.run("%%acs --job --idempotency-key k --max-tokens 99\n#scripted rate=1\nx")
    assert "job_cancelled: " in ran.out
    assert "To run it after all, give another tag (or idempotency key)." in ran.out


def test_the_first_cell_of_a_kernel_says_what_was_left(shell: Shell, jobs: JobServer) -> None:
    earlier = Watch(Client(jobs.base, KEY))
    handle = earlier.submit(request("#scripted rate=1\nleft alone", max_tokens=90))
    earlier.close()
    assert "note: 1 job of earlier kernels had not ended; %acs jobs shows them." in shell.run("%%acs\nHi").out
    assert "note: 1 job" not in shell.run("%%acs\nHi").out
    assert f"job {handle.id}: running" in until(
        lambda: "running" in (out := shell.run("%acs jobs").out) and out
    )
    assert "cancelling" in shell.run(f"%acs jobs cancel {handle.id}").out


def test_without_a_server_it_says_what_to_do(shell: Shell) -> None:
    for cell in ("%%acs --job -m m\nHi", "%acs jobs"):
        ran = shell.run(cell)
        assert "not_configured" in ran.out
        assert len(ran.out.splitlines()) == 1


def test_the_help_knows_jobs(shell: Shell) -> None:
    assert "ACS_JOURNAL=off" in shell.run("%acs help jobs").out
    assert "--job-tag" in shell.run("%acs help options").out


def test_a_window_needs_no_server_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import acs_jupyter

    monkeypatch.setattr(comm, "create_comm", NoComm)
    monkeypatch.delenv("ACS_API_BASE", raising=False)
    monkeypatch.delenv("ACS_API_KEY", raising=False)
    with pytest.raises(errors.NotConfigured):
        acs_jupyter.JobBoard()
    with Player([told("running")]) as server:
        board = acs_jupyter.JobBoard(server.base, KEY)
        other = acs_jupyter.JobBoard(server.base, KEY)
        assert board._watch is other._watch
        assert repr(board) == "No jobs yet: %%acs --job submits one."
        assert KEY not in json.dumps(board.get_state(), default=str)
        board.close()
        other.close()
    job_watch.close()
