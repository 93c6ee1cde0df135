"""Differences by bytes: other tokens, other texts, what has no score, and what is drawn."""

from __future__ import annotations

import math
import random
import re
import time
from typing import TYPE_CHECKING

import pytest

from acs_jupyter import Client, difference, errors, score
from acs_jupyter.scores.values import Score, ScoredToken
from acs_jupyter.wire import Usage
from tests.support.html_texts import Texts

if TYPE_CHECKING:
    from tests.support.servers import Running


def read(*tokens: tuple[str, float | None], model: str = "m") -> Score:
    """Tokens with their surprisal in bits."""
    listed, place = [], 0
    for i, (text, bits) in enumerate(tokens):
        listed.append(ScoredToken(i, text, place, i, None if bits is None else -bits * math.log(2), 1))
        place += len(text)
    return Score("".join(t for t, _ in tokens), listed, model, False, Usage(1, 1, 2))


def test_one_text_in_other_tokens_meets_at_common_ends() -> None:
    one = read(("The", None), (" cap", 3.0), ("ital", 2.0), (" of", 1.0), ("", 2.0), ("🦊", 4.0), model="a")
    two = read(("The", None), (" capital", 4.0), (" o", 2.0), ("f", 2.5), ("🦊", 5.0), model="b")
    found = difference(one, two)
    assert [(s.text, s.start, s.bytes) for s in found.spots] == [
        (" capital", 3, 8),
        (" of", 11, 3),
        ("🦊", 14, 4),
    ]
    assert [s.difference for s in found.spots] == pytest.approx([-1.0, 3.5, -1.0])
    assert found.spots[1].per_byte == pytest.approx(3.5 / 3)
    assert (found.unscored, found.apart, found.total) == (3, 0, pytest.approx(1.5))
    assert found.largest(1)[0].text == " of"
    assert found.to_frame()["difference"].sum() == pytest.approx(found.total)


def test_two_texts_are_compared_where_they_are_the_same() -> None:
    one = read(("A", None), (" red", 5.0), (" fox", 4.0), (" ran", 2.0))
    two = read(("A", None), (" blue", 6.0), (" fox", 7.0), (" ran", 2.0))
    found = difference(one, two)
    assert [(s.text, s.start, s.other_start, round(s.difference, 6)) for s in found.spots] == [
        (" fox", 5, 6, 3.0), (" ran", 9, 10, 0.0),
    ]  # fmt: skip
    assert (found.unscored, found.apart) == (1, 4)
    with pytest.raises(errors.InvalidRequest, match="share no stretch"):
        difference(one, read(("Z", None), ("zz", 1.0)))


def test_long_texts_meet_in_seconds() -> None:
    """Two texts of 12,000 words, every hundredth another one; difflib alone takes minutes for the like."""
    known, weights = [f" w{i}" for i in range(3_000)], [1 / (i + 1) for i in range(3_000)]
    words = random.Random(0).choices(known, weights, k=12_000)
    others = [f" x{i}" if i % 100 == 50 else word for i, word in enumerate(words)]
    one, two = (read(("A", None), *((word, 2.0) for word in listed)) for listed in (words, others))
    began = time.process_time()
    found = difference(one, two)
    assert time.process_time() - began < 20
    assert len(found.spots) >= 11_870  # a word beside another one may happen to be its like elsewhere
    assert all(one.text == word for one, word in zip(found.spots[:49], words, strict=False))
    assert found.total == pytest.approx(0)
    front = difference(
        read(("A", None), (" b", 1.0), (" c", 3.0)), read(("A", None), (" b", 2.0), (" d", 3.0))
    )
    assert [(s.text, s.difference) for s in front.spots] == [(" b", 1.0)]


def test_what_one_rules_out_is_the_largest_and_both_is_no_number() -> None:
    one = read(("A", None), (" b", math.inf), (" c", 1.0), (" d", 1.0))
    two = read(("A", None), (" b", math.inf), (" c", math.inf), (" d", 3.0))
    found = difference(one, two)
    assert [s.text for s in found.largest()] == [" c", " d"]
    assert found.total == pytest.approx(2.0)
    assert "nan" not in found._repr_html_().partition("<table>")[2]


def test_the_drawing_is_inert_and_has_all_of_the_text() -> None:
    hostile = " <img src=x onerror=alert(1)>"
    found = difference(read(("A\n", None), (hostile, 5.0)), read(("A\n", None), (hostile, 90.0)))
    parsed = Texts()
    parsed.feed(found._repr_html_())
    assert f"A\n{hostile}" in parsed.text
    assert parsed.text.count(hostile) == 1  # both scored the same text
    assert "Not compared: 2 bytes without a score." in parsed.text
    assert "+85.00" in parsed.text
    assert set(parsed.tags) <= {
        "style",
        "div",
        "pre",
        "p",
        "i",
        "u",
        "span",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }


def test_both_texts_are_drawn_each_with_its_own_words() -> None:
    one = read(("A", None), (" red", 5.0), (" <b>", 4.0), (" ran", 9.0), (" off", 1.0))
    two = read(("A", None), (" dark", 6.0), (" blue", 6.0), (" <b>", 7.0), (" ran", 2.0))
    found = difference(one, two)
    drawn = found._repr_html_()
    first, second = re.findall("<pre>(.*?)</pre>", drawn)
    assert [re.sub("<[^>]*>", "", each) for each in (first, second)] == [
        "A red &lt;b&gt; ran off",
        "A dark blue &lt;b&gt; ran",
    ]
    assert re.findall("<i>(.*?)</i>", first) == ["A red", " off"]
    assert re.findall("<i>(.*?)</i>", second) == ["A dark blue"]
    for tinted in ("9.00 and 2.00 bits, −7.00", "4.00 and 7.00 bits, +3.00"):
        assert tinted in first
        assert tinted in second
    assert "8 bytes that only the first has, 10 that only the second has, 1 bytes without a score" in drawn
    assert "-7" not in drawn
    assert repr(found) == "Difference(2 stretches, −4.00 bits in all; most: ' ran' −7.0, ' <b>' +3.0)"
    # One text that two models read in tokens of their own is drawn once.
    again = difference(one, read(("A red", 1.0), (" <b> ran", 4.0), (" off", 1.0), model="b"))
    assert again._repr_html_().count("<pre>") == 1


def test_a_text_against_itself_and_another_under_the_real_model(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key) as client:
        paris, rome = score(
            ["The capital of France is Paris, a city.", "The capital of Italy is Rome, a city."],
            client=client,
        )
    same = difference(paris, paris)
    assert same.total == 0
    assert sum(spot.bytes for spot in same.spots) == paris.bytes
    other = difference(paris, rome)
    assert "".join(spot.text for spot in other.spots) == " capital of is a city."
    assert other.spots[0].difference == pytest.approx(0, abs=1e-4)  # nothing differs in front of it
