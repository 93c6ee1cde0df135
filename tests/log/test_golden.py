"""Recorded answers: bytes to events to state, equal to the golden files that the browser's side reads too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.outward import plain, trimmed
from tests import make_golden as golden

if TYPE_CHECKING:
    from pathlib import Path


def as_json(value: Any) -> Any:
    """JSON values: -0.0 is 0."""
    return json.loads(msgspec.json.encode(value))


def test_every_recorded_case_has_a_golden_file() -> None:
    assert len(golden.names()) == 29
    assert sorted(path.stem for path in golden.GOLDEN.glob("*.json")) == golden.all_names()


@pytest.mark.parametrize("name", golden.all_names())
def test_answer_folds_into_the_golden_state(name: str) -> None:
    kept = json.loads((golden.GOLDEN / f"{name}.json").read_bytes())
    assert as_json(golden.golden(name)) == as_json(kept)


@pytest.mark.parametrize("name", golden.names())
def test_text_is_the_wire_s_to_the_byte(name: str) -> None:
    request, _, answers = golden.recorded(name)
    session = golden.session_of(golden.events_of(name))
    for index in range(request.choice_count):
        sent = "".join(c.text for a in answers for c in a.choices or () if c.index == index)
        assert session.nodes[f"{golden.RUN}.{index}"].text.encode() == sent.encode()


@pytest.mark.parametrize("name", golden.names())
def test_saved_session_loads_into_the_same_state(name: str, tmp_path: Path) -> None:
    session = golden.session_of(golden.events_of(name))
    session.save(tmp_path / "s.jsonl")
    assert as_json(Session.load(tmp_path / "s.jsonl").state()) == as_json(session.state())


@pytest.mark.parametrize("name", golden.names())
def test_merged_events_fold_into_the_same_state(name: str) -> None:
    events = golden.events_of(name)
    fewer = ev.merged(events)
    assert len(fewer) <= len(events)
    assert golden.session_of(fewer).state() == golden.session_of(events).state()


@pytest.mark.parametrize("name", golden.names())
def test_plain_events_are_events(name: str) -> None:
    """What crosses to the browser decodes back; only logprobs are rounded."""
    events = [trimmed(event) for event in golden.events_of(name)]
    crossing = [plain(event) for event in events]
    for values in crossing:
        if values["type"] == "TokensArrived":
            values.setdefault("text", "".join(values.get("tokens", ())))
    back = ev.decode_events(msgspec.json.encode(crossing))
    assert [type(event) for event in back] == [type(event) for event in events]
    for sent, event in zip(back, events, strict=True):
        if isinstance(event, ev.TokensArrived):
            assert isinstance(sent, ev.TokensArrived)
            assert (sent.text, sent.tokens) == (event.text, event.tokens)
            for a, b in zip(sent.logprobs, event.logprobs, strict=True):
                assert a == b if b is None else a is not None and abs(a - b) < 5.1e-5
        else:
            assert sent == event
