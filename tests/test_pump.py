"""The loop that carries runs: awaited, stopped from another thread, interrupted, left to itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from acs_jupyter import AsyncClient, Client, Session, errors
from acs_jupyter.log.events import Waited
from acs_jupyter.pump import Handle, Pump
from acs_jupyter.wire import CompletionRequest
from tests.support.desks import until
from tests.support.interrupts import interrupt, interrupted
from tests.support.player import DONE, END, HANG, Player, Step, chunk, frames, head, stream, whole

KEY = "acs-bm-testtest-x"


@pytest.fixture
def pump_for() -> Iterator[object]:
    pumps: list[Pump] = []

    def make(base: str) -> Pump:
        pumps.append(Pump(AsyncClient(base, KEY, retries=1)))
        return pumps[-1]

    yield make
    for pump in pumps:
        pump.close()


def start(pump: Pump, session: Session) -> Handle:
    request: CompletionRequest = pump.client.request("Hi", max_tokens=9, stream=True)
    return pump.start(request, session)


def left(server: Player) -> bool:
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        if server.requests and server.requests[0].left_at is not None:
            return True
        time.sleep(0.01)
    return False


def test_waiting_folds_here(pump_for) -> None:  # type: ignore[no-untyped-def]
    session = Session()
    threads: set[int] = set()
    session.subscribe(lambda events: threads.add(threading.get_ident()))
    with Player([stream(*frames(["a", "b"]), DONE)]) as server:
        got = start(pump_for(server.base), session).wait()
    assert (got.text, got.outcome) == ("ab", "done")
    assert threads == {threading.get_ident()}


def test_times_are_those_of_the_socket_not_of_the_reader(pump_for) -> None:  # type: ignore[no-untyped-def]
    with Player(
        [[head(kind="text/event-stream"), 0.3, *map(chunk, frames(["a", "b"])), chunk(DONE), END]]
    ) as server:
        handle = start(pump_for(server.base), Session())
        time.sleep(1.5)
        first = handle.wait().time_to_first_token
    assert first is not None
    assert 0.3 <= first < 1.4


def test_a_cold_boot_is_told_while_nothing_comes(pump_for, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("acs_jupyter.pump.BOOT_AFTER", 0.1)
    monkeypatch.setattr("acs_jupyter.pump.BOOT_EVERY", 0.2)
    boot = {"stage": "weights_loading", "stage_label": "loading weights", "stage_age_s": 12.4}
    status = whole({"id": "a/b", "object": "model.status", "warm": False, "boot": boot})
    cold = [head(kind="text/event-stream"), 0.5, *map(chunk, frames(["a"])), chunk(DONE), END]
    session = Session()
    with Player([cold], {"/models/a%2Fb/status": status}) as server:
        pump = pump_for(server.base)
        request = pump.client.request("Hi", model="a/b", stream=True)
        assert pump.start(request, session).wait().text == "a"
    notes = [event.note for _, event in session.log if isinstance(event, Waited)]
    assert notes
    assert set(notes) == {"loading weights (12 s)"}
    assert session.runs[next(iter(session.runs))].note is None


@pytest.mark.parametrize("warm", [True, False])
def test_a_models_status(warm: bool) -> None:
    status = whole({"id": "m", "warm": warm, "boot": None if warm else {"stage": "engine_ready"}})
    with Player([status]) as server, Client(server.base, KEY) as client:
        found = client.status("m")
    assert found.warm is warm
    assert (found.boot is None) is warm


def test_a_refusal_is_raised_with_its_record(pump_for) -> None:  # type: ignore[no-untyped-def]
    error = {"error": {"code": "model_not_found", "message": "no such model"}}
    with Player([whole(error, "400 Bad Request")]) as server, pytest.raises(errors.ModelNotFound) as caught:
        start(pump_for(server.base), Session()).wait()
    assert caught.value.completion.outcome == "failed"


SILENT: list[list[Step]] = [
    [HANG],  # not even a head
    stream(*frames(["a", "b"], None), HANG),  # in the middle
]


@pytest.mark.parametrize("played", SILENT, ids=["before the head", "midway"])
def test_stop_from_another_thread_reaches_a_silent_socket(pump_for, played: list[Step]) -> None:  # type: ignore[no-untyped-def]
    with Player([played]) as server:
        handle = start(pump_for(server.base), Session())
        threading.Timer(0.3, handle.stop).start()
        began = time.monotonic()
        got = handle.wait()
        assert time.monotonic() - began < 3
        assert got.outcome == "stopped"
        assert got.text == ("ab" if len(played) > 1 else "")
        assert got.usage_source == ("continuous" if len(played) > 1 else "estimate")
        assert got.usage.prompt_tokens > 0  # it was sent, so it may be billed
        assert left(server)
        assert handle.done


def test_stop_at_once_still_leaves_a_record(pump_for) -> None:  # type: ignore[no-untyped-def]
    with Player([[HANG]]) as server:
        handle = start(pump_for(server.base), Session())
        handle.stop()
        assert handle.wait().outcome == "stopped"


def test_a_keyboard_interrupt_keeps_what_came_and_is_raised_again(pump_for) -> None:  # type: ignore[no-untyped-def]
    with Player([stream(*frames(["a", "b"], None), HANG)]) as server:
        handle = start(pump_for(server.base), Session())

        def once() -> None:
            until(lambda: any(node.text == "ab" for node in list(handle.session.nodes.values())))
            interrupt()

        with interrupted(once):
            handle.wait()
        assert (handle.completion.text, handle.completion.outcome) == ("ab", "stopped")
        assert handle.completion.usage.completion_tokens == 2
        assert left(server)


def test_a_detached_run_ends_by_itself(pump_for) -> None:  # type: ignore[no-untyped-def]
    ended = threading.Event()
    with Player([stream(*frames(["a", "b"]), DONE)]) as server:
        handle = start(pump_for(server.base), Session())
        handle.detach(lambda handle: ended.set())
        assert ended.wait(5)
    assert (handle.completion.text, handle.completion.outcome) == ("ab", "done")


def test_a_retry_can_be_stopped_while_it_waits(pump_for) -> None:  # type: ignore[no-untyped-def]
    error = {"error": {"code": "rate_limited", "message": "slow down"}}
    with Player([whole(error, "429 Too Many Requests", Retry_After="60")]) as server:
        handle = start(pump_for(server.base), Session())
        threading.Timer(0.3, handle.stop).start()
        got = handle.wait()
        assert got.outcome == "stopped"
        assert got.usage.total_tokens == 0  # it was refused
        assert len(server.requests) == 1


def test_many_runs_share_one_thread(pump_for) -> None:  # type: ignore[no-untyped-def]
    already = threading.enumerate()
    with Player([stream(*frames(["a", "b"]), DONE)]) as server:
        pump = pump_for(server.base)
        handles = [start(pump, Session()) for _ in range(8)]
        assert [handle.wait().text for handle in handles] == ["ab"] * 8
        new = [
            thread for thread in threading.enumerate() if thread.name == "acs-pump" and thread not in already
        ]
        assert len(new) == 1
