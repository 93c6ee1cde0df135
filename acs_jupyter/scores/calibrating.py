"""Whether what a model states comes true: stated probabilities against how often tokens were sampled.

Owns which alternatives count and the arithmetic over bins. It must not know where completions come from, nor how they
are drawn.

Every alternative of every sampled position is one trial: it was stated with a probability, and was sampled or not. Only
the likeliest ``logprobs`` of a position count: a server adds the sampled token to its list when it is not among them,
and counting those would make rare tokens look as if they always came. Intervals are Wilson's (1927) of 95 %.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..completion import Completion
from ..errors import InvalidRequest

if TYPE_CHECKING:
    import pandas as pd

Z = 1.959964
"""Standard deviations of a two-sided interval of 95 %."""
_CHANGING = {
    "temperature": 1, "top_p": 1, "top_k": -1, "min_p": 0, "presence_penalty": 0, "frequency_penalty": 0,
    "repetition_penalty": 1,
}  # fmt: skip
"""Settings under which tokens are sampled with the probabilities that are stated."""
COLUMNS = ["low", "high", "stated", "frequency", "least", "most", "trials", "sampled"]


@dataclass(frozen=True)
class Bin:
    """Trials stated with a probability from ``low`` to ``high``. ``stated``: the mean of it; ``frequency``: the part
    that was sampled, surely (95 %) between ``least`` and ``most``."""

    low: float
    high: float
    stated: float
    trials: int
    sampled: int

    @property
    def frequency(self) -> float:
        """Sampled over trials."""
        return self.sampled / self.trials

    @property
    def least(self) -> float:
        """The lower end of Wilson's interval."""
        return wilson(self.sampled, self.trials)[0]

    @property
    def most(self) -> float:
        """The upper end of Wilson's interval."""
        return wilson(self.sampled, self.trials)[1]


@dataclass(frozen=True)
class Calibration:
    """Bins that hold any trial, in order. ``positions``: sampled tokens they are made of."""

    bins: tuple[Bin, ...]
    positions: int

    @property
    def trials(self) -> int:
        """Alternatives that were stated, sampled or not."""
        return sum(one.trials for one in self.bins)

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |stated - frequency| over all trials."""
        return sum(one.trials * abs(one.stated - one.frequency) for one in self.bins) / max(1, self.trials)

    def to_frame(self) -> pd.DataFrame:
        """One row a bin: ``low``, ``high``, ``stated`` (mean), ``frequency``, ``least``, ``most`` (all 0 to 1),
        ``trials``, ``sampled``; ``attrs`` hold ``positions`` and ``error``."""
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        frame = pd.DataFrame([[getattr(one, name) for name in COLUMNS] for one in self.bins], columns=COLUMNS)
        frame.attrs = {"positions": self.positions, "error": self.error}
        return frame

    def plot(self, ax: Any = None) -> Any:
        """Frequency against stated probability with intervals; returns the axes. See :mod:`acs_jupyter.plots`."""
        from .plots import calibration_plot  # noqa: PLC0415  # drawn only when asked for

        return calibration_plot(self, ax)

    def __repr__(self) -> str:
        return (
            f"Calibration({self.positions:,} sampled tokens, {self.trials:,} alternatives, {len(self.bins)} bins, "
            f"error {self.error:.4f})"
        )


def calibration(completions: Completion | Iterable[Completion], *, bins: int = 10) -> Calibration:
    """Stated probabilities against sampled frequencies, over all tokens of all choices of some completions.

    They must have been asked for with ``logprobs`` and sampled as stated: at temperature 1 without ``top_p``,
    ``top_k``, ``min_p`` or penalties; anything else raises :class:`InvalidRequest`. ``bins``: of equal width, 0 to 1.
    """
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise InvalidRequest(f"bins={bins!r} must be a whole number from 1 on.")
    stated, trials, sampled = [0.0] * bins, [0] * bins, [0] * bins
    positions = 0
    for one in [completions] if isinstance(completions, Completion) else completions:
        asked = _asked(one)
        for choice in one.choices:
            for token in choice.tokens[choice.kept :]:
                if token.top is None or token.logprob is None:
                    continue
                positions += 1
                for text, logprob in heapq.nlargest(asked, token.top.items(), key=lambda each: each[1]):
                    probability = math.exp(min(logprob, 0.0))
                    place = min(int(probability * bins), bins - 1)
                    stated[place] += probability
                    trials[place] += 1
                    sampled[place] += text == token.text
    if not positions:
        raise InvalidRequest("There are no tokens with alternatives: ask for logprobs=.")
    found = [
        Bin(place / bins, (place + 1) / bins, stated[place] / trials[place], trials[place], sampled[place])
        for place in range(bins)
        if trials[place]
    ]
    return Calibration(tuple(found), positions)


def _asked(one: Completion) -> int:
    request = one.request
    for name, plain in _CHANGING.items():
        value = request.get(name)
        if value is not None and value != plain:
            raise InvalidRequest(
                f"{name}={value}: these tokens were not sampled with the probabilities that are stated. "
                "Sample at temperature 1 and without other settings."
            )
    asked = request.get("logprobs")
    return asked if isinstance(asked, int) else 0


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's score interval of 95 % for a share of ``hits`` in ``trials`` (at least 1).

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, J. Am. Stat. Assoc. 22 (1927).
    """
    share, square = hits / trials, Z * Z / trials
    middle = share + square / 2
    reach = Z * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    return max(0.0, min(share, low)), min(1.0, max(share, high))  # at 0 and 1 rounding could pass the share
