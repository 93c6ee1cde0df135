"""Plots, by what is drawn: heights, places, names, intervals; readable on white and on black; calibration itself."""

from __future__ import annotations

import math
import random
import sys
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pytest

from acs_jupyter import Client, Completion, Session, calibration, distributions, errors
from acs_jupyter.log import events as ev
from acs_jupyter.scores.calibrating import Bin
from acs_jupyter.scores.distribution import Distribution
from acs_jupyter.scores.plots import GREY
from acs_jupyter.scores.values import Score, ScoredToken
from acs_jupyter.scores.vocabulary import Vocabulary
from acs_jupyter.wire import CompletionRequest, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Running

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def scored(*logprobs: float | None, texts: list[str] | None = None) -> Score:
    texts = texts or [f" w{i}" for i in range(len(logprobs))]
    tokens = [
        ScoredToken(i, text, 4 * i, i, value)
        for i, (text, value) in enumerate(zip(texts, logprobs, strict=True))
    ]
    return Score("".join(texts), tokens, "m", False, Usage(1, 1, 2))


def labels(ticks: Any) -> list[str]:
    return [label.get_text() for label in ticks]


def test_surprisal_stands_at_its_token() -> None:
    ax = scored(None, -math.log(2), -math.inf, -3 * math.log(2), texts=["a", "$x$", "\n", "日"]).plot()
    assert [(bar.get_x() + bar.get_width() / 2, round(bar.get_height(), 6)) for bar in ax.patches] == [
        (1.0, 1.0), (2.0, 0.0), (3.0, 3.0),
    ]  # fmt: skip
    [beyond] = ax.lines
    assert beyond.get_xdata() == [2]
    assert beyond.get_ydata()[0] > 3
    assert labels(ax.get_xticklabels()) == ["a", "$x$", "↵", "日"]
    assert not any(label.get_parse_math() for label in ax.get_xticklabels())
    assert ax.get_ylabel() == "surprisal, bits"
    assert "ruled out (infinite)" in labels(ax.get_legend().get_texts())


def test_a_long_text_has_a_moving_mean_and_no_names() -> None:
    ax = scored(*[-(i % 4) * math.log(2) for i in range(400)]).plot()
    [line] = ax.lines
    assert len(line.get_xdata()) == 400
    assert line.get_ydata()[200] == pytest.approx(1.5)
    assert ax.get_xlabel() == "token"
    assert scored(-1.0, -2.0).plot(smooth=2).lines[0].get_ydata()[1] == pytest.approx(1.5 / math.log(2))


def test_a_distribution_is_bars_that_sum_to_one() -> None:
    words = Vocabulary.of(["a", "$b$", "c", "d", "e"])
    one = Distribution(np.log(np.array([0.5, 0.25, 0.15, 0.06, 0.04], np.float32)), words, position=3, own=4)
    ax = one.plot(count=2)
    assert [round(bar.get_width(), 4) for bar in ax.patches] == [0.5, 0.25, 0.04, 0.21]
    assert labels(ax.get_yticklabels()) == ["a  1", "$b$  2", "e  5", "2 others"]
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, False, True, False]
    assert ax.yaxis_inverted()
    with pytest.raises(errors.InvalidRequest, match="count=0"):
        one.plot(count=0)


def test_the_axes_of_others_are_used_and_left_as_they_look() -> None:
    import matplotlib.pyplot as plt

    _, (left, right) = plt.subplots(1, 2)
    before = left.patch.get_facecolor()
    assert scored(-1.0, -2.0).plot(ax=left) is left
    assert left.patch.get_facecolor() == before
    assert right.patches == ()[:0] or not right.patches


def luminance(colour: Any) -> float:
    rgb = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in mpl.colors.to_rgb(colour)]
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_what_is_made_reads_on_light_and_on_dark(ground: str) -> None:
    ax = scored(-1.0, -math.inf).plot()
    assert ax.patch.get_alpha() == 0.0
    assert ax.figure.patch.get_alpha() == 0.0
    words = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.yaxis.label, *ax.get_legend().get_texts()]
    assert {mpl.colors.to_hex(word.get_color()) for word in words} == {GREY}
    low, high = sorted((luminance(GREY), luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 4
    for bar in ax.patches:
        low, high = sorted((luminance(bar.get_facecolor()), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_without_matplotlib_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(errors.InvalidRequest, match=r"acs-jupyter\[plot\]"):
        scored(-1.0).plot()


# -- calibration ----------------------------------------------------------------------------------


def sampled(rows: list[tuple[str, dict[str, float]]], logprobs: int = 2, **fields: Any) -> Completion:
    session = Session()
    session.apply(ev.opening("r", CompletionRequest(prompt="p", logprobs=logprobs, **fields)))
    for text, top in rows:
        session.apply([ev.TokensArrived("r.0", text, (text,), (top[text],), (top,))])
    return Completion(session, "r")


def test_what_was_sampled_as_often_as_stated_lies_on_the_line() -> None:
    rng = random.Random(5)
    shares = {"a": 0.72, "b": 0.2, "c": 0.08}
    rows = []
    for text in rng.choices(list(shares), list(shares.values()), k=4000):
        top = {name: math.log(shares[name]) for name in ("a", "b")}
        rows.append(
            (text, {**top, text: math.log(shares[text])})
        )  # the sampled one is added when it is not listed
    found = calibration(sampled(rows))
    assert [(one.low, one.trials) for one in found.bins] == [(0.2, 4000), (0.7, 4000)]
    for one, share in zip(found.bins, (0.2, 0.72), strict=True):
        assert one.stated == pytest.approx(share)
        assert one.least < share < one.most
    assert found.error < 0.02
    assert (found.positions, found.trials) == (4000, 8000)
    frame = found.to_frame()
    assert frame["sampled"].tolist() == [sum(t == "b" for t, _ in rows), sum(t == "a" for t, _ in rows)]
    ax = found.plot()
    diagonal, line = ax.lines[0], ax.lines[1]
    assert list(diagonal.get_xdata()) == [0, 1]
    assert list(line.get_xdata()) == frame["stated"].tolist()
    assert list(line.get_ydata()) == frame["frequency"].tolist()
    [(low, high)] = [(seg[0][1], seg[1][1]) for seg in ax.collections[0].get_segments()][:1]
    assert (low, high) == (pytest.approx(found.bins[0].least), pytest.approx(found.bins[0].most))
    assert f"{4000:,} tokens" in ax.get_title()


def test_the_interval_is_wilson_s() -> None:
    one = Bin(0.0, 0.1, 0.05, 10, 0)
    assert (one.least, round(one.most, 4)) == (0.0, 0.2775)
    half = Bin(0.5, 0.6, 0.5, 100, 50)
    assert (round(half.least, 4), round(half.most, 4)) == (0.4038, 0.5962)


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"temperature": 0.7}, "temperature=0.7"), ({"top_p": 0.9}, "top_p=0.9"), ({"top_k": 5}, "top_k=5")],
)
def test_other_settings_are_refused(fields: Any, word: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=f"{word}: these tokens were not sampled"):
        calibration(sampled([("a", {"a": -0.1})], **fields))
    with pytest.raises(errors.InvalidRequest, match="ask for logprobs"):
        calibration([])


def test_the_small_model_is_sampled_as_it_says(smollm_server: Running) -> None:
    """Real samples at temperature 1: where there are enough, the stated probability is in the interval or close."""
    with Client(smollm_server.base, smollm_server.key) as client:
        made = [
            client.complete(
                "The weather today is", max_tokens=1, n=16, temperature=1.0, logprobs=10, seed=seed
            )
            for seed in range(4)
        ]
        found = calibration(made, bins=5)
        whole = distributions("The weather today is", client=client)
    assert found.positions == 64
    for one in found.bins:
        assert one.least - 0.1 <= one.stated <= one.most + 0.1
    ax = whole[-1].plot(count=5)
    assert [bar.get_width() for bar in ax.patches][:5] == [each.probability for each in whole[-1].top(5)]
    assert sum(bar.get_width() for bar in ax.patches) == pytest.approx(1, abs=1e-3)
