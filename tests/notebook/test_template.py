"""Interpolation: only where asked for, only the one delimiter, a missing name is named."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter.errors import InvalidRequest
from acs_jupyter.notebook.template import fill


class Broken:
    def __str__(self) -> str:
        return str(1 // 0)

    @property
    def half(self) -> int:
        return 1 // 0


OTHERS = "{x} {{x}} ${x} $x %(x)s @{x} <<x>> [[x]] <|x|> {{{x}}} \\frac{a}{b} @@ -1,2 +1,2 @@ @@x@@ @x @@"


def test_names_and_attributes() -> None:
    names = {"x": 3, "thing": SimpleNamespace(text=" Paris", deep=SimpleNamespace(er="z"))}
    assert fill("a @@{x} b@@{ thing.text }, @@{thing.deep.er}", names) == "a 3 b Paris, z"


def test_values_are_not_filled_again() -> None:
    assert fill("@@{a}@@{b}", {"a": "@@{b}", "b": "\\1 \\g<0>"}) == "@@{b}\\1 \\g<0>"


def test_every_other_way_of_writing_it_stays() -> None:
    assert fill(OTHERS, {"x": "WRONG"}) == OTHERS


@given(st.text().filter(lambda text: "@@{" not in text))
def test_text_without_the_delimiter_is_untouched(text: str) -> None:
    assert fill(text, {}) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@@{pormpt}", ["no variable pormpt", "Did you mean @@{prompt}?"]),
        ("@@{prompt.nothing}", ["prompt has no attribute nothing"]),
        ("@@{broken}", ["@@{broken} gave no text", "ZeroDivisionError"]),
        ("@@{broken.half}", ["@@{broken.half} gave no text", "ZeroDivisionError"]),
        ("@@{1+1}", ["does not hold a variable's name"]),
        ("@@{}", ["does not hold a variable's name"]),
    ],
)
def test_mistakes_are_named(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        fill(text, {"prompt": "x", "broken": Broken()})
    for word in words:
        assert word in str(caught.value)
