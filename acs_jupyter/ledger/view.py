"""``BudgetMeter()``: the ledger, put before a window.

Owns which key is looked at, and the values and words a window is given. It must not know how they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ..keeping.showing import show_or_print
from ..widgets.budget import BudgetWindow
from . import ledger, of_environment, report
from . import words as budget_words

if TYPE_CHECKING:
    from ..connection import Connection


class BudgetMeter(BudgetWindow):
    """What was spent this month (UTC), is held and left, the rate, and the month's end at this pace; it moves while
    tokens stream, and warns from 80 % of the limit on.

    It is about the key of ``client``, else of the one in ``ACS_API_KEY``, else about all keys together.
    ``str(meter.line)`` is the same in one line.
    """

    def __init__(self, client: Connection | None = None) -> None:
        self._place = token_hex(8)
        super().__init__(looker(client))

    def _ipython_display_(self) -> None:
        self.copy = show_or_print(self, self.line, self.plain(), place=self._place)


def looker(client: Connection | None) -> Callable[[], dict[str, Any]]:
    """A function that looks at the month of a client's key, or of the one the environment names at the time."""

    def look() -> dict[str, Any]:
        meter = client.ledgered if client is not None else of_environment()
        key = meter.key if meter is not None and hasattr(meter, "key") else None
        return seen(report.glance(ledger(), key))

    return look


def seen(glance: report.Glance) -> dict[str, Any]:
    """What a window shows: counts, the level (``ok``, ``warn``, ``over``), its words, and all of it in one line."""
    return {
        "name": glance.name,
        "month": glance.month,
        "spent": glance.spent,
        "held": glance.held,
        "limit": glance.limit,
        "left": glance.left,
        "running": glance.running,
        "projected": glance.projected,
        "level": glance.level,
        "warning": "; ".join(budget_words.warning(glance)),
        "session_spent": glance.session_spent,
        "session_limit": glance.session_limit,
        "session_held": glance.session_held,
        "tightest": glance.tightest,
        "free": glance.free,
        "stood": budget_words.stood(glance),
        "line": budget_words.one_line(glance),
    }
