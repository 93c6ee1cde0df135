"""``acs-jupyter jobs``: what is printed, and the exit code of every outcome."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter.errors import BudgetRefused
from acs_jupyter.jobs.command import _failed
from tests.support.player import HANG, Player, whole
from tests.support.servers import Running, environment, serving

if TYPE_CHECKING:
    from pathlib import Path

KEY = "acs-bm-testtest-do-not-show-me"


def jobs(base: str, key: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "acs_jupyter", "jobs", *arguments],
        input=stdin.encode(), capture_output=True, timeout=60, check=False,
        env=environment(ACS_API_BASE=base, ACS_API_KEY=key),
    )  # fmt: skip
    assert b"Traceback" not in done.stderr, done.stderr
    assert key.encode() not in done.stdout + done.stderr
    return done


def run(server: Running, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
    return jobs(server.base, server.key, *arguments, stdin=stdin)


def submit(server: Running, prompt: str, *more: str, tokens: int = 5) -> subprocess.CompletedProcess[bytes]:
    return run(server, "run", "--model", "scripted", "--prompt", prompt, "--max-tokens", str(tokens), *more)


def told(done: subprocess.CompletedProcess[bytes]) -> Any:
    [line] = done.stdout.splitlines()
    return json.loads(line)


def test_run_prints_the_text_and_finds_its_job_again(scripted_server: Running) -> None:
    say = '#scripted say="é <b>\\r\\n🦊 "\ncommand'
    first = submit(scripted_server, say, tokens=40)
    second = submit(scripted_server, say, tokens=40)
    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout == "é <b>\r\n🦊 ".encode()
    assert first.stderr.splitlines()[0].startswith(b"job job_")
    assert (
        first.stderr.splitlines()[1] == b""
    )  # the text ends in mid-line: what is said of it does not go on there
    assert first.stderr.splitlines()[2].startswith(b"job job_")
    assert first.stderr.splitlines()[0].split(b":")[0] == second.stderr.splitlines()[0].split(b":")[0]
    assert b"(found: this request has it already)" in second.stderr
    assert b"found" not in first.stderr
    third = submit(scripted_server, say, "--tag", "other", tokens=40)
    assert third.stderr.splitlines()[0].split(b":")[0] != first.stderr.splitlines()[0].split(b":")[0]


def test_json_and_other_fields(scripted_server: Running) -> None:
    fields = (
        "--set",
        "n=2",
        "--set",
        "seed=4",
        "--set",
        'stop=["zz"]',
        "--json",
        "--idempotency-key",
        "cli-json",
    )
    done = submit(scripted_server, "Hello", *fields)
    assert (done.returncode, done.stderr) == (0, b"")
    answer = told(done)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["usage"]["completion_tokens"] == 10
    assert answer["model"] == "scripted/deterministic"
    shown = run(scripted_server, "show", answer["job"], "--json")
    assert told(shown)["status"] == "succeeded"
    assert told(shown)["request_id"] == answer["request_id"]
    again = run(scripted_server, "result", answer["job"], "--json")
    assert told(again) == answer
    plain = run(scripted_server, "show", answer["job"]).stdout.decode()
    assert ["status", "succeeded"] in [line.split() for line in plain.splitlines()]
    conflict = submit(scripted_server, "Other", "--idempotency-key", "cli-json")
    assert (conflict.returncode, conflict.stdout) == (8, b"")
    assert b"idempotency_conflict" in conflict.stderr


def test_prompt_from_standard_input(scripted_server: Running) -> None:
    arguments = ("run", "--model", "scripted", "--prompt", "-", "--max-tokens", "9")
    done = run(scripted_server, *arguments, stdin="#scripted say=exact\nfrom stdin")
    assert (done.returncode, done.stdout) == (0, b"exact")


def test_deadline_cancel_and_their_codes(scripted_server: Running) -> None:
    slow = f"#scripted rate=1\n{time.time_ns()}"
    pending = submit(scripted_server, slow, "--deadline", "0.2", "--json", tokens=90)
    assert pending.returncode == 3
    job = told(pending)["error"]["job"]
    assert told(pending)["error"]["code"] == "job_pending"
    assert run(scripted_server, "result", job).returncode == 3
    assert run(scripted_server, "show", job).returncode == 0
    cancelled = run(scripted_server, "cancel", job, "--json")
    assert cancelled.returncode == 0
    assert told(cancelled)["cancel_requested"] is True
    ended = submit(scripted_server, slow, tokens=90)
    assert (ended.returncode, ended.stdout) == (4, b"")
    assert b"job_cancelled" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("run", "--model", "m", "--prompt", "x"), b"--max-tokens"),
        (("run", "--model", "m", "--prompt", "x", "--max-tokens", "0"), b"--max-tokens"),
        (("run", "--model", "m", "--prompt", "x", "--max-tokens", "5000"), b"4096"),
        (
            ("run", "--model", "m", "--prompt", "x", "--max-tokens", "5", "--set", "logprobs=5"),
            b"/v1/completions",
        ),
        (("run", "--model", "m", "--prompt", "x", "--max-tokens", "5", "--set", "stop=zz"), b"JSON"),
        (("run", "--model", "m", "--prompt", "x", "--max-tokens", "5", "--set", "n"), b"NAME=VALUE"),
        (("run", "--model", "m", "--prompt", "x", "--max-tokens", "5", "--set", "model=1"), b"NAME=VALUE"),
        (("run", "--model", "m", "--prompt", "x", "--max-tokens", "5", "--deadline", "-1"), b"--deadline"),
        (
            ("run", "--model", "m", "--prompt", "x", "--max-tokens", "5", "--idempotency-key", "a b"),
            b"idempotency",
        ),
        (("show", ".."), b"id"),
        ((), b"ACTION"),
        (("dance",), b"dance"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], word: bytes) -> None:
    done = jobs("http://127.0.0.1:9/v1", KEY, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    [line] = done.stderr.splitlines()
    assert word in line


def test_a_failed_and_an_expired_and_an_unknown_job(scripted_server: Running) -> None:
    failed = submit(scripted_server, "#scripted fault=vllm_oom\ncli")
    assert (failed.returncode, failed.stdout) == (1, b"")
    [_, line] = failed.stderr.splitlines()
    assert b"vllm_oom" in line
    assert run(scripted_server, "show", "job_none").returncode == 1
    gone = whole({"error": {"code": "job_expired", "message": "gone"}}, "410 Gone")
    with Player([whole({"id": "j", "status": "succeeded"}), gone]) as player:
        assert jobs(player.base, KEY, "result", "j").returncode == 6


def test_an_interrupted_job(tmp_path: Path) -> None:
    arguments = ("--scripted", "--key", KEY, "--data", str(tmp_path))
    with serving(*arguments) as server:
        pending = submit(server, "#scripted rate=1\nx", "--deadline", "0.5", "--json", tokens=90)
        assert pending.returncode == 3
        server.process.kill()
        server.process.wait()
    with serving(*arguments) as server:
        again = submit(server, "#scripted rate=1\nx", tokens=90)
    assert again.returncode == 5
    assert told(pending)["error"]["job"].encode() in again.stderr


def test_interrupting_the_command_leaves_the_job(scripted_server: Running) -> None:
    prompt = f"#scripted rate=1\n{time.time_ns()}"
    waiting = subprocess.Popen(
        [sys.executable, "-m", "acs_jupyter", "jobs", "run", "--model", "scripted", "--prompt", prompt,
         "--max-tokens", "90"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(ACS_API_BASE=scripted_server.base, ACS_API_KEY=scripted_server.key),
    )  # fmt: skip
    assert waiting.stderr is not None
    job = waiting.stderr.readline().split(":")[0].removeprefix("job ")
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, out) == (3, "")
    assert "the job goes on. The same command finds it again." in err
    state = told(run(scripted_server, "show", job, "--json"))
    assert state["status"] == "running"
    run(scripted_server, "cancel", job)


def test_help_tells_the_codes() -> None:
    for arguments in (("--help",), ("run", "--help"), ("result", "--help")):
        done = jobs("http://127.0.0.1:9/v1", KEY, *arguments)
        assert done.returncode == 0
        assert b"3 it has not ended" in b" ".join(done.stdout.split())


def test_the_list_is_the_journals_brought_up_to_date(
    scripted_server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACS_JOURNAL", str(tmp_path / "jobs.sqlite3"))
    empty = run(scripted_server, "list")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, b"", b"no jobs\n")
    assert submit(scripted_server, f"list {time.time_ns()}").returncode == 0
    assert submit(scripted_server, f"#scripted fault=vllm_oom\nlist {time.time_ns()}").returncode == 1
    slow = f"#scripted rate=40\nlist {time.time_ns()}"
    assert submit(scripted_server, slow, "--deadline", "0.1", tokens=20).returncode == 3
    for _ in range(200):
        lines = run(scripted_server, "list").stdout.decode().splitlines()
        if "succeeded" in lines[0]:
            break
    newest, failed, done = lines
    assert "+ 20 tokens, length" in newest
    assert ": failed, 502 vllm_oom: " in failed
    assert ": succeeded, " in done
    rows = [json.loads(line) for line in run(scripted_server, "list", "--json").stdout.splitlines()]
    assert [row["outcome"] for row in rows] == ["succeeded", "failed", "succeeded"]
    other = jobs(scripted_server.base, KEY, "list", "--all")
    assert len(other.stdout.splitlines()) == 3
    assert jobs(scripted_server.base, KEY, "list").stdout == b""
    assert scripted_server.key.encode() not in (tmp_path / "jobs.sqlite3").read_bytes() + other.stdout


def test_a_prompt_on_standard_input_is_exact() -> None:
    answers = [
        whole({"id": "j", "status": "queued"}, "202 Accepted"),
        whole({"error": {"code": "x"}}, "410 Gone"),
    ]
    arguments = ("run", "--model", "m", "--prompt", "-", "--max-tokens", "5")
    with Player(answers) as player:
        assert jobs(player.base, KEY, *arguments, stdin="a\r\nb\rc \n").returncode == 6
        assert player.requests[0].json["prompt"] == "a\r\nb\rc \n"
    bad = subprocess.run(
        [sys.executable, "-m", "acs_jupyter", "jobs", *arguments], input=b"ab\xff", capture_output=True, check=False,
        env=environment(ACS_API_BASE="http://127.0.0.1:9", ACS_API_KEY=KEY),
    )  # fmt: skip
    assert (bad.returncode, bad.stdout) == (2, b"")
    assert b"not UTF-8 (byte 2)" in bad.stderr


def test_a_text_that_ends_its_line_is_followed_at_once(scripted_server: Running) -> None:
    done = submit(scripted_server, '#scripted say="one\\n"', tokens=20)
    assert done.stdout == b"one\n"
    assert [line[:8] for line in done.stderr.splitlines()] == [b"job job_"] * 2


def test_a_refusal_names_the_shell_s_own_command(capsys: pytest.CaptureFixture[str]) -> None:
    refused = BudgetRefused("The limit leaves 0 tokens.")
    refused.hint = "Raise the limit: `%acs budget --limit N`."
    _failed(refused, as_json=False)
    assert capsys.readouterr().err.endswith("Raise the limit: `acs-jupyter budget --limit N`.\n")


def test_what_may_be_asked_again_has_a_code_of_its_own() -> None:
    arguments = ("run", "--model", "m", "--prompt", "x", "--max-tokens", "5")
    gone = jobs("http://127.0.0.1:9/v1", KEY, "show", "j")
    assert gone.returncode == 7
    full = whole({"error": {"code": "job_limit_reached", "message": "x"}}, "429 No", Retry_After="0")
    with Player([full]) as player:
        assert jobs(player.base, KEY, *arguments).returncode == 7
    spent = whole({"error": {"code": "budget_exceeded", "message": "x"}}, "429 No")
    with Player([spent]) as player:
        done = jobs(player.base, KEY, *arguments)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert len(player.requests) == 1


def test_the_deadline_holds_for_a_server_that_is_silent() -> None:
    with Player([[HANG]]) as player:
        arguments = ("--model", "m", "--prompt", "x", "--max-tokens", "5", "--deadline", "1.1", "--json")
        done = jobs(player.base, KEY, "run", *arguments)
        assert done.returncode == 3
        assert told(done)["error"]["code"] == "job_pending"
        assert len(player.requests) <= 3
