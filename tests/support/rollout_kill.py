"""A rollout in a child process that is killed at random moments and goes on, again and again.

``python -m tests.support.rollout_kill BASE KEY FILE COUNT`` is the child. :func:`survive` is the whole experiment.
A request is finished when its end is in the journal. One that was in flight when its process died is not: nobody can
know whether its answer came, so it is sent again.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.job_server import KEY, job_server
from tests.support.servers import environment

if TYPE_CHECKING:
    from tests.support.job_server import JobServer

WIDE = 8


def prompts(count: int) -> list[str]:
    return [f"#scripted ttft=0.02 tokens=3\n{number}" for number in range(count)]


@dataclass
class Survived:
    """What an experiment found. ``again``: requests sent more than once; all of them were in flight at a kill."""

    kills: int
    finished_at_kills: list[int]
    lost: int
    sent_twice: int
    again: int


def survive(folder: Path, kills: int, count: int, seed: int = 0) -> Survived:
    """Kill a rollout of ``count`` requests ``kills`` times and let the last one end; compare with the server's log."""
    draw = random.Random(seed)
    path = folder / "run.acs.db"
    finished: list[int] = []
    lost = twice = 0
    flying: set[str] = set()
    before: dict[str, bytes] = {}
    known: dict[str, int] = {}
    with job_server() as server:
        for _ in range(kills):
            _run_and_kill(server, path, count, draw)
            results, in_flight = _state(path, count)
            sent = Counter(server.engine.begun)
            finished.append(len(results))
            flying |= in_flight
            lost += sum(results.get(prompt) != data for prompt, data in before.items())
            twice += sum(sent[prompt] != times for prompt, times in known.items())
            before, known = results, {prompt: sent[prompt] for prompt in results}
        _child(server, path, count).wait(120)
        results, in_flight = _state(path, count)
        sent = Counter(server.engine.begun)
    lost += sum(results.get(prompt) != data for prompt, data in before.items()) + count - len(results)
    twice += sum(sent[prompt] != times for prompt, times in known.items())
    again = {prompt for prompt, times in sent.items() if times > 1}
    assert again <= flying, "a request was sent again that was not in flight at a kill"
    assert not in_flight
    return Survived(kills, finished, lost, twice, len(again))


def _child(server: JobServer, path: Path, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.rollout_kill", server.base, KEY, str(path), str(count)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _run_and_kill(server: JobServer, path: Path, count: int, draw: random.Random) -> None:
    """Kill the child some moments after it has sent its first request; now and then before that."""
    begun = len(server.engine.begun)
    child = _child(server, path, count)
    patience = time.monotonic() + 60
    if draw.random() < 0.85:
        while len(server.engine.begun) == begun and child.poll() is None and time.monotonic() < patience:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.06))
    else:
        time.sleep(draw.uniform(0.2, 0.8))
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    time.sleep(0.1)  # what it had sent reaches the server


def _state(path: Path, count: int) -> tuple[dict[str, bytes], set[str]]:
    """Finished prompts with their results, and prompts in flight. A file that has no plan yet has neither."""
    texts = prompts(count)
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT count(*) FROM sqlite_master WHERE name='results'").fetchone()[0]:
            return {}, set()
        done = db.execute(
            "SELECT number, data FROM requests JOIN results USING (number) WHERE state=2"
        ).fetchall()
        sent = db.execute("SELECT number FROM requests WHERE state=1").fetchall()
    return {texts[n]: data for n, data in done}, {texts[n] for (n,) in sent}


def main(base: str, key: str, path: str, count: int) -> None:
    from acs_jupyter import Client, rollout

    with Client(base, key) as client:
        rollout(
            prompts(count), into=path, client=client, max_tokens=3, in_flight=WIDE, starts=0, progress=False
        )


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
