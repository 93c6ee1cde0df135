"""What the ledger knows, as plain values: a month at a glance, sums by group, single entries.

Owns the questions asked of the file and the names of columns. It must not know pandas, nor how anything is shown.
Tokens are counted in whole tokens, times in seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .terms import day_of, day_start, month_of, projected

if TYPE_CHECKING:
    from .book import Ledger

GROUPS = ("month", "today", "key", "model", "notebook", "cell")
"""By what entries are summed. ``month`` has all months there are, the others are about this month."""
WARN_AT = 0.8
"""The share of a limit from which on it is pointed out."""

_JOIN = (
    " FROM entries e JOIN keys k ON k.id = e.key JOIN processes p ON p.id = e.process"
    " AND NOT (e.state = 'released' AND e.source = '' AND e.request_id IS NULL AND e.error IS NULL)"
)
"""Entries that tell of a request: what was given back without a word of a server was never sent, or is a job found
again, and is none."""
_PROMPT = "CASE e.state WHEN 'held' THEN coalesce(e.seen_prompt, 0) ELSE e.prompt_tokens END"
_COMPLETION = "CASE e.state WHEN 'held' THEN coalesce(e.seen_completion, 0) ELSE e.completion_tokens END"
_SUMS = (
    f" count(*), sum({_PROMPT}), sum({_COMPLETION}), sum({_PROMPT}) + sum({_COMPLETION}),"
    f" sum(CASE e.state WHEN 'held' THEN max(0, e.held - ({_PROMPT}) - ({_COMPLETION})) ELSE 0 END),"
    " sum(CASE WHEN e.source IN ('estimate', 'resolved') THEN e.prompt_tokens + e.completion_tokens ELSE 0 END)"
)
_KEY = "CASE k.prefix WHEN '' THEN 'key ' || k.id ELSE k.prefix END"
_NAMES = {
    "month": "e.month",
    "today": "date(e.at, 'unixepoch')",
    "key": f"{_KEY} || ' @ ' || k.server",
    "model": "CASE e.model WHEN '' THEN '(default)' ELSE e.model END",
    "notebook": "CASE p.notebook WHEN '' THEN '(no name)' ELSE p.notebook END",
    "cell": "trim(p.notebook || ' ' || CASE e.cell WHEN '' THEN '(no cell)' ELSE e.cell END)",
}
_WHERE = {
    "month": "",
    "today": " WHERE e.at >= :day",
}


@dataclass(frozen=True)
class Sum:
    """One group. ``held`` is not part of ``tokens``; ``estimated`` is: tokens nobody but this machine has counted.

    What running streams have used by now counts as spent, as in a :class:`Glance`.
    """

    by: str
    name: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    tokens: int
    held: int
    estimated: int


@dataclass(frozen=True)
class Glance:
    """A key's month as it stands, or that of all keys (``key`` is ``None``; then there is no limit).

    ``spent`` and ``held`` count what running streams have used by now as spent. ``left`` is what a new request may
    take of the month. ``told_exhausted``: the server said that nothing is left. ``at``: when it stood so, in seconds.
    """

    month: str
    key: int | None
    name: str
    spent: int
    held: int
    limit: int | None
    left: int | None
    running: int
    projected: int
    told_exhausted: bool
    session_spent: int
    session_limit: int | None
    session_held: int
    at: float

    @property
    def share(self) -> float | None:
        """How much of the tightest limit is spent or held, from 0 on; ``None`` without a limit."""
        if self.told_exhausted:
            return 1.0
        most, spent, held = self.bound
        return None if most is None else (spent + held) / max(1, most)

    @property
    def tightest(self) -> str:
        """``month`` or ``session``: the limit nearer its end from 80 % of either on, before that the one that leaves
        less; the month where there is none."""
        if self.told_exhausted or self.session_limit is None or self.session_left is None:
            return "month"
        if self.limit is None or self.left is None:
            return "session"
        session = (self.session_spent + self.session_held) / max(1, self.session_limit)
        month = (self.spent + self.held) / max(1, self.limit)
        nearer = session > month if max(session, month) >= WARN_AT else self.session_left < self.left
        return "session" if nearer else "month"

    @property
    def session_left(self) -> int | None:
        """What the session's limit leaves to a new request; ``None`` without one."""
        if self.session_limit is None:
            return None
        return max(0, self.session_limit - self.session_spent - self.session_held)

    @property
    def bound(self) -> tuple[int | None, int, int]:
        """The tightest limit, and what is spent and held of it."""
        if self.tightest == "session":
            return self.session_limit, self.session_spent, self.session_held
        return self.limit, self.spent, self.held

    @property
    def free(self) -> int | None:
        """What the tightest limit leaves to a new request; ``None`` without one."""
        return self.session_left if self.tightest == "session" else self.left

    @property
    def level(self) -> str:
        """``ok``, ``warn`` from 80 % on, ``over`` when nothing is left."""
        share = self.share
        if share is None or share < WARN_AT:
            return "ok"
        return "over" if share >= 1 else "warn"


def glance(book: Ledger, key: int | None = None) -> Glance:
    """The month of a key, or of all, as it stands now."""
    now = book.clock()
    month = month_of(now)
    only, values = ("", ()) if key is None else (" AND key = ?", (key,))
    both = "coalesce(sum(used), 0), coalesce(sum(held), 0)"
    query = f"SELECT {both} FROM accounts WHERE kind = 'month' AND name = ?{only}"
    used, held = book.store.rows(query, month, *values)[0]
    query = f"SELECT id, seen_prompt + seen_completion FROM entries WHERE state = 'held' AND month = ?{only}"
    running = dict(book.store.rows(query, month, *values))
    for ticket in tuple(book.open.values()):
        if ticket.entry in running and ticket.seen is not None:
            running[ticket.entry] = sum(ticket.seen)
    seen = sum(count or 0 for count in running.values())
    limit, told, name = _of_key(book, key, now)
    session = book.session.state
    mine = sum(sum(ticket.seen or ()) for ticket in tuple(book.open.values()))
    return Glance(
        month=month,
        key=key,
        name=name,
        spent=used + seen,
        held=max(0, held - seen),
        limit=limit,
        left=0 if told else None if limit is None else max(0, limit - used - held),
        running=len(running),
        projected=projected(used + seen, month, now),
        told_exhausted=told,
        session_spent=session.used + mine,
        session_limit=session.most,
        session_held=max(0, session.held - mine),
        at=now,
    )


def limited(book: Ledger, but: int | None = None) -> list[Glance]:
    """The months of all keys that have a limit of their own, or are used up by their server's word; ``but`` one."""
    query = "SELECT id FROM keys WHERE id IS NOT ? AND (most IS NOT NULL OR exhausted IN (?, ?)) ORDER BY id"
    now = book.clock()
    return [glance(book, key) for (key,) in book.store.rows(query, but, month_of(now), day_of(now))]


def _of_key(book: Ledger, key: int | None, now: float) -> tuple[int | None, bool, str]:
    query = f"SELECT most, exhausted, {_KEY} FROM keys k WHERE id = ?"
    for most, exhausted, name in book.store.rows(query, key):
        return most, exhausted in (month_of(now), day_of(now)), name
    return None, False, "all keys"


def sums(book: Ledger, groups: tuple[str, ...] = GROUPS) -> list[Sum]:
    """The sums of each group, the largest first."""
    now = book.clock()
    found: list[Sum] = []
    for by in groups:
        where = _WHERE.get(by, " WHERE e.month = :month")
        order = "name DESC" if by == "month" else "5 DESC, name LIMIT 50"
        query = f"SELECT {_NAMES[by]} AS name,{_SUMS}{_JOIN}{where} GROUP BY name ORDER BY {order}"
        rows = book.store.named(query, month=month_of(now), day=day_start(now))
        found += [Sum(by, *row) for row in rows]
    return found


ENTRY_COLUMNS = (
    "entry", "at", "ended", "month", "key", "server", "notebook", "pid", "cell", "kind", "job", "model", "state",
    "prompt_tokens", "completion_tokens", "held", "source", "request_id", "error", "clamp",
)  # fmt: skip


def entries(book: Ledger) -> list[dict[str, Any]]:
    """Every entry there is, oldest first. ``source``: ``usage``, ``continuous`` (the last count before a stream was
    cut), ``estimate``, ``resolved`` (by hand), or empty when nothing was used."""
    query = (
        f"SELECT e.id, e.at, e.ended, e.month, {_KEY}, k.server, p.notebook, p.pid, e.cell, e.kind, e.job, e.model,"
        " e.state, e.prompt_tokens, e.completion_tokens, CASE e.state WHEN 'held' THEN e.held ELSE 0 END, e.source,"
        f" e.request_id, e.error, e.clamp{_JOIN} ORDER BY e.id"
    )
    return [dict(zip(ENTRY_COLUMNS, row, strict=True)) for row in book.store.rows(query)]


def clamped(book: Ledger) -> int:
    """How many answers of this month the server has shortened (``X-Acs-Max-Tokens-Clamped``)."""
    query = "SELECT count(*) FROM entries WHERE month = ? AND clamp IS NOT NULL"
    return int(book.store.rows(query, month_of(book.clock()))[0][0])


def as_dict(value: Glance | Sum) -> dict[str, Any]:
    """A value's fields by name."""
    return asdict(value)
