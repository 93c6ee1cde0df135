"""The breaker, alone and in front of an upstream, by a clock that stands still until it is moved."""

from __future__ import annotations

import json

import pytest

from acs_jupyter.local.breaker import Breaker, Open
from tests.support.gateway import fronting
from tests.support.player import HANG, whole
from tests.support.upstreams import ANSWER, ASK, STREAM, envelope_with, playing, vllm


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(3, 60.0, clock)
    for _ in range(3):
        breaker.enter().failed("vllm_oom")
    return breaker


def refused(breaker: Breaker) -> int:
    with pytest.raises(Open) as caught:
        breaker.enter()
    return caught.value.retry_after


def test_opens_after_failures_in_a_row() -> None:
    breaker = Breaker(3, 60.0, Clock())
    for kind in ("a", "b"):
        breaker.enter().failed(kind)
    breaker.enter().succeeded()
    assert (breaker.state, breaker.failures, breaker.last_kind) == ("closed", 0, None)
    for kind in ("a", "b", "c"):
        assert breaker.state == "closed"
        breaker.enter().failed(kind)
    assert (breaker.state, breaker.failures, breaker.last_kind) == ("open", 3, "c")


def test_says_when_to_come_back() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert refused(breaker) == 60
    clock.now += 59.5
    assert refused(breaker) == 1


@pytest.mark.parametrize("good", [True, False])
def test_half_open_lets_one_through(good: bool) -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 60
    assert breaker.state == "half_open"
    probe = breaker.enter()
    assert refused(breaker) == 1
    probe.succeeded() if good else probe.failed("again")
    assert breaker.state == ("closed" if good else "open")
    if not good:
        assert refused(breaker) == 60


def test_a_probe_without_verdict_gives_its_place_back() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 60
    breaker.enter().release()
    breaker.enter().succeeded()
    assert breaker.state == "closed"


def test_latecomers_do_not_move_an_open_breaker() -> None:
    clock = Clock()
    breaker = Breaker(1, 60.0, clock)
    early, late = breaker.enter(), breaker.enter()
    early.failed("x")
    clock.now += 30
    late.failed("y")
    assert refused(breaker) == 30
    clock.now += 30
    breaker.enter().succeeded()
    late.succeeded()
    assert breaker.state == "closed"


def test_over_http() -> None:
    clock = Clock()
    bad = whole(vllm("boom", 500), "500 Internal")
    with (
        playing(*[bad] * 6, whole(ANSWER)) as upstream,
        fronting(upstream.base, clock=clock) as front,
        front.client() as client,
    ):
        for number in range(5):
            envelope_with(client.post("completions", json=STREAM), 502, "upstream_server_error")
            body = client.get(f"{front.root}/health").json()
            assert body["backends"][0]["breaker_consecutive_failures"] == number + 1
        [backend] = body["backends"]
        assert (body["status"], body["degraded_backends"]) == ("degraded", ["m"])
        assert (backend["breaker_state"], backend["breaker_last_failure_kind"]) == (
            "open",
            "upstream_server_error",
        )
        for ask in (ASK, STREAM):
            got = client.post("completions", json=ask)
            error = envelope_with(got, 503, "circuit_open")
            assert got.headers["retry-after"] == "60"
            assert got.headers["x-acs-upstream-error-kind"] == "circuit_open"
            assert (error["consecutive_failures"], error["retry_after_seconds"]) == (5, 60)
            assert (error["model_id"], error["last_failure_kind"]) == ("m", "upstream_server_error")
        assert len(upstream.requests) == 5
        envelope_with(client.post("completions", json=ASK | {"n": 0}), 400, "invalid_request")
        clock.now += 60
        assert client.get(f"{front.root}/health").json()["backends"][0]["breaker_state"] == "half_open"
        envelope_with(client.post("completions", json=STREAM), 502, "upstream_server_error")
        envelope_with(client.post("completions", json=STREAM), 503, "circuit_open")
        clock.now += 60
        assert client.post("completions", json=ASK).status_code == 200
        assert client.get(f"{front.root}/health").json()["status"] == "ok"


def test_refusals_by_the_engine_do_not_count() -> None:
    answers = [whole(vllm("bad", 400), "400 Bad Request")] * 6
    with playing(*answers) as upstream, fronting(upstream.base) as front, front.client() as client:
        for _ in range(6):
            envelope_with(client.post("completions", json=ASK), 400, "vllm_invalid_request")
        assert front.fleet.upstreams[0].breaker.state == "closed"


def test_each_model_has_its_own() -> None:
    bad = whole(vllm("boom", 500), "500 Internal")
    with playing(bad) as one, playing(whole(ANSWER)) as two:
        specs = (f"a={one.base}", f"b={two.base}")
        with fronting(*specs) as front, front.client() as client:
            for _ in range(5):
                client.post("completions", json=STREAM)
            envelope_with(client.post("completions", json=STREAM), 503, "circuit_open")
            assert client.post("completions", json=ASK | {"model": "b"}).status_code == 200
            assert client.get(f"{front.root}/health").json()["degraded_backends"] == ["a"]


def test_a_probe_whose_client_left_is_tried_again() -> None:
    clock = Clock()
    bad = whole(vllm("boom", 500), "500 Internal")
    with (
        playing(*[bad] * 5, [HANG], whole(ANSWER)) as upstream,
        fronting(upstream.base, clock=clock) as front,
    ):
        with front.client() as client:
            for _ in range(5):
                client.post("completions", json=STREAM)
            clock.now += 60
            with pytest.raises(Exception, match="timed out"):
                client.post("completions", json=ASK, timeout=0.2)
        with front.client() as client:
            while front.fleet.upstreams[0].active:
                pass
            assert json.loads(client.post("completions", json=ASK).content) == json.loads(ANSWER)
