"""The pure steps of a run over every recorded answer: any slicing, any line end, any comment, the same events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acs_jupyter import errors
from acs_jupyter.exchange import Exchange
from acs_jupyter.log.events import AnyEvent, Finished, RunClosed, Waited
from acs_jupyter.wire import CompletionRequest

WIRE = Path(__file__).parent / "data" / "wire"
STREAMS = sorted(path.name.removesuffix(".response.sse") for path in WIRE.glob("*.sse"))
BODIES = sorted(path.name.removesuffix(".response.json") for path in WIRE.glob("*.response.json"))


def request_of(name: str) -> CompletionRequest:
    return msgspec.convert(
        json.loads((WIRE / f"{name}.request.json").read_bytes())["body"], CompletionRequest
    )


def played(
    name: str, pieces: list[bytes], status: int = 200, kind: str = "text/event-stream"
) -> list[AnyEvent]:
    exchange = Exchange(request_of(name), run="r", request_id="own", retries=0)
    exchange.begin()
    events = exchange.head(status, {"content-type": kind})
    for piece in pieces:
        events += exchange.feed(piece)
    return events + exchange.end()


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_slicing_of_a_stream_gives_the_same_events(name: str, data: st.DataObject) -> None:
    raw = (WIRE / f"{name}.response.sse").read_bytes()
    expected = played(name, [raw])
    end = data.draw(st.sampled_from([b"\n", b"\r", b"\r\n"]))
    comment = data.draw(st.sampled_from([b"", b": keepalive" + end, b": [##..] boot" + end]))
    frames = raw.split(b"\n\n")
    changed = b"".join(comment + frame.replace(b"\n", end) + end + end for frame in frames if frame)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(changed)), max_size=40)))
    pieces = [changed[a:b] for a, b in zip([0, *cuts], [*cuts, len(changed)], strict=True)]
    got = [event for event in played(name, pieces) if not isinstance(event, Waited)]
    assert got == expected
    assert expected[-1] == RunClosed("r", "done")


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_anywhere_keeps_all_that_was_whole(name: str) -> None:
    raw = (WIRE / f"{name}.response.sse").read_bytes()
    whole = played(name, [raw])
    for cut in range(0, len(raw) - 20, max(1, len(raw) // 60)):
        events = played(name, [raw[:cut]])
        kept = [e for e in events if type(e).__name__ in ("Served", "TokensArrived", "Finished")]
        assert (
            kept
            == [e for e in whole if type(e).__name__ in ("Served", "TokensArrived", "Finished")][: len(kept)]
        )
        finished = sum(isinstance(event, Finished) for event in events)
        outcome = events[-1].outcome  # type: ignore[union-attr]
        assert outcome == ("done" if finished == request_of(name).choice_count else "interrupted")


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_slicing_of_a_body_gives_the_same_events(name: str, data: st.DataObject) -> None:
    raw = (WIRE / f"{name}.response.json").read_bytes()
    status = json.loads((WIRE / f"{name}.request.json").read_bytes())["status"]
    expected = played(name, [raw], status, "application/json")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    space = [b" " * 1024] * data.draw(st.integers(0, 3)) if status == 200 else []
    got = played(name, [*space, *pieces], status, "application/json")
    assert [event for event in got if not isinstance(event, Waited)] == expected
    assert expected[-1] == RunClosed("r", "done" if status == 200 else "failed")


def test_delays_grow_and_end() -> None:
    exchange = Exchange(request_of("plain"), run="r", retries=3)
    delays = []
    for _ in range(4):
        exchange.begin()
        exchange.unreachable("refused")
        delays.append(exchange.delay)
    assert delays[3] is None
    assert exchange.closed
    for number, delay in enumerate(delays[:3]):
        assert delay is not None
        assert 0.75 * 0.5 * 2**number <= delay <= 0.5 * 2**number
    assert isinstance(exchange.error, errors.ConnectionFailed)


@pytest.mark.parametrize("header", ["601", "-1", "soon"])
def test_a_retry_after_that_cannot_be_obeyed(header: str) -> None:
    exchange = Exchange(request_of("plain"), run="r", retries=3)
    exchange.begin()
    exchange.head(429, {"retry-after": header, "content-type": "application/json"})
    exchange.feed(b'{"error":{"code":"queue_full","message":"full"}}')
    exchange.end()
    if header == "601":
        assert exchange.delay is None
        assert exchange.closed
    else:
        assert exchange.delay is not None
        assert exchange.delay <= 0.5


def test_every_code_has_one_class_with_advice() -> None:
    seen: dict[str, Any] = {}
    for code, cls in errors.CATALOGUE.items():
        error = cls("what happened", status=cls.status)
        assert error.code == code
        assert 400 <= error.status < 600
        assert error.hint, code
        assert "\n" not in str(error)
        seen[code] = cls
    for code in (
        "budget_exceeded",
        "upstream_deadline",
        "deadline_infeasible",
        "invalid_request",
        "vllm_oom",
    ):
        assert seen[code]("x").retryable is False
    for code in ("queue_full", "rate_limited", "circuit_open", "upstream_unreachable", "modal_cold_boot"):
        assert seen[code]("x").retryable is True
    assert errors.class_for("never_heard", 429) is errors.TooManyRequests
    assert errors.class_for(None, 503) is errors.ServerFailure
    assert errors.class_for(400, 418) is errors.BadRequest
