"""Plots with matplotlib: surprisal along a text, bars of a distribution, calibration.

Owns what is drawn and its colours. It must not know where values come from. As with pandas, each takes ``ax`` or makes
one, and returns it. What it makes is transparent with grey text, so that it reads on white and on black; what it is
given keeps its looks. Model text is never read as a formula.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import InvalidRequest
from ..widgets.reading import visible

if TYPE_CHECKING:
    from .calibrating import Calibration
    from .distribution import Distribution
    from .values import Score

GREY = "#787878"
"""At least 4 to 1 on white and on a dark page alike."""
ORANGE, BLUE = "#d66a0c", "#3a86c8"
NAMED = 48
"""Tokens up to which each is named under its bar."""
_LONGEST = 14


def surprisal_plot(score: Score, ax: Any = None, *, smooth: int | None = None) -> Any:
    """Bars of bits, a token each, at their place in tokens; up to 48 tokens are named.

    ``smooth``: tokens of a moving mean that is drawn over them, by default a twentieth of a text of more than 200.
    What the model rules out (infinite) is a triangle over the highest bar; what is not scored has no bar.
    """
    tokens = [token for token in score.tokens if token.surprisal is not None]
    bits = [float(token.surprisal or 0.0) for token in tokens]
    finite = [value for value in bits if math.isfinite(value)]
    top = max(finite, default=1.0)
    ax = ax or _made(width=max(5.0, min(14.0, 0.28 * len(score.tokens))))
    places = [token.position for token in tokens]
    heights = [value if math.isfinite(value) else 0.0 for value in bits]
    ax.bar(places, heights, width=0.9, color=ORANGE, label="surprisal")
    beyond = [place for place, value in zip(places, bits, strict=True) if not math.isfinite(value)]
    if beyond:
        ax.plot(beyond, [top * 1.04] * len(beyond), "^", color=ORANGE, label="ruled out (infinite)")
    smooth = smooth if smooth is not None else (len(bits) // 20 if len(bits) > 200 else 0)
    if smooth > 1 and finite:
        means = _moving(heights, smooth)
        ax.plot(places, means, color=BLUE, linewidth=1.5, label=f"mean of {smooth} tokens")
    if len(score.tokens) <= NAMED:
        names = [_shown(token.text) for token in score.tokens]
        _name(ax.set_xticks(range(len(names)), names, rotation=90, family="monospace"))
    else:
        ax.set_xlabel("token")
    ax.set_ylabel("surprisal, bits")
    if beyond or smooth > 1:
        _legend(ax)
    return ax


def distribution_plot(distribution: Distribution, ax: Any = None, *, count: int = 15) -> Any:
    """Bars of probability, the likeliest on top, and one for all others; the text's own token is blue and hatched."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InvalidRequest(f"count={count!r} must be a whole number from 1 on.")
    told = distribution.top(count)
    own = distribution.own
    if own is not None and all(each.id != own for each in told):
        told = [*told, distribution.of(own)]
    rest = max(0.0, 1.0 - sum(each.probability for each in told))
    ax = ax or _made(height=0.28 * (len(told) + 1) + 0.8)
    places = list(range(len(told)))
    bars = ax.barh(places, [each.probability for each in told], color=ORANGE)
    for each, bar in zip(told, bars, strict=True):
        if each.id == own:
            bar.set(color=BLUE, hatch="//", edgecolor=GREY)
    ax.barh([len(told)], [rest], color="none", edgecolor=GREY)
    others = len(distribution) - len(told)
    names = [f"{_shown(each.text)}  {each.rank:,}" for each in told]
    _name(ax.set_yticks([*places, len(told)], [*names, f"{others:,} others"], family="monospace"))
    ax.invert_yaxis()
    ax.set_xlabel("probability")
    return ax


def calibration_plot(found: Calibration, ax: Any = None) -> Any:
    """Frequency against stated probability, with intervals of 95 %; what is stated comes true on the dashed line."""
    ax = ax or _made(width=4.6, height=4.6)
    ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1, label="as stated")
    stated = [one.stated for one in found.bins]
    frequency = [one.frequency for one in found.bins]
    reach = [
        [max(0.0, one.frequency - one.least) for one in found.bins],
        [max(0.0, one.most - one.frequency) for one in found.bins],
    ]
    ax.errorbar(
        stated, frequency, yerr=reach, fmt="o-", color=ORANGE, capsize=3, label="sampled, with 95 % intervals"
    )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="stated probability", ylabel="sampled frequency")
    ax.set_title(f"{found.positions:,} tokens, error {found.error:.3f}", fontsize="medium", color=GREY)
    _legend(ax)
    return ax


def _made(width: float = 6.4, height: float = 3.2) -> Any:
    """Axes on a figure of their own, without a ground, in grey."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415  # optional, and heavy
    except ImportError:
        raise InvalidRequest(
            "Plots need matplotlib, which is not installed: pip install 'acs-jupyter[plot]'."
        ) from None
    figure, ax = plt.subplots(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0.0)
    ax.patch.set_alpha(0.0)
    ax.tick_params(colors=GREY, which="both")
    for part in (ax.xaxis.label, ax.yaxis.label, ax.title):
        part.set_color(GREY)
    for name, spine in ax.spines.items():
        spine.set_color(GREY)
        spine.set_visible(name in ("left", "bottom"))
    return ax


def _legend(ax: Any) -> None:
    legend = ax.legend(frameon=False, labelcolor=GREY, fontsize="small")
    legend.set_in_layout(False)


def _shown(text: str) -> str:
    shown = visible(text) if text else "(no text)"
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _name(ticks: Any) -> None:
    for tick in ticks:
        for label in (tick.label1, tick.label2):
            label.set_parse_math(False)


def _moving(values: list[float], width: int) -> list[float]:
    """The mean of up to ``width`` values around each."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    before, after = width // 2, width - width // 2
    found = []
    for place in range(len(values)):
        start, stop = max(0, place - before), min(len(values), place + after)
        found.append((sums[stop] - sums[start]) / (stop - start))
    return found
