"""Job cells in real kernels against a real server: run twice, killed, restarted; one job, paid for once."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import nbformat
import pytest

from acs_jupyter.local.ledger import read_log
from tests.support.kernels import Kernel
from tests.support.servers import ROOT, Running, environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "acs-bm-testtest-key-of-job-notebooks"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server with a data folder, and kernels that talk to it."""
    with serving("--scripted", "--starts", "0", "--key", KEY, "--data", str(tmp_path / "served")) as running:
        monkeypatch.setenv("ACS_API_BASE", running.base)
        monkeypatch.setenv("ACS_API_KEY", KEY)
        monkeypatch.setenv("ACS_JOURNAL", str(tmp_path / "journal.sqlite3"))
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
        yield running


CELLS = (
    "%load_ext acs_jupyter",
    "%%acs --job -o job --max-tokens 60\n#scripted rate=20\nOnce upon a time",
    "print(job.id)",
    "print(repr(job.wait(50).text))\nprint(job.completion().request['prompt'].endswith('Once upon a time'))",
    "%acs jobs",
    "%%acs --job -o other --max-tokens 61\n#scripted rate=0\nOnce upon a time",
    "print(other.wait(50).usage.completion_tokens, other.id == job.id)",
)


def stored(folder: Path) -> int:
    """Jobs in a stopped server's store."""
    with sqlite3.connect(folder / "jobs.db") as db:
        return int(db.execute("SELECT count(*) FROM jobs").fetchone()[0])


def test_run_twice_and_after_a_restart_it_is_one_job(server: Running, tmp_path: Path) -> None:
    with Kernel(*CELLS) as first:
        assert first.run(0) == ""
        first.run(1)
        job = first.run(2).strip()
        first.run(1)
        assert first.run(2).strip() == job
        first.kill()
    with Kernel(*CELLS) as second:
        second.run(0)
        assert f"job {job}: " in second.run(4)
        second.run(1)
        assert second.run(2).strip() == job
        text, has_prompt = second.run(3).splitlines()
        assert has_prompt == "True"
        shown = second.run(1)
        assert f"job {job}: succeeded, 11 + 60 tokens, length" in shown
        copy = second.book.cells[1].outputs[-1]
        assert repr(copy.data["text/plain"]) == text
        assert "acs_jupyter" in copy.metadata
        second.run(5)
        assert second.run(6).split() == ["61", "False"]
        assert KEY not in nbformat.writes(second.book)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(15)
    log = read_log(tmp_path / "served")
    assert [(entry.status, entry.completion_tokens) for entry in log] == [(200, 60), (200, 61)]
    assert stored(tmp_path / "served") == 2


def test_a_submission_that_was_never_answered_is_picked_up(server: Running, tmp_path: Path) -> None:
    """A process dies between writing down and sending: the next kernel sends it, once."""
    code = (
        "import os, acs_jupyter\n"
        "client = acs_jupyter.Client()\n"
        "client.jobs._carry = lambda flow: os._exit(9)\n"
        "client.jobs.submit('from a dead process', model='scripted', max_tokens=7)\n"
    )
    env = environment(ACS_API_BASE=server.base, ACS_API_KEY=KEY)
    done = subprocess.run([sys.executable, "-c", code], env=env, check=False, timeout=60)
    assert done.returncode == 9
    assert read_log(tmp_path / "served") == []
    with Kernel(CELLS[0], "%acs jobs") as kernel:
        kernel.run(0)
        deadline = time.monotonic() + 20
        while "succeeded, 5 + 7 tokens" not in (shown := kernel.run(1)):
            assert time.monotonic() < deadline, shown
    with Kernel(CELLS[0], "%acs jobs") as again:
        again.run(0)
        assert "succeeded, 5 + 7 tokens" in again.run(1)
    assert [entry.completion_tokens for entry in read_log(tmp_path / "served")] == [7]
