"""Windows: what crosses to the browser, when, and what comes back. A fake comm stands for the kernel's."""

from __future__ import annotations

import ast
import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any, ClassVar

import comm
import pytest
from comm.base_comm import BaseComm

from acs_jupyter.log import events as ev
from acs_jupyter.log.intents import AnyIntent, Cancel
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.base import STATIC
from acs_jupyter.widgets.feed import Feed
from acs_jupyter.widgets.live import LiveCell
from acs_jupyter.wire import CompletionRequest
from tests import make_golden as golden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Sent = list[dict[str, Any]]


class FakeComm(BaseComm):
    """Keeps what it is given."""

    sent: ClassVar[Sent] = []

    def publish_msg(self, msg_type: str, data: Any = None, **keys: Any) -> None:
        FakeComm.sent.append({"msg_type": msg_type, **(data or {})})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    monkeypatch.setattr(comm, "create_comm", FakeComm)
    FakeComm.sent = []
    return FakeComm.sent


def custom(sent: Sent) -> Sent:
    return [message["content"] for message in sent if message.get("method") == "custom"]


def request(**fields: Any) -> CompletionRequest:
    return CompletionRequest(**{"prompt": "Once", "model": "m", "logprobs": 1, **fields})


def token(text: str = " a", node: str = "r.0", logprob: float = -0.123456789) -> ev.TokensArrived:
    return ev.TokensArrived(node, text, (text,), (logprob,), ({text: logprob, " b": -2.5},))


def all_events(messages: Sent) -> list[dict[str, Any]]:
    return [event for message in messages for event in message.get("events", ())]


def eventually(check: Callable[[], bool], seconds: float = 2.0) -> bool:
    end = time.monotonic() + seconds
    while not check() and time.monotonic() < end:
        time.sleep(0.005)
    return check()


# The feed


def test_the_first_event_goes_at_once_and_the_rest_in_batches() -> None:
    session, messages = Session(), Sent()
    Feed(session, ["r"], messages.append)
    session.apply(ev.opening("r", request()))
    assert [m["seq"] for m in messages] == [1]
    begin = time.monotonic()
    while time.monotonic() - begin < 0.5:
        session.apply([token()])
        time.sleep(0.001)
    assert 8 <= len(messages) <= 18  # 30 a second for half a second, and the first


def test_a_remainder_goes_out_though_nothing_more_happens() -> None:
    session, messages = Session(), Sent()
    Feed(session, ["r"], messages.append)
    session.apply(ev.opening("r", request()))
    session.apply([token()])
    assert len(messages) == 1
    assert eventually(lambda: len(messages) == 2)
    assert list(messages[1]["events"][0]["tokens"]) == [" a"]


def test_the_end_of_a_run_flushes_at_once_and_in_order() -> None:
    session, messages, closed = Session(), Sent(), []
    Feed(session, ["r"], messages.append, closed=lambda: closed.append(len(messages)))
    session.apply(ev.opening("r", request()))
    session.apply([token()])
    session.apply([ev.RunClosed("r", "done")])
    assert [event["type"] for event in messages[-1]["events"]] == ["TokensArrived", "RunClosed"]
    assert closed == [2]


def test_only_the_followed_runs_cross_and_prompt_scores_stay() -> None:
    session, messages = Session(), Sent()
    Feed(session, ["r"], messages.append, skip=(ev.PromptScored,))
    session.apply(ev.opening("other", request()))
    session.apply(ev.opening("r", request()))
    session.apply([token(node="other.0"), ev.PromptScored("r.p0", [None]), ev.RunClosed("r", "done")])
    assert {e.get("run", "r") for e in all_events(messages)} == {"r"}
    assert "PromptScored" not in {e["type"] for e in all_events(messages)}


def test_a_run_that_continues_a_node_comes_with_the_text_before_it() -> None:
    session, messages = Session(), Sent()
    session.apply([*ev.opening("a", request()), token(" upon", "a.0"), ev.RunClosed("a", "done")])
    Feed(session, ["b"], messages.append)
    session.apply(ev.opening("b", request(prompt="Once upon"), parents=["a.0"]))
    nodes = [event for event in messages[0]["events"] if event["type"] == "NodeOpened"]
    assert nodes[0] == {"type": "NodeOpened", "node": "a.0", "run": "b", "text": "Once upon"}
    assert nodes[1]["parent"] == "a.0"


def test_the_prompt_crosses_once_and_headers_only_when_they_are_the_service_s() -> None:
    session, messages = Session(), Sent()
    Feed(session, ["r"], messages.append)
    session.apply(ev.opening("r", request(prompt="A long prompt")))
    secret = {"Set-Cookie": "secret", "authorization": "secret", "X-Acs-Workload": "w"}
    session.apply([ev.Served("r", headers=secret), ev.RunClosed("r", "done")])
    assert json.dumps(messages).count("A long prompt") == 1
    assert "secret" not in json.dumps(messages)
    assert any(e.get("headers") == {"x-acs-workload": "w"} for e in all_events(messages))
    assert session.runs["r"].headers == secret


def test_running_counts_are_held_back_and_the_last_one_is_never_lost() -> None:
    session, messages = Session(), Sent()
    Feed(session, ["r"], messages.append)
    session.apply(ev.opening("r", request()))
    for count in range(1, 200):
        session.apply([token(), ev.Spent("r", 1, count, "continuous")])
        time.sleep(0.002)
    session.apply([ev.RunClosed("r", "interrupted")])
    counts = [e["completion_tokens"] for e in all_events(messages) if e["type"] == "Spent"]
    assert len(counts) <= 4
    assert counts[-1] == 199


def test_nothing_is_lost_or_doubled_when_threads_feed_and_ask_at_once() -> None:
    session, messages = Session(), Sent()
    feed = Feed(session, None, messages.append)
    runs = [f"r{i}" for i in range(4)]
    for run in runs:
        session.apply(ev.opening(run, request()))

    def work(run: str) -> None:
        for i in range(300):
            session.apply([token(f" {i}", f"{run}.0")])
        session.apply([ev.RunClosed(run, "done")])

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for _ in range(20):
        feed.packed()
        time.sleep(0.001)
    for thread in threads:
        thread.join()
    feed.flush()
    assert [m["seq"] for m in messages] == list(range(1, len(messages) + 1))
    for run in runs:
        came = [t for e in all_events(messages) if e.get("node") == f"{run}.0" for t in e.get("tokens", ())]
        assert came == [f" {i}" for i in range(300)]


def test_a_feed_whose_runs_are_over_listens_no_more() -> None:
    session = Session()
    feed = Feed(session, ["r"], lambda message: None)
    session.apply([*ev.opening("r", request()), token(), ev.RunClosed("r", "done")])
    assert session._subscribers == []
    assert '"outcome":"done"' in feed.packed()


def test_a_past_run_is_in_the_state_and_not_sent_again() -> None:
    session, messages = Session(), Sent()
    session.apply([*ev.opening("r", request()), token(" past")])
    feed = Feed(session, ["r"], messages.append)
    assert messages == []
    assert '" past"' in feed.packed()
    session.apply([token(" new"), ev.RunClosed("r", "done")])
    assert [t for e in all_events(messages) for t in e.get("tokens", ())] == [" new"]


@pytest.mark.parametrize("place", ["apply", "append"])
def test_an_interrupt_in_the_middle_of_it_loses_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session, messages = Session(), Sent()
    feed = Feed(session, ["r"], messages.append)
    session.apply(ev.opening("r", request()))

    def interrupted(*args: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    target = feed._mirror if place == "apply" else feed
    monkeypatch.setattr(target, "apply" if place == "apply" else "_flush_or_arm", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.apply([token(" lost?")])
    session.apply([ev.RunClosed("r", "stopped")])
    assert " lost?" in feed.packed()
    crossed = json.dumps(messages)
    assert crossed.count(" lost?") >= 1
    assert [m["seq"] for m in messages] == list(range(1, len(messages) + 1))


def test_a_window_never_breaks_the_session(caplog: pytest.LogCaptureFixture) -> None:
    session, messages = Session(), Sent()
    feed = Feed(session, ["r"], messages.append)
    session.apply(ev.opening("r", request()))
    feed._mirror.nodes.clear()  # as if its fold had gone wrong
    session.apply([token(" still")])
    session.apply([ev.RunClosed("r", "done")])
    assert session.runs["r"].outcome == "done"
    assert " still" in feed.packed()
    assert "reads it again" in caplog.text


@pytest.mark.parametrize("name", golden.names())
def test_what_crosses_folds_into_the_same_text(name: str) -> None:
    session, messages = Session(), Sent()
    Feed(session, [golden.RUN], messages.append)
    rng = random.Random(name)
    events = golden.events_of(name)
    while events:
        cut = rng.randint(1, 5)
        session.apply(events[:cut])
        events = events[cut:]
    texts: dict[str, str] = {}
    for event in all_events(messages):
        if event["type"] == "TokensArrived":
            text = event.get("text", "".join(event.get("tokens", ())))
            texts[event["node"]] = texts.get(event["node"], "") + text
    assert texts == {n.id: n.text for n in session.nodes.values() if n.choice is not None and n.text}


# The widget


def test_a_window_sends_rounded_logprobs_and_keeps_full_ones(sent: Sent) -> None:
    session = Session()
    LiveCell(session, ["r"])
    session.apply([*ev.opening("r", request()), token(logprob=-0.123456789), ev.RunClosed("r", "done")])
    (arrived,) = [e for e in all_events(custom(sent)) if e["type"] == "TokensArrived"]
    assert arrived["logprobs"] == [-0.1235]
    assert arrived["top"] == [{" a": -0.1235, " b": -2.5}]
    assert session.nodes["r.0"].logprobs == [-0.123456789]


def test_one_snapshot_when_the_run_closes(sent: Sent) -> None:
    session = Session()
    window = LiveCell(session, ["r"])
    session.apply(ev.opening("r", request()))
    for _ in range(50):
        session.apply([token()])
    assert window.snapshot == ""
    session.apply([ev.RunClosed("r", "done")])
    updates = [m for m in sent if m.get("method") == "update" and "snapshot" in m["state"]]
    assert len(updates) == 1
    assert updates[0]["state"]["snapshot"] == window.snapshot != ""


def test_a_state_request_while_running_holds_what_was_sent_so_far(sent: Sent) -> None:
    session = Session()
    window = LiveCell(session, ["r"])
    session.apply(ev.opening("r", request()))
    session.apply([token(" pending")])
    packed = json.loads(window.get_state()["snapshot"])
    assert packed["seq"] == custom(sent)[-1]["seq"] == 2
    assert " pending" in packed["strings"]
    assert window.get_state("show_prompt") == {"show_prompt": False}


def test_cancel_is_acknowledged_at_once_and_handed_on(sent: Sent) -> None:
    asked: list[AnyIntent] = []
    window = LiveCell(Session(), ["r"], on_intent=lambda intent: asked.append((len(custom(sent)), intent)))  # type: ignore[arg-type]
    window._handle_custom_msg({"type": "Cancel", "run": "r"}, [])
    assert asked == [(1, Cancel("r"))]
    assert custom(sent) == [{"ack": "Cancel"}]


def test_what_a_page_sends_again_is_acknowledged_again_and_done_once(sent: Sent) -> None:
    asked: list[AnyIntent] = []
    window = LiveCell(Session(), ["r"], on_intent=asked.append)
    for message in (
        {"type": "Cancel", "run": "r", "ask": "p.1"},
        {"type": "Cancel", "run": "r", "ask": "p.1"},
        {"type": "Cancel", "run": "r", "ask": "p.2"},
        {"type": "Cancel", "ask": 3},
        {"type": "Nonsense", "ask": "p.4"},
    ):
        window._handle_custom_msg(message, [])
    assert asked == [Cancel("r"), Cancel("r")]
    assert custom(sent) == [{"ack": "Cancel", "ask": f"p.{number}"} for number in (1, 1, 2)]


def test_resync_is_answered_with_the_whole_state(sent: Sent) -> None:
    session = Session()
    window = LiveCell(session, ["r"])
    session.apply([*ev.opening("r", request()), token(" whole")])
    window._handle_custom_msg({"type": "Resync", "seen": 0}, [])
    answer = custom(sent)[-1]
    assert answer["seq"] == json.loads(answer["snapshot"])["seq"] == 1
    assert " whole" in answer["snapshot"]


@pytest.mark.parametrize(
    "junk",
    [
        None,
        7,
        "Cancel",
        [],
        {},
        {"type": "Nope"},
        {"type": "Cancel", "more": 1},
        {"type": "Resync", "seen": "x"},
    ],
)
def test_junk_from_a_page_is_ignored(sent: Sent, junk: Any) -> None:
    asked: list[AnyIntent] = []
    window = LiveCell(Session(), ["r"], on_intent=asked.append)
    window._handle_custom_msg(junk, [])
    assert asked == []
    assert custom(sent) == []


def test_a_closed_window_listens_no_more(sent: Sent) -> None:
    session = Session()
    window = LiveCell(session, ["r"])
    window.close()
    session.apply(ev.opening("r", request()))
    assert custom(sent) == []


def test_plain_form_of_a_window_is_left_to_the_static_view(sent: Sent) -> None:
    bundle = LiveCell(Session(), ["r"])._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == ""
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "text/html" not in data


@pytest.mark.parametrize("file", sorted(STATIC.iterdir()), ids=lambda file: file.name)
def test_bundles_are_small(file: Any) -> None:
    # A loom's travels once a page, and stands in no file.
    assert 1000 < file.stat().st_size < (140_000 if file.stem == "loom" else 80_000)


def test_widgets_import_no_client_and_no_database() -> None:
    for file in (STATIC.parent / "widgets").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = (
                [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            )
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            roots = {name.split(".")[0] for name in names}
            assert not roots & {
                "httpx",
                "sqlite3",
                "client",
                "ledger",
                "pump",
                "notebook",
                "magics",
                "local",
                "IPython",
            }
