"""A disk that is full: a rollout waits for room, refuses to begin in one line, and what came can still be read."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from acs_jupyter.ledger import ledger, report, resolve
from acs_jupyter.local.ledger import read_log
from tests.conftest import UNHURRIED
from tests.support.servers import environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import Running

resource = pytest.importorskip("resource")  # no such limit on Windows

CHILD = """
import resource, sys, time
from acs_jupyter import AcsError, Client, Rollout, rollout
from acs_jupyter.rollouts import stalls
base, key = sys.argv[1:]
stalls.TELL_AFTER = 0.3
before = resource.getrlimit(resource.RLIMIT_FSIZE)

def room(some):
    resource.setrlimit(resource.RLIMIT_FSIZE, before if some else (0, before[1]))

def tried(act):
    try:
        print(act(), flush=True)
    except AcsError as error:
        print(error, flush=True)

client = Client(base, key, model="scripted")
prompts = [f"#scripted ttft=0.02 tokens=3\\n{number}" for number in range(120)]

def run(**more):
    fields = {"max_tokens": 3, "in_flight": 4, "starts": 0, "progress": False}
    return rollout(prompts, into="run.acs.db", client=client, **fields, **more)
"""
WAITING = """
made, said = run(bg=True), []
made._tell = said.append
while made.stats.done < 20:
    time.sleep(0.005)
room(False)
while not any("Waiting: " in line for line in said):
    time.sleep(0.01)
room(True)
made.wait(60)
print(made.outcome, made.stats.done, made.stats.tokens, said[-1])
"""
BEGINNING = """
room(False)
tried(run)
room(True)
tried(lambda: run().outcome)
room(False)
tried(lambda: len(Rollout("run.acs.db").frame()))
tried(lambda: run(retry_failed=True))
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    with serving("--scripted", *UNHURRIED, "--data", str(tmp_path / "served")) as server:
        yield server


def said(code: str, server: Running, **env: str) -> list[str]:
    """What a child prints."""
    command = [sys.executable, "-c", CHILD + code, server.base, server.key]
    ran = subprocess.run(
        command, env=environment(**env), capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_a_disk_that_is_full_is_waited_for_and_nothing_is_sent_twice(served: Running, tmp_path: Path) -> None:
    """Neither the journal nor the ledger can be written for a while."""
    [line] = said(WAITING, served)
    log = read_log(tmp_path / "served")
    paid = sum(row.prompt_tokens + row.completion_tokens for row in log)
    assert line == f"done 120 {paid} run.acs.db: It goes on."
    assert len(log) == 120
    assert sum(e["prompt_tokens"] + e["completion_tokens"] for e in report.entries(ledger())) == paid
    assert resolve.holds(ledger()) == []


def test_on_a_full_disk_a_rollout_does_not_begin_and_is_still_read(served: Running) -> None:
    refused, ended, rows, again = said(BEGINNING, served, ACS_LEDGER="off")
    assert refused.startswith("invalid_request: ")
    assert "run.acs.db cannot be written: " in refused
    assert "Free some room on the disk, or name another file." in refused
    assert (ended, rows) == ("done", "120")
    assert "Free some room on the disk" in again
