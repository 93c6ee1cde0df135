"""The workbench without a browser: the form's vocabulary, what its intents lead to, what is kept."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from acs_jupyter import Session, load
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.log import events as ev
from acs_jupyter.notebook.form import SHOWN, field_of, fields, read, written
from acs_jupyter.notebook.options import HELP
from acs_jupyter.notebook.root import Notebook
from acs_jupyter.notebook.workbench import Workbench
from acs_jupyter.wire import CompletionRequest
from tests.support.desks import until
from tests.support.player import DONE, HANG, Player, frames, stream, whole

KEY = "acs-bm-testtest-do-not-show-me"
PARIS = stream(*frames([" Par", "is"]), DONE)
ON = stream(*frames([" and", " on"]), DONE)
NASTY = "a\r\nb\x00\u202e{{x}} %s </textarea><img src=x onerror=alert(1)> 🦊 "


class Desk:
    """A workbench whose words to the browser are kept, and a server that plays."""

    def __init__(self, player: Player, notebook: Notebook, **given: Any) -> None:
        self.player = player
        self.bench = Workbench(notebook=notebook, **given)
        self.said: list[dict[str, Any]] = []
        self.bench.send = lambda content, buffers=None: self.said.append(content)  # type: ignore[method-assign]

    def ask(self, **intent: Any) -> None:
        self.bench._received(self.bench, intent, [])

    def settle(self) -> None:
        end = time.monotonic() + 10
        while (
            any(run.outcome == "open" for run in self.bench.session.runs.values())
            or self.bench._notebook.running
        ):
            assert time.monotonic() < end
            time.sleep(0.01)

    def words(self, kind: str) -> list[Any]:
        return [message[kind] for message in self.said if kind in message]

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.player.requests]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    players: list[Player] = []
    notebook = Notebook(make_view=lambda: None)  # type: ignore[arg-type,return-value]

    def make(*answers: Any, **given: Any) -> Desk:
        player = Player(
            list(answers), {"/models": whole({"data": [{"id": "m", "default": True}]})}
        ).__enter__()
        players.append(player)
        monkeypatch.setenv("ACS_API_BASE", player.base)
        monkeypatch.setenv("ACS_API_KEY", KEY)
        return Desk(player, notebook, **given)

    yield make
    notebook.close()
    for player in players:
        player.__exit__()


def test_the_form_speaks_the_wire_s_words() -> None:
    known = {field["name"]: field for field in fields()}
    assert tuple(known) == SHOWN
    assert set(SHOWN) <= set(CompletionRequest.__struct_fields__)
    assert all(field["help"] == HELP[name] for name, field in known.items())
    assert (known["seed"]["kind"], known["seed"]["high"]) == ("integer", str(2**63 - 1))
    assert (known["top_p"]["above"], known["top_p"]["high"]) == ("0.0", "1.0")
    assert {name: field["kind"] for name, field in known.items() if field["kind"] not in ("integer", "number")} == {
        "model": "text", "stop": "texts", "add_special_tokens": "boolean",
    }  # fmt: skip


def test_values_are_read_and_written_alike() -> None:
    values = {
        "max_tokens": 9,
        "temperature": 0.5,
        "stop": ["\n\n", "a\\b", "\r\t"],
        "add_special_tokens": False,
        "seed": 2**63 - 1,
    }
    assert read(written(values)) == values
    assert read({"temperature": " ", "stop": "\n\n"}) == {}
    assert field_of("top_k=0: expected -1 (off) or at least 1.") == "top_k"
    assert field_of("The server cannot be reached.") is None
    with pytest.raises(InvalidRequest, match="temperature='hot': a number is needed"):
        read({"temperature": "hot"})


def test_a_run_and_its_continuation(desk: Any) -> None:
    it = desk(PARIS, ON, max_tokens=20)
    it.ask(type="Run", prompt=NASTY, fields={"max_tokens": "7", "temperature": "0.5", "stop": "\\n"})
    it.settle()
    (first,) = it.bench.session.runs.values()
    sent = it.bodies[0]
    assert (sent["prompt"], sent["max_tokens"], sent["stop"], sent["model"]) == (NASTY, 7, ["\n"], "m")
    assert "logprobs" not in sent  # an emptied field is not sent
    it.ask(type="Continue", node=first.nodes[0], fields={"max_tokens": "3"})
    it.settle()
    assert it.bodies[1]["prompt"] == f"{NASTY} Paris"
    session = it.bench.session
    second = list(session.runs.values())[1]
    assert session.nodes[second.nodes[0]].parent == first.nodes[0]
    assert session.text_to(second.nodes[0]) == f"{NASTY} Paris and on"
    assert it.words("ran") == [True, True]
    assert it.words("refused") == []


@pytest.mark.parametrize(
    ("intent", "field", "words"),
    [
        ({"prompt": "Hi", "fields": {"top_k": "0"}}, "top_k", "top_k=0: expected -1 (off) or at least 1."),
        ({"prompt": "Hi", "fields": {"temperature": "hot"}}, "temperature", "a number is needed"),
        ({"prompt": "Hi", "fields": {"n": "16", "max_tokens": "9999"}}, None, "is above 32000"),
        ({"prompt": "a\ud800", "fields": {}}, "prompt", "lone surrogate (U+D800)"),
        ({"prompt": "Hi", "fields": {"best": "1"}}, None, "'best' is not a field"),
    ],
)
def test_what_is_wrong_is_said_at_the_field_and_nothing_is_sent(
    desk: Any, intent: dict[str, Any], field: str | None, words: str
) -> None:
    it = desk(PARIS)
    it.ask(type="Run", **intent)
    (refused,) = it.words("refused")
    assert refused["field"] == field
    assert words in refused["message"]
    assert "\n" not in refused["message"]
    assert it.bodies == []
    assert it.bench.session.runs == {}


def test_without_a_server_one_line_says_what_to_do(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    it = desk(PARIS)
    monkeypatch.delenv("ACS_API_KEY")
    it.ask(type="Run", prompt="Hi", fields={})
    assert "%acs local" in it.words("refused")[0]["message"]


def test_what_follows_token_ids_cannot_go_on_as_text(desk: Any) -> None:
    session = Session()
    session.apply(ev.opening("r", CompletionRequest(prompt=[1000, 1001], model="m")))
    session.apply([ev.TokensArrived("r.0", " right"), ev.RunClosed("r", "done")])
    it = desk(ON, session=session)
    it.ask(type="Continue", node="r.0", fields={"max_tokens": "3"})
    (refused,) = it.words("refused")
    assert "Its prompt was token ids, whose text is not known" in refused["message"]
    assert it.bodies == []
    with pytest.raises(InvalidRequest, match="session must be a Session, not int"):
        Workbench(5)  # type: ignore[arg-type]


def test_two_benches_on_one_session_stop_each_other_s_runs(desk: Any) -> None:
    it = desk(stream(*frames(["a", "b"], None), HANG))
    other = Desk(it.player, it.bench._notebook, session=it.bench.session)
    it.ask(type="Run", prompt="Hi", fields={})
    while not any(node.text == "ab" for node in it.bench.session.nodes.values()):
        time.sleep(0.01)
    other.ask(type="Cancel")
    it.settle()
    (run,) = it.bench.session.runs.values()
    assert (run.outcome, it.bench.session.nodes[run.nodes[0]].text) == ("stopped", "ab")
    assert other.bench.get_state()["snapshot"] == it.bench.get_state()["snapshot"]


def test_drafts_are_kept_and_never_overwritten(desk: Any) -> None:
    it = desk(PARIS)
    it.ask(type="Keep", prompt="one", fields={"n": "2"})
    it.ask(type="Keep", prompt="two", fields={})
    it.ask(type="Keep", prompt="one", fields={"n": "2"})
    assert it.bench.kept == [{"prompt": "one", "fields": {"n": "2"}}, {"prompt": "two", "fields": {}}]


def test_the_export_is_the_session_to_the_byte(desk: Any, tmp_path: Any) -> None:
    it = desk(PARIS)
    it.ask(type="Run", prompt=NASTY, fields={"max_tokens": "7"})
    it.settle()
    it.ask(type="Export")
    (file,) = it.words("export")
    assert file["name"].endswith(".jsonl")
    (tmp_path / "s.jsonl").write_text(file["text"], encoding="utf-8", newline="")
    read_back = Session.load(tmp_path / "s.jsonl")
    assert read_back.state() == it.bench.session.state()
    again = Desk(it.player, it.bench._notebook, session=read_back)
    (run,) = read_back.runs.values()
    again.ask(type="Continue", node=run.nodes[0], fields={})
    again.settle()
    assert it.bodies[1]["prompt"] == f"{NASTY} Paris"


def test_a_run_that_was_open_when_saved_is_interrupted_when_loaded(desk: Any, tmp_path: Any) -> None:
    it = desk(stream(*frames(["a", "b"], None), HANG))
    it.ask(type="Run", prompt="Hi", fields={})
    while not any(node.text == "ab" for node in it.bench.session.nodes.values()):
        time.sleep(0.01)
    it.bench.session.save(tmp_path / "s.jsonl")
    it.ask(type="Cancel")
    it.settle()
    (run,) = Session.load(tmp_path / "s.jsonl").runs.values()
    assert run.outcome == "interrupted"


def test_what_no_request_could_carry_is_told_when_it_is_made(desk: Any) -> None:
    with pytest.raises(InvalidRequest, match="Did you mean 'temperature'"):
        desk(PARIS, temprature=1)
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        desk(PARIS, prompt="\udfff")


def test_the_copy_holds_every_run(desk: Any, tmp_path: Any) -> None:
    it = desk(PARIS, ON)
    kept: dict[str, Any] = {}

    class Copy:
        def update(self, data: Any, raw: bool, metadata: Any) -> None:
            kept.update(data=data, metadata=metadata)

    it.bench._copy = Copy()
    for prompt in ("One <b>", "Two"):
        it.ask(type="Run", prompt=prompt, fields={"max_tokens": "5"})
        it.settle()
    until(lambda: kept["data"]["text/plain"] == "Two and on")  # copies are spaced
    assert "1 earlier in this output" in kept["data"]["text/html"]
    assert KEY not in json.dumps(kept)
    output = {"output_type": "display_data", "data": kept["data"], "metadata": kept["metadata"]}
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [{"outputs": [output]}], "metadata": {}}))
    assert [str(one.prompt) + one.text for one in load(tmp_path / "x.ipynb")] == [
        "One <b> Paris",
        "Two and on",
    ]
