"""What a user reads: tokens in their units, records in every state, frames."""

from __future__ import annotations

import math
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter

from acs_jupyter import Completion, Session
from acs_jupyter.checks import build_request
from acs_jupyter.completion import Token
from acs_jupyter.keeping.export import _token_rows as export_rows
from acs_jupyter.log import events
from acs_jupyter.looms.frames import token_frame
from acs_jupyter.looms.query import parse
from tests import make_golden as golden

LOG_HALF = math.log(0.5)


def test_a_token_s_units() -> None:
    token = Token(0, " Paris", LOG_HALF, {" the": math.log(0.25), " Paris": LOG_HALF, " a": math.log(0.125)})
    assert token.probability == pytest.approx(0.5)
    assert token.surprisal == pytest.approx(1.0)
    assert token.rank == 1
    assert token.other == pytest.approx(0.125)
    assert [a.text for a in token.alternatives] == [" Paris", " the", " a"]
    assert token.alternatives[1].probability == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("asked", "top", "rank"),
    [
        (2, {"z": -4.0, "a": -0.7, "b": -1.2}, None),  # one more than asked: it is there for being sampled
        (3, {"z": -4.0, "a": -0.7, "b": -1.2}, 3),
        (2, {"a": -0.7, "b": -1.2}, None),
        (2, {"z": -4.0, "a": -0.7, "b": -5.0}, 2),
        (1, {"z": -4.0, "a": -4.0}, 1),  # as likely as the likeliest
        (0, {"z": -4.0}, None),
        (None, {"z": -4.0, "a": -0.7, "b": -1.2}, None),
        (None, {"z": -4.0, "a": -0.7, "b": -5.0}, 2),
    ],
)
def test_the_rank_of_a_token_outside_the_returned_is_not_known(
    asked: int | None, top: dict[str, float], rank: int | None
) -> None:
    assert Token(0, "z", -4.0, top, asked=asked).rank == rank


def test_frames_and_searches_do_not_state_a_rank_that_is_not_known() -> None:
    session = Session()
    tops = ({"a": -0.7, "b": -1.2}, {"z": -4.0, "a": -0.7, "b": -1.2})
    session.apply(
        [events.RunOpened("r", {"prompt": "P", "logprobs": 2}), events.NodeOpened("n", "r", None, 0)]
    )
    session.apply(
        [events.TokensArrived("n", "az", ("a", "z"), (-0.7, -4.0), tops), events.RunClosed("r", "done")]
    )
    node = session.nodes["n"]
    completion = Completion(session, "r")
    for frame in (completion.to_frame(), token_frame(session, ["n"])):
        assert frame["rank"].dtype == "Int64"
        assert frame["rank"].isna().tolist() == [False, True]
        assert frame["rank"][0] == 1
    assert [t.rank for t in completion.tokens] == [1, None]
    assert [row["rank"] for row in export_rows(1, completion.choices[0])] == [1, None]
    assert not parse("rank == 3")(session, node)
    assert parse("rank == none")(session, node)


def test_a_token_that_nothing_is_known_of() -> None:
    token = Token(0, "z")
    assert (token.probability, token.surprisal, token.rank, token.other, token.alternatives) == (
        None,
    ) * 4 + ([],)


def test_zero_probability_is_not_a_crash() -> None:
    token = Token(0, "z", -9999.0, {"z": -9999.0})
    assert token.probability == 0.0
    assert token.other == 1.0


def completion_of(name: str) -> Completion:
    return Completion(golden.session_of(golden.events_of(name)), golden.RUN)


def test_a_recorded_stream_reads_as_a_completion() -> None:
    got = completion_of("stream_continuous_logprobs_5")
    assert len(got.tokens) == 64
    assert "".join(token.text for token in got.tokens) == got.text
    assert got.usage.completion_tokens == 64
    assert got.usage_source == "usage"
    assert got.choices[0].logprob == pytest.approx(sum(t.logprob or 0 for t in got.tokens))
    assert all(5 <= len(token.alternatives) <= 6 for token in got.tokens)
    frame = got.to_frame()
    assert list(frame["token"]) == [token.text for token in got.tokens]
    assert frame["surprisal"].iloc[0] == pytest.approx(got.tokens[0].surprisal)
    assert frame.attrs["completion_tokens"] == 64


def test_batches_keep_their_prompts() -> None:
    got = completion_of("stream_batch_n")
    assert [choice.index for choice in got.choices] == list(range(6))
    assert [choice.prompt for choice in got.choices] == ["Roses are red,"] * 3 + ["A haiku:"] * 3
    assert len(got.to_frame()["choice"].unique()) == 6


def test_text_alone_has_no_tokens_and_a_row_a_choice() -> None:
    got = completion_of("stream_plain")
    assert got.text
    assert got.tokens == []
    assert got.choices[0].logprob is None
    assert list(got.to_frame().columns)[:3] == ["choice", "prompt", "text"]


def test_a_scored_prompt_reads_token_by_token() -> None:
    (choice,) = completion_of("prompt_logprobs_5").choices
    first = choice.prompt_tokens[0]
    assert (first.position, first.id, first.text, first.rank) == (1, 2365, " quick", 13658)
    assert first.logprob == pytest.approx(-14.519, abs=1e-3)
    assert [a.text for a in first.alternatives] == ["-", ",", "\n", "_", " and"]
    assert choice.prompt.endswith("".join(token.text for token in choice.prompt_tokens)[-20:])
    assert completion_of("plain").choices[0].prompt_tokens == []


def test_an_echoed_prompt_counts_once() -> None:
    got = completion_of("echo")
    node = got.session.runs[got.run].nodes[0]
    assert got.text.startswith(got.prompt)
    assert got.session.text_to(node) == got.text


def test_a_refused_request_is_a_record_too() -> None:
    got = completion_of("error_context")
    assert (got.text, got.tokens, got.outcome) == ("", [], "failed")
    assert got.error is not None
    assert "max_model_len" in got.error["message"]
    assert got.usage.total_tokens == 0
    assert len(got.to_frame()) == 1
    assert "failed" in repr(got)


def test_text_is_what_it_prints_as() -> None:
    got = completion_of("stream_emoji")
    assert f"{got}" == str(got) == got.text
    assert f"{got:>5.3}" == f"{got.text:>5.3}"


def test_shown_in_a_notebook_it_is_its_text_and_a_static_view() -> None:
    got = completion_of("stream_emoji")
    shown, _ = DisplayFormatter().format(got)
    assert shown["text/plain"] == got.text
    assert "<script" not in shown["text/html"]
    assert "title=" in shown["text/html"]


def test_a_fork_continues_or_branches() -> None:
    session = golden.session_of(golden.events_of("stream_continuous_logprobs_5"))
    node = session.runs[golden.RUN].nodes[0]
    tokens = session.nodes[node].tokens
    assert session.fork(node).request.prompt == "The old lighthouse keeper" + "".join(tokens)
    branch = session.fork(node, token=2, replacement=" final", temperature=0.5)
    assert branch.request.prompt == "The old lighthouse keeper" + "".join(tokens[:2]) + " final"
    assert branch.request.temperature == 0.5
    assert branch.request.logprobs == 5
    assert branch.parents == [session.nodes[node].parent]
    with pytest.raises(IndexError, match="64 tokens"):
        session.fork(node, token=64)


def test_a_branch_begins_as_a_copy_and_leaves_the_old_one_alone() -> None:
    session = golden.session_of(golden.events_of("stream_continuous_logprobs_5"))
    node = session.runs[golden.RUN].nodes[0]
    before = session.state()["nodes"][node]
    branch = session.fork(node, token=2, replacement=" final")
    session.apply(events.opening("b", branch.request, parents=branch.parents, origin=branch.origin))
    session.apply([events.TokensArrived("b.0", " word", (" word",), (-1.0,), (None,))])
    new = session.nodes["b.0"]
    assert new.tokens == [*before["tokens"][:2], " final", " word"]
    assert new.kept == 3
    assert new.logprobs[2] == before["top"][2][" final"]
    assert session.text_to("b.0") == "The old lighthouse keeper" + "".join(new.tokens)
    assert session.state()["nodes"][node] == before
    parent = session.nodes[new.parent or ""]
    assert parent.children == [node, "b.0"]


def test_text_without_tokens_is_edited_and_goes_on() -> None:
    session = golden.session_of(golden.events_of("stream_plain"))
    node = session.runs[golden.RUN].nodes[0]
    prompt = session.text_to(session.nodes[node].parent or "")
    for fork, text in (
        (session.fork(node), session.nodes[node].text),
        (session.edit(node, " else"), " else"),
    ):
        assert fork.request.prompt == prompt + text
        session.apply(events.opening(text[:3], fork.request, parents=fork.parents, origin=fork.origin))
        assert session.nodes[f"{text[:3]}.0"].text == text
        assert session.nodes[f"{text[:3]}.0"].tokens == []


def test_an_echoed_prompt_is_not_sent_twice() -> None:
    session = golden.session_of(golden.events_of("echo_logprobs_2"))
    node = session.runs[golden.RUN].nodes[0]
    assert session.fork(node).request.prompt == session.nodes[node].text
    assert session.fork(node).request.echo is False


def test_a_prompt_of_ids_has_no_text_to_continue() -> None:
    session = golden.session_of(golden.events_of("tokens_one"))
    with pytest.raises(ValueError, match="token ids"):
        session.fork(session.runs[golden.RUN].nodes[0])


def test_files_that_are_no_sessions(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "s.jsonl"
    for content, words in (
        ("", "not a saved"),
        ("[]\n", "not a saved"),
        ('{"format":"acs-session","version":9}\n', "9"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=words):
            Session.load(path)
    session = Session()
    session.apply(events.opening("r", build_request({"prompt": "x"})))
    session.save(path)
    path.write_text(path.read_text() + '[1.0,{"type":"Nonsense"}]\n')
    with pytest.raises(ValueError, match="line 5"):
        Session.load(path)


class Busy(list[str]):
    """Parts of a text, to which another thread adds one whenever somebody looks at or changes several."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice):
            self.append("+")
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.append("+")
        super().__setitem__(key, value)


def test_a_text_that_is_read_while_it_is_written_loses_nothing() -> None:
    session = Session()
    session.apply(events.opening("r", build_request({"prompt": "x"})))
    node = session.nodes["r.0"]
    node.parts = Busy(["a", "b"])
    for count in range(3):
        assert node.text == "ab" + "+" * count


def test_a_copy_of_a_session_is_of_its_moment() -> None:
    session = golden.session_of(golden.branch_events("stream_continuous_logprobs_5"))
    now = session.copy()
    before = now.state()
    assert before == session.state()
    session.apply([events.TokensArrived("b.0", " more", (" more",), (-1.0,), (None,))])
    assert now.state() == before != session.state()
