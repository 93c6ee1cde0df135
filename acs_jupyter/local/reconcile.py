"""``acs-jupyter jobs reconcile``: the usage of jobs whose server is gone, settled with what they held.

Owns which hold belongs to which job, and the words. It must not know argument parsing or HTTP.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .budget import settle_left_behind
from .job_store import FILE, JobStore, StoreBusy, folder_of
from .store import Store

if TYPE_CHECKING:
    from .holds import Hold
    from .job_values import Row

ENDPOINT = "completion-jobs"


def reconcile(folder: str | None, job: str | None, *, charge: bool) -> str:
    """Settle one job or all, in a data folder (default: ``ACS_LOCAL_DATA``) whose server does not run; what to print.

    What these jobs held is counted as used in full (``charge``) or released. Raises :class:`StoreBusy`.
    """
    place = folder_of(folder)
    if place is None or not (place / FILE).exists():
        raise StoreBusy("There is no data folder with jobs: name it with --data or ACS_LOCAL_DATA.")
    try:
        store = JobStore(place, time.time())
    except StoreBusy as problem:
        raise StoreBusy(f"{problem} Stop the server first.") from None
    try:
        settled = store.reconcile(job)
        if not settled and job is not None and not store.has(job):
            raise StoreBusy(f"There is no job {job!r} in {place}.")
    finally:
        store.close()
    budgets = Store(place)
    try:
        given = settle_left_behind(
            budgets, time.time(), charge=charge, of=lambda left: held_by(settled, left)
        )
    finally:
        budgets.close()
    if not settled:
        return "No job's usage is pending."
    tokens = sum(hold.tokens for hold in given)
    many = "" if len(settled) == 1 else "s"
    return f"{len(settled)} job{many}: {tokens:,} tokens {'counted as used' if charge else 'released'}"


def held_by(jobs: list[Row], holds: dict[int, Hold]) -> list[int]:
    """The holds of some jobs by number, at most one a job.

    A request id is the client's choice: key and endpoint must be the job's too, and of several the one nearest its
    start.
    """
    left, found = dict(holds), []
    for job in jobs:
        mine = [
            number
            for number, hold in left.items()
            if (hold.request_id, hold.key_id, hold.endpoint) == (job.request_id, job.owner, ENDPOINT)
        ]
        if mine:
            nearest = min(mine, key=lambda number: abs(left[number].at - (job.started or 0.0)))
            del left[nearest]
            found.append(nearest)
    return found
