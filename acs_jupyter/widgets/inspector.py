"""The window on one text: tokens in colours, and the distribution at each position.

Owns its bundle, the traits, the answers to what the reader asks, and the static view. It must not know clients: it is
given what weighs a position. What it draws is in ``js/src/widgets/inspector.ts``.

To the browser: ``shown`` (the text), ``whole`` (whole distributions that are known), ``found`` (ranks of a token that
was searched), ``told`` (a line about what was asked), each one JSON text. From it: ``Weigh`` and ``Find``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from ..errors import AcsError
from ..log.intents import Find, Weigh
from ..scores.inspected import Inspected
from .base import STATIC
from .bundle import pressed
from .inbox import Inbox
from .score_static import score_line, score_markup
from .snapshot import page


class InspectorWindow(anywidget.AnyWidget):
    """Shows a text; ``weigh`` makes the whole distribution of a position known, or raises."""

    _esm = pressed(STATIC / "inspector.js", STATIC / "inspector.css")

    shown = traitlets.Unicode("{}").tag(sync=True)
    whole = traitlets.Unicode("{}").tag(sync=True)
    found = traitlets.Unicode("{}").tag(sync=True)
    told = traitlets.Unicode("{}").tag(sync=True)

    def __init__(self, inspected: Inspected, weigh: Callable[[int], Any], **traits: Any) -> None:
        self._inspected = inspected
        self._weigh = weigh
        self._told: list[int] = []
        self._busy = threading.Lock()
        super().__init__(shown=_json(inspected.to_browser()), **traits)
        self._inbox = Inbox(self.send)
        self.on_msg(self._received)

    def plain(self) -> dict[str, str]:
        """The static view: what is read where no kernel is."""
        score = self._inspected.score
        return {
            "text/plain": f"{score.text}\n--- {self.line} ---",
            "text/html": page(score_markup(score), self.line),
        }

    @property
    def line(self) -> str:
        """The statistics, in one line."""
        return score_line(self._inspected.score)

    def tell_whole(self, position: int) -> None:
        """Send what is known of a position, entropies of all others with it."""
        if position not in self._told:
            self._told.append(position)
        self.whole = _json(self._inspected.whole_to_browser(self._told))

    def find(self, token: str) -> None:
        """Send the ranks of a token."""
        try:
            ranks = self._inspected.ranks_of(token)
            self.found = _json({"token": token, "ranks": ranks})
        except AcsError as error:
            self.found = _json({"token": token, "refused": error.message})

    def __repr__(self) -> str:
        return f"Inspector({self.line})"

    def _look(self, position: int) -> None:
        """On a thread of its own: a request takes its time."""
        if not self._busy.acquire(blocking=False):
            self._tell(position, "Another position is being asked for.")
            return
        try:
            self._tell(position, "Asking the model …")
            self._weigh(position)
            self._tell(position, "")
        except AcsError as error:
            self._tell(position, str(error))
        except Exception:
            self._tell(position, "Something went wrong; nothing was changed.")
            raise
        finally:
            self._busy.release()

    def _tell(self, position: int, line: str) -> None:
        self.told = _json({"position": position, "line": line})

    def _received(self, _: Any, content: Any, buffers: Any) -> None:
        intent = self._inbox.take(content)
        if isinstance(intent, Find):
            self.find(intent.token)
        elif isinstance(intent, Weigh) and intent.position < len(self._inspected.score.tokens):
            if intent.position in self._inspected.known:
                self.tell_whole(intent.position)
            else:
                threading.Thread(target=self._look, args=(intent.position,), daemon=True).start()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
