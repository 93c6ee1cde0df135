"""When a refused request is sent again, and how long that waits.

Owns the rule. It must not know what came before the refusal, nor who waits.

Obey ``X-Should-Retry`` and ``Retry-After``; never retry an exhausted budget or anything else that stays; an
``internal_error`` once at most. A model that is paused (``circuit_open``) for longer than :data:`LONGEST_PAUSE` is told
at once: its engine is likely to be dead, not busy.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from . import wire
from .errors import AcsError, ApiError, CircuitOpen

LONGEST_WAIT = 600.0
"""Seconds: a longer ``Retry-After`` is not waited for but raised."""
LONGEST_PAUSE = 10.0
"""Seconds: the same for ``circuit_open``, unless the caller names a bound."""


def wait_before_retry(
    error: AcsError, headers: Mapping[str, str], *, attempt: int, retries: int, longest: float | None = None
) -> float | None:
    """Seconds before the next attempt, or ``None`` when there is none. ``attempt`` counts from 1.

    ``longest``: the caller's own bound for a ``Retry-After``, in seconds.
    """
    limit = min(1, retries) if error.code == "internal_error" else retries
    if attempt > limit or headers.get(wire.SHOULD_RETRY, "").lower() == "false":
        return None
    if isinstance(error, ApiError):
        if not error.retryable:
            return None
        if error.retry_after is not None:
            return error.retry_after if 0 <= error.retry_after <= bound(error, longest) else None
    return float(min(8.0, 0.5 * 2 ** (attempt - 1)) * (1 - 0.25 * random.random()))


def bound(error: AcsError, longest: float | None = None) -> float:
    """The longest ``Retry-After`` that is waited for, in seconds."""
    if longest is not None:
        return longest
    return LONGEST_PAUSE if isinstance(error, CircuitOpen) else LONGEST_WAIT
