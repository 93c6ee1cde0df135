"""A rollout under way: sends what may start, starts the next in its place, and writes down how it ended.

Owns the order of these steps: a request is in the journal as sent before its socket opens. Its place is free when the
last byte of its answer is here; then the next one is sent, then the answer is read, and its end is committed at most a
moment later, with the next start if there is one by then. It decides nothing about limits (``flow.py``,
``dispatch.py``) and draws nothing. It must not know threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ..errors import AcsError, BudgetRefused, LedgerFailed
from ..exchange import Exchange
from ..wire import CLAMPED
from .cache import Cache
from .dispatch import Attempt, Dispatch
from .feed import Feed, Row, decoded, run_of
from .flow import Flow, Verdict
from .gathered import Gathered
from .holds import holds_of
from .journal import DONE, FAILED, PENDING, Ended, Journal, Unwritable
from .lines import BatchClient
from .outcomes import end_of, results_of
from .packed import to_bytes
from .plan import Plan
from .stalls import Stall

_SOON = 0.004
"""Seconds that the end of a request waits at most for the start of another, to be written down together."""
_TURNS = 2
"""Turns of the event loop: in the first it is decided what starts, in the second that is sent."""
_MOMENT, _LAST_WAIT = 0.2, 15.0
"""Seconds that the journal is waited for: while answers stream, and at the end."""


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


class Driver:
    """Carries a journal to its end.

    ``outcome`` is ``open``, then ``done``, ``stopped``, ``budget``, ``refused`` or ``failures``; ``reason`` says more.
    """

    def __init__(
        self,
        journal: Journal,
        plan: Plan,
        client: BatchClient,
        flow: Flow,
        *,
        batch: int = 1,
        batch_room: Callable[[str | None], int | None] = lambda _: None,
        budget: int | None = None,
        cache: Cache | None = None,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.journal, self.plan, self.client, self.flow = journal, plan, client, flow
        self._mark = journal.mark
        counts = journal.counts()
        self.stats = Stats(counts.total, counts.done, counts.failed, tokens=counts.spent)
        self.outcome = "open"
        self.reason = ""
        feeds = [
            Feed(journal, place, model, plan, batch=batch, room=batch_room(model))
            for place, model in enumerate(plan.models)
        ]
        self._dispatch = Dispatch(
            feeds, flow, plan, budget=budget, counts=counts, cache=cache, answered=self._from_cache
        )
        self._cache = cache
        self._holds = holds_of(client, journal, alone=batch == 1 and cache is None)
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[Ended] = []
        self._stopping = self._dropping = False
        self._refusal = ""
        self._blocked = self._exhausted = False
        self._stalls = self._file, self._ledger = Stall(tell, clock), Stall(tell, clock)
        journal.hurry(_MOMENT)
        self._soon: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None
        self._stirred = asyncio.Event()

    async def run(self) -> str:
        """Send everything that is still to be sent; returns the outcome. Cancelling drops what is in flight."""
        try:
            while True:
                attempts, delay = self._advance()
                for attempt in attempts:
                    self._spawn(attempt)
                if self._failure is not None:
                    raise self._failure
                if any(stall.hopeless for stall in self._stalls):
                    self._stopping = True
                    self.reason = self.reason or self._file.reason or self._ledger.reason
                if not self._tasks and (delay == math.inf or self._halted) and self._all_written:
                    break
                if self._holds is not None and not self._tasks:
                    self._holds.give_back()
                self.stats.waiting = delay if math.isfinite(delay) and not self._tasks else 0.0
                await self._pause(delay)
        finally:
            await self._drop()
        self.outcome = self._outcome()
        return self.outcome

    def stop(self, *, drop: bool = False) -> None:
        """Start nothing more. What is in flight is finished, or dropped and sent again by the next process."""
        self._stopping = True
        if drop:
            self._cancel()
        self._stirred.set()

    @property
    def _all_written(self) -> bool:
        return not self._ended or self._file.hopeless or self._dropping

    @property
    def _open(self) -> int:
        """How many requests hold something that comes back when they have ended."""
        return self.flow.key.in_flight + self.flow.unread

    @property
    def _halted(self) -> bool:
        return self._stopping or self._dropping or self.flow.stopped is not None

    def _outcome(self) -> str:
        counts = self.journal.counts()
        if counts.done + counts.failed == counts.total:
            return "done"
        squeezed = self._refusal or self._dispatch.squeezed
        if self.flow.stopped is None and squeezed and not self._stopping:
            self.reason = self.reason or squeezed
            return "budget"
        return self.flow.stopped or "stopped"

    # -- starting ---------------------------------------------------------------------------------

    def _advance(self) -> tuple[list[Attempt], float]:
        """Write down what has ended and what starts now, in one transaction."""
        attempts: list[Attempt] = []
        delay = math.inf
        if self._file.wait:
            return attempts, self._file.wait
        held_up = self._exhausted or (self._blocked and self._open > 0)
        if not (self._halted or held_up):
            attempts, delay = (
                ([], self._ledger.wait) if self._ledger.wait else self._dispatch.choose(self._clock())
            )
        may_wait = self._soon is not None and bool(self._tasks)
        if (attempts or (self._ended and not may_wait)) and not self._written(attempts):
            return [], self._file.wait
        self.stats.in_flight = self.flow.key.in_flight
        return attempts, delay

    def _written(self, attempts: list[Attempt]) -> bool:
        """Write down what has ended and what starts; when that cannot be now, nothing starts and nothing is lost."""
        sent = [share for attempt in attempts for share in attempt.shares]
        try:
            self.journal.record(self._ended, sent, time.time())
        except Unwritable as problem:
            for attempt in attempts:
                self._unsent(attempt)
            self._file.failed(str(problem))
            return False
        self._tell_ended()
        self._file.over()
        return True

    def _spawn(self, attempt: Attempt) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(attempt))
        self._tasks.add(task)
        task.add_done_callback(partial(self._forget, attempt))

    async def _arrived(self, attempt: Attempt) -> None:
        """The last byte of an answer is here, and nobody has looked at it: another request takes its place first.

        Those that came in the same turn of the loop give their places away together. Not when anything is wrong, since
        what the answer says may decide whether a next one starts; nor with a cache, which may hold the next.
        """
        model = attempt.feed.model
        if self._cache is not None or not self.flow.calm(model):
            return
        attempt.arrived = True
        self.flow.arrived(model)
        self._stirred.set()
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def _pause(self, delay: float) -> None:
        timer = None
        if math.isfinite(delay):
            timer = asyncio.get_running_loop().call_later(delay + 0.001, self._stirred.set)
        await self._stirred.wait()
        self._stirred.clear()
        if timer is not None:
            timer.cancel()

    def _forget(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not attempt.begun:  # dropped in the turn in which it was to begin
            self._put_off(attempt)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
        if not (self._tasks and self.flow.key.full) or self._failure is not None:
            self._stirred.set()
        elif (
            self._soon is None
        ):  # nothing can start: what has ended is written down with the next start, or soon
            self._soon = asyncio.get_running_loop().call_later(_SOON, self._due)

    def _due(self) -> None:
        self._soon = None
        if self._ended and (self._file.wait or not self._written([])):
            self._stirred.set()

    def _cancel(self) -> None:
        self._dropping = True
        for task in self._tasks:
            task.cancel()

    async def _drop(self) -> None:
        self._cancel()
        if self._soon is not None:
            self._soon.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ended:
            self.journal.hurry(_LAST_WAIT)
            try:
                self.journal.record(self._ended)
                self._tell_ended()
            except Unwritable as problem:
                count = (
                    f"{len(self._ended)} answers that came"
                    if len(self._ended) > 1
                    else "one answer that came"
                )
                self.reason = f"{problem} So {count} could not be kept, and will be asked for again."
            self._ended = []
        if self._holds is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._holds.written()

    # -- one attempt ------------------------------------------------------------------------------

    async def _carry(self, attempt: Attempt) -> None:
        attempt.begun = True
        rows, model = attempt.rows, attempt.feed.model
        exchange = self._exchange(attempt.feed, rows)
        try:
            if self._holds is not None:
                await self._holds.take(exchange, rows[0], attempt.feed)
                self._ledger.over(attempt.started_at)  # the answer may take longer than any trouble
            answer = Gathered(exchange)
            try:
                await self.client.carry(exchange, answer.apply, partial(self._arrived, attempt))
            finally:
                if self._holds is not None:
                    self._holds.ended(rows[0])
        except BudgetRefused as error:
            self._give_back(attempt, error)
            return
        except LedgerFailed as error:  # nothing was sent
            self._put_off(attempt)
            self._ledger.failed(error.message)
            return
        except asyncio.CancelledError:
            if not exchange.sent:  # while the ledger, or a connection, was waited for
                self._put_off(attempt)
                return
            self.flow.dropped(model, arrived=attempt.arrived)
            self._write(attempt, exchange, answer, Verdict("stop"))
            return
        self._blocked = False
        self._ledger.over(attempt.started_at)
        self._write(attempt, exchange, answer, self._judged(attempt, exchange))

    def _exchange(self, feed: Feed, rows: list[Row]) -> Exchange:
        variant = self.plan.variants[rows[0].variant]
        request = (
            feed.request(rows[0])
            if len(rows) == 1
            else variant.request([decoded(row.prompt) for row in rows])
        )
        run = run_of(rows[0])
        return self.client.exchange(
            request, run=run, request_id=f"acsj-{run}-{self._mark}-{rows[0].attempts}"
        )

    def _judged(self, attempt: Attempt, exchange: Exchange) -> Verdict:
        rows, end, now = attempt.rows, end_of(exchange), self._clock()
        verdict = self.flow.ended(
            attempt.feed.model, attempt.started_at, now, end, rows[0].tries, arrived=attempt.arrived
        )
        if verdict.kind == "stop" and exchange.error is not None:
            self.reason = str(exchange.error)
        if verdict.kind == "failed" and len(rows) > 1 and not end.begun and not end.ran:
            for row in rows:  # one of them may be to blame for all
                row.alone = True
            verdict = Verdict("again")
        if verdict.kind == "again":
            self.stats.retried[end.code or "error"] += 1
            attempt.feed.put_back(rows, now + verdict.delay)
        return verdict

    def _give_back(self, attempt: Attempt, error: AcsError) -> None:
        """The meter said no: nothing was sent. It is asked again when something has ended and given its hold back."""
        self._put_off(attempt)
        self._blocked = True
        self._exhausted = self._open == 0
        self._refusal = str(error)

    def _put_off(self, attempt: Attempt) -> None:
        """It is in the journal as sent, and was not."""
        self._unsent(attempt)
        self._ended += [Ended(row.number, PENDING, time.time(), unsent=True) for row in attempt.rows]

    def _unsent(self, attempt: Attempt) -> None:
        self._dispatch.give_back(attempt)
        self.flow.unsent(attempt.feed.model, attempt.started_at)
        attempt.feed.untaken(attempt.rows, self._clock())

    def _write(self, attempt: Attempt, exchange: Exchange, answer: Gathered, verdict: Verdict) -> None:
        self._dispatch.give_back(attempt)
        at = time.time()
        results = results_of(exchange, answer, len(attempt.rows))
        for row, result in zip(attempt.rows, results, strict=True):
            finished = result.outcome == "done"
            kept = finished or verdict.kind == "failed"
            state = DONE if finished else FAILED if kept else PENDING
            code = None if finished or not kept else (result.error or {}).get("code", "interrupted")
            data = to_bytes(result) if kept else None
            spent = result.prompt_tokens, result.completion_tokens
            self._dispatch.spend(sum(spent))
            self._ended.append(Ended(row.number, state, at, *spent, code, data=data))
            if finished and self._cache is not None and data is not None and CLAMPED not in result.headers:
                self._cache.put(self.plan.variants[row.variant], row.prompt, data)

    def _from_cache(self, row: Row, data: bytes) -> None:
        self._ended.append(Ended(row.number, DONE, time.time(), cached=True, data=data))

    def _tell_ended(self) -> None:
        """What has ended is written down, and so is counted."""
        stats = self.stats
        for ended in self._ended:
            stats.tokens += ended.prompt_tokens + ended.completion_tokens
            stats.new_tokens += ended.prompt_tokens + ended.completion_tokens
            if ended.state == DONE:
                stats.done += 1
                stats.cached += ended.cached
            elif ended.state == FAILED:
                stats.failed += 1
                stats.codes[ended.code or "error"] += 1
        self._ended = []
