"""The requests of one model that are still to be sent, a page of the journal at a time.

Owns their order (that of the plan, those to be sent again first when they are due) and which of them may share a
request. It must not know sockets or limits of flow.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec

from ..wire import MAX_OUTPUT_WORK, CompletionRequest
from .journal import Journal
from .plan import Plan

PAGE = 256
"""Rows read at a time: what bounds the memory."""
decoded = msgspec.json.decode


@dataclass(slots=True)
class Row:
    """One request to be sent. ``tries``: by this process; ``attempts``: ever; ``alone``: in no batch."""

    number: int
    key: bytes
    prompt: bytes
    attempts: int
    variant: int
    tries: int = 0
    alone: bool = False
    request: CompletionRequest | None = None


def run_of(row: Row) -> str:
    """The run id under which a request is sent: the same each time, so that the server's log shows it."""
    return row.key.hex()[:12]


class Feed:
    """See the module. ``room``: tokens that a request of this model can hold in all, when that is known."""

    def __init__(
        self,
        journal: Journal,
        place: int,
        model: str | None,
        plan: Plan,
        *,
        batch: int = 1,
        room: int | None = None,
    ) -> None:
        self.model = model
        self._journal, self._place, self._plan = journal, place, plan
        self._batch, self._room = batch, room
        self._waiting: dict[int, deque[Row]] = {}
        self._count = 0
        self._after = -1
        self._dry = False
        self._again: list[tuple[float, int, list[Row]]] = []
        self._order = itertools.count()

    def wait(self, now: float) -> float:
        """Seconds until there is a request to take: 0, or more, or infinity when there is none."""
        if self._again and self._again[0][0] <= now:
            return 0.0
        if not self._count and not self._dry:
            self._read()
        if self._count:
            return 0.0
        return self._again[0][0] - now if self._again else math.inf

    def take(self, now: float) -> list[Row]:
        """The next request, or several that are sent as one. Only when :meth:`wait` is 0."""
        if self._again and self._again[0][0] <= now:
            rows = heapq.heappop(self._again)[2]
        else:
            variant = min(self._waiting, key=lambda v: self._waiting[v][0].number)
            rows = self._grouped(self._waiting[variant])
            self._count -= len(rows)
            if not self._waiting[variant]:
                del self._waiting[variant]
        for row in rows:
            row.tries += 1
            row.attempts += 1
        return rows

    def put_back(self, rows: list[Row], due: float) -> None:
        """These are to be sent again, not before ``due``; those that must go alone are parted."""
        groups = [[row] for row in rows] if any(row.alone for row in rows) else [rows]
        for group in groups:
            heapq.heappush(self._again, (due, next(self._order), group))

    def untaken(self, rows: list[Row], due: float) -> None:
        """Put back rows that were not tried."""
        for row in rows:
            row.tries -= 1
            row.attempts -= 1
        self.put_back(rows, due)

    def request(self, row: Row) -> CompletionRequest:
        """The request of a single row."""
        if row.request is None:
            row.request = self._plan.variants[row.variant].request(decoded(row.prompt))
        return row.request

    def coming(self, count: int) -> list[Row]:
        """Requests that will be taken next, if nothing comes between; at most so many."""
        queues = [itertools.islice(queue, count) for queue in self._waiting.values()]
        return list(itertools.islice(heapq.merge(*queues, key=lambda each: each.number), count))

    def _read(self) -> None:
        page = self._journal.pending(self._place, self._after, PAGE)
        self._dry = len(page) < PAGE
        for number, key, prompt, attempts in page:
            row = Row(number, key, prompt, attempts, number % len(self._plan.variants))
            self._waiting.setdefault(row.variant, deque()).append(row)
            self._after = number
        self._count += len(page)

    def _grouped(self, queue: deque[Row]) -> list[Row]:
        rows = [queue.popleft()]
        variant = self._plan.variants[rows[0].variant]
        if self._batch < 2 or not variant.batches:
            return rows
        each = int(variant.fields["max_tokens"])
        work = each * int(variant.fields.get("n", 1))
        kind = rows[0].prompt[:1]  # a text or a list of ids: a request holds one kind
        size = _size(rows[0])
        while queue and len(rows) < self._batch and queue[0].prompt[:1] == kind:
            size += _size(queue[0])
            # The service counts the prompts of a batch together against the length of one.
            if (len(rows) + 1) * work > MAX_OUTPUT_WORK or (
                self._room is not None and size + each > self._room
            ):
                break
            rows.append(queue.popleft())
        return rows


def _size(row: Row) -> int:
    """The most tokens a prompt can have: its bytes, or its commas."""
    prompt: Any = row.prompt
    return prompt.count(b",") + 1 if prompt[:1] == b"[" else len(prompt)
