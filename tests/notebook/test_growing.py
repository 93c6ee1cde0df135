"""Branches over real HTTP: begun by intents, streamed into the same session, stopped singly, refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acs_jupyter import Client, Completion
from acs_jupyter.errors import BudgetRefused
from acs_jupyter.ledger import ledger, place
from acs_jupyter.log.intents import AnyIntent, Cancel, Edit, Fork, Locate, Resample
from acs_jupyter.log.session import Session
from acs_jupyter.notebook.options import CellOptions
from acs_jupyter.notebook.root import Asking, Notebook
from acs_jupyter.secret import Secret
from acs_jupyter.widgets.roads import seam_words
from tests.support.desks import until
from tests.support.player import DONE, HANG, Player, stream, whole
from tests.support.servers import Running

TWELVE = "#scripted tokens=12 alternatives=3\nOnce"
SLOW = "#scripted tokens=4000 rate=100 alternatives=2\nOnce"


def scored(text: str, finish: str | None = None) -> bytes:
    """A frame of one token with its alternatives."""
    logprobs = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{text: -0.5, "other": -1.0}]}
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": {**logprobs, "text_offset": [0]}}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode() + b"\n\n"


class Asked:
    """A view that keeps whom to ask; ``lines`` is what was told, ``ended`` counts what was written again."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stops = ""
        self.ended = 0

    def open(self, session: Session, handle: Any, asking: Asking, *, background: bool = False) -> None:
        self.session, self._asking = session, asking
        asking.ended = self._note

    def close(self) -> None:
        pass

    def doubted(self) -> None:
        pass

    def ask(self, intent: AnyIntent) -> None:
        self._asking.obey(intent, self._tell)

    def _tell(self, line: str, stops: str = "") -> None:
        self.stops = stops
        self.lines.append(line)

    def told(self) -> str:
        """The last line that says something."""
        until(lambda: any(self.lines))
        return [line for line in self.lines if line][-1]

    def branches(self, count: int, *, closed: bool = True) -> list[Completion]:
        """The branches, once there are as many and, if wanted, they have ended and been written."""
        until(lambda: len(self._runs()) == count and (not closed or self.ended == count))
        return [Completion(self.session, run) for run in self._runs()]

    def _runs(self) -> list[str]:
        return list(self.session.runs)[1:]

    def _note(self) -> None:
        self.ended += 1


Begin = Callable[..., tuple[Notebook, Asked, Completion]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """``begin(server, prompt, **fields)``: a notebook that has run a cell, its view, and what came."""
    open_books: list[Notebook] = []

    def make(server: Running, prompt: str, *, background: bool = False, **fields: Any) -> Any:
        view = Asked()
        book = Notebook(make_view=lambda: view, base_url=server.base, api_key=Secret(server.key))
        book.show_notes = False
        open_books.append(book)
        got = book.run(prompt, CellOptions(fields, background=background), lambda completion: None)
        return book, view, got

    yield make
    for book in open_books:
        book.close()


def test_a_branch_is_one_more_run_in_the_same_session(begin: Begin, scripted_server: Running) -> None:
    here = place.Here()
    here.cell = "[7]"
    with here.again():
        _, view, got = begin(scripted_server, TWELVE, max_tokens=20, seed=3, temperature=0.8)
    node, before = got.session.runs[got.run].nodes[0], got.text
    other = next(a.text for a in got.tokens[4].alternatives if a.text != got.tokens[4].text)
    view.ask(Fork(node, 4, other))
    (branch,) = view.branches(1)
    texts = [token.text for token in got.tokens]
    assert [t.text for t in branch.tokens[:5]] == [*texts[:4], other]
    assert len(branch.tokens) == 17
    assert branch.outcome == "done"
    assert branch.prompt == TWELVE + "".join(texts[:4]) + other
    assert (branch.request["seed"], branch.request["temperature"]) == (3, 0.8)
    assert branch.tokens[4].logprob == got.tokens[4].top[other]  # type: ignore[index]
    assert got.text == before
    assert "counted the tokens that were written" in seam_words(got.session, branch.run)
    view.ask(Resample(node, 4))
    view.ask(Edit(node, "".join(texts[:2]) + " Otherwise,"))
    _, again, edited = view.branches(3)
    assert again.prompt == TWELVE + "".join(texts[:4])
    assert again.request["seed"] == 4
    assert edited.tokens[2].text == " Otherwise,"
    assert not any(view.lines)
    assert ledger().store.rows("SELECT cell FROM entries") == [("[7]",)] * 4  # booked where they grew from
    with Client(scripted_server.base, scripted_server.key) as client:
        assert branch.replay(client).equal


def test_it_streams_beside_a_run_under_way_and_each_is_stopped_alone(
    begin: Begin, scripted_server: Running
) -> None:
    _, view, got = begin(scripted_server, SLOW, background=True, max_tokens=4000, logprobs=2)
    until(lambda: len(got.tokens) > 8)
    node = got.session.runs[got.run].nodes[0]
    for token in (3, 5):
        view.ask(Resample(node, token))
    first, second = view.branches(2, closed=False)
    until(lambda: len(first.tokens) > 10 and len(second.tokens) > 10)
    view.ask(Cancel(first.run))
    until(lambda: first.outcome == "stopped")
    assert (got.outcome, second.outcome) == ("open", "open")
    kept = len(first.tokens)
    assert kept > 10
    count = len(second.tokens)
    until(lambda: len(second.tokens) > count)
    view.ask(Cancel())
    until(lambda: got.outcome == second.outcome == "stopped")
    assert len(first.tokens) == kept


def test_what_cannot_be_begun_is_told_in_one_line_and_loses_nothing(
    begin: Begin, scripted_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, view, got = begin(scripted_server, TWELVE, max_tokens=12)
    node = got.session.runs[got.run].nodes[0]
    state = got.session.state()

    class Poor:
        def reserve(self, request: Any, run: str) -> Any:
            raise BudgetRefused("12 tokens are asked for and 3 are left this month.")

    assert book._pump is not None
    monkeypatch.setattr(book._pump.client, "meter", Poor())
    for intent in (Fork(node, 1, "x"), Fork(node, 1, "x", exact=True)):
        view.lines.clear()
        view.ask(intent)
        assert view.told().startswith(("No branch was begun. budget_refused: 12", "Asking for"))
        until(lambda: "3 are left this month" in view.lines[-1])
    monkeypatch.setattr(book._pump.client, "meter", None)
    for intent, words in (
        (Fork(node, 99, "x"), "there is no token 99"),
        (Fork("gone.0", 0, "x"), "run its cell again"),
        (Fork(node, 1, "\ud800"), "lone surrogate"),
    ):
        view.lines.clear()
        view.ask(intent)
        assert words in view.told()
        assert "\n" not in view.told()
    assert got.session.state() == state


def test_a_server_that_is_gone_leaves_a_branch_that_says_so(begin: Begin, scripted_server: Running) -> None:
    book, view, got = begin(scripted_server, TWELVE, max_tokens=12)
    book.base_url = "http://127.0.0.1:9"
    book._connected().client.retries = 0
    node = got.session.runs[got.run].nodes[0]
    view.ask(Fork(node, 1, " x", exact=True))
    until(lambda: "No branch was begun. connection_failed" in view.lines[-1], 30)
    view.ask(Resample(node, 2))
    (branch,) = view.branches(1, closed=False)
    until(lambda: branch.outcome == "failed", 30)
    assert branch.error["code"] == "connection_failed"  # type: ignore[index]
    assert branch.text == "".join(token.text for token in got.tokens[:2])
    assert len(got.tokens) == 12


def test_exact_sends_the_ids_that_the_server_read(begin: Begin, scripted_server: Running) -> None:
    _, view, got = begin(scripted_server, TWELVE, max_tokens=12, seed=5)
    node = got.session.runs[got.run].nodes[0]
    view.ask(Fork(node, 3, " water", exact=True))
    (branch,) = view.branches(1)
    origin = branch.origin
    assert origin is not None
    assert (origin.exact, origin.seam) == (True, None)
    assert 12 < origin.cost < 120
    assert branch.prompt[0] == 0  # the start token
    assert branch.usage.prompt_tokens == len(branch.prompt) == got.usage.prompt_tokens + 4
    assert "by token ids" in seam_words(got.session, branch.run)
    assert view.lines[-1] == ""
    # The same ids as the text's own: the text branch is read alike, so it says the same under the same seed.
    view.ask(Fork(node, 3, " water"))
    _, text = view.branches(2)
    assert text.usage.prompt_tokens == branch.usage.prompt_tokens


@pytest.mark.parametrize("everything", [False, True])
def test_the_question_for_ids_is_stopped_like_a_run(begin: Begin, everything: bool) -> None:
    answer = stream(scored(" a"), scored(" b"), scored(" c", "length"), DONE)
    with Player([answer, [HANG]], {"/models": whole({"data": [{"id": "m", "default": True}]})}) as player:
        _, view, got = begin(Running(player.base, "acs-bm-testtest-key", None, []), "Once", max_tokens=3)  # type: ignore[arg-type]
        node = got.session.runs[got.run].nodes[0]
        view.ask(Fork(node, 1, "other", exact=True))
        until(lambda: len(player.requests) == 2)
        assert view.stops
        assert view.lines[-1].startswith("Asking for the token ids")
        view.ask(Cancel(None if everything else view.stops))
        until(lambda: view.lines[-1] == "No branch was begun. It was stopped.")
        assert view.stops == ""
        assert list(got.session.runs) == [got.run]


def test_of_two_questions_the_one_that_goes_on_keeps_its_line_and_its_stop(begin: Begin) -> None:
    answer = stream(scored(" a"), scored(" b"), scored(" c", "length"), DONE)
    with Player([answer, [HANG]], {"/models": whole({"data": [{"id": "m", "default": True}]})}) as player:
        _, view, got = begin(Running(player.base, "acs-bm-testtest-key", None, []), "Once", max_tokens=3)  # type: ignore[arg-type]
        node = got.session.runs[got.run].nodes[0]
        view.ask(Fork(node, 1, "other", exact=True))
        first = view.stops
        view.ask(Fork(node, 2, "other", exact=True))
        until(lambda: len(player.requests) == 3)
        second = view.stops
        assert first
        assert second not in ("", first)
        view.ask(Resample(node, 99))  # refused at once
        assert view.stops == second
        assert view.lines[-1].endswith("Asking for the token ids of the text …")
        assert view.lines[-1].startswith("No branch was begun.")
        view.ask(Cancel(second))
        until(lambda: view.stops == first)
        assert view.lines[-1] == (
            "No branch was begun. It was stopped. Asking for the token ids of the text …"
        )
        view.ask(Cancel(first))
        until(lambda: view.lines[-1] == "No branch was begun. It was stopped.")
        assert view.stops == ""


def test_a_text_branch_that_the_server_reads_otherwise_says_so(
    begin: Begin, scripted_server: Running
) -> None:
    _, view, got = begin(scripted_server, '#scripted say=" one two"\nOnce', max_tokens=12)
    node = got.session.runs[got.run].nodes[0]
    got.session.nodes[node].top[1]["some"] = -2.0  # " one" + "some" is one word to this tokenizer
    view.ask(Fork(node, 1, "some"))
    (branch,) = view.branches(1)
    read = branch.usage.prompt_tokens
    words = f"read {read} tokens where {read + 1} were written"
    assert seam_words(got.session, branch.run).endswith(words)
    view.ask(Locate(got.session.runs[branch.run].nodes[0]))
    until(lambda: seam_words(got.session, branch.run).endswith(f"{words}, first at token 1"))
    assert branch.origin is not None
    assert branch.origin.cost == read + 1
    until(lambda: view.ended == 2)
    view.ended = 1
    view.ask(Fork(node, 1, "some", exact=True))
    _, exact = view.branches(2)
    assert exact.usage.prompt_tokens == read + 1


def test_exact_with_a_real_tokenizer(begin: Begin, smollm_server: Running) -> None:
    _, view, got = begin(smollm_server, "The capital of France is", max_tokens=6, temperature=0.0)
    node = got.session.runs[got.run].nodes[0]
    view.ask(Fork(node, 0, " the", exact=True))
    (branch,) = view.branches(1)
    assert branch.origin is not None
    assert branch.origin.exact
    assert branch.origin.seam is None
    assert branch.prompt[-1] == 260  # " the"
    assert branch.usage.prompt_tokens == got.usage.prompt_tokens + 1
    view.ask(Fork(node, 0, " the"))
    _, text = view.branches(2)
    assert text.text == branch.text
    assert "counted the tokens that were written" in seam_words(got.session, text.run)


def test_a_branch_counts_against_the_budget_of_its_cell(scripted_server: Running) -> None:
    view = Asked()
    book = Notebook(
        make_view=lambda: view, base_url=scripted_server.base, api_key=Secret(scripted_server.key)
    )
    book.show_notes = False
    try:
        got = book.run(TWELVE, CellOptions({"max_tokens": 12}, budget=5000), lambda completion: None)
        node = got.session.runs[got.run].nodes[0]
        view.ask(Resample(node, 1))
        [branch] = view.branches(1)
        view.ask(Resample(node, 2, exact=True))  # with a request for the ids
        *_, exact = view.branches(2)
        origin = exact.session.nodes[exact.session.runs[exact.run].nodes[0]].origin
        assert origin is not None
        spent = sum(one.usage.total_tokens for one in (got, branch, exact)) + (origin.cost or 0)
        row = "SELECT name, used, held FROM accounts WHERE kind = 'cell'"
        until(lambda: ledger().store.rows(row)[0][2] == 0)
        [(name, used, _)] = ledger().store.rows(row)
        assert used == spent
        ledger().scope("cell", name, used + 5)
        view.ask(Resample(node, 1))
        until(lambda: "--budget of this cell leaves 5 of" in view.lines[-1])
        assert len(got.session.runs) == 3
    finally:
        book.close()
