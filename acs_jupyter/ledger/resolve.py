"""What is still held, by whom, and how a hold ends whose process cannot end it any more.

Owns the words for states of a hold and the three ways to resolve one. It must not know how any of it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..machine.processes import Process, is_gone
from .rows import RESOLVED, End, end_entry

if TYPE_CHECKING:
    from .book import Ledger

RUNNING, GONE, OUT_OF_SIGHT, JOB = "running", "process gone", "process out of sight", "job"
WAYS = ("held", "estimate", "nothing")
"""``held``: the most it can have been; ``estimate``: the prompt and what was seen of the text; ``nothing``."""
LONGEST_LIFE = 86_400.0
"""Seconds after which no request can still run: a stream of 32,000 tokens at one a second, with every wait there is.

A process of another machine, of a container or of the time before a restart cannot be seen from here. What it held
longer ago than this is resolved like that of a process that is gone; what is younger, when that is asked for.
"""


@dataclass(frozen=True)
class Hold:
    """One hold. ``held``: tokens; ``estimate``: what it has likely cost, prompt and completion; ``job``: its id."""

    entry: int
    at: float
    key: int
    name: str
    model: str
    notebook: str
    cell: str
    pid: int
    held: int
    prompt_most: int
    estimate: tuple[int, int]
    state: str
    job: str | None

    @property
    def words(self) -> str:
        """``held (process gone)`` and its like."""
        return "held" if self.state == RUNNING else f"held ({self.state})"


def holds(book: Ledger) -> list[Hold]:
    """Everything that is held, oldest first."""
    query = (
        "SELECT e.id, e.at, e.key, CASE k.prefix WHEN '' THEN 'key ' || k.id ELSE k.prefix END, e.model, p.notebook,"
        " e.cell, e.held, e.prompt_most, coalesce(e.seen_prompt, e.prompt_guess), coalesce(e.seen_completion, 0),"
        " e.kind, e.job, p.machine, p.pid, p.began FROM entries e JOIN keys k ON k.id = e.key"
        " JOIN processes p ON p.id = e.process WHERE e.state = 'held' ORDER BY e.id"
    )
    found = []
    for row in book.store.rows(query):
        entry, at, key, name, model, notebook, cell, held, prompt, guess, seen, kind, job, *process = row
        state = JOB if kind == "job" and job is not None else _state(Process(*process))
        pid = process[1]
        place = (model, notebook, cell, pid)
        found.append(Hold(entry, at, key, name, *place, held, prompt, (guess, seen), state, job))
    return found


def resolve(book: Ledger, way: str = "held", *, jobs: bool = False, out_of_sight: bool = False) -> list[Hold]:
    """End the holds whose process is gone, and those out of sight for longer than a request can live; returns them.

    ``jobs``: those of jobs too; ``out_of_sight``: all whose process cannot be seen from here. One that ends later
    after all is corrected by what its own process says. Raises ``ValueError`` for an unknown way.
    """
    if way not in WAYS:
        raise ValueError(way)
    old = book.clock() - LONGEST_LIFE
    ended = [
        hold
        for hold in holds(book)
        if hold.state == GONE
        or (jobs and hold.state == JOB)
        or (hold.state == OUT_OF_SIGHT and (out_of_sight or hold.at < old))
    ]
    with book.store.writing() as db:
        for hold in ended:
            prompt, completion = {
                "estimate": hold.estimate,
                "held": (hold.prompt_most, hold.held - hold.prompt_most),
            }.get(way, (0, 0))
            end_entry(db, hold.entry, End(prompt, completion, RESOLVED), book.clock())
    return ended


def reset(book: Ledger, key: int) -> bool:
    """Believe no longer that a key's month is used up; whether it was believed."""
    with book.store.writing() as db:
        change = "UPDATE keys SET exhausted = NULL WHERE id = ? AND exhausted IS NOT NULL"
        return db.execute(change, (key,)).rowcount == 1


def _state(process: Process) -> str:
    gone = is_gone(process)
    return OUT_OF_SIGHT if gone is None else GONE if gone else RUNNING
