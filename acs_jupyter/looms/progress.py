"""How far a measure of a loom is, as a bar: tqdm's, in a notebook as a widget, in a terminal as a line.

Owns when there is a bar, and what it counts: tokens of the budget, or requests where those alone are bounded. It must
not know how anything is asked. A bar stands on stderr or in a cell; where nobody looks there (a pipe, a log file) there
is none unless it is asked for, and of what is over within a second there is none either.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..rollouts.progress import in_notebook, tqdm_here

if TYPE_CHECKING:
    from .expanding import Expansion
    from .multiverse import Multiverse

_AFTER = 1.0
_EVERY = 0.25


class Bar:
    """A bar over what one call may spend: ``budget`` tokens, else so many ``requests``."""

    def __init__(self, name: str, budget: int | None, requests: int | None, *, wanted: bool) -> None:
        self._name, self._wanted = name, wanted
        self._unit = "req" if budget is None else "tok"
        self._total = requests if budget is None else budget
        self._bar: Any = None
        self._last = time.monotonic() + _AFTER - _EVERY
        self._before = (0, 0)
        self._now = (0, "")

    def begin(self, found: Multiverse) -> None:
        """What a map has cost before is not this call's."""
        self._before = (found.spent, found.requests)

    def mapped(self, found: Multiverse) -> None:
        """Show how far a map is."""
        spent, sent = self._before
        open_mass = max(0.0, found.unexpanded - found.unnamed)
        words = f"{len(found.cells) - 1:,} cells, {open_mass:.0%} not followed yet"
        self._show(found.spent - spent, found.requests - sent, words)

    def expanded(self, here: Expansion) -> None:
        """Show how far a search is."""
        self._show(here.spent, here.sent, f"{len(here.expanded)} expanded, {len(here.scores)} scored")

    def close(self) -> None:
        """Show the last numbers and leave them standing."""
        if self._bar is not None:
            self._draw()
            self._bar.close()

    def _show(self, spent: int, sent: int, words: str) -> None:
        self._now = (spent if self._unit == "tok" else sent, words)
        now = time.monotonic()
        if not self._wanted or now - self._last < _EVERY:
            return
        self._last = now
        if self._bar is None:
            self._bar = tqdm_here()(
                total=self._total, desc=self._name, unit=self._unit, mininterval=0, dynamic_ncols=True
            )
        self._draw()

    def _draw(self) -> None:
        self._bar.n, words = self._now
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.refresh()


@contextlib.contextmanager
def shown(name: str, how: dict[str, Any], progress: bool | None) -> Iterator[Bar]:
    """A bar for a call with these bounds, closed at its end. ``progress``: whether there is one; ``None``: in a
    notebook and in a terminal."""
    wanted = (in_notebook() or sys.stderr.isatty()) if progress is None else progress
    bar = Bar(name, how.get("budget"), how.get("requests"), wanted=wanted)
    try:
        yield bar
    finally:
        bar.close()
