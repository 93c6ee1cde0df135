"""A rollout as its user holds it: wait, stop, look, read.

Owns the thread a rollout runs on, what an interrupt does, and the line that is told at the end. How requests are sent
is the driver's. It must not know IPython.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import AcsError, InvalidRequest
from ..machine import ending
from ..pump import interrupts_held
from .cache import Cache
from .driver import Driver, Stats
from .flow import MINUTE, Flow, Limits
from .items import Item
from .journal import Journal
from .lines import BatchClient
from .packed import RolloutCompletion
from .parquet import write_parquet
from .plan import Plan
from .progress import Bar
from .results import Results
from .served import adapted

if TYPE_CHECKING:
    import pandas as pd

OUTCOMES = {
    "stopped": "stopped; what is left goes on when it is called again",
    "budget": "stopped at the budget; what is left goes on with a larger one",
    "refused": "stopped: the server refuses every request",
    "failures": "stopped: the server only fails; call it again when it is back",
}


@dataclass
class Work:
    """What a rollout is made of, before it runs."""

    journal: Journal
    plan: Plan
    client: BatchClient
    limits: Limits
    batch: int = 1
    budget: int | None = None
    cache: Cache | None = None
    named_by_file: bool = False
    """Whether the model is the one of the file's own plan; the caller named none."""


class Rollout:
    """Thousands of requests in one file. Made by :func:`acs_jupyter.rollout`, or of a file that is there already.

    ``outcome``: ``open`` while it runs, then ``done`` (every request has ended), ``stopped``, ``budget``, ``refused``
    or ``failures``; ``reason`` says more. ``Rollout("run.acs.db")`` reads a file and sends nothing.
    """

    def __init__(self, path: str | os.PathLike[str], work: Work | None = None) -> None:
        self._named = Path(path)
        """As its user wrote it: what is shown in a notebook tells no folders of the machine."""
        self.path = self._named.absolute()
        self._results = Results(self._named)
        self._work = work
        self._driver: Driver | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = threading.Event()
        self._asked: bool | None = None
        self._failure: BaseException | None = None
        self._bar: Bar | None = None
        self._tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
        if work is None:
            self._ended.set()

    # -- how it stands ----------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing runs any more; ``outcome`` says how it ended."""
        return self._ended.is_set()

    @property
    def outcome(self) -> str:
        """See the class."""
        if not self.done:
            return "open"
        if self._driver is not None:
            return self._driver.outcome
        if self._failure is not None:
            return "refused"
        counts = self._results.counts()
        return "done" if counts.done + counts.failed == counts.total else "stopped"

    @property
    def reason(self) -> str:
        """Why it stopped early, in words; ``""`` when it did not."""
        if self._driver is None and self._failure is not None:
            return str(self._failure)
        return self._driver.reason if self._driver is not None else ""

    @property
    def stats(self) -> Stats:
        """Numbers: ``total``, ``done``, ``failed``, ``cached``, ``in_flight``, ``tokens``, ``codes``."""
        if self._driver is not None:
            return self._driver.stats
        if not self.path.exists():  # refused before anything was sent
            return Stats()
        counts = self._results.counts()
        return Stats(counts.total, counts.done, counts.failed, tokens=counts.spent)

    @property
    def failures(self) -> dict[str, int]:
        """Failed requests by error code."""
        return self._results.failures()

    def __len__(self) -> int:
        return self.stats.total

    def __repr__(self) -> str:
        stats = self.stats
        failed = f", {stats.failed} failed" if stats.failed else ""
        return (
            f"Rollout({str(self._named)!r}: {stats.done + stats.failed} of {stats.total} ended{failed}, "
            f"{stats.tokens:,} tokens, {self.outcome})"
        )

    # -- what came --------------------------------------------------------------------------------

    def frame(self, *, tokens: bool = False, pending: bool = False) -> pd.DataFrame:
        """What has ended so far, one row a choice (``tokens=True``: one row a token); at any time.

        Columns: ``item`` (place of the prompt), ``prompt`` (not with ``tokens``), its metadata, ``model``, the
        fields that vary, ``choice``, ``state`` (``done`` or ``failed``), ``text``, ``finish_reason``, ``stop_reason``,
        ``logprob`` (sum, natural), ``prompt_tokens`` and ``completion_tokens`` (of the whole request, on its first
        row, so that a sum is what was spent), ``cached``, ``error`` (code) and ``message``, ``seconds``,
        ``attempts``, ``request_id``, ``number``.
        ``pending=True`` adds rows of requests that have not ended. A metadata name that is taken gets ``meta_``.
        """
        return self._results.frame(tokens=tokens, pending=pending)

    def to_parquet(self, path: str | os.PathLike[str], *, tokens: bool = False) -> Path:
        """Write :meth:`frame` to a Parquet file, piece by piece. Needs pyarrow (the extra ``parquet``)."""
        rows = self._results.token_rows() if tokens else self._results.choice_rows()
        columns = self._results.columns(tokens=tokens)
        write_parquet(rows, columns, self._results.kinds(), Path(path))
        return Path(path)

    def completions(self) -> Iterator[RolloutCompletion]:
        """The completions that have ended, failed ones too, in the plan's order, read one at a time.

        Each has ``item``, ``meta``, ``varied`` and ``number`` beside what a completion has.
        """
        return self._results.completions()

    def judge(self, plan: Plan, items: Iterable[Item]) -> None:
        """Raise :class:`InvalidRequest` unless the file is of this plan. Nothing is written."""
        self._results.judge(plan, items)

    # -- running ----------------------------------------------------------------------------------

    def stop(self, *, drop: bool = False) -> None:
        """Start no more requests; from any thread. Those in flight are finished, or with ``drop`` cancelled.

        A cancelled one frees the server at once and is sent again when the rollout goes on.
        """
        self._asked = drop or bool(self._asked)
        driver = self._driver
        if self._loop is not None and driver is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
                self._loop.call_soon_threadsafe(lambda: driver.stop(drop=drop))

    def wait(self, timeout: float | None = None) -> Rollout:
        """Wait until it ends (or ``timeout`` seconds), then raise what broke it, if anything did.

        An interrupt stops it as :meth:`stop` does: the first finishes what is in flight, the second drops it. Then
        ``KeyboardInterrupt`` is raised, with the rollout as its ``rollout`` and a message that says how to go on.
        """
        left = timeout
        with interrupts_held() as noted:
            seen = 0
            while not self._ended.wait(0.1) and (left is None or left > 0):
                left = None if left is None else left - 0.1
                if len(noted) > seen:
                    seen = len(noted)
                    self._interrupt(seen)
                self._show()
        if noted:
            raise self._interrupted()
        if self._failure is not None and self.done:
            raise self._failure
        return self

    def __await__(self) -> Generator[Any, None, Rollout]:
        return self._awaited().__await__()

    async def _awaited(self) -> Rollout:
        await asyncio.to_thread(self._ended.wait)
        if self._failure is not None:
            raise self._failure
        return self

    def _interrupted(self) -> KeyboardInterrupt:
        """What is raised after an interrupt. A notebook asks an exception for its rendering before it writes a
        traceback; one line is enough here, and the cells after this one still do not run."""
        stats = self.stats
        left = stats.total - stats.done - stats.failed
        on = f" Run the cell again to send the {left} that are left." if left else ""
        line = f'Stopped; what came is kept: Rollout("{self._named}") reads it.{on}'
        problem = KeyboardInterrupt(line)
        problem.rollout = self  # type: ignore[attr-defined]
        problem._render_traceback_ = lambda: [f"KeyboardInterrupt: {line}"]  # type: ignore[attr-defined]
        return problem

    def _interrupt(self, count: int) -> None:
        if count == 1:
            flying = self.stats.in_flight
            self._tell(f"Stopping: what is in flight ({flying}) is finished; interrupt again to drop it.")
        self.stop(drop=count > 1)

    def start(self, bar: Bar | None, *, alone: bool) -> None:
        """Run on a thread of its own; ``alone``: nobody waits, so the bar moves by itself."""
        self._bar = bar
        here = contextvars.copy_context()  # scopes of a budget that the caller is in hold there too
        thread = threading.Thread(target=here.run, args=(self._serve, alone), name="acs-rollout", daemon=True)
        thread.start()
        ending.tell(thread, self._leave)

    def _leave(self, at_once: bool) -> None:
        if (
            at_once or not self._asked
        ):  # what is dropped already hears what it has cost; dropped twice, it does not
            self.stop(drop=True)

    def _serve(self, alone: bool) -> None:
        try:
            asyncio.run(self._carried(None, alone=alone))
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            self._failure = error
        finally:
            self._ended.set()

    async def carry(self, bar: Bar | None = None) -> Rollout:
        """Run on this event loop to the end. Cancelling it drops what is in flight."""
        try:
            await self._carried(bar, alone=True)
        finally:
            self._ended.set()
        return self

    async def _carried(self, bar: Bar | None, *, alone: bool) -> None:
        assert self._work is not None
        work, self._bar = self._work, bar or self._bar
        self._loop = asyncio.get_running_loop()
        ticker = self._loop.create_task(self._tick()) if alone else None
        if work.journal.note:
            self._tell(work.journal.note)
        try:
            async with work.client:
                self._driver = await self._made(work)
                if self._asked is not None:
                    self._driver.stop(drop=self._asked)
                await self._driver.run()
        except sqlite3.Error as error:
            raise InvalidRequest(
                f"{self._named} cannot be written ({error}); what is in it is kept."
            ) from None
        finally:
            if ticker is not None:
                ticker.cancel()
            self._close_bar()
            work.journal.close(refused=self._driver is None)
            if work.cache is not None:
                work.cache.close()
        self._tell_end()

    async def _made(self, work: Work) -> Driver:
        known = {}
        counts = work.journal.counts()
        if counts.done + counts.failed < counts.total:
            with contextlib.suppress(AcsError):  # a server without a list can still complete
                known = {model.id: model for model in await work.client.models()}
        stored_in = self.path.name if work.named_by_file else ""
        limits = adapted(work.limits, work.plan, known, stored_in=stored_in)
        clock, now = asyncio.get_running_loop().time, time.time()
        earlier = [clock() - (now - at) for at in work.journal.starts_since(now - MINUTE)]

        def room(model: str | None) -> int | None:
            found = known.get(model or "")
            return found.capabilities.max_model_len if found else None

        return Driver(
            work.journal,
            work.plan,
            work.client,
            Flow(limits, work.plan.models, earlier),
            batch=work.batch,
            batch_room=room,
            budget=work.budget,
            cache=work.cache,
            clock=clock,
            tell=lambda line: self._tell(f"{self.path.name}: {line}"),
        )

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(0.25)

    def _show(self) -> None:
        if self._bar is not None and self._driver is not None:
            self._bar.show(self._driver.stats)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close(self.stats)

    def _tell_end(self) -> None:
        assert self._driver is not None
        stats = self._driver.stats
        if self._driver.outcome in OUTCOMES:
            left = stats.total - stats.done - stats.failed
            self._tell(
                f"{self.path.name}: {OUTCOMES[self._driver.outcome]} ({left} of {stats.total} left). "
                f"{self._driver.reason}".rstrip()
            )
        if stats.failed:
            codes = ", ".join(f"{code} {count}" for code, count in self.failures.items())
            self._tell(
                f"{self.path.name}: {stats.failed} failed ({codes}); retry_failed=True sends them again."
            )
