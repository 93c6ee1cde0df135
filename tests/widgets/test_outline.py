"""A loom's window: its outline at once, contents when they are asked for, needed, or by and by; its script apart."""

from __future__ import annotations

import json
import threading
import zlib
from typing import Any

import pytest

from acs_jupyter.log import events as ev
from acs_jupyter.log import revising
from acs_jupyter.log.session import Session
from acs_jupyter.widgets import loom as loom_widget
from acs_jupyter.widgets import outline as outlines
from acs_jupyter.widgets.base import STATIC
from acs_jupyter.widgets.filling import Later, Trickle
from acs_jupyter.widgets.loom import LoomWindow
from acs_jupyter.widgets.outline import BATCH, Outline, shared_of
from tests.support.desks import until
from tests.support.trees import grown


def parts(packed: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, state = packed.split("\n")
    return json.loads(head), json.loads(state)


def test_an_outline_holds_the_tree_and_the_contents_of_what_is_nearest() -> None:
    session = grown(50, 20)
    outline = Outline(lambda session: ["n40", "n41"], room=60)
    head, packed = parts(outline.pack(session, 7, 2.0))
    assert {key for key in session.nodes if key not in head["hollow"]} == {"n40", "n41", "root", "n0"}
    assert outline.lacking == 47
    for key, node in packed["state"]["nodes"].items():
        assert ("packed" in node) is (key not in head["hollow"])
    # What is as usual is left out; the golden files say that a page has it all the same.
    assert packed["state"]["nodes"]["n5"] == {
        "id": "n5", "run": "r5", "parent": "n0", "choice": 0, "finish_reason": "length",
        "children": ["n18", "n19", "n20"],
    }  # fmt: skip
    assert set(packed["state"]["runs"]["r5"]) == {
        "id", "request", "opened_at", "nodes", "outcome", "first_token_at", "closed_at"
    }  # fmt: skip
    assert head["gists"]["n5"] == [session.nodes["n5"].text[:180], -0.7]


def test_windows_share_the_outline_of_what_they_both_show(monkeypatch: pytest.MonkeyPatch) -> None:
    session = grown(50, 20)
    made = 0
    gist = outlines._gist

    def counted(*given: Any) -> Any:
        nonlocal made
        made += 1
        return gist(*given)

    monkeypatch.setattr(outlines, "_gist", counted)
    first, second = (Outline(room=200, shared=shared_of(session)) for _ in range(2))
    told = parts(first.pack(session, 7, 2.0))
    assert made == 51
    mirror = session.copy()  # each window has a fold of its own
    head, packed = parts(second.pack(mirror, 3, 2.5))
    assert made == 51, "nothing is made twice"
    assert (head, packed["state"], packed["strings"]) == (told[0], told[1]["state"], told[1]["strings"])
    assert (packed["seq"], packed["at"], list(packed)) == (3, 2.5, list(told[1]))
    # What one of them was sent since is still lacking at the other.
    lacking = second.lacking
    first.some(session)
    assert first.lacking < second.lacking == lacking
    # Another place to begin at, or another state, is another outline; so is another session.
    near = Outline(lambda session: ["n40"], room=200, shared=shared_of(session))
    assert "n40" not in parts(near.pack(mirror, 1, 1.0))[0]["hollow"]
    assert made == 102
    session.apply([ev.Revised("note", changes=(ev.Change("n2", "note", "new"),))])
    assert "new" in first.pack(session, 8, 3.0)
    assert made == 153
    assert shared_of(grown(3, 3)) is not shared_of(session)


def test_contents_follow_in_messages_of_one_size_and_each_once() -> None:
    session = grown(200, 100)
    outline = Outline(room=0)
    outline.pack(session, 1, 1.0)
    seen: list[str] = []
    while (some := outline.some(session)) is not None:
        nodes = json.loads(some)["nodes"]
        assert sum(count for _, count, _ in nodes.values()) <= BATCH + 100
        seen += nodes
    assert sorted([*seen, "root"]) == sorted(session.nodes)  # the root was there from the start
    assert len(seen) == len(set(seen))
    assert outline.contents(session, ["nobody"]) is None
    again = json.loads(outline.contents(session, ["n3"]) or "")  # whoever asks is answered, again too
    assert list(again["nodes"]) == ["n3"]


def test_what_still_comes_is_never_hollow() -> None:
    session = grown(3, 10)
    session.apply([ev.RunOpened("r", {"model": "m"}), ev.NodeOpened("r.0", "r", "n0", 0)])
    session.apply([ev.TokensArrived("r.0", " a", (" a",), (-0.5,), (None,))])
    outline = Outline(room=0)
    head, packed = parts(outline.pack(session, 1, 1.0))
    assert sorted(head["hollow"]) == ["n0", "n1", "n2"]
    assert packed["state"]["nodes"]["r.0"]["count"] == 1
    assert outline.contents(session, ["r.0"]) is None
    assert "r.0" not in head["gists"]


class Page:
    """A window whose messages are kept."""

    def __init__(self, session: Session) -> None:
        self.sent: list[dict[str, Any]] = []
        self.buffers: list[Any] = []
        self.window = LoomWindow(session)
        self.window.send = self._send  # type: ignore[method-assign]

    def _send(self, content: Any, buffers: Any = None) -> None:
        self.sent.append(content)
        self.buffers += buffers or []

    def ask(self, kind: str, **fields: Any) -> None:
        self.window._received(self.window, {"type": kind, **fields}, [])

    def filled(self) -> list[str]:
        return [
            key
            for message in self.sent
            if "contents" in message
            for key in json.loads(message["contents"])["nodes"]
        ]


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loom_widget, "Outline", lambda nearest, **more: Outline(nearest, room=100, **more))
    monkeypatch.setattr(loom_widget, "UNASKED", ())


def test_a_page_gets_the_script_once_asked_and_nothing_of_it_stands_in_the_state() -> None:
    page = Page(grown(20, 10))
    state = page.window.get_state()
    assert state["snapshot"] == ""
    assert len(json.dumps(state)) < page.window.weight < 12_000
    page.ask("Fetch", digest="x")
    script, style = zlib.decompress(page.buffers[0], -15).split(b"\0")
    assert (script, style) == ((STATIC / "loom.js").read_bytes(), (STATIC / "loom.css").read_bytes())
    assert {"code": page.window.code.digest if page.window.code else ""} in page.sent


def test_what_a_page_asks_for_comes_at_once_and_the_rest_by_and_by() -> None:
    session = grown(200, 50)
    page = Page(session)
    page.ask("Resync", seen=0)
    head, _ = parts(next(m["snapshot"] for m in page.sent if "snapshot" in m))
    until(lambda: len(page.filled()) >= len(head["hollow"]))
    assert sorted(set(page.filled())) == sorted(head["hollow"])
    page.ask("Read", nodes=["n150", "n151"])
    assert page.filled()[-2:] == ["n150", "n151"]
    page.ask("Read", nodes=["nobody"])
    assert page.filled()[-2:] == ["n150", "n151"]


def test_contents_come_before_the_event_that_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trickle, "start", lambda self: None)
    session = grown(60, 30)
    page = Page(session)
    page.ask("Resync", seen=0)
    session.apply([revising.split(session, "n50", token=4)])
    until(lambda: any("events" in message for message in page.sent))
    assert page.filled() == ["n50"]
    places = [next(i for i, m in enumerate(page.sent) if kind in m) for kind in ("contents", "events")]
    assert places == sorted(places)
    session.apply([revising.undone(session)])
    session.apply([revising.split(session, "n50", token=9)])
    assert page.filled() == ["n50"]  # once


def test_a_window_sends_itself_when_no_page_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loom_widget, "UNASKED", (0.05, 0.1))
    page = Page(grown(3, 10))
    until(lambda: sum("snapshot" in message for message in page.sent) == 2)
    assert sum("code" in message for message in page.sent) == 2
    asked = Page(grown(3, 10))
    asked.ask("Fetch", digest="x")
    done: list[int] = []
    Later(lambda: done.append(1), (0.3,)).start()
    until(lambda: done == [1])
    assert not any("snapshot" in message for message in asked.sent)


def test_a_trickle_that_is_started_twice_runs_once_and_can_go_on() -> None:
    done: list[int] = []
    twice = threading.Event()

    def step() -> bool:
        assert twice.wait(30)
        done.append(1)
        return len(done) % 5 != 0

    trickle = Trickle(step)
    trickle.start()
    trickle.start()
    twice.set()
    until(lambda: len(done) == 5 and not trickle._running)
    trickle.start()
    until(lambda: len(done) == 10)
