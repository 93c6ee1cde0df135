"""The budget's arithmetic and calendar: what a request can cost at most, which month it is, how a key may be shown.

Owns these rules. It must not know files or clocks.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from ..wire import MAX_OUTPUT_WORK, CompletionRequest

ENDLESS = 10**15
"""More than any limit, and small enough for SQLite to add up: an unchecked request may ask for anything."""
RUNNING_EVERY = 1.0
"""Seconds between two notes of one stream's running usage in the file."""
_SHAPE = re.compile(r"(acs-bm-[0-9a-f]{8})-[A-Za-z0-9_-]{16,}")


class Worst(NamedTuple):
    """The most a request can cost, in tokens: ``prompt`` and ``completion``. ``exact``: the prompt is counted."""

    prompt: int
    completion: int
    exact: bool

    @property
    def total(self) -> int:
        """Both together."""
        return self.prompt + self.completion


def worst_case(request: CompletionRequest, only: Collection[int] | None = None) -> Worst:
    """The most a request can cost; ``only``: the places of the prompts that are counted, else all are.

    A prompt of token ids is counted. One of text is bounded by its bytes and one start token (none with
    ``add_special_tokens=False``): tokenizers that work on bytes or fall back to them make no more. ``max_tokens``
    counts for each of ``prompts * n`` choices; without it the service gives one choice at most 32,000.
    """
    if only is None and isinstance(request.prompt, str):
        return Worst(_of_bytes(request, request.prompt), _completion(request, request.fan_out), exact=False)
    prompts = [p for place, p in enumerate(request.prompts) if only is None or place in only]
    exact = all(isinstance(prompt, list) for prompt in prompts)
    prompt = sum(len(p) if isinstance(p, list) else _of_bytes(request, p) for p in prompts)
    return Worst(prompt, _completion(request, request.choice_count), exact)


def _of_bytes(request: CompletionRequest, text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) + (0 if request.add_special_tokens is False else 1)


def _completion(request: CompletionRequest, choices: int) -> int:
    each = request.max_tokens
    if isinstance(each, bool) or not isinstance(each, int):
        return MAX_OUTPUT_WORK
    return min(max(0, each) * choices, ENDLESS)


def guessed_prompt(worst: Worst) -> int:
    """A prompt's likely tokens where nobody has counted them: four bytes a token."""
    return worst.prompt if worst.exact else -(-worst.prompt // 4)


def month_of(at: float) -> str:
    """The UTC month of a time in seconds since the epoch, as ``2026-01``."""
    return day_of(at)[:7]


def day_of(at: float) -> str:
    """The UTC day of a time in seconds since the epoch, as ``2026-01-31``."""
    return _day(int(at // 86_400))


@lru_cache(maxsize=8)
def _day(number: int) -> str:
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d")


def month_span(month: str) -> tuple[float, float]:
    """When a UTC month begins and ends, in seconds since the epoch."""
    begin = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    days = monthrange(begin.year, begin.month)[1]
    return begin.timestamp(), begin.timestamp() + days * 86_400.0


def day_start(at: float) -> float:
    """Midnight UTC before a time, in seconds since the epoch."""
    return at - at % 86_400.0


def projected(used: int, month: str, at: float) -> int:
    """Tokens at the end of the month if it goes on as it went; before a day has passed it counts as one day."""
    begin, end = month_span(month)
    return round(used * (end - begin) / min(max(at - begin, 86_400.0), end - begin))


def shown_key(key: str) -> str:
    """What may be shown of a key: the public part of the service's keys, nothing of one of another shape."""
    shaped = _SHAPE.fullmatch(key)
    return shaped[1] if shaped else ""
