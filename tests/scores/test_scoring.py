"""Scoring: what the requests ask, what the answers mean, and what is said when they do not say enough."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import (
    AsyncClient,
    Client,
    choose,
    distributions,
    errors,
    logprob,
    next_token,
    perplexity,
    score,
    score_async,
)
from tests.support.player import Player, whole
from tests.support.scored import KEY, answer, entry, played
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

WIRE = Path(__file__).parents[1] / "data" / "wire"
FOX = "The quick brown fox jumps over the lazy dog. 🦊"


def recorded(name: str) -> bytes:
    return (WIRE / f"{name}.response.json").read_bytes()


def test_a_recorded_answer_reads_as_a_score() -> None:
    with played(recorded("prompt_logprobs_5")) as server, Client(server.base, KEY) as client:
        one = score(FOX, client=client, top=5)
        sent: Any = server.requests[0].json
    assert sent == {"prompt": FOX, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 5, "stream": False}
    assert "".join(token.text for token in one.tokens) == FOX == one.text
    assert [token.text for token in one.tokens[-3:]] == ["", "", " 🦊"]
    assert one.ids[:3] == [None, 2365, 6354]
    assert (one.tokens[1].logprob, one.tokens[1].rank) == (-14.519076347351074, 13658)
    assert [each.text for each in one.tokens[1].top] == ["-", ",", "\n", "_", " and"]
    assert one.tokens[1].surprisal == pytest.approx(14.519076347351074 / math.log(2))
    assert one.tokens[0].logprob is None
    assert not one.start_token
    assert one.logprob == pytest.approx(math.fsum(t.logprob for t in one.tokens if t.logprob is not None))
    assert one.bits_per_byte == pytest.approx(-one.logprob / math.log(2) / len(FOX[3:].encode()))
    assert one.usage.total_tokens == 14
    assert list(one.to_frame().columns) == ["position", "id", "text", "start", "logprob", "surprisal", "rank"]
    assert one.to_frame()["start"].tolist() == [token.start for token in one.tokens]


def test_a_start_token_has_no_place_in_the_text() -> None:
    with (
        played(answer([None, entry("The", -3.0), entry(" fox", -2.0)])) as server,
        Client(server.base, KEY) as client,
    ):
        one = score("The fox", client=client)
    assert one.start_token
    assert [(t.position, t.start, t.text, t.logprob) for t in one.tokens] == [
        (0, 0, "The", -3.0),
        (1, 3, " fox", -2.0),
    ]


def test_an_engine_that_finds_a_text_too_long_gets_it_in_windows() -> None:
    """vLLM's own refusal has a code of its own; what it says of the model's length was not known before."""
    refusal = whole({"error": {"code": "vllm_context_length", "message": "too long"}}, "400 Bad Request")
    text = "".join(f" w{i:04}" for i in range(1500))  # 9,000 characters, in windows of 6,144
    begin = 1024 - 512 - 8  # the token at which the second one begins: its context and a little more
    first, rest = (
        [None, *(entry(f" w{i:04}", -1.0) for i in range(start + 1, stop))]
        for start, stop in ((0, 1024), (begin, 1500))
    )
    answers = [refusal, whole(json.loads(answer(first))), whole(json.loads(answer(rest)))]
    with (
        Player(answers, {"/v1/models": whole({"object": "list", "data": []})}) as server,
        Client(server.base, KEY) as client,
    ):
        one = score(text, client=client)
        sent: list[Any] = [request.json["prompt"] for request in server.requests]  # type: ignore[index]
    assert [len(one) for one in sent] == [9000, 6144, 9000 - 6 * begin]
    assert one.text == text
    assert one.windows


@pytest.mark.parametrize("lists", [[None], [[None, None]]], ids=["nothing", "nulls"])
def test_without_scores_there_is_no_number(lists: Any) -> None:
    with (
        played(answer(*lists)) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.NoPromptLogprobs, match="no prompt log-probabilities"),
    ):
        score("The fox", client=client)


def test_minus_infinity_fewer_entries_and_equal_texts() -> None:
    position = {
        "7": {"logprob": -9999.0, "rank": 40, "decoded_token": " fox"},
        "8": {"logprob": -0.1, "rank": 1, "decoded_token": " a"},
        "9": {"logprob": -0.2, "rank": 2, "decoded_token": " a"},
    }
    with played(answer([None, position])) as server, Client(server.base, KEY) as client:
        one = score("The fox", client=client, top=20)
    [token] = one.tokens[1:]
    assert (token.logprob, one.logprob, one.perplexity) == (-math.inf, -math.inf, math.inf)
    assert [(each.text, each.logprob) for each in token.top] == [(" a", -0.1), (" a", -0.2)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ([], None),
        (["a", ""], "empty"),
        (5, "must be a text"),
        ([1.5], "Text 0"),
        (["a", [1]], "one batch"),
        ([1, "a"], "one batch"),
    ],
)
def test_bad_texts_are_named(text: Any, word: str | None) -> None:
    with Player([]) as server, Client(server.base, KEY) as client:
        if word is None:
            assert score(text, client=client) == []
        else:
            with pytest.raises(errors.InvalidRequest, match=word):
                score(text, client=client)
        assert server.requests == []


def test_the_seam() -> None:
    body = answer([None, entry(" is", -1.0), entry(" Paris", -0.5)])
    with played(body) as server, Client(server.base, KEY) as client:
        clean = logprob(" Paris", given="It is", client=client)
        assert (clean.seam, clean.logprob, clean.per_token) == ("clean", -0.5, -0.5)
        assert clean.per_byte == pytest.approx(-0.5 / 6)
        near = logprob("ris", given="It is Pa", client=client)
        assert (near.seam, near.spans, near.logprob) == ("nearest", " Paris", -0.5)
        with pytest.raises(errors.InvalidRequest, match="' Paris' spans the seam"):
            logprob("ris", given="It is Pa", client=client, seam="refuse")
        with pytest.raises(errors.InvalidRequest, match="give a context"):
            logprob("It is Paris", client=client)


def test_candidates_are_ranked_as_asked() -> None:
    long = [None, entry(" b", -1.0), entry(" c", -1.0), entry(" d", -1.0)]
    short = [None, entry(" e", -2.0)]
    with played(answer(long, short)) as server, Client(server.base, KEY) as client:
        ask = {"context": "a", "candidates": [" b c d", " e"], "client": client}
        assert [one.text for one in choose(**ask)] == [" e", " b c d"]  # type: ignore[arg-type]
        assert [one.text for one in choose(**ask, by="token")] == [" b c d", " e"]  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="sum, token, byte"):
            choose(**ask, by="length")  # type: ignore[arg-type]


# -- against the local server ---------------------------------------------------------------------


@pytest.fixture
def scripted(scripted_server: Running) -> Iterator[Client]:
    with Client(scripted_server.base, scripted_server.key) as client:
        yield client


def test_batches_give_what_single_requests_give(scripted: Client, scripted_server: Running) -> None:
    texts = [f"Text number {i} of some" for i in range(7)]
    alone = [score(text, client=scripted, top=2) for text in texts]
    together = score(texts, client=scripted, top=2, batch=3)

    async def go() -> Any:
        async with AsyncClient(scripted_server.base, scripted_server.key) as client:
            return await score_async(texts, client=client, top=2, batch=2)

    for found in (together, asyncio.run(go())):
        assert [one.tokens for one in found] == [one.tokens for one in alone]
        assert [one.usage for one in found] == [one.usage for one in alone]
    frame = perplexity(texts, client=scripted)
    assert frame["perplexity"].tolist() == [one.perplexity for one in alone]


@pytest.mark.parametrize("kind", ["text", "ids"])
@pytest.mark.parametrize("context", [None, 20])
def test_a_long_text_is_read_in_windows(kind: str, context: int | None) -> None:
    with (
        serving("--scripted", "--context", "100", "--starts", "0") as server,
        Client(server.base, server.key) as client,
    ):
        text: Any = "".join(f" word{i % 37}" for i in range(400))
        if kind == "ids":
            text = [i % 50 for i in range(400)]
        one = score(text, client=client, context=context)
        assert one.windows
        assert [token.position for token in one.tokens] == list(range(len(one.tokens)))
        assert all(token.logprob is not None for token in one.tokens[1:])
        if kind == "text":
            assert one.text == text == "".join(token.text for token in one.tokens)
        else:
            assert one.ids == text
        assert one.usage.prompt_tokens > len(one.tokens)
        with pytest.raises(errors.InvalidRequest, match="below the 99 tokens"):
            score(text, client=client, context=99)


def test_scoring_is_what_generating_gives(smollm_server: Running) -> None:
    """Greedy text, token by token, and its score agree; sums add up over a clean seam."""
    with Client(smollm_server.base, smollm_server.key) as client:
        made = client.complete("The capital of France is", max_tokens=6, temperature=0, logprobs=1)
        told = logprob(made.text, given="The capital of France is", client=client)
        assert [token.text for token in told.tokens] == [token.text for token in made.tokens]
        for scored, generated in zip(told.tokens, made.tokens, strict=True):
            assert scored.logprob == pytest.approx(generated.logprob, abs=1e-4)
        context = score("The capital of France is", client=client)
        both = score("The capital of France is" + made.text, client=client)
        assert both.logprob == pytest.approx(context.logprob + told.logprob, abs=1e-4)


def test_the_local_model_scores_as_the_recorded_vllm_within_its_quantisation(smollm_server: Running) -> None:
    """The recorded values are those of the base model in sixteen bits; the embedded file has four (Q4_1), of the
    instruction-tuned model made from it. Rounding a weight to one of sixteen values in its block moves these logits by
    some tenths: over this text by up to 0.38 nats a token, 0.13 in the mean, with both signs, so that the sum of 51
    nats is off by 0.23. Tuning is part of that and cannot be told apart here. Ids are the same. A shift by one
    position would be off by nats.
    """
    [choice] = json.loads(recorded("prompt_logprobs_5"))["choices"]
    told = [next(iter(entries.items())) for entries in choice["prompt_logprobs"] if entries]
    with Client(smollm_server.base, smollm_server.key) as client:
        one = score(FOX, client=client)
    assert one.ids[1:] == [int(token) for token, _ in told]
    off = [token.logprob - each["logprob"] for token, (_, each) in zip(one.tokens[1:], told, strict=True)]
    assert max(map(abs, off)) < 0.6
    assert sum(map(abs, off)) / len(off) < 0.25
    assert one.logprob == pytest.approx(sum(each["logprob"] for _, each in told), abs=1.0)
    for token, (_, each) in zip(one.tokens[1:], told, strict=True):
        assert token.rank == pytest.approx(each["rank"], rel=0.3, abs=3)


def test_whole_distributions_of_the_real_model(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        found = distributions("The capital of France is", client=client)
        scored = score("The capital of France is", client=client, top=3)
    assert found.texts == [token.text for token in scored.tokens[1:]]
    for one, token in zip(found, scored.tokens[1:], strict=True):
        assert one.probabilities.sum() == pytest.approx(1, abs=1e-4)
        assert one.kl(one) == 0
        assert one.rank(token.id) == token.rank
        # The engine adds up in single precision; whole distributions are made to sum to 1, and are off by that.
        assert float(one.logprobs[token.id]) == pytest.approx(token.logprob, abs=5e-4)
        assert [each.text for each in one.top(3)] == [each.text for each in token.top[:3]]


def test_caps_are_refused_before_sending(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        cap = client.models()[0].capabilities.full_vocab_max_prompt_tokens
        assert cap is not None
        with pytest.raises(errors.InvalidRequest, match=f"at most {cap}"):
            distributions([1] * (cap + 1), client=client)


def test_what_follows_a_text_is_what_generating_says(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        made = client.complete("The capital of France is", max_tokens=1, temperature=0, logprobs=5)
        after = next_token("The capital of France is", client=client)
    told = {token.text: token.logprob for token in made.tokens[0].alternatives}
    found = {token.text: token.logprob for token in after.top(5)}
    assert list(found) == list(told)
    assert list(found.values()) == pytest.approx(list(told.values()), abs=5e-4)


def test_ids_of_a_completion(smollm_server: Running) -> None:
    """As token prompts the ids say what the text says."""
    with Client(smollm_server.base, smollm_server.key) as client:
        made = client.complete("The capital of France is", max_tokens=6, temperature=0, logprobs=0)
        ids = made.with_ids(client)
        assert (ids.seam, ids.differs, len(ids.text)) == (True, None, len(made.tokens))
        again = client.complete(ids.prompt, max_tokens=6, temperature=0)
        assert again.text == made.text
        assert ids.prompt + ids.text == [score_of.id for score_of in _all(client, made.prompt + made.text)]
        with pytest.raises(errors.InvalidRequest, match="choice=3"):
            made.with_ids(client, choice=3)
        with pytest.raises(errors.InvalidRequest, match="token ids already"):
            again.with_ids(client)


def _all(client: Client, text: str) -> Any:
    """Tokens of a text, the first one's id taken from where it follows another."""
    tokens = score(text, client=client).tokens
    [first] = score("\n" + text, client=client).tokens[1:2]
    return [first, *tokens[1:]]
