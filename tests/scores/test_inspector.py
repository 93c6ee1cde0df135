"""The inspector: what a window is told, which distributions it takes in, and what it refuses."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from acs_jupyter import Client, Distributions, Inspector, errors, score
from acs_jupyter.completion import Alternative
from acs_jupyter.scores.inspected import TEMPERATURES, of_score, whole_rows
from acs_jupyter.scores.values import Score, ScoredToken
from acs_jupyter.scores.vocabulary import Vocabulary
from acs_jupyter.wire import Usage
from tests.support.html_texts import Texts
from tests.support.scored import answer, entry, played

if TYPE_CHECKING:
    from tests.support.servers import Running

PARIS = "The capital of France is Paris."
HOSTILE = "<script>alert(1)</script>\u202eEVIL"


def made(*tokens: ScoredToken, model: str = "m", start_token: bool = False) -> Score:
    return Score("".join(t.text for t in tokens), list(tokens), model, start_token, Usage(1, 1, 2))


def matrix(rows: list[list[float]], ids: list[int], first: int = 1, model: str = "m") -> Distributions:
    words = Vocabulary.of(["a", "b", "c", "d"])
    return Distributions(np.log(np.array(rows, np.float32)), ids, first=first, vocabulary=words, model=model)


def test_a_window_is_told_what_the_score_knows() -> None:
    one = made(
        ScoredToken(0, "a", 0),
        ScoredToken(1, "b", 1, 1, -math.inf, 40, (Alternative("c", -0.25), Alternative("d", -2.0))),
    )
    told = of_score(one, 2).to_browser()
    assert told["tokens"] == [
        ["a", None, None, None, []], ["b", 1, -9999.0, 40, [["c", -0.25], ["d", -2.0]]],
    ]  # fmt: skip
    assert told["statistics"] == {
        "tokens": 2, "scored": 1, "bytes": 1, "logprob": -9999.0, "perplexity": None, "bits_per_byte": None,
    }  # fmt: skip
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_whole_distribution_in_few_bytes_is_exact_where_it_is_told() -> None:
    found = matrix([[0.5, 0.3, 0.15, 0.05]], [3])[1]
    told = whole_rows(found)
    assert [row[1] for row in told["rows"]] == ["a", "b", "c", "d"]
    assert told["own"] == [3, "d", pytest.approx(math.log(0.05), abs=1e-4), 4]
    for temperature, total in zip(TEMPERATURES, told["sums"], strict=True):
        by_hand = math.log(sum(p ** (1 / temperature) for p in (0.5, 0.3, 0.15, 0.05)))
        assert total == pytest.approx(by_hand, abs=1e-3)


def test_distributions_are_taken_in_as_far_as_the_tokens_are_the_same() -> None:
    rows = [[0.25] * 4] * 3
    tokens = (
        ScoredToken(0, "a", 0),
        *(ScoredToken(i, t, i, i, -1.0, 1) for i, t in [(1, "b"), (2, "c"), (3, "d")]),
    )
    inspected = of_score(made(*tokens), 0)
    inspected.learn(3, matrix(rows, [0, 2, 3]))  # the second token was read as another one
    assert sorted(inspected.known) == [2, 3]
    assert inspected.known[2].own == 2
    assert inspected.ranks_of("b") == [None, None, 1, 1]
    with pytest.raises(errors.InvalidRequest, match="not one token"):
        inspected.ranks_of("bc")
    with pytest.raises(errors.InvalidRequest, match="read in other tokens: its last one is 'a'"):
        inspected.learn(1, matrix(rows[:1], [0]))
    with pytest.raises(errors.InvalidRequest, match="other answered, the text is scored by m"):
        inspected.learn(1, matrix(rows[:1], [1], model="other"))


def test_prefix_and_cost() -> None:
    ids = tuple(ScoredToken(i, t, i, 10 + i, -1.0, 1) for i, t in enumerate("abc"))
    assert of_score(made(*ids), 0).prefix(1) == [10, 11]
    started = of_score(made(*ids, start_token=True), 0)
    assert (started.prefix(1), started.cost(1)) == ("ab", 4)  # start token, a, b, and one generated


def test_the_static_view_is_inert_and_holds_the_text() -> None:
    top = (Alternative("<img src=x onerror=alert(1)>", -0.5),)
    view = Inspector(made(ScoredToken(0, "a ", 0), ScoredToken(1, HOSTILE, 2, 5, -7.0, 90, top)))
    plain = view.plain()
    parsed = Texts()
    parsed.feed(plain["text/html"])
    assert "<script>alert(1)</script>⟨U+202E⟩EVIL" in parsed.text
    assert set(parsed.tags) <= {"style", "div", "pre", "u", "span", "i"}
    assert view.line in parsed.text
    assert plain["text/plain"].startswith("a " + HOSTILE)
    assert view.line == repr(view).removeprefix("Inspector(").removesuffix(")")
    view.close()


def test_what_cannot_be_inspected_is_named() -> None:
    for wrong in (5, ["a"], None):
        with pytest.raises(errors.InvalidRequest, match="takes one text"):
            Inspector(wrong)  # type: ignore[arg-type]
    with played(answer([None, entry(" fox", -2.0)])) as server, Client(server.base, "k" * 20) as client:
        view = Inspector("The fox", client=client, top=0)
        with pytest.raises(errors.InvalidRequest, match="nothing in front"):
            view.distribution(0)
        with pytest.raises(errors.InvalidRequest, match="from 0 to 1"):
            view.distribution(2)
        assert sum("/completions" in request.line for request in server.requests) == 1
        view.close()


def test_on_the_real_model_the_whole_agrees_with_the_score(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        view = Inspector(PARIS, client=client)
        assert view.score.text == PARIS
        at = next(token for token in view.score.tokens if token.text == " Paris")
        found = view.distribution(at.position)
        assert found.own == at.id
        assert at.logprob == pytest.approx(float(found.logprobs[at.id]), abs=5e-4)
        told = json.loads(view.whole)
        assert sum(one is not None for one in told["entropy"]) == at.position  # all before it but the first
        frame = view.to_frame()
        assert frame["entropy"].notna().tolist() == [0 < i <= at.position for i in range(len(frame))]
        assert frame["entropy"][at.position] == found.entropy
        spent = []
        client.complete = lambda *a, **k: spent.append(1)  # type: ignore[method-assign, assignment]
        assert view.distribution(at.position - 1).position == at.position - 1
        assert spent == []
        view.find(" the")
        ranks = json.loads(view.found)["ranks"]
        assert ranks[at.position] == view.distribution(at.position).of(" the").rank
        assert ranks[0] is None
        assert ranks[-1] is None
        view.find("no such token")
        assert "not one token of the vocabulary" in json.loads(view.found)["refused"]
        view.close()


def test_a_completion_is_inspected_without_a_request(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        made_ = client.complete("The capital of France is", max_tokens=4, temperature=0, logprobs=5)
        view = Inspector(made_, client=client)
        assert view.score.logprobs == [token.logprob for token in made_.tokens]
        found = view.distribution(1)
        assert found.of(made_.tokens[1].text).logprob == pytest.approx(made_.tokens[1].logprob, abs=5e-4)
        assert view.distribution(0).top(1)[0].text == " Paris"
        view.close()
        bare = client.complete("The capital", max_tokens=2, temperature=0)
        with pytest.raises(errors.InvalidRequest, match="logprobs=5"):
            Inspector(bare)


def test_beyond_the_model_s_cap_nothing_is_asked(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        cap = client.models()[0].capabilities.full_vocab_max_prompt_tokens
        assert cap is not None
        one = score(" word" * (cap + 20), client=client)
        view = Inspector(one, client=client)
        with pytest.raises(errors.InvalidRequest, match="at most"):
            view.distribution(len(one) - 1)
        view.close()
