"""The budget meter: spent, held, left, the rate and where the month is going, while tokens stream.

Owns its bundle, the one trait and its pace; what it draws is in ``js/src/widgets/budget.ts``. It must not know the
ledger: it is given a function that looks. One thread looks for all meters of a kernel, twice a second at most, and
sends what has changed; a meter that no page shows is left alone.
"""

from __future__ import annotations

import html
import json
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import anywidget
import traitlets

from .base import STATIC

EVERY = 0.5
"""Seconds between two looks."""
RATE_OVER = 20.0
"""Seconds over which the rate is taken."""
COPY_EVERY = 5.0
"""Seconds between two versions of the static line."""

_log = logging.getLogger(__name__)
_BESIDE = """<style>
.jp-OutputArea:has(.acs-budget) .acs-budget-beside{display:none}
.jp-OutputArea-child:has(.jupyter-widgets):has(+ .jp-OutputArea-child .acs-budget-beside):not(:has(.acs-budget))
{display:none}
.acs-budget-beside[data-level="warn"]{color:#9a5b00;font-weight:600}
[data-jp-theme-light="false"] .acs-budget-beside[data-level="warn"]{color:#ffb74d}
.acs-budget-beside[data-level="over"]{color:var(--jp-error-color1,#c62828);font-weight:600}
</style>"""


class BudgetWindow(anywidget.AnyWidget):
    """Shows what ``look`` tells: counts in tokens, ready words and a level, as in ``budget_view.seen``."""

    _esm = STATIC / "budget.js"
    _css = STATIC / "budget.css"

    seen = traitlets.Unicode("{}").tag(sync=True)
    """What the meter shows, as one JSON text."""

    def __init__(self, look: Callable[[], dict[str, Any]], **traits: Any) -> None:
        self._look = look
        self._past: deque[tuple[float, int]] = deque()
        self.copy: Any = None
        """The handle of the static line beside the window, once somebody has shown it."""
        self._copied = 0.0
        self._copied_line = ""
        self._copied_level = None
        self._stood = ""
        self._shown = True
        super().__init__(**traits)
        self.on_msg(self._received)
        self.refresh()
        _Watch.add(self)

    @property
    def line(self) -> str:
        """The whole of it in one line."""
        return str(json.loads(self.seen).get("line", ""))

    def refresh(self) -> None:
        """Look now, and send what has changed."""
        seen = self._look()
        self._stood = str(seen.pop("stood", ""))  # apart: a meter at rest sends nothing
        now, spent = time.monotonic(), int(seen["spent"])
        while self._past and self._past[0][0] < now - RATE_OVER:
            self._past.popleft()
        self._past.append((now, spent))
        since, before = self._past[0]
        over = max(now - since, 1.0)
        seen["rate"] = max(0, round((spent - before) * 60 / over))
        self.seen = json.dumps(seen)

    def tick(self) -> None:
        """A look on the watch's thread; the static line follows, less often."""
        if not self._shown:
            return
        self.refresh()
        if self.copy is None or self.line == self._copied_line:
            return
        level = json.loads(self.seen).get("level")
        if level != self._copied_level or time.monotonic() - self._copied > COPY_EVERY:
            self._copied, self._copied_line, self._copied_level = time.monotonic(), self.line, level
            self.copy.update(self.plain(), raw=True)

    def close(self) -> None:
        """End the meter."""
        _Watch.remove(self)
        super().close()

    def __repr__(self) -> str:
        return self.line

    def plain(self) -> dict[str, str]:
        """The static line: what is read where no kernel is, and the time at which it stood so."""
        seen = json.loads(self.seen)
        level = html.escape(str(seen.get("level", "ok")))
        text = " · ".join(filter(None, (self.line, self._stood)))
        line = f'<div class="acs-static acs-budget-beside" data-level="{level}">{html.escape(text)}</div>'
        return {"text/plain": text, "text/html": _BESIDE + line}

    def _received(self, _: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and isinstance(content.get("shown"), bool):
            self._shown = content["shown"]


class _Watch:
    """The one thread behind all meters; it ends with the last of them."""

    _meters: ClassVar[weakref.WeakSet[BudgetWindow]] = weakref.WeakSet()
    _lock = threading.Lock()
    _thread: threading.Thread | None = None

    @classmethod
    def add(cls, meter: BudgetWindow) -> None:
        with cls._lock:
            cls._meters.add(meter)
            if cls._thread is None or not cls._thread.is_alive():
                cls._thread = threading.Thread(target=cls._go, name="acs-budget", daemon=True)
                cls._thread.start()

    @classmethod
    def remove(cls, meter: BudgetWindow) -> None:
        with cls._lock:
            cls._meters.discard(meter)

    @classmethod
    def _go(cls) -> None:
        while True:
            time.sleep(EVERY)
            with cls._lock:
                meters = list(cls._meters)
                if not meters:
                    cls._thread = None
                    return
            for meter in meters:
                try:
                    meter.tick()
                except Exception:  # noqa: BLE001  # one look that fails must not end the watch
                    _log.debug("a budget meter could not look", exc_info=True)
