"""A rollout under way: takes requests from the journal, sends them as the flow allows, writes down how they end.

Owns the order of these steps: a request is in the journal as sent before its socket opens, and its end is committed
before another takes its place. It decides nothing about limits (``flow.py``) and draws nothing. It must not
know threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ..client import AsyncClient
from ..errors import AcsError, BudgetRefused
from ..exchange import Exchange
from ..session import Session
from ..wire import CLAMPED
from .cache import Cache
from .feed import PAGE, Feed, Row, decoded
from .flow import Flow, Verdict
from .journal import DONE, FAILED, PENDING, Ended, Journal
from .outcomes import bound, end_of, results_of
from .packed import to_bytes
from .plan import Plan


@dataclass
class Stats:
    """How a rollout stands, for whoever looks. Tokens are the server's counts, of this process and of those before."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cached: int = 0
    in_flight: int = 0
    tokens: int = 0
    new_tokens: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    retried: Counter[str] = field(default_factory=Counter)
    waiting: float = 0.0


@dataclass
class _Attempt:
    model: str | None
    rows: list[Row]
    started_at: float
    hold: int


class Driver:
    """Carries a journal to its end.

    ``outcome`` is ``open``, then ``done``, ``stopped``, ``budget``, ``refused`` or ``failures``.
    """

    def __init__(
        self,
        journal: Journal,
        plan: Plan,
        client: AsyncClient,
        flow: Flow,
        *,
        batch: int = 1,
        batch_room: Callable[[str | None], int | None] = lambda _: None,
        budget: int | None = None,
        cache: Cache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.journal, self.plan, self.client, self.flow = journal, plan, client, flow
        counts = journal.counts()
        self.stats = Stats(counts.total, counts.done, counts.failed, tokens=counts.spent)
        self.outcome = "open"
        self.reason = ""
        self._feeds = [
            Feed(journal, place, model, plan, batch=batch, room=batch_room(model))
            for place, model in enumerate(plan.models)
        ]
        self._cache = cache
        self._clock = clock
        self._budget = budget
        self._spent, self._held = counts.spent + counts.lost, 0
        self._tasks: dict[asyncio.Task[None], _Attempt] = {}
        self._ended: list[Ended] = []
        self._stopping = False
        self._squeezed = ""
        self._blocked = self._exhausted = False
        self._failure: BaseException | None = None
        self._stirred = asyncio.Event()
        self._turn = 0

    async def run(self) -> str:
        """Send everything that is still to be sent; returns the outcome. Cancelling drops what is in flight."""
        try:
            while True:
                delay = self._start()
                if self._failure is not None:
                    raise self._failure
                if not self._tasks and (delay == math.inf or self._halted):
                    break
                await self._pause(delay)
        finally:
            await self._drop()
        self.outcome = self._outcome()
        return self.outcome

    def stop(self, *, drop: bool = False) -> None:
        """Start nothing more. What is in flight is finished, or dropped and sent again by the next process."""
        self._stopping = True
        if drop:
            for task in self._tasks:
                task.cancel()
        self._stirred.set()

    @property
    def _halted(self) -> bool:
        return self._stopping or self.flow.stopped is not None

    def _outcome(self) -> str:
        counts = self.journal.counts()
        if counts.done + counts.failed == counts.total:
            return "done"
        if self.flow.stopped is None and self._squeezed and not self._stopping:
            self.reason = self.reason or self._squeezed
            return "budget"
        return self.flow.stopped or "stopped"

    # -- starting ---------------------------------------------------------------------------------

    def _start(self) -> float:
        """Write down what has ended and start what may start; returns the seconds until more may, or infinity."""
        now = self._clock()
        attempts: list[_Attempt] = []
        delay = math.inf
        if not (self._halted or self._exhausted or (self._blocked and self._tasks)):
            delay = self._choose(now, attempts)
        if self._ended or attempts:
            ended, self._ended = self._ended, []
            sent = [(row.number, a.hold // len(a.rows)) for a in attempts for row in a.rows]
            self.journal.record(ended, sent, time.time())
        for attempt in attempts:
            task = asyncio.get_running_loop().create_task(self._carry(attempt))
            self._tasks[task] = attempt
            task.add_done_callback(self._forget)
        self.stats.in_flight = self.flow.key.in_flight
        self.stats.waiting = delay if math.isfinite(delay) and not self._tasks else 0.0
        return delay

    def _choose(self, now: float, attempts: list[_Attempt]) -> float:
        """Give every model its turn until none may start."""
        delays = dict.fromkeys(range(len(self._feeds)), 0.0)
        while open_places := [place for place, delay in delays.items() if delay <= 0]:
            for step in range(len(self._feeds)):
                place = (self._turn + step) % len(self._feeds)
                if place in open_places:
                    delays[place] = self._start_one(self._feeds[place], now, attempts)
            self._turn += 1
            if len(self._ended) > PAGE:
                return 0.0  # written down in portions when the cache answers at once
        return min(delays.values())

    def _start_one(self, feed: Feed, now: float, attempts: list[_Attempt]) -> float:
        delay = max(feed.wait(now), self.flow.wait(feed.model, now))
        if delay > 0:
            return delay
        rows = self._uncached(feed.take(now))
        if not rows:
            return 0.0
        hold = sum(bound(feed.request(row)) for row in rows)
        if self._budget is not None and self._spent + self._held + hold > self._budget:
            feed.untaken(rows, now)
            self._squeezed = (
                f"The budget of {self._budget} tokens has {max(0, self._budget - self._spent - self._held)} left; "
                f"the next request may take {hold}."
            )
            return math.inf
        self._squeezed = ""
        self._held += hold
        self.flow.started(feed.model, now)
        attempts.append(_Attempt(feed.model, rows, now, hold))
        return 0.0

    def _uncached(self, rows: list[Row]) -> list[Row]:
        if self._cache is None:
            return rows
        left = []
        for row in rows:
            data = self._cache.get(self.plan.variants[row.variant], row.prompt)
            if data is None:
                left.append(row)
            else:
                self._note(Ended(row.number, DONE, time.time(), cached=True, data=data))
                self.stats.cached += 1
        return left

    async def _pause(self, delay: float) -> None:
        timer = None
        if math.isfinite(delay):
            timer = asyncio.get_running_loop().call_later(delay + 0.001, self._stirred.set)
        elif not self._tasks:
            self._stirred.set()
        await self._stirred.wait()
        self._stirred.clear()
        if timer is not None:
            timer.cancel()

    async def _drop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._ended:
            self.journal.record(self._ended)
            self._ended = []

    # -- one attempt ------------------------------------------------------------------------------

    async def _carry(self, attempt: _Attempt) -> None:
        rows = attempt.rows
        feed = self._feeds[self.plan.models.index(attempt.model)]
        exchange = self._exchange(feed, rows)
        session = Session()
        try:
            async with contextlib.aclosing(self.client.drive(exchange, session.apply)) as batches:
                async for _ in batches:
                    pass
        except BudgetRefused as error:
            self._give_back(attempt, feed, error)
            return
        except asyncio.CancelledError:
            self.flow.left(attempt.model)
            self._write(attempt, exchange, session, Verdict("stop"))
            return
        end = end_of(exchange)
        now = self._clock()
        verdict = self.flow.ended(attempt.model, attempt.started_at, now, end, rows[0].tries)
        self._blocked = False
        if verdict.kind == "stop" and exchange.error is not None:
            self.reason = str(exchange.error)
        if verdict.kind == "failed" and len(rows) > 1 and not end.begun and not end.ran:
            for row in rows:  # one of them may be to blame for all
                row.alone = True
            verdict = Verdict("again")
        if verdict.kind == "again":
            self.stats.retried[end.code or "batch"] += 1
            feed.put_back(rows, now + verdict.delay)
        self._write(attempt, exchange, session, verdict)

    def _exchange(self, feed: Feed, rows: list[Row]) -> Exchange:
        variant = self.plan.variants[rows[0].variant]
        prompts = [decoded(row.prompt) for row in rows]
        request = feed.request(rows[0]) if len(rows) == 1 else variant.request(prompts)
        run = rows[0].key.hex()[:12]
        return self.client.exchange(request, run=run, request_id=f"acsj-{run}-{rows[0].attempts}")

    def _give_back(self, attempt: _Attempt, feed: Feed, error: AcsError) -> None:
        """The meter said no: nothing was sent."""
        self._held -= attempt.hold
        self.flow.unsent(attempt.model, attempt.started_at)
        feed.untaken(attempt.rows, self._clock())
        self._blocked = True  # until something ends and gives its hold back
        self._exhausted = len(self._tasks) == 1
        self._squeezed = str(error)
        self._ended += [Ended(row.number, PENDING, time.time()) for row in attempt.rows]

    def _write(self, attempt: _Attempt, exchange: Exchange, session: Session, verdict: Verdict) -> None:
        self._held -= attempt.hold
        at = time.time()
        for row, result in zip(attempt.rows, results_of(exchange, session, len(attempt.rows)), strict=True):
            self._spent += result.prompt_tokens + result.completion_tokens
            finished = result.outcome == "done"
            kept = finished or verdict.kind == "failed"
            state = DONE if finished else FAILED if kept else PENDING
            code = None if finished or not kept else (result.error or {}).get("code", "interrupted")
            data = to_bytes(result) if kept else None
            spent = result.prompt_tokens, result.completion_tokens
            self._note(Ended(row.number, state, at, *spent, code, data=data))
            if finished and self._cache is not None and data is not None and CLAMPED not in result.headers:
                self._cache.put(self.plan.variants[row.variant], row.prompt, data)

    def _note(self, ended: Ended) -> None:
        self._ended.append(ended)
        stats = self.stats
        stats.tokens += ended.prompt_tokens + ended.completion_tokens
        stats.new_tokens += ended.prompt_tokens + ended.completion_tokens
        if ended.state == DONE:
            stats.done += 1
        elif ended.state == FAILED:
            stats.failed += 1
            stats.codes[ended.code or "error"] += 1

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._stirred.set()
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
