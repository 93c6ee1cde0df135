"""A stream that is left early costs what its server says; else what was counted and may have been made ahead of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import AsyncClient, Client, Session, errors, parting
from acs_jupyter.checks import build_request
from acs_jupyter.exchange import Exchange
from acs_jupyter.ledger import ledger, report
from acs_jupyter.local.keys import Keys
from acs_jupyter.local.store import Store
from acs_jupyter.pump import Pump
from tests.conftest import UNHURRIED
from tests.support.between import Deaf
from tests.support.desks import until
from tests.support.interrupts import interrupt, interrupted
from tests.support.leavers import LEAVE, Side
from tests.support.player import DONE, HANG, Player, Step, stream
from tests.support.servers import Running, environment, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "acs-bm-testtest-x"
SLOW = "#scripted rate=40 tokens=900\nx"


@pytest.fixture(autouse=True)
def as_if_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is known yet; nobody is waited for long."""
    monkeypatch.setattr(parting, "_answers", {})


def frame(
    text: str, usage: tuple[int, int] | None = None, index: int = 0, finish: str | None = None
) -> bytes:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
    said: dict[str, Any] = {"id": "c", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(said | counts(usage)).encode() + b"\n\n"


def counts(usage: tuple[int, int] | None) -> dict[str, Any]:
    if usage is None:
        return {}
    prompt, completion = usage
    return {
        "usage": {
            "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        }
    }  # fmt: skip


def bill(prompt: int, completion: int) -> bytes:
    return (
        b"data: " + json.dumps({"id": "c", "choices": [], **counts((prompt, completion))}).encode() + b"\n\n"
    )


END = b"data: [DONE]\n\n"


def booked() -> list[tuple[int, int, str]]:
    return [(e["prompt_tokens"], e["completion_tokens"], e["source"]) for e in report.entries(ledger())]


# -- the rule, without a network ------------------------------------------------------------------


def left(
    *arrivals: tuple[float, bytes], behind: bytes = b"", over: float | None = None, **fields: Any
) -> Exchange:
    """A stream whose pieces came at these times, left with the last one; ``behind`` came until the end, at ``over``."""
    now = [0.0]
    request = build_request({"prompt": "Hi there", "model": "m", "max_tokens": 100, "stream": True, **fields})
    exchange = Exchange(request, clock=lambda: now[0])
    exchange.open()
    exchange.begin()
    exchange.head(200, {"content-type": "text/event-stream"})
    for at, data in arrivals:
        now[0] = at
        exchange.feed(data)
    exchange.stop()
    assert exchange.left is not None
    now[0] = now[0] if over is None else over
    if behind:
        exchange.left.hear(behind)
    exchange.left.over()
    return exchange


def cost(exchange: Exchange) -> tuple[int, int, str]:
    spent = exchange.most_spent
    assert spent is not None
    return spent.prompt_tokens, spent.completion_tokens, spent.source


ONE, TWO = (1.0, frame("a", (4, 1))), (2.0, frame("b", (4, 11)))


@pytest.mark.parametrize(
    ("arrivals", "options", "expected"),
    [
        ([ONE, TWO], {"behind": bill(4, 17) + END}, (4, 17, "usage")),
        ([ONE, TWO], {}, (4, 11 + 3, "estimate")),  # ten a second, for a quarter of one
        ([ONE, TWO], {"over": 4.0}, (4, 11 + 20, "estimate")),
        ([ONE, TWO], {"over": 60.0}, (4, 100, "estimate")),
        ([ONE, TWO], {"over": 3.0, "behind": frame("c", (4, 21))}, (4, 21 + 3, "estimate")),
        ([ONE, TWO], {"over": 3.0, "behind": frame("c", (4, 21), finish="stop")}, (4, 21, "continuous")),
        ([ONE, TWO], {"over": 3.0, "behind": bill(4, 17)}, (4, 11 + 10, "estimate")),  # without the end mark
        ([ONE, TWO], {"over": 3.0, "behind": bill(4, 17) + frame("x", (4, 18)) + END}, (4, 18 + 3, "estimate")),
        ([ONE], {}, (4, 100, "estimate")),  # one moment makes no pace
        ([(1.0, frame("a")), (2.0, frame("b"))], {}, (9, 100, "estimate")),
        ([ONE, TWO, (2.5, frame("c"))], {}, (4, 100, "estimate")),
        ([ONE, TWO], {"n": 2}, (4, 11 + 3, "estimate")),
        ([ONE, TWO], {"n": 2, "over": 60.0}, (4, 200, "estimate")),
        ([ONE, TWO, (3.0, frame("z", (4, 9), 1, "stop"))], {"n": 2}, (4, 11 + 9 + 3, "estimate")),
        ([], {"behind": bill(0, 0) + END}, (0, 0, "usage")),  # the engine had not begun
        ([ONE, TWO], {"behind": bill(0, 0) + END}, (4, 14, "estimate")),  # that cannot be
        ([], {}, (9, 100, "estimate")),
        ([ONE, TWO], {"behind": END + bill(4, 17)}, (4, 14, "estimate")),  # behind the end nothing counts
        ([ONE, TWO], {"behind": bill(4, 17) + END + bill(4, 99)}, (4, 17, "usage")),
        ([ONE, TWO], {"behind": bill(4, 5) + END}, (4, 14, "estimate")),  # less than had been counted
        ([ONE, TWO], {"behind": bill(4, 10**15) + END}, (4, 14, "estimate")),
        ([ONE, TWO], {"behind": bill(10**15, 17) + END}, (4, 14, "estimate")),
        ([ONE, TWO], {"behind": frame("c", (4, 10**15)) + END}, (4, 100, "estimate")),  # text without a count
        ([ONE, TWO], {"behind": frame("c", (4, 5), finish="stop") + END}, (4, 11, "continuous")),
        ([ONE, TWO, (2.0, frame("z", (4, 9), 1))], {"n": 2, "behind": bill(4, 12) + END}, (4, 20 + 5, "estimate")),
    ],
)  # fmt: skip
def test_what_a_stream_that_was_left_has_cost(
    arrivals: list[tuple[float, bytes]], options: dict[str, Any], expected: tuple[int, int, str]
) -> None:
    assert cost(left(*arrivals, **options)) == expected


def test_a_stream_that_broke_off_by_itself_counts_at_most() -> None:
    """Nobody was asked, and when the engine noticed is not known."""
    request = build_request({"prompt": "Hi there", "model": "m", "max_tokens": 100, "stream": True})
    exchange = Exchange(request, clock=iter(range(9)).__next__)
    exchange.begin()
    exchange.head(200, {"content-type": "text/event-stream"})
    for _, data in (ONE, TWO):
        exchange.feed(data)
    exchange.lost("cut")
    assert cost(exchange) == (4, 100, "estimate")


def test_text_behind_a_stop_is_not_kept_and_a_better_count_is() -> None:
    exchange = left(ONE, behind=b"")
    session = Session()
    again = Exchange(exchange.request, run=exchange.run)
    session.apply(again.open())
    again.begin()
    session.apply(again.head(200, {"content-type": "text/event-stream"}))
    session.apply(again.feed(frame("a", (4, 1))))
    session.apply(again.stop())
    assert again.left is not None
    assert again.left.hear(frame(" never shown", (4, 5)) + bill(4, 6) + END)
    session.apply(again.left.over())
    [node] = session.runs[again.run].nodes
    run = session.runs[again.run]
    assert (session.nodes[node].text, run.outcome) == ("a", "stopped")
    assert (run.prompt_tokens, run.completion_tokens, run.usage_source) == (4, 6, "usage")


# -- servers that know the sign -------------------------------------------------------------------


@pytest.fixture(scope="module", params=["engine", "upstream"])
def metered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The scripted engine, and a server in front of another one."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "engine":
        with serving("--scripted", *UNHURRIED, "--data", str(folder)) as server:
            yield server, folder
        return
    with serving("--scripted", *UNHURRIED) as behind:
        front = ("--upstream", behind.base, "--upstream-key-env", "BEHIND", "--data", str(folder))
        with serving(*front, *UNHURRIED, BEHIND=behind.key) as server:
            yield server, folder


@pytest.mark.parametrize("how", LEAVE)
@pytest.mark.parametrize(("n", "prompts"), [(1, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("speed", ["rate=0.01 chunk=3 ", "rate=30 ", ""], ids=["held", "steady", "fast"])
def test_both_books_are_equal(
    metered: tuple[Running, Path], how: str, n: int, prompts: int, speed: str
) -> None:
    server, folder = metered
    store = Store(folder)
    side = Side(server, folder, Keys(store).create("a test"))
    store.close()
    asked = [f"#scripted {speed}tokens=900\n{place}" for place in range(prompts)]
    count = (3 if "chunk" in speed else 1) * n * prompts
    LEAVE[how](side, asked if prompts > 1 else asked[0], count, n)
    sent = prompts if how == "rollout" else 1
    until(lambda: len(side.rows()) == sent)
    theirs = {row.request_id: (row.prompt_tokens, row.completion_tokens, "usage") for row in side.rows()}
    mine = {
        e["request_id"]: (e["prompt_tokens"], e["completion_tokens"], e["source"])
        for e in report.entries(ledger())
    }
    assert mine == theirs
    assert all(completion >= count / sent for _, completion, _ in theirs.values())


def test_what_is_shown_is_what_was_paid(metered: tuple[Running, Path]) -> None:
    server, _ = metered
    with Client(server.base, server.key, model="scripted") as client:
        tokens = client.stream(SLOW, max_tokens=999)
        for _ in tokens:
            break
        usage = tokens.completion.usage
    assert booked() == [(usage.prompt_tokens, usage.completion_tokens, "usage")]


def test_a_stop_is_shown_before_the_bill_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends for its session at once, though its server thinks about the bill."""
    monkeypatch.setattr(parting, "ANSWER", 60.0)
    answer = stream(frame("a", (4, 1)), HANG)
    with Deafened(answer) as server:
        pump = Pump(AsyncClient(server.base, KEY, model="m", retries=0))
        session, closed = Session(), threading.Event()
        request = pump.client.request("Hi", max_tokens=40, stream=True)
        handle = pump.start(request, session)
        handle.detach()
        until(lambda: any(node.text == "a" for node in list(session.nodes.values())))
        session.subscribe(lambda _: session.runs[handle.run].outcome == "stopped" and closed.set())
        handle.stop()
        assert closed.wait(10)
        assert not handle.done
        handle.stop()  # a second click changes nothing
        handle.stop(at_once=True)
        until(lambda: handle.done)
        pump.close()
    assert booked() == [(4, 40, "estimate")]


# -- servers and proxies that do not --------------------------------------------------------------


class Deafened(Deaf):
    """A player behind a deaf proxy."""

    def __init__(self, answer: list[Step]) -> None:
        self.player = Player([answer])
        super().__init__(self.player.__enter__().base)

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        self.player.__exit__(*problem)


def test_a_server_that_takes_it_as_the_end_is_read_out_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parting, "ANSWER", 60.0)
    late = stream(frame("a", (4, 1)), 0.3, frame("b", (4, 2)), HANG)
    with Player([late]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        tokens = client.stream("Hi", max_tokens=40)
        for _ in zip(range(2), tokens, strict=False):
            pass
        tokens.close()
        assert parting.patience(client.origin, promised=False) == 60.0  # it is not remembered for anything
    [(prompt, completion, source)] = booked()
    assert (prompt, source) == (4, "estimate")
    assert 2 < completion <= 40


@pytest.mark.parametrize("how", ["stream", "async", "task", "pump", "rollout"])
def test_a_deaf_proxy_is_waited_for_once(
    scripted_server: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    monkeypatch.setattr(parting, "PROMISED", 0.5)
    with Deaf(scripted_server.base) as between:
        side = Side(Running(between.base, scripted_server.key, scripted_server.process, []), tmp_path, KEY)
        side.key = scripted_server.key
        with Client(between.base, scripted_server.key) as client:
            origin = client.origin
        for attempt in range(2):
            assert parting.patience(origin, promised=True) == (parting.GLANCE if attempt else 0.5)
            side.count += 1
            LEAVE[how](side, SLOW, 20, 1)
    assert len(booked()) == 2
    for prompt, completion, source in booked():
        assert prompt > 0
        assert source == "estimate"
        assert 20 < completion < 700  # what a second or so can hold, and never all that was asked for


def test_who_is_late_is_known_in_the_moment_in_which_the_connection_is_shut(
    scripted_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the clock's own thread takes to end."""
    shut, done = parting._shut, threading.Event()

    def lingering(raw: Any) -> None:
        shut(raw)
        done.wait(20)

    monkeypatch.setattr(parting, "_shut", lingering)
    monkeypatch.setattr(parting, "PROMISED", 0.2)
    with Deaf(scripted_server.base) as between, Client(between.base, scripted_server.key) as client:
        tokens = client.stream(SLOW, model="scripted", max_tokens=900)
        next(iter(tokens))
        tokens.close()
        assert parting.patience(client.origin, promised=True) == parting.GLANCE
    done.set()


def test_a_server_that_has_answered_is_only_slow() -> None:
    parting.note("a", answered=True, late=False)
    parting.note("a", answered=False, late=True)
    parting.note("b", answered=False, late=True)
    parting.note("b", answered=False, late=False)
    assert [parting.patience(each, promised=False) for each in "abc"] == [
        parting.PROMISED,
        parting.GLANCE,
        parting.ANSWER,
    ]


# -- interrupts -----------------------------------------------------------------------------------


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deafened]:
    """A stream that says two things and then, when it is left, nothing for a long time."""
    monkeypatch.setattr(parting, "ANSWER", 60.0)
    answer = stream(frame("a", (4, 1)), 0.2, frame("b", (4, 2)), HANG)
    with Deafened(answer) as server:
        yield server


def test_a_second_cancellation_closes_at_once_and_settles(silent: Deafened) -> None:
    async def go() -> None:
        async with AsyncClient(silent.base, KEY, model="m", retries=0) as client:
            session, came, stopped = Session(), asyncio.Event(), asyncio.Event()
            session.subscribe(lambda _: any(n.text == "ab" for n in session.nodes.values()) and came.set())
            session.subscribe(
                lambda _: any(r.outcome == "stopped" for r in session.runs.values()) and stopped.set()
            )
            task = asyncio.create_task(client.complete("Hi", session=session, max_tokens=40))
            await came.wait()
            task.cancel()
            await stopped.wait()
            assert not task.done()
            task.cancel()
            await asyncio.wait({task}, timeout=20)
            assert task.cancelled()

    asyncio.run(go())
    [(prompt, completion, source)] = booked()
    assert (prompt, source) == (4, "estimate")
    assert 2 < completion <= 40


def test_a_second_interrupt_of_a_cell_closes_at_once_and_settles(silent: Deafened) -> None:
    pump = Pump(AsyncClient(silent.base, KEY, model="m", retries=0))
    session = Session()
    handle = pump.start(pump.client.request("Hi", max_tokens=40, stream=True), session)

    def twice() -> None:
        until(lambda: any(node.text == "ab" for node in list(session.nodes.values())))
        interrupt()
        until(lambda: session.runs[handle.run].outcome == "stopped")
        interrupt()

    with interrupted(twice):
        handle.wait()
    until(lambda: handle.done)
    pump.close()
    assert [(prompt, source) for prompt, _, source in booked()] == [(4, "estimate")]


def test_an_interrupt_while_the_bill_is_waited_for_closes_at_once_and_settles(silent: Deafened) -> None:
    with Client(silent.base, KEY, model="m", retries=0) as client:
        tokens = client.stream("Hi", max_tokens=40)
        coming = iter(tokens)  # held: when it is dropped the stream is left
        assert [next(coming).text, next(coming).text] == ["a", "b"]
        session = tokens.completion

        def once() -> None:
            until(lambda: session.outcome == "stopped")
            interrupt()

        with interrupted(once):
            tokens.close()
    assert [(prompt, source) for prompt, _, source in booked()] == [(4, "estimate")]


def test_a_stream_that_ends_in_the_same_moment_is_whole() -> None:
    answer = stream(frame("a", (4, 1)), frame("b", (4, 2), finish="stop") + bill(4, 2), DONE)
    with Player([answer]) as server, Client(server.base, KEY, model="m", retries=0) as client:
        for _ in client.stream("Hi", max_tokens=40):
            break
    assert booked() == [(4, 2, "usage")]


ABRUPT = """
import sys
from acs_jupyter import Client
client = Client(sys.argv[1], sys.argv[2], model="m", retries=0)
coming = {form}(client.stream("Hi", max_tokens=40))
next(coming)
print("came", flush=True)
"""


@pytest.mark.parametrize("form", ["iter", "enumerate", "lambda s: (t.text for t in s)"])
def test_a_process_that_ends_in_the_middle_of_a_stream_ends(form: str) -> None:
    """Its iterator is thrown away when no thread runs any more."""
    answer = stream(frame("a", (4, 1)), 30.0, DONE)
    with Player([answer]) as server:
        command = [sys.executable, "-c", ABRUPT.replace("{form}", f"({form})"), server.base, KEY]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=25, check=False
        )
    assert (done.returncode, done.stdout) == (0, "came\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("begun", [True, False])
def test_a_forked_child_takes_nothing_of_its_parents_stream(scripted_server: Running, begun: bool) -> None:
    with (
        Client(scripted_server.base, scripted_server.key, model="scripted") as client,
        client.stream("#scripted rate=200 tokens=60\nx", max_tokens=60) as running,
    ):
        tokens = iter(running)
        first = [next(tokens)]
        child = os.fork()
        if child == 0:
            code = 1
            try:
                list(tokens if begun else running)
            except errors.InvalidRequest as problem:
                code = 7 if "forked child" in str(problem) else 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len([*first, *tokens]) == 60
    assert running.completion.usage is not None
