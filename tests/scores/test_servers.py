"""Servers that answer a scoring request badly: no number of another token is ever told as the text's."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from acs_jupyter import Client, choose, distribution, errors, logprob, score
from acs_jupyter.log.events import Scored
from acs_jupyter.scores.fitting import fitted
from acs_jupyter.wire import Usage
from tests.support.player import CLOSE, Player, head, whole
from tests.support.scored import KEY, answer, entry, played

FOX = ["The", " quick", " brown", " fox"]


def _any(value: Any) -> Any:
    """What no type checker would let through."""
    return value


def by_rank(own: str, value: float, rank: int, token: int) -> dict[str, Any]:
    """A position whose entries stand in the order of their ranks, the text's own token last."""
    others = {str(900 + i): {"logprob": -0.1 * i, "rank": i, "decoded_token": f" x{i}"} for i in range(1, 4)}
    return others | entry(own, value, rank, token)


def test_a_server_that_sorts_by_rank_is_refused_for_texts_and_read_for_ids() -> None:
    lists = [None, *(by_rank(text, -5.0 - i, 40, 10 + i) for i, text in enumerate(FOX[1:], 1))]
    with played(answer(lists)) as server, Client(server.base, KEY) as client:
        with pytest.raises(
            errors.NoPromptLogprobs, match=r"scored ' x1', which the text does not have there"
        ):
            score("".join(FOX), client=client, top=3)
        one = score([10, 11, 12, 13], client=client, top=3)
    assert one.logprobs == [None, -6.0, -7.0, -8.0]
    assert [token.id for token in one.tokens] == [10, 11, 12, 13]
    assert [each.text for each in one.tokens[1].top] == [" x1", " x2", " x3"]


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ([None, entry(" quick", -1.0, token=11)], "told 2 positions of 3 token ids"),
        ([None, *[entry(" a", -1.0, token=11)] * 3], "told 4 positions of 3 token ids"),
        (
            [None, entry(" a", -1.0, token=11), entry(" b", -1.0, token=99)],
            "scored token 99 where 12 was sent",
        ),
    ],
)
def test_positions_that_are_not_those_of_the_ids_are_refused(lists: Any, words: str) -> None:
    with (
        played(answer(lists)) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.NoPromptLogprobs, match=words),
    ):
        score([10, 11, 12], client=client)


@pytest.mark.parametrize("text", ["The quick fox", [10, 11, 12, 13]])
def test_positions_of_which_nothing_is_told_are_refused(text: Any) -> None:
    lists = [None, None, entry(" quick", -1.0, token=12), entry(" fox", -1.0, token=13)]
    with (
        played(answer(lists)) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.NoPromptLogprobs, match="nothing of position 1"),
    ):
        score(text, client=client)


def test_fewer_choices_than_texts_are_refused() -> None:
    with (
        played(answer([None, entry(" b", -1.0)])) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.AcsError, match=r"1 (of|choice)|2 prompts"),
    ):
        score(["a b", "a b"], client=client)


def alone(*texts: str) -> list[list[Scored]]:
    """Positions with the text's own token alone."""
    return [[(place, text, -1.0, 1)] for place, text in enumerate(texts)]


def test_what_a_server_decodes_otherwise_has_the_characters_between() -> None:
    """Bytes of a character, and another form of one: everything before them keeps its own place."""
    text = "a ﬁne 🦊 day"
    told = ["a", " fi", "ne", " \ufffd", "\ufffd", "\ufffd", " day"]
    assert fitted(text, alone(*told)) == ["a", " ﬁ", "ne", "", "", " 🦊", " day"]
    assert fitted("🦊", alone("", "\ufffd")) == ["", ""]
    for pieces in (["zzz", "yyy"], ["a", "zzz", "yyy", "xxx"]):
        with pytest.raises(errors.NoPromptLogprobs, match="of other tokens"):
            fitted(text, alone(*pieces))


@pytest.mark.parametrize(
    "value", ["null", "NaN", '"-1"', "1e999", "[]"], ids=["null", "nan", "text", "too large", "a list"]
)
def test_a_logprob_that_is_no_number_is_one_clear_line(value: str) -> None:
    body = answer([None, entry(" quick", 7.5)]).replace(b"7.5", value.encode())
    with (
        Player([whole(body)], {"/v1/models": whole({"object": "list", "data": []})}) as server,
        Client(server.base, KEY, retries=0) as client,
        pytest.raises(errors.AcsError) as caught,
    ):
        score("The quick", client=client)
    assert caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.95])
@pytest.mark.parametrize("ask", [score, distribution])
@pytest.mark.parametrize("closed", [True, False], ids=["connection lost", "ended as if whole"])
def test_a_body_that_is_cut_is_one_clear_line(cut: float, ask: Any, closed: bool) -> None:
    lists = [None, *(by_rank(text, -5.0 - i, 40, 10 + i) for i, text in enumerate(FOX[1:], 1))]
    data = answer(lists)
    half = data[: int(len(data) * cut)]
    body: list[bytes | float] = [head(length=len(data)), half, CLOSE] if closed else whole(half)
    with (
        Player([body], {"/v1/models": whole({"object": "list", "data": []})}) as server,
        Client(server.base, KEY, retries=0) as client,
        pytest.raises(errors.AcsError) as caught,
    ):
        ask("".join(FOX), client=client)
    assert caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda c: choose("a", " b", client=c), "list of texts"),
        (lambda c: choose("a", _any(5), client=c), "list of texts"),
        (lambda c: choose("a", [], client=c), "no candidates"),
        (lambda c: choose("a", [""], client=c), "empty"),
        (lambda c: choose("a", [" b", _any(3)], client=c), "must be texts"),
        (lambda c: logprob("b", given=_any(3), client=c), "must be texts"),
        (lambda c: score("a b", batch=0, client=c), "batch=0"),
        (lambda c: score("a b", batch=True, client=c), "batch=True"),
        (lambda c: score("a b", top=-1, client=c), "top=-1"),
        (lambda c: score("a b", context=1.5, client=c), "context=1.5"),
        (lambda c: score("a b", context=-1, client=c), "context=-1"),
        (lambda c: score("a\ud800 b", client=c), "surrogate"),
        (lambda c: score([True, False], client=c), "Text 0"),
        (lambda c: distribution([1, 2], 2, client=c), "position=2 must be from 1 to 1"),
        (lambda c: distribution([1, 2], 0, client=c), "position=0"),
        (lambda c: distribution("a b", _any(1.5), client=c), "position=1.5"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(ask: Any, words: str) -> None:
    with played() as server, Client(server.base, KEY) as client:
        with pytest.raises(errors.InvalidRequest, match=words):
            ask(client)
        assert not [one for one in server.requests if "/completions" in one.line]


def test_candidates_as_a_frame() -> None:
    long = [None, entry(" b", -1.0), entry(" c", -1.0)]
    lists = [long, [None, entry(" e", -3.0)], [None, entry(" f", -9999.0)]]
    with played(answer(*lists)) as server, Client(server.base, KEY) as client:
        found = choose("a", [" b c", " e", " f"], client=client)
    frame = found.to_frame()
    assert frame["text"].tolist() == [" b c", " e", " f"]
    assert frame["logprob"].tolist() == [-2.0, -3.0, -math.inf]
    assert frame["per_token"].tolist() == [-1.0, -3.0, -math.inf]
    assert frame["per_byte"].tolist() == [-0.5, -1.5, -math.inf]
    assert frame["share"].tolist() == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0.0])
    assert frame.attrs == {"by": "sum", "context": "a", "model": "m"}
    assert found[0].to_frame()["start"].tolist() == [1, 3]
    assert found[0].to_frame().attrs["seam"] == "clean"
    assert isinstance(found[0].usage, Usage)
    with played(answer([None, entry(" f", -9999.0)])) as server, Client(server.base, KEY) as client:
        assert choose("a", [" f"], client=client).to_frame()["share"].isna().all()


def test_more_alternatives_than_the_model_gives_is_told_before_it_is_sent() -> None:
    limits = {"id": "m", "default": True, "capabilities": {"max_logprobs": 20}}
    models = {"/v1/models": whole({"object": "list", "data": [limits]})}
    with Player([whole(json.loads(answer([None, entry(" b", -1.0)])))], models) as server:
        client = Client(server.base, KEY)
        with pytest.raises(errors.InvalidRequest, match="at most 100"):
            score("a b", top=10**9, client=client)
        assert not [one for one in server.requests if "/completions" in one.line]
        client.close()
