"""Prompt surgery: spans, bounds, effects that are differences of scores, and going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acs_jupyter import Client, Surgery, errors, logprob
from acs_jupyter.scores.surgery import sentences
from tests.support.html_texts import Texts
from tests.support.servers import serving

if TYPE_CHECKING:
    from tests.support.servers import Running

PROMPT = "Paris is in France. It costs 3.14 euros! The capital of France is"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (PROMPT, ["Paris is in France.", " It costs 3.14 euros!", " The capital of France is"]),
        ('He said "no." Then\n\nhe left. ', ['He said "no."', " Then", "\n\nhe left. "]),
        ("一。二！", ["一。", "二！"]),
        ("  ", ["  "]),
    ],
)
def test_sentences_are_the_text(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == parts


def test_effects_are_differences_of_scores(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        one = Surgery(PROMPT, " Paris")
        worst = one.worst
        assert one.effects == []
        one.run(client=client)
        whole = logprob(" Paris", given=PROMPT, client=client).logprob
        first = logprob(" Paris", given=PROMPT.removeprefix("Paris is in France."), client=client).logprob
        frame = one.to_frame()
        assert frame["text"].tolist() == [PROMPT[a:b] for a, b in sentences(PROMPT)]
        assert frame["effect"][0] == pytest.approx(whole - first, abs=1e-3)
        assert one.logprob == pytest.approx(whole, abs=1e-3)
        assert frame["effect"].abs().max() == pytest.approx(
            frame["effect"][2]
        )  # the question does most for the answer
        assert (one.done, one.worst) == (True, 0)
        assert 0 < one.spent <= worst
        parsed = Texts()
        parsed.feed(one._repr_html_())
        assert PROMPT in parsed.text
        swapped = Surgery(PROMPT, " Paris", ["France is"], replace="Italy is").run(client=client)
        assert swapped.effects[0].effect > 0
        assert swapped.effects[0].text == "France is"


def test_a_budget_stops_it_and_it_goes_on(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key) as client:
        one = Surgery(PROMPT, " Paris", [(0, 5), (6, 8)], batch=1)
        with pytest.raises(errors.InvalidRequest, match=r"no room for the first request.*Nothing was sent"):
            one.run(budget=10, client=client)
        assert one.spent == 0
        one.run(budget=74, client=client)
        assert 0 < one.spent <= 74
        assert not one.done
        assert "run() again" in repr(one)
        before, came = one.spent, one.effects
        one.run(client=client)
        assert one.done
        assert one.effects[: len(came)] == came
        assert one.spent > before
        spent = one.spent
        assert one.run(client=client).spent == spent


def test_a_prompt_that_needs_windows_is_refused() -> None:
    with (
        serving("--scripted", "--context", "50", "--starts", "0") as server,
        Client(server.base, server.key) as client,
    ):
        one = Surgery("word " * 80 + "end. More", " x", [(0, 5)])
        with pytest.raises(errors.ContextLengthExceeded):
            one.run(client=client)
        assert one.effects == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("One.", " x"), "whole prompt"),
        (("", " x"), "needs a prompt"),
        (("a b a", " x", ["a"]), "2 times"),
        (("a b", " x", [(2, 9)]), "no \\(start, end\\) in its 3"),
        (("a b", " x", [5]), "no text of the prompt"),
    ],
)
def test_bad_spans_are_named(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=word):
        Surgery(*arguments)  # type: ignore[arg-type]
