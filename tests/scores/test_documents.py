"""Documents scored through a file: what scoring says, resumed, budgeted, in windows, and refused early."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import Client, Rollout, Surgery, errors, perplexity, score
from acs_jupyter.scores.documents import scored
from acs_jupyter.scores.windows import pieces
from tests.support.player import Player, whole
from tests.support.scored import KEY, answer
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = [f"Text number {i} of some, with a word{i % 3} at its end" for i in range(30)]
QUIET: dict[str, Any] = {"progress": False, "starts": 0}


@pytest.fixture
def client(scripted_server: Running) -> Iterator[Client]:
    with Client(scripted_server.base, scripted_server.key) as made:
        yield made


def test_a_frame_of_documents_is_what_scoring_says(client: Client, tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"text": TEXTS, "author": [f"a{i}" for i in range(30)]}, index=range(100, 130))
    found = perplexity(frame, into=tmp_path / "x.acs.db", client=client, **QUIET)
    alone = score(TEXTS, client=client)
    assert found.index.tolist() == frame.index.tolist()
    assert found["author"].tolist() == frame["author"].tolist()
    for name in ("logprob", "perplexity", "bits_per_byte", "bytes"):
        assert found[name].tolist() == [getattr(one, name) for one in alone]
    assert found["tokens"].tolist() == [one.scored for one in alone]
    assert found["billed"].tolist() == [one.usage.total_tokens for one in alone]
    assert found["error"].isna().all()
    assert (found["windows"] == 1).all()
    before = Rollout(tmp_path / "x.acs.db").stats.tokens
    assert found.attrs["billed"] == before
    assert perplexity(frame, into=tmp_path / "x.acs.db", client=client, **QUIET).equals(found)
    assert Rollout(tmp_path / "x.acs.db").stats.tokens == before  # nothing was paid twice
    here = perplexity(frame, client=client)
    assert here.columns.tolist() == ["author", "tokens", "logprob", "perplexity", "bits_per_byte"]
    assert here["logprob"].tolist() == found["logprob"].tolist()
    with pytest.raises(errors.InvalidRequest, match=r"no column 'prose'.*text, author"):
        perplexity(frame, into=tmp_path / "y.acs.db", column="prose", client=client)


def test_a_budget_stops_it_and_the_same_call_goes_on(client: Client, tmp_path: Path) -> None:
    into = tmp_path / "x.acs.db"
    part = perplexity(TEXTS, into=into, client=client, budget=400, **QUIET)
    assert 0 < part["error"].isna().sum() < 30
    assert set(part["error"].dropna()) == {"not scored yet"}
    assert part.attrs["billed"] <= 400
    assert part.attrs["left"] == part["error"].notna().sum()
    assert part.loc[part["error"].notna(), "perplexity"].isna().all()
    whole_frame = perplexity(TEXTS, into=into, client=client, **QUIET)
    assert whole_frame["error"].isna().all()
    known = part["error"].isna()
    assert whole_frame.loc[known, "logprob"].tolist() == part.loc[known, "logprob"].tolist()


def test_long_documents_are_read_in_windows_and_too_long_ones_in_smaller(tmp_path: Path) -> None:
    long = "".join(f" word{i % 37}" for i in range(300))
    dense = " ".join("abcdefghij"[i % 10] for i in range(240))  # more tokens than three characters each
    with serving("--scripted", "--context", "100", "--starts", "0") as server:
        client = Client(server.base, server.key)
        found = scored(["short text", long, dense], tmp_path / "x.acs.db", client=client, context=10, **QUIET)
        assert [one.error for one in found] == [None] * 3
        assert (tmp_path / "x-2.acs.db").exists()
        for text, one in zip(["short text", long, dense], found, strict=True):
            assert one.score is not None
            assert "".join(token.text for token in one.score.tokens) == text
            assert all(token.logprob is not None for token in one.score.tokens[1:])
            assert [token.start for token in one.score.tokens][:2] == [0, len(one.score.tokens[0].text)]
        assert found[1].score is not None
        assert len(found[1].score.windows) > 1
        by_walking = score(long, client=client, context=10)
        assert [t.text for t in by_walking.tokens] == [t.text for t in found[1].score.tokens]
        again = scored(["short text", long, dense], tmp_path / "x.acs.db", client=client, context=10, **QUIET)
        assert again == found
        client.close()


def test_windows_cover_a_text() -> None:
    assert pieces(10, 20, 5) == [(0, 10)]
    for length in (21, 35, 36, 50, 51):
        found = pieces(length, 20, 5)
        assert (found[0][0], found[-1][1]) == (0, length)
        assert all(end - begin <= 20 for begin, end in found)
        assert all(later[0] == before[1] - 5 for before, later in pairwise(found))


def test_a_server_that_cannot_score_is_left_after_its_first_answers(tmp_path: Path) -> None:
    body = json.loads(answer(None))
    with (
        Player([whole(body)], {"/v1/models": whole({"object": "list", "data": []})}) as server,
        Client(server.base, KEY, model="m") as client,
        pytest.raises(errors.NoPromptLogprobs, match="cannot score texts"),
    ):
        perplexity(
            [f"The {i}" for i in range(3000)], into=tmp_path / "x.acs.db", client=client, in_flight=2, **QUIET
        )
    assert len(server.requests) < 3000


@pytest.mark.parametrize(("texts", "word"), [(["a", ""], "Text 1 is empty"), (["a", 5], "Text 1 is no text")])
def test_bad_documents_are_named_before_anything_is_sent(texts: Any, word: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest, match=word):
        perplexity(texts, into=tmp_path / "x.acs.db", client=Client("http://127.0.0.1:9", "k"))
    assert list(tmp_path.iterdir()) == []


def test_surgery_goes_on_in_a_file(client: Client, tmp_path: Path) -> None:
    prompt = "Paris is in France. It costs 3.14 euros! It is old. The capital of France is"
    into = tmp_path / "cut.acs.db"
    plain = Surgery(prompt, " Paris").run(client=client)
    one = Surgery(prompt, " Paris")
    with pytest.raises(errors.InvalidRequest, match="no room for the first request"):
        one.run(into=into, budget=5, client=client, **QUIET)
    one.run(into=into, budget=110, client=client, in_flight=1, **QUIET)
    assert 0 < one.spent <= 110
    assert not one.done
    other = Surgery(prompt, " Paris").run(into=into, client=client, **QUIET)  # another kernel
    assert other.done
    assert other.effects == plain.effects
    assert other.spent == plain.spent
    spent = Rollout(into).stats.tokens
    assert Surgery(prompt, " Paris").run(into=into, client=client, **QUIET).effects == plain.effects
    assert Rollout(into).stats.tokens == spent == plain.spent
    with pytest.raises(errors.InvalidRequest, match="only with into="):
        one.run(in_flight=3, client=client)


def test_what_fails_in_surgery_is_named(tmp_path: Path) -> None:
    with (
        serving("--scripted", "--context", "50", "--starts", "0") as server,
        Client(server.base, server.key) as client,
        pytest.raises(errors.InvalidRequest, match=r"2 of 2 operations failed \(context_length_exceeded\)"),
    ):
        Surgery("word " * 80 + "end.", " x", [(0, 5)]).run(into=tmp_path / "x.acs.db", client=client, **QUIET)


def test_a_text_of_one_token_has_no_number(client: Client, tmp_path: Path) -> None:
    with Client(client.base_url, client._secret) as other:
        [one] = scored(["a"], tmp_path / "x.acs.db", client=other, add_special_tokens=False, **QUIET)
    assert one.score is not None
    assert math.isnan(one.score.perplexity)
