"""Which requests start next: every model in its turn, as flow and budget allow, what the cache knows left out.

Owns the budget of the run and the turns. It must not know tasks or sockets; it is asked, and told what was spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .cache import Cache
from .feed import PAGE, Feed, Row
from .flow import Flow
from .journal import Counts
from .outcomes import bound
from .plan import Plan


@dataclass(slots=True)
class Attempt:
    """One request: its rows, when it was chosen, the most tokens it can cost, whether its task has begun, and whether
    all of its answer is here."""

    feed: Feed
    rows: list[Row]
    started_at: float
    hold: int
    begun: bool = False
    arrived: bool = False

    @property
    def shares(self) -> list[tuple[int, int]]:
        """The number of each row, and its part of the hold; together they are all of it."""
        each, rest = divmod(self.hold, len(self.rows))
        return [(row.number, each + (rest if place == 0 else 0)) for place, row in enumerate(self.rows)]


class Dispatch:
    """``squeezed``: why the budget let nothing start, or ``""``. ``answered`` takes the rows the cache knows."""

    def __init__(
        self,
        feeds: list[Feed],
        flow: Flow,
        plan: Plan,
        *,
        budget: int | None = None,
        counts: Counts | None = None,
        cache: Cache | None = None,
        answered: Callable[[Row, bytes], None] = lambda row, data: None,
    ) -> None:
        self.squeezed = ""
        self._feeds, self._flow, self._plan = feeds, flow, plan
        self._budget = budget
        self._spent = counts.spent + counts.lost if counts else 0
        self._held = 0
        self._cache = cache
        self._answered = answered
        self._turn = 0

    def choose(self, now: float) -> tuple[list[Attempt], float]:
        """What starts now, and the seconds until more may: infinity when something must end first."""
        attempts: list[Attempt] = []
        delays = dict.fromkeys(range(len(self._feeds)), 0.0)
        looked_up = 0
        while not self._flow.key.full and (
            open_places := [place for place, delay in delays.items() if delay <= 0]
        ):
            for step in range(len(self._feeds)):
                place = (self._turn + step) % len(self._feeds)
                if place in open_places:
                    delays[place], attempt = self._one(self._feeds[place], now)
                    if attempt is not None:
                        attempts.append(attempt)
                    looked_up += attempt is None
            self._turn += 1
            if looked_up > PAGE:
                return attempts, 0.0  # the rest in portions, when the cache answers everything at once
        return attempts, math.inf if self._flow.key.full else min(delays.values())

    def give_back(self, attempt: Attempt) -> None:
        """An attempt has ended, or was not made: its hold is free."""
        self._held -= attempt.hold

    def spend(self, tokens: int) -> None:
        """So many tokens were used."""
        self._spent += tokens

    def _one(self, feed: Feed, now: float) -> tuple[float, Attempt | None]:
        delay = max(feed.wait(now), self._flow.wait(feed.model, now))
        if delay > 0:
            return delay, None
        rows = self._uncached(feed.take(now))
        if not rows:
            return 0.0, None
        hold = sum(bound(feed.request(row)) for row in rows)
        if self._budget is not None and self._spent + self._held + hold > self._budget:
            feed.untaken(rows, now)
            left = max(0, self._budget - self._spent - self._held)
            self.squeezed = (
                f"The budget of {self._budget} tokens has {left} left; the next request may take {hold}."
            )
            return math.inf, None
        self.squeezed = ""
        self._held += hold
        self._flow.started(feed.model, now)
        return 0.0, Attempt(feed, rows, now, hold)

    def _uncached(self, rows: list[Row]) -> list[Row]:
        if self._cache is None:
            return rows
        left = []
        for row in rows:
            data = self._cache.get(self._plan.variants[row.variant], row.prompt)
            if data is None:
                left.append(row)
            else:
                self._answered(row, data)
        return left
