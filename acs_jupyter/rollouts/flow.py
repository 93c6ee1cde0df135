"""How fast a rollout may go, as a machine without a clock: when the next request may start, and what an end means.

Owns the limits (requests in flight for the key and for each model, starts a minute), how they give way when the
server pushes back, and the rule by which a request is sent again, fails, or ends the whole run. Times are handed in,
in seconds of any steady clock. It must not know requests, journals or sockets.

In-flight limits give way as TCP's window does (RFC 5681): halved when the server is full, at most once for all that was
in flight at the time, and grown by one for each full window of successes. When a model only fails, one request
at a time asks whether it is back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..retrying import LONGEST_WAIT

MINUTE = 60.5
"""Seconds in which ``starts`` requests may start; a little more than a minute, since arrivals jitter."""
_LONGEST_BACKOFF = 30.0
_FEWEST_STARTS = 30
_PROBE_AFTER = 4


@dataclass(frozen=True)
class Limits:
    """``in_flight`` and ``starts`` (a minute; 0 is no limit) for the key; ``per_model``: in flight for a model.

    ``retries``: how often a failed request is sent again. ``burst``: after so many failures of the server in a row,
    without one success, the run stops.
    """

    in_flight: int = 16
    starts: int = 590
    per_model: Mapping[str | None, int] = field(default_factory=dict)
    retries: int = 4
    burst: int = 24


@dataclass(frozen=True)
class End:
    """How an attempt ended. ``code`` is ``None`` for success. ``begun``: text had come; ``ran``: it may have run."""

    code: str | None = None
    status: int | None = None
    retryable: bool = False
    retry_after: float | None = None
    begun: bool = False
    ran: bool = False


@dataclass(frozen=True)
class Verdict:
    """What follows: ``done``, ``failed``, ``again`` (after ``delay`` seconds), or ``stop``: the request stays to do."""

    kind: Literal["done", "failed", "again", "stop"]
    delay: float = 0.0


DONE, FAILED, STOP = Verdict("done"), Verdict("failed"), Verdict("stop")
_FLOW_CODES = frozenset({"rate_limited", "queue_full"})
_HOPELESS = frozenset({401, 403})
"""Statuses that every further request would get too."""


class _Window:
    """How many may be in flight; see the module."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = float(most)
        self.in_flight = 0
        self._cut_at = -math.inf
        self._known = 0.0

    @property
    def full(self) -> bool:
        return self.in_flight >= int(self.size)

    def grow(self) -> None:
        self.size = min(float(self.most), self.size + (1.0 if self.size < self._known else 1.0 / self.size))

    def cut(self, started_at: float, now: float) -> None:
        if started_at >= self._cut_at:  # what started before the last cut tells nothing new
            self.size = max(1.0, self.size / 2)
            self._cut_at = now

    def collapse(self) -> None:
        """One at a time, to see whether the server is back; then quickly up to half of what was."""
        if self.size > 1.0:
            self._known, self.size = self.size / 2, 1.0


class Flow:
    """See the module. ``stopped`` says why nothing may start any more: ``budget``, ``refused`` or ``failures``."""

    def __init__(self, limits: Limits, models: Sequence[str | None], earlier: Iterable[float] = ()) -> None:
        self.limits = limits
        self.stopped: str | None = None
        self.key = _Window(limits.in_flight)
        self.models = {
            model: _Window(min(limits.in_flight, limits.per_model.get(model, limits.in_flight)))
            for model in models
        }
        self.starts = float(limits.starts)
        self.failures_in_row = 0
        self.unread = 0
        """Answers that are here, so that their place is free, and of which is not known yet how they ended."""
        self._begun: deque[float] = deque(earlier)
        self._paused_until = -math.inf
        self._model_until: dict[str | None, float] = dict.fromkeys(models, -math.inf)
        self._troubles = 0
        self._troubled_at = -math.inf
        self._slowed_at = -math.inf
        self._refusals = 0
        self._refused_at = -math.inf

    def wait(self, model: str | None, now: float) -> float:
        """Seconds until a request of this model may start: 0 is now, infinity is not before another one ends."""
        if self.stopped or self.key.full or self.models[model].full:
            return math.inf
        until = max(self._paused_until, self._model_until[model], self._next_start(now))
        return max(0.0, until - now)

    def started(self, model: str | None, now: float) -> None:
        """A request starts."""
        self.key.in_flight += 1
        self.models[model].in_flight += 1
        if self.limits.starts:
            self._begun.append(now)

    def dropped(self, model: str | None, *, arrived: bool = False) -> None:
        """A request was given up before or while it ran, by our own will; it says nothing about the server.

        ``arrived``: its place was given away already.
        """
        if arrived:
            self.unread -= 1
            return
        self.key.in_flight -= 1
        self.models[model].in_flight -= 1

    def calm(self, model: str | None) -> bool:
        """Whether nothing is wrong, so that a request may start before the one in whose place it does is judged."""
        windows = self.key, self.models[model]
        return not (self.stopped or self.failures_in_row) and all(w.size >= w.most for w in windows)

    def arrived(self, model: str | None) -> None:
        """All of an answer is here; :meth:`ended` tells how it ended, or :meth:`dropped` that nobody will look."""
        self.dropped(model)
        self.unread += 1

    def unsent(self, model: str | None, started_at: float) -> None:
        """A request that counted as started was not sent after all."""
        self.dropped(model)
        if started_at in self._begun:
            self._begun.remove(started_at)

    def ended(
        self,
        model: str | None,
        started_at: float,
        now: float,
        end: End,
        attempt: int = 1,
        *,
        arrived: bool = False,
    ) -> Verdict:
        """A request has ended; ``attempt`` counts from 1; ``arrived``: that it was here is known already."""
        self.dropped(model, arrived=arrived)
        if end.code is None:
            return self._succeeded(model)
        if end.code == "budget_exceeded" or end.status in _HOPELESS:
            self.stopped = "budget" if end.code == "budget_exceeded" else "refused"
            return STOP
        if (end.code in _FLOW_CODES or (end.status == 429 and end.retryable)) and not end.begun:
            wait = self._pushed_back(end, started_at, now)
            return Verdict("again", wait) if end.code in _FLOW_CODES else self._decided(end, attempt, wait)
        if end.status is None or end.status >= 500 or end.status < 400:
            return self._broke(end, model, started_at, now, attempt)
        return self._decided(end, attempt, min(LONGEST_WAIT, end.retry_after or 1.0))

    def _succeeded(self, model: str | None) -> Verdict:
        self.failures_in_row = self._troubles = self._refusals = 0
        self.key.grow()
        self.models[model].grow()
        if self.limits.starts and self.starts < self.limits.starts:
            self.starts = min(self.limits.starts, self.starts + 0.05)
        return DONE

    def _pushed_back(self, end: End, started_at: float, now: float) -> float:
        """Seconds for which nothing starts. Of a 429 that is not the service's own it may be the last word."""
        if started_at >= self._refused_at:
            self._refusals += 1
            self._refused_at = now
        wait = min(LONGEST_WAIT, end.retry_after) if end.retry_after is not None else 5.0
        wait = max(wait, _at_least(self._refusals))
        self._paused_until = max(self._paused_until, now + wait)
        if end.code == "queue_full":
            self.key.cut(started_at, now)
        elif self.limits.starts and started_at >= self._slowed_at:
            self.starts = max(min(_FEWEST_STARTS, self.limits.starts), self.starts * 0.9)
            self._slowed_at = now
        return wait

    def _broke(self, end: End, model: str | None, started_at: float, now: float, attempt: int) -> Verdict:
        self.failures_in_row += 1
        if started_at >= self._troubled_at:  # all that was in flight together is one sign
            self._troubles += 1
            self._troubled_at = now
        pause = end.retry_after
        if pause is not None:
            pause = max(min(LONGEST_WAIT, pause), _at_least(self._troubles))
        else:
            pause = _at_least(self._troubles + 1)
        if end.retryable or (end.ran and end.status is not None and not end.begun):
            self.models[model].cut(started_at, now)
            if self.failures_in_row >= _PROBE_AFTER:
                self.models[model].collapse()
            self._model_until[model] = max(self._model_until[model], now + pause)
        verdict = self._decided(end, attempt, pause)
        if self.failures_in_row >= self.limits.burst:
            self.stopped = self.stopped or "failures"
            return STOP if verdict.kind == "again" else verdict
        return verdict

    def _decided(self, end: End, attempt: int, pause: float) -> Verdict:
        again = end.retryable and not end.begun and not end.ran and attempt <= self.limits.retries
        return Verdict("again", pause) if again else FAILED

    def _next_start(self, now: float) -> float:
        if not self.limits.starts:
            return now
        while self._begun and self._begun[0] <= now - MINUTE:
            self._begun.popleft()
        allowed = int(self.starts)
        if len(self._begun) < allowed:
            return now
        return self._begun[len(self._begun) - allowed] + MINUTE


def _at_least(signs: int) -> float:
    """Seconds to wait after so many signs of trouble in a row, whatever the server says: it may say "at once" each
    time. The first time it is believed."""
    return min(_LONGEST_BACKOFF, 0.25 * 2 ** min(signs - 1, 10)) if signs > 1 else 0.0
