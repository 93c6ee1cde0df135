"""A job's submission that was made before: its hold, or what was paid for it, found again.

Owns what an equal or a larger submission has to fit into. It must not know files or clocks.
"""

from __future__ import annotations

import sqlite3

from .refusal import check, exhausted
from .rows import Origin, Ticket, accounts_of, claim_entry, known_job, widen_entry
from .terms import Worst


def submitted_before(db: sqlite3.Connection, origin: Origin, worst: Worst, now: float) -> Ticket | None:
    """What is held, or was paid, for the same submission; a larger request is no such thing once that is paid.

    Raises :class:`BudgetRefused`; then the transaction must be taken back.
    """
    if origin.kind != "job" or origin.apart:
        return None
    known = known_job(db, origin, now)
    if known is None or (known.settled and worst.total > known.held):
        return None
    if known.settled:
        return known
    more = tuple(each for each in dict.fromkeys(origin.scopes) if each not in known.accounts)
    if more:  # if the first never arrived, it is paid here
        larger = worst if worst.total > known.held else Worst(known.prompt_most, known.completion_most, False)
        check(accounts_of(db, more), larger)
        known = widen_entry(db, known, more)
    if worst.total > known.held:  # the same key with more to pay: the service would call it a conflict
        told = exhausted(db, origin.key, now)
        if told is not None:
            raise told
        check(accounts_of(db, known.accounts), worst, known.held)
    return claim_entry(db, known, worst)
