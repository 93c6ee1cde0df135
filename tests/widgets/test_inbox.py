from __future__ import annotations

from typing import Any

from acs_jupyter.log.intents import CancelJob
from acs_jupyter.widgets.inbox import KEPT, Inbox


def test_a_number_is_taken_once_and_forgotten_after_many() -> None:
    posted: list[dict[str, Any]] = []
    inbox = Inbox(posted.append)
    message = {"type": "CancelJob", "job": "j", "ask": "p.0"}
    assert inbox.take(message) == CancelJob("j")
    assert inbox.take(message) is None
    for number in range(1, KEPT + 1):
        assert inbox.take({**message, "ask": f"p.{number}"}) == CancelJob("j")
    assert inbox.take(message) == CancelJob("j")  # only the last ones are remembered
    assert len(posted) == KEPT + 3
    assert message["ask"] == "p.0"


def test_without_a_number_each_is_taken() -> None:
    posted: list[dict[str, Any]] = []
    inbox = Inbox(posted.append)
    assert [inbox.take({"type": "CancelJob", "job": "j"}) for _ in range(2)] == [CancelJob("j")] * 2
    assert posted == [{"ack": "CancelJob"}] * 2


def test_what_is_no_intent_is_neither_taken_nor_acknowledged() -> None:
    posted: list[dict[str, Any]] = []
    inbox = Inbox(posted.append)
    for content in (
        None,
        "text",
        3,
        [],
        {},
        {"ask": "p.1"},
        {"type": "CancelJob", "ask": "p.2"},
        {"type": "X"},
    ):
        assert inbox.take(content) is None
    assert posted == []
