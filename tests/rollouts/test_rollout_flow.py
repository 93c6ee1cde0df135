"""How fast a rollout goes, and what an end means, without a clock or a socket."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acs_jupyter.rollouts.flow import MINUTE, End, Flow, Limits

FEW = settings(max_examples=60, deadline=None)


# Flow


class World:
    """A server and a queue on an imagined clock. ``answer`` draws the end of each request."""

    def __init__(self, flow: Flow, work: list[str], answer: Any) -> None:
        self.flow, self.answer = flow, answer
        self.queues = {
            model: deque((i, 1) for i, m in enumerate(work) if m == model) for model in flow.models
        }
        self.running: list[tuple[float, int, str, int, float]] = []
        self.later: list[tuple[float, str, int, int]] = []
        self.starts: list[float] = []
        self.ends: dict[int, str] = {}
        self.most: dict[str | None, int] = dict.fromkeys([None, *flow.models], 0)
        self.now = 0.0

    def run(self) -> None:
        for _ in range(100_000):
            delay = self._start()
            nexts = [x[0][0] for x in (self.running, self.later) if x] + [self.now + delay]
            self.now = min(nexts)
            if math.isinf(self.now):
                return
            while self.later and self.later[0][0] <= self.now:
                _, model, item, attempt = heapq.heappop(self.later)
                self.queues[model].append((item, attempt))
            while self.running and self.running[0][0] <= self.now:
                self._end(*heapq.heappop(self.running)[1:])
        raise AssertionError("it does not end")

    def _start(self) -> float:
        delay = math.inf
        for model, queue in self.queues.items():
            while queue:
                wait = self.flow.wait(model, self.now)
                if wait > 0:
                    delay = min(delay, wait)
                    break
                item, attempt = queue.popleft()
                self.flow.started(model, self.now)
                self.starts.append(self.now)
                heapq.heappush(self.running, (self.now + 0.1 + item % 7, item, model, attempt, self.now))
                for name, window in ((None, self.flow.key), (model, self.flow.models[model])):
                    self.most[name] = max(self.most[name], window.in_flight)
        return delay

    def _end(self, item: int, model: str, attempt: int, started: float) -> None:
        verdict = self.flow.ended(model, started, self.now, self.answer(), attempt)
        if verdict.kind == "again":
            heapq.heappush(self.later, (self.now + verdict.delay, model, item, attempt + 1))
        elif verdict.kind != "stop":
            self.ends[item] = verdict.kind


ENDS = [
    End(),
    End("rate_limited", 429, True, 3.0),
    End("queue_full", 429, True, None),
    End("upstream_server_error", 502, True, None),
    End("circuit_open", 503, True, 60.0),
    End("upstream_deadline", 504, False),
    End("invalid_request", 400, False),
    End("interrupted", None, False, None, True, True),
    End("connection_failed", None, True),
]


@FEW
@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(3, 40), st.floats(0, 0.9))
def test_limits_hold_whatever_the_server_does_and_the_run_ends(
    seed: int, wide: int, starts: int, bad: float
) -> None:
    draw = random.Random(seed)
    flow = Flow(Limits(wide, starts, {"b": 2}), ["a", "b"])
    work = [draw.choice("ab") for _ in range(60)]
    world = World(flow, work, lambda: draw.choice(ENDS) if draw.random() < bad else ENDS[0])
    world.run()
    assert world.most[None] <= wide
    assert world.most["b"] <= 2
    for first, last in zip(world.starts, world.starts[starts:], strict=False):
        assert last - first > 60
    assert flow.stopped == "failures" or len(world.ends) == len(work)
    assert flow.key.in_flight == 0
    assert not flow.stopped or math.isinf(flow.wait("a", world.now + 1e6))


def test_a_full_server_halves_what_is_in_flight_once_and_successes_bring_it_back() -> None:
    flow = Flow(Limits(16, 0), ["a"])
    for _ in range(16):
        flow.started("a", 0.0)
    for _ in range(16):
        flow.ended("a", 0.0, 1.0, End("queue_full", 429, True, 2.0))
    assert flow.key.size == 8
    assert flow.wait("a", 1.0) == 2.0
    for _ in range(200):
        flow.started("a", 4.0)
        flow.ended("a", 4.0, 5.0, End())
    assert flow.key.size == 16


def test_a_pause_of_one_model_is_not_one_of_the_other() -> None:
    flow = Flow(Limits(), ["a", "b"])
    flow.started("a", 0.0)
    assert flow.ended("a", 0.0, 1.0, End("circuit_open", 503, True, 60.0)).delay == 60.0
    assert flow.wait("a", 2.0) == 59.0
    assert flow.wait("b", 2.0) == 0.0
    flow.started("b", 2.0)
    flow.ended("b", 2.0, 3.0, End("rate_limited", 429, True, 30.0))
    assert flow.wait("b", 4.0) == 29.0


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (End("budget_exceeded", 429), "budget"),
        (End("invalid_api_key", 401), "refused"),
        (End("scope_denied", 403), "refused"),
    ],
)
def test_what_every_request_would_get_stops_the_run(end: End, reason: str) -> None:
    flow = Flow(Limits(), ["a"])
    flow.started("a", 0.0)
    assert flow.ended("a", 0.0, 1.0, end).kind == "stop"
    assert flow.stopped == reason


def test_a_server_that_only_fails_is_probed_and_then_left() -> None:
    world = World(Flow(Limits(), ["a"]), ["a"] * 100, lambda: End("connection_failed", None, True))
    world.run()
    assert world.flow.stopped == "failures"
    assert len(world.starts) == 24
    assert world.now > 60  # not before it had a minute to come back


def test_starts_of_the_process_before_count() -> None:
    flow = Flow(Limits(starts=3), ["a"], earlier=[0.0, 1.0, 2.0])
    assert flow.wait("a", 5.0) == pytest.approx(MINUTE - 5.0)


def test_an_answer_that_may_have_run_is_never_sent_again() -> None:
    for end in (
        End("interrupted", None, True, None, True),
        End("connection_failed", None, True, None, False, True),
    ):
        flow = Flow(Limits(), ["a"])
        flow.started("a", 0.0)
        assert flow.ended("a", 0.0, 1.0, end).kind == "failed"


@pytest.mark.parametrize("code", ["rate_limited", "queue_full", "server_restarting", "somebody_elses"])
def test_a_server_that_says_at_once_each_time_is_asked_ever_more_seldom(code: str) -> None:
    flow = Flow(Limits(starts=0, retries=99, burst=99), ["m"])
    now, waits = 0.0, []
    for _ in range(20):
        flow.started("m", now)
        verdict = flow.ended("m", now, now + 0.01, End(code, 503 if "restart" in code else 429, True, 0.0))
        assert verdict.kind == "again"
        waits.append(round(max(verdict.delay, flow.wait("m", now + 0.01)), 6))
        now += 0.01 + waits[-1]
    assert waits[0] == 0  # the first time it is believed
    assert waits == sorted(waits)
    assert waits[-1] == 30
    flow.started("m", now)
    flow.ended("m", now, now + 1, End())
    flow.started("m", now + 1)
    assert flow.ended("m", now + 1, now + 2, End(code, 429, True, 0.0)).delay == 0


def test_a_429_that_is_not_the_services_own_pauses_all_and_ends_at_last() -> None:
    flow = Flow(Limits(starts=0, retries=2), ["m"])
    kinds = []
    for attempt in (1, 2, 3):
        flow.started("m", 0.0)
        kinds.append(flow.ended("m", 0.0, 1.0, End("too_many_requests", 429, True, 7.0), attempt).kind)
        assert flow.wait("m", 1.0) == 7.0
    assert kinds == ["again", "again", "failed"]
