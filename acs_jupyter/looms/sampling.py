"""What sampling settings leave of a distribution: the twin of ``js/src/parts/whatif.ts``.

Owns the arithmetic. It must not know nodes or requests beyond their sampling fields. Both twins are held to the same
figures by ``tests/data/whatif.json``.

The order is vLLM's: temperature (below 1e-5 the most likely token, always), min_p, top_k, then top_p on what is left
and renormalised; ties at the top_k bound stay, and so does the most likely token. Only the alternatives that were
returned are known: ``reshaped`` takes them for the whole, ``left_of`` gives a number only where what was not returned
cannot change it. Penalties change the probabilities before all of this by what the text has had so far; they are
not worked out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_GREEDY_BELOW = 1e-5
_PENALTIES = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1}


@dataclass(frozen=True)
class Settings:
    """``temperature`` 0: the most likely token always; ``top_p`` 1, ``top_k`` 0 and ``min_p`` 0: off.

    ``penalised``: the request had penalties, so that what a setting leaves cannot be said.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    penalised: bool = False


def settings_of(request: Mapping[str, Any]) -> Settings:
    """The settings that a request was made with."""

    def number(name: str, usual: float) -> float:
        value = request.get(name)
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        return value if good else usual  # type: ignore[return-value]

    penalised = any(number(name, usual) != usual for name, usual in _PENALTIES.items())
    top_k = max(0, int(number("top_k", 0)))
    return Settings(number("temperature", 1.0), number("top_p", 1.0), top_k, number("min_p", 0.0), penalised)


def reshaped(logprobs: Sequence[float], settings: Settings) -> list[float]:
    """Probabilities under the settings of tokens whose logprobs are given most likely first; 0 for what is cut."""
    if not logprobs:
        return []
    if settings.temperature < _GREEDY_BELOW:
        return [1.0, *[0.0] * (len(logprobs) - 1)]
    # Relative to the most likely token, whose weight is 1: min_p needs no more, whatever was not returned.
    weights = [math.exp((value - logprobs[0]) / settings.temperature) for value in logprobs]
    kept = [place == 0 or weight >= settings.min_p for place, weight in enumerate(weights)]
    bound = weights[settings.top_k - 1] if 0 < settings.top_k < len(weights) else 0.0
    kept = [here and weight >= bound for here, weight in zip(kept, weights, strict=True)]
    if settings.top_p < 1:
        _cut_tail(weights, kept, settings.top_p)
    whole = sum(weight for here, weight in zip(kept, weights, strict=True) if here)
    return [weight / whole if here else 0.0 for here, weight in zip(kept, weights, strict=True)]


def _cut_tail(weights: list[float], kept: list[bool], top_p: float) -> None:
    """From the least likely on: what together makes up no more than ``1 - top_p`` goes."""
    whole = sum(weight for here, weight in zip(kept, weights, strict=True) if here)
    tail = 0.0
    for place in range(len(weights) - 1, 0, -1):
        if not kept[place]:
            continue
        tail += weights[place] / whole
        if tail > 1 - top_p:
            return
        kept[place] = False


# -- what can be said while a part of the distribution is not known --------------------------------

_CLOSED = 1e-6
_TOLERANCE = 1e-3


def left_of(logprobs: Sequence[float], complete: int, settings: Settings) -> list[float | None]:
    """Probabilities under the settings, as :func:`reshaped`, where what was not returned cannot change them.

    The first ``complete`` of ``logprobs`` are the likeliest of all; those behind them were drawn from further down.
    ``None``: the rest could change it by more than a thousandth of the number. It cannot where ``top_k`` or ``min_p``
    leave it nothing, at temperature 1 (its mass is known), and below where it is too small: no token of it is likelier
    than the last complete one.
    """
    if not logprobs or complete < 1:
        return [None] * len(logprobs)
    rest = 1.0 - math.fsum(math.exp(min(value, 0.0)) for value in logprobs)
    if settings.temperature < _GREEDY_BELOW or rest < _CLOSED:
        return list(reshaped(logprobs, settings))
    last = logprobs[min(complete, len(logprobs)) - 1] - logprobs[0]
    if 0 < settings.top_k <= complete or math.exp(last / settings.temperature) < settings.min_p:
        return list(reshaped(logprobs, settings))
    if settings.temperature > 1:
        return [None] * len(logprobs)
    # Each token of the rest weighs p^(1/T) = p * p^(1/T - 1), at most what that is with the p of the last complete one.
    most = rest * math.exp(last * (1 / settings.temperature - 1) - logprobs[0])
    least = most if settings.temperature == 1 and settings.min_p <= 0 and settings.top_k == 0 else 0.0
    ends = [_beside(logprobs, complete, settings, weight) for weight in (least, most)]
    return [_agreed(*pair) for pair in zip(*ends, strict=True)]


def _agreed(a: float | None, b: float | None) -> float | None:
    if a is None or b is None or abs(a - b) > _TOLERANCE * max(a, b):
        return None
    return (a + b) / 2


def _beside(logprobs: Sequence[float], complete: int, settings: Settings, rest: float) -> list[float | None]:
    """The same beside a rest of this weight, the most likely token's being 1."""
    weights = [math.exp((value - logprobs[0]) / settings.temperature) for value in logprobs]
    kept = [place == 0 or weight >= settings.min_p for place, weight in enumerate(weights)]
    whole = rest + math.fsum(weight for here, weight in zip(kept, weights, strict=True) if here)
    told = len(weights) if settings.top_k == 0 else complete  # of the others top_k may leave some
    if settings.top_p < 1:
        tail = rest + math.fsum(
            w for here, w in zip(kept[complete:], weights[complete:], strict=True) if here
        )
        if tail / whole > 1 - settings.top_p:  # the nucleus reaches into the rest
            return [None] * len(weights)
        kept[complete:] = [False] * len(kept[complete:])
        for place in range(min(complete, len(weights)) - 1, 0, -1):
            tail += weights[place] if kept[place] else 0.0
            if tail / whole > 1 - settings.top_p:
                break
            kept[place] = False
        told = len(weights)
        whole = math.fsum(weight for here, weight in zip(kept, weights, strict=True) if here)
    return [
        None if place >= told else weight / whole if here else 0.0
        for place, (here, weight) in enumerate(zip(kept, weights, strict=True))
    ]
