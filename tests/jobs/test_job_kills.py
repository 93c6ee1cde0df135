"""``kill -9`` at random moments of submitting and waiting: nothing is lost, nothing is submitted twice.

``ACS_KILLS`` sets how many moments are tried (a few in the ordinary run); ``ACS_SEED`` which.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from acs_jupyter.local.ledger import read_log
from tests.support.servers import Running, environment, serving

if TYPE_CHECKING:
    from pathlib import Path

KEY = "acs-bm-testtest-key-of-killed-waits"
KILLS = int(os.environ.get("ACS_KILLS", "6"))
SEED = int(os.environ.get("ACS_SEED", "5"))
TOKENS = 16
RATE = 40


def waiting(server: Running, number: int, **env: str) -> subprocess.Popen[bytes]:
    """One command: submits (or finds) job ``number``, waits, prints its JSON."""
    return subprocess.Popen(
        [sys.executable, "-m", "acs_jupyter", "jobs", "run", "--model", "scripted", "--max-tokens", str(TOKENS),
         "--prompt", f"#scripted rate={RATE}\nkilled {number}", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(ACS_API_BASE=server.base, ACS_API_KEY=KEY, **env),
    )  # fmt: skip


def whole_run(server: Running, number: int, **env: str) -> tuple[float, dict[str, Any]]:
    """A run nobody disturbs: how long it took, and what it printed."""
    begun = time.monotonic()
    process = waiting(server, number, **env)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return time.monotonic() - begun, json.loads(out)


def test_a_wait_is_killed_at_random_moments(tmp_path: Path) -> None:
    moments = random.Random(SEED)
    journal = {"ACS_JOURNAL": str(tmp_path / "journal.sqlite3")}
    told: list[dict[str, Any]] = []
    killed = 0
    arguments = (
        "--scripted",
        "--key",
        KEY,
        "--data",
        str(tmp_path / "served"),
        "--starts",
        "0",
        "--job-workers",
        "8",
    )
    with serving(*arguments) as server:
        usual, first = whole_run(server, 0, **journal)
        told.append(first)
        for number in range(1, KILLS + 1):
            process = waiting(server, number, **journal)
            try:
                # From before the submission is sent until after the result has been read.
                process.wait(usual * moments.uniform(0.2, 1.0))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += 1
            process.communicate(timeout=30)
            told.append(whole_run(server, number, **journal)[1])
        listed = subprocess.run(
            [sys.executable, "-m", "acs_jupyter", "jobs", "list", "--json"],
            capture_output=True, check=True, timeout=60,
            env=environment(ACS_API_BASE=server.base, ACS_API_KEY=KEY, **journal),
        )  # fmt: skip
    assert killed > 0
    log = read_log(tmp_path / "served")
    with sqlite3.connect(tmp_path / "served" / "jobs.db") as db:
        stored = [job for (job,) in db.execute("SELECT id FROM jobs")]
    print(f"{killed} of {KILLS} killed, {len(log)} requests in the server's log, {len(stored)} jobs stored")
    # Nothing is lost: every run that followed a kill ended with its whole text.
    assert [answer["usage"]["completion_tokens"] for answer in told] == [TOKENS] * (KILLS + 1)
    # Nothing is submitted twice: one job and one metered request each, and they are the ones that were read.
    assert len(log) == len(stored) == KILLS + 1
    assert {answer["job"] for answer in told} == set(stored)
    assert {answer["request_id"] for answer in told} == {entry.request_id for entry in log}
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {(row["job"], row["outcome"]) for row in rows} == {(job, "succeeded") for job in stored}
