"""A rollout in trouble: files that others have locked, connections that are closed, servers that ask for too much."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Client, Rollout, rollout
from acs_jupyter.errors import LedgerFailed
from acs_jupyter.ledger import ledger
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.rollouts import holds, stalls
from acs_jupyter.rollouts.answer import Head
from acs_jupyter.rollouts.flow import End, Flow, Limits
from tests.support.desks import until
from tests.support.player import DONE, HANG, Player, frames, stream, whole
from tests.support.servers import environment
from tests.support.sockets import take

KEY = "acs-bm-0123abcd-do-not-show-me-anywhere"
OTHER = "acs-bm-4567cdef-do-not-show-me-anywhere"
LIST = {"/models": whole({"object": "list", "data": []})}
OK = stream(*frames(["a", "b"]), DONE)
WORDS = [f"word {i}" for i in range(12)]


def run(base: str, prompts: Any = WORDS, *, key: str = KEY, **options: Any) -> Rollout:
    with Client(base, key, model="m") as client:
        fields = {"max_tokens": 4, "starts": 0, "progress": False, "into": "run.acs.db"}
        return rollout(prompts, client=client, **(fields | options))


def held() -> int:
    return int(ledger().store.rows("SELECT coalesce(sum(held), 0) FROM accounts WHERE kind = 'month'")[0][0])


# -- files that others have -----------------------------------------------------------------------


@pytest.mark.parametrize("which", ["journal", "ledger"])
def test_a_file_that_others_have_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, own_ledger: Path, capfd: pytest.CaptureFixture[str], which: str
) -> None:
    monkeypatch.setattr(stalls, "TELL_AFTER", 0.3)
    monkeypatch.setattr("acs_jupyter.ledger.store.BUSY_SECONDS", 0.2)
    monkeypatch.setattr(holds, "AHEAD", 1)  # what is held in advance needs the ledger no more
    slow = stream(0.15, *frames(["a", "b"]), DONE)
    with Player([slow], LIST) as server:
        made = run(server.base, bg=True, in_flight=2)
        until(lambda: made.stats.done >= 2)
        file = "run.acs.db" if which == "journal" else own_ledger
        with closing(sqlite3.connect(file, isolation_level=None, timeout=10)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(1.5)
            assert not made.done
            asked = len(server.requests)
            assert asked < len(WORDS)
            time.sleep(0.5)
            assert len(server.requests) == asked  # nothing starts that cannot be written down
            other.execute("ROLLBACK")
        made.wait()
        assert len(server.requests) == len(WORDS)  # no answer was lost, nothing was asked twice
    assert (made.outcome, made.stats.done, made.stats.failed) == ("done", 12, 0)
    assert made.stats.tokens == 12 * 5
    assert set(made.frame().attempts) == {1}
    told = capfd.readouterr().err
    assert told.count("Waiting:") == 1
    assert "locked" in told
    assert "It goes on" in told
    until(lambda: held() == 0)


@pytest.mark.parametrize("which", ["journal", "ledger"])
def test_one_that_stays_locked_stops_it_and_the_next_call_goes_on(
    monkeypatch: pytest.MonkeyPatch, own_ledger: Path, capfd: pytest.CaptureFixture[str], which: str
) -> None:
    monkeypatch.setattr(stalls, "PATIENCE", 0.8)
    monkeypatch.setattr("acs_jupyter.rollouts.driver._LAST_WAIT", 0.2)
    monkeypatch.setattr("acs_jupyter.ledger.store.BUSY_SECONDS", 0.2)
    monkeypatch.setattr(holds, "AHEAD", 1)  # what is held in advance needs the ledger no more
    slow = stream(0.15, *frames(["a", "b"]), DONE)
    with Player([slow], LIST) as server:
        made = run(server.base, bg=True, in_flight=2)
        until(lambda: made.stats.done >= 2)
        file = "run.acs.db" if which == "journal" else own_ledger
        with closing(sqlite3.connect(file, isolation_level=None, timeout=10)) as other:
            other.execute("BEGIN IMMEDIATE")
            made.wait(20)
            assert made.done
            other.execute("ROLLBACK")
        assert made.outcome == "stopped"
        assert "locked" in made.reason
        assert "\n" not in made.reason
        assert "run.acs.db: stopped; what is left goes on" in capfd.readouterr().err
        kept = Rollout("run.acs.db").stats.done
        asked = len(server.requests)
        again = run(server.base)
        assert (again.outcome, again.stats.done) == ("done", 12)
        assert len(server.requests) == asked + 12 - kept
    until(lambda: held() == 0)


def test_a_ledger_that_was_used_meanwhile_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails twice, longer apart than one trouble may last, while an answer takes forever that was held between."""
    monkeypatch.setattr(stalls, "PATIENCE", 1.0)
    monkeypatch.setattr(holds, "AHEAD", 1)
    reserve, calls = KeyMeter.reserve_several, list[int]()

    def reserving(self: KeyMeter, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) in (2, 4):
            raise LedgerFailed("The budget ledger cannot be used: database is locked.")
        return reserve(self, *args, **options)

    monkeypatch.setattr(KeyMeter, "reserve_several", reserving)
    answers: list[list[Any]] = [stream(2.0, *frames(["a"]), DONE), stream(*frames(["a"], None), HANG), OK]
    with Player(answers, LIST) as server:
        made = run(server.base, bg=True, in_flight=2)
        until(lambda: made.done or made.stats.done == len(WORDS) - 1, 20)
        assert (made.outcome, len(calls)) == ("open", len(WORDS) + 2)
        made.stop(drop=True)
        made.wait(20)


def test_an_interrupt_stops_one_that_waits(monkeypatch: pytest.MonkeyPatch, own_ledger: Path) -> None:
    monkeypatch.setattr("acs_jupyter.ledger.store.BUSY_SECONDS", 0.2)
    with Player([stream(0.1, *frames(["a"]), DONE)], LIST) as server:
        made = run(server.base, bg=True, in_flight=2)
        until(lambda: made.stats.done >= 2)
        with closing(sqlite3.connect("run.acs.db", isolation_level=None, timeout=10)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(0.6)
            made.stop()
            time.sleep(0.3)
            other.execute("ROLLBACK")
        made.wait(20)
        assert made.outcome == "stopped"
        assert Rollout("run.acs.db").stats.done == len(server.requests)


# -- connections ----------------------------------------------------------------------------------


class Closing:
    """A server that answers one request a connection, whole, and closes it: without saying so, or in HTTP/1.0."""

    def __init__(self, version: str, *, reads_first: int = 0) -> None:
        self.version, self.answered, self.read = version, 0, 0
        self._reads_first = reads_first
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __enter__(self) -> Closing:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            models = self._one(connection)
            if self._reads_first and not models and self.read < self._reads_first:
                take(connection)  # it has read the next one, and goes away
                self.read += 1

    def _one(self, connection: socket.socket) -> bool:
        asked = take(connection)
        if not asked:
            return True
        models = b"/models" in asked
        if models:
            kind, body = "application/json", json.dumps({"object": "list", "data": []}).encode()
        else:
            self.answered += 1
            kind, body = "text/event-stream", b"".join([*frames(["a", "b"]), DONE])
        top = f"HTTP/{self.version} 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(top.encode() + body)
        return models


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_connection_that_was_closed_behind_an_answer_costs_no_attempt(version: str) -> None:
    with Closing(version) as server:
        made = run(server.base, [f"{i}" for i in range(60)], in_flight=4, retries=0)
    assert (made.stats.done, made.stats.failed, server.answered) == (60, 0, 60)
    assert set(made.frame().attempts) == {1}
    assert held() == 0


def test_a_request_that_may_have_been_read_is_not_sent_again() -> None:
    """The server reads a request on a used connection and goes away: nobody knows whether it ran."""
    with Closing("1.1", reads_first=1) as server:
        made = run(server.base, ["one", "two", "three"], in_flight=1, retries=4)
    assert server.read == 1
    assert (made.stats.done, made.stats.failed) == (2, 1)
    assert made.failures == {"connection_failed": 1}


@pytest.mark.parametrize(
    ("lines", "lasts"),
    [
        (["HTTP/1.1 200 OK"], True),
        (["HTTP/1.1 200 OK", "Connection: close"], False),
        (["HTTP/1.1 200 OK", "Connection: Upgrade, Close"], False),
        (["HTTP/1.1 200 OK", "X: close"], True),
        (["HTTP/1.0 200 OK"], False),
        (["HTTP/1.0 200 OK", "Connection: Keep-Alive"], True),
        (["HTTP/1.0 200 OK", "Connection: close"], False),
    ],
)
def test_which_connections_last(lines: list[str], lasts: bool) -> None:
    top = Head()
    top.feed("\r\n".join([*lines, "", ""]).encode())
    assert top.lasts is lasts


# -- servers that ask for too much ----------------------------------------------------------------


@pytest.mark.parametrize("code", ["rate_limited", "circuit_open"])
def test_no_wish_of_a_server_stops_it_for_ever(code: str) -> None:
    flow = Flow(Limits(), ["m"])
    flow.started("m", 0.0)
    status = 429 if code == "rate_limited" else 503
    verdict = flow.ended("m", 0.0, 1.0, End(code, status, True, 1e12))
    assert (verdict.kind, verdict.delay) == ("again", 600.0)
    assert flow.wait("m", 1.0) == pytest.approx(600.0)


# -- files that are not what they were ------------------------------------------------------------


def test_another_server_or_key_is_noticed(capfd: pytest.CaptureFixture[str]) -> None:
    failing = whole({"error": {"code": "vllm_oom", "message": "m"}}, "502 Bad Gateway")
    with Player([OK, failing], LIST) as first, Player([OK], LIST) as second:
        run(first.base, in_flight=1, retries=0)
        capfd.readouterr()
        run(first.base, retry_failed=False)
        assert "begun" not in capfd.readouterr().err
        run(second.base, key=OTHER, retry_failed=True)
        told = capfd.readouterr().err
        assert f"run.acs.db was begun at {first.base} with the key acs-bm-0123abcd" in told
        assert f"asked at {second.base} with the key acs-bm-4567cdef" in told
        assert "do-not-show-me" not in told
        run(second.base, key=OTHER)
        assert "begun" not in capfd.readouterr().err
    assert b"do-not-show-me" not in Path("run.acs.db").read_bytes()


def test_a_damaged_row_of_the_cache_is_asked_again() -> None:
    with Player([OK], LIST) as server:
        run(server.base, ["a", "b", "c"], into="1.db", cache="cache.db", temperature=0.0)
        with closing(sqlite3.connect("cache.db", isolation_level=None)) as db:
            keys = [key for (key,) in db.execute("SELECT key FROM answers")]
            db.execute("UPDATE answers SET data = x'01ffff' WHERE key = ?", (keys[0],))
            db.execute("UPDATE answers SET data = NULL WHERE key = ?", (keys[1],))
        made = run(server.base, ["a", "b", "c"], into="2.db", cache="cache.db", temperature=0.0)
        assert len(server.requests) == 5
        assert sorted(made.frame().cached) == [False, False, True]
        assert list(made.frame().text) == ["ab"] * 3
        again = run(server.base, ["a", "b", "c"], into="3.db", cache="cache.db", temperature=0.0)
        assert again.stats.cached == 3  # what was damaged has been put right


def test_infinity_is_kept_and_what_is_no_number_is_missing() -> None:
    items = [{"prompt": "p", "x": math.inf, "y": [-math.inf, 1.5], "z": math.nan}]
    with Player([OK], LIST) as server:
        made = run(server.base, items)
    [one] = made.completions()
    assert one.meta == {"x": math.inf, "y": [-math.inf, 1.5], "z": None}
    assert made.frame().x[0] == math.inf


# -- forks ----------------------------------------------------------------------------------------

FORKING = """
import os, sys, time
from acs_jupyter import Client, rollout
with Client(sys.argv[1], sys.argv[2], model="m") as client:
    made = rollout([str(i) for i in range(40)], into="run.acs.db", client=client, max_tokens=4, progress=False,
                   bg=True, in_flight=2)
    while made.stats.done < 4:
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        os.write(1, f"{os.getpid()}\\n".encode())  # it is on its own by now
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""


def test_a_child_that_outlives_its_parent_does_not_keep_the_file() -> None:
    with Player([stream(0.05, *frames(["a"]), DONE)], LIST) as server:
        parent = subprocess.Popen(
            [sys.executable, "-c", FORKING, server.base, KEY],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        parent.stdout.close()
        try:
            made = run(server.base, [str(i) for i in range(40)])
        finally:
            os.kill(child, signal.SIGKILL)
        assert (made.outcome, made.stats.done) == ("done", 40)
