"""The budget in words: one line, or a page of text.

Owns how counts, limits and holds are told. It must not know where they come from, nor widgets.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from .resolve import GONE, OUT_OF_SIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .report import Glance, Sum
    from .resolve import Hold

_TITLES = {
    "today": "today (UTC)",
    "month": "by month",
    "key": "by key",
    "model": "by model",
    "notebook": "by notebook",
    "cell": "by cell",
}
_NARROWEST = 14
_LONGEST = 12
"""Rows of a group that are printed; the frame and the export have them all."""


def one_line(glance: Glance) -> str:
    """A month in one line, with a warning in words from 80 % of its limit on."""
    whose = glance.name if glance.key is None else f"this key: {glance.name}"
    parts = [f"{_count(glance.spent, 'token')} spent in {glance.month} ({whose})"]
    if glance.held:
        parts.append(f"{glance.held:,} held by {_count(glance.running, 'request')}")
    parts.append(_limit(glance))
    if glance.projected > glance.spent:
        parts.append(f"at this pace {glance.projected:,} by the end of the month")
    return " · ".join([*parts, *warning(glance)])


def warning(glance: Glance) -> list[str]:
    """The warning a month deserves, if any."""
    if glance.told_exhausted:
        return ["the server says that the budget is used up"]
    which = "this session's limit" if glance.tightest == "session" else "the limit"
    if glance.level == "over":
        return [f"{which} is reached"]
    return [f"{glance.share:.0%} of {which} is spent or held"] if glance.level == "warn" else []


def page(
    glance: Glance,
    sums: Sequence[Sum],
    holds: Sequence[Hold],
    clamped: int,
    where: str,
    *,
    others: Sequence[Glance] = (),
) -> str:
    """Everything at a glance; ``where`` is the file."""
    lines = [brief(glance, sums, holds, clamped, others)]
    width = max((len(each.name) for each in sums), default=0)
    for by, title in _TITLES.items():
        rows = [each for each in sums if each.by == by]
        if rows:
            lines += ["", *_table(title, rows, max(width, _NARROWEST))]
    return "\n".join([*lines, "", f"(kept in {where})"])


def brief(
    glance: Glance, sums: Sequence[Sum], holds: Sequence[Hold], clamped: int, others: Sequence[Glance] = ()
) -> str:
    """The month of the key in use, of ``others`` that have a limit, then what all keys of this machine come to, and
    what is held."""
    lines = [one_line(glance), *map(_other, others), _session(glance)]
    today = sum(each.tokens for each in sums if each.by == "today")
    month = sum(each.tokens for each in sums if each.by == "month" and each.name == glance.month)
    lines.append(
        f"All keys in this ledger: {_count(today, 'token')} today (UTC), {month:,} in {glance.month};"
        " the tables are about all keys, too."
    )
    if clamped:
        lines.append(f"The server shortened {_count(clamped, 'answer')} this month (max_tokens clamped).")
    return "\n".join([*lines, *_held(holds)])


def settled(ended: Sequence[Hold], left: Sequence[Hold], way: str, asked: int) -> str:
    """What ``settle`` did, and what it left; ``asked``: jobs that the server said have ended."""
    spent = {
        "estimate": sum(sum(hold.estimate) for hold in ended),
        "held": sum(hold.held for hold in ended),
    }.get(way, 0)
    what = {"estimate": "an estimate of", "held": "all that was held,", "nothing": "nothing:"}[way]
    lines = ["No hold of a process that is gone."]
    if ended:
        lines = [f"{_count(len(ended), 'hold')} settled, as {what} {_count(spent, 'token')}."]
    if asked:
        lines.append(f"{_count(asked, 'job')} settled by what the server said.")
    hidden = [hold for hold in left if hold.state == OUT_OF_SIGHT]
    if hidden:
        lines.append(
            f"{_count(len(hidden), 'hold')} of processes that cannot be seen from here (another machine or container,"
            " or before a restart): whether they still run is not known. --elsewhere ends those too; after 24 hours"
            " they end without it."
        )
    jobs = [hold for hold in left if hold.job]
    if jobs:
        lines.append(
            f"{_count(len(jobs), 'job')} still held: reading a result settles it; --jobs ends those holds too."
        )
    return "\n".join(lines)


def _limit(glance: Glance) -> str:
    if glance.tightest == "session":
        month = "" if glance.limit is None else f" ({glance.left or 0:,} of the month's {glance.limit:,})"
        return f"{glance.free or 0:,} of this session's {glance.session_limit:,} left{month}"
    if glance.limit is None:
        return "no limit" if glance.key is not None else "limits belong to single keys"
    return f"{glance.left or 0:,} of {glance.limit:,} left"


def stood(glance: Glance) -> str:
    """When it stood so, for a copy that moves no more."""
    return f"as it stood at {datetime.fromtimestamp(glance.at, UTC):%Y-%m-%d %H:%M} UTC"


def _other(glance: Glance) -> str:
    left = "no limit" if glance.limit is None else f"{glance.left or 0:,} of {glance.limit:,} left"
    told = "; the server says that the budget is used up" if glance.told_exhausted else ""
    return f"Another key: {glance.name} has spent {_count(glance.spent, 'token')} in {glance.month}, {left}{told}."


def _session(glance: Glance) -> str:
    limit = "no limit" if glance.session_limit is None else f"limit {glance.session_limit:,}"
    return f"{_count(glance.session_spent, 'token')} in this session ({limit})"


def _held(holds: Sequence[Hold]) -> list[str]:
    if not holds:
        return []
    lines = ["", "held"]
    told = Counter(map(_told, holds))
    lines += [
        f"  {f'{count:,} x ' if count > 1 else ''}{line}" for line, count in islice(told.items(), _LONGEST)
    ]
    if len(told) > _LONGEST:
        lines.append(f"  ... and {sum(told.values()) - sum(islice(told.values(), _LONGEST)):,} more")
    if any(hold.state == GONE for hold in holds):
        lines.append("  `%acs budget settle` resolves what is held by processes that are gone.")
    if any(hold.state == OUT_OF_SIGHT for hold in holds):
        lines.append(
            "  Out of sight: of another machine or container, or from before a restart; "
            "`%acs budget settle --elsewhere` resolves it."
        )
    return lines


def _told(hold: Hold) -> str:
    since = datetime.fromtimestamp(hold.at, UTC).strftime("%d %b %H:%M")
    who = " ".join(filter(None, (hold.notebook, hold.cell, hold.job)))
    return f"{hold.held:,} {hold.words}, since {since} UTC: {hold.model} {who}".rstrip()


def _table(title: str, rows: Sequence[Sum], width: int) -> list[str]:
    shown = rows[:_LONGEST]
    head = f"{title:<{width}} {'requests':>9} {'prompt':>12} {'completion':>12} {'tokens':>12} {'held':>10}"
    lines = [head]
    for row in shown:
        flag = f"  ({row.estimated:,} estimated)" if row.estimated else ""
        lines.append(
            f"{row.name:<{width}} {row.requests:>9,} {row.prompt_tokens:>12,} {row.completion_tokens:>12,}"
            f" {row.tokens:>12,} {row.held:>10,}{flag}"
        )
    more = len(rows) - len(shown)
    return [*lines, f"... and {more} more"] if more else lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
