"""Why a request may not be sent, in one line with what is left, what was asked, and the fix.

Owns the comparison with limits and the words of a refusal. It must not know how accounts are kept.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from ..errors import BudgetRefused
from .terms import Worst, day_of, month_of

_FIXES = {
    "month": "Lower max_tokens or n, or raise the limit: `%acs budget --limit N`.",
    "session": "Lower max_tokens or n, or raise the limit: `%acs budget --limit N --session`.",
    "cell": "Lower max_tokens or n, or give the cell a larger --budget.",
}
_HELD = (
    "What is held comes free as requests end; `%acs budget` lists it, and `%acs budget settle` ends what processes that"
    " are gone have left."
)
SHARE = 1 / 16
"""Of what an account has left, the most that is held in advance."""
_FIX = "Lower max_tokens or n, or raise its limit."


@dataclass(frozen=True)
class Account:
    """Something with a limit (``most`` of ``None``: without): what was used and what is held, in tokens."""

    kind: str
    name: str
    key: int
    most: int | None
    used: int
    held: int
    prefix: str | None = None

    @property
    def left(self) -> int | None:
        """What a request may still take; ``None`` without a limit."""
        return None if self.most is None else max(0, self.most - self.used - self.held)

    @property
    def words(self) -> str:
        """What it is called in a sentence."""
        if self.kind == "month":
            return f"The limit of {self.prefix or f'key {self.key}'} for {self.name}"
        return {"session": "The limit of this session", "cell": "The --budget of this cell"}.get(
            self.kind, f"The limit of {self.kind} {self.name!r}"
        )


def check(accounts: list[Account], worst: Worst, already: int = 0) -> None:
    """Raise :class:`BudgetRefused` when a request does not fit an account; the tightest one is named.

    ``already``: so much of it is held there.
    """
    asked = worst.total - already
    tight = [account for account in accounts if account.left is not None and account.left < asked]
    if not tight:
        return
    account = min(tight, key=lambda one: one.left or 0)
    held = f", {account.held:,} held" if account.held else ""
    prompt = f"prompt {worst.prompt:,}" if worst.exact else f"prompt at most {worst.prompt:,}"
    refused = BudgetRefused(
        f"{account.words} leaves {account.left:,} of {account.most:,} tokens ({account.used:,} spent{held}); "
        f"this request may take {worst.total:,} ({prompt}, completion {worst.completion:,}). Nothing was sent."
    )
    fix = _FIXES.get(account.kind, _FIX)
    # Where it would fit but for what is held, less may help, and so may what ends the holds.
    fits = account.most is not None and account.used + asked <= account.most
    refused.hint = f"{_HELD} {fix}" if account.held and fits else fix
    raise refused


def beside(accounts: list[Account], asked: list[Worst], due: int = 1) -> int:
    """How many requests may be held in advance, behind so many that are ``due`` now."""
    lefts = [account.left for account in accounts if account.left is not None]
    if not lefts:
        return len(asked) - due
    room, count = (min(lefts) - sum(bound.total for bound in asked[:due])) * SHARE, 0
    for bound in asked[due:]:
        room -= bound.total
        if room < 0:
            break
        count += 1
    return count


def exhausted(db: sqlite3.Connection, key: int, at: float) -> BudgetRefused | None:
    """The refusal of a key whose month, or day, the server has called used up."""
    row = db.execute("SELECT exhausted, prefix FROM keys WHERE id = ?", (key,)).fetchone()
    if row is None or row[0] not in (month_of(at), day_of(at)):
        return None
    told, prefix = row
    refused = BudgetRefused(
        f"The server said that the budget of {prefix or f'key {key}'} for {told} is used up: 0 tokens are left. "
        "Nothing was sent."
    )
    again = "on the 1st (UTC)" if told == month_of(at) else "at midnight (UTC)"
    refused.hint = f"It resets {again}; if it was raised before: `%acs budget --reset`."
    return refused
