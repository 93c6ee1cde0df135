"""The loom on the page: its tree, the text to the cursor, and the children of where that is.

Owns the traits and messages of the window; what it draws is in ``js/src/widgets/loom.ts``. It must not know looms, nor
who sends: what an intent leads to is the caller's.

Beside the log it says ``{"loom": {...}}`` with some of ``look`` (a node to go to), ``said`` (one line about what was
done), ``found`` (``{"text", "predicate", "nodes", "refused"}``, the answer to a Search) and ``measured`` (``{"what",
"node", "line"}`` and ``rows`` or ``cells`` of ``measures.py``, the answer to a Measure). The state travels as an
outline (``outline.py``); what it leaves out follows as ``{"contents": packed}``: when a page asks for it (``Read``),
when an event needs it, and by and by. The script travels as a message too: a loom's window is of no use without its
kernel, and then its static copy is what a notebook shows, so nothing but the traits below stands in a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from ..log import events as ev
from ..log.intents import Read, Resync
from .base import FRAME, STATIC, Window
from .feed import Feed
from .filling import Later, Trickle
from .outline import Outline, shared_of
from .tinted import on_file

if TYPE_CHECKING:
    from ..log.events import AnyEvent
    from ..log.intents import AnyIntent
    from ..log.session import Session

UNASKED = (0.3, 3.0)
"""Seconds after which a window sends itself, when no page has asked: the cell that follows may keep the kernel busy."""


class LoomWindow(Window, carried=True):
    """A window on a whole session as a tree. Its keys count only while the focus is in it."""

    _esm = STATIC / "loom.js"
    _css = STATIC / "loom.css"

    skip: ClassVar[tuple[type[AnyEvent], ...]] = (ev.PromptScored,)

    form = traitlets.List(traitlets.Dict()).tag(sync=True)
    """The fields of the growth form, as ``form.fields`` gives them."""
    usual = traitlets.Dict().tag(sync=True)
    """What the form shows for a node that was never told otherwise, as text."""
    bindings = traitlets.Dict().tag(sync=True)
    """Command to key, for those that are not as usual."""
    lit = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Nodes that are lit up."""
    start = traitlets.Unicode("").tag(sync=True)
    """The node to begin at, ``""`` for the first root."""
    height = traitlets.Int(620).tag(sync=True)
    """Of the window, in CSS pixels."""
    frozen = traitlets.Bool(False).tag(sync=True)
    """Whether nothing can be changed: the loom was opened to look at."""
    file = traitlets.Unicode("").tag(sync=True)
    """Where the loom is kept, ``""`` while it is not."""
    trouble = traitlets.Unicode("").tag(sync=True)
    """One line while the loom's file cannot be written."""

    def __init__(self, session: Session, runs: Iterable[str] | None = None, **keys: Any) -> None:
        super().__init__(session, runs, **keys)
        self._unasked.start()

    def say(self, **words: Any) -> None:
        """Tell the browser something beside the log: ``look``, ``said``, ``found`` or ``measured``."""
        self._post({"loom": words})

    @property
    def weight(self) -> int:
        """Bytes that the window takes in a notebook that keeps the state of widgets."""
        state = {**self.get_state(), "_esm": ""}
        return FRAME + len(json.dumps(state)) + on_file(str(self._esm))

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """The synced state; the session is no part of it, a page asks for that."""
        state: dict[str, Any] = super(Window, self).get_state(key, drop_defaults)
        return state

    def close(self) -> None:
        """End the window; the session stays."""
        if hasattr(self, "_unasked"):
            self._unasked.call_off()
        super().close()

    def _follow(self, session: Session, runs: Iterable[str] | None) -> Feed:
        self._outline = Outline(self._nearest, shared=shared_of(session) if runs is None else None)
        self._trickle = Trickle(self._send_some)
        self._unasked = Later(self._send_whole, UNASKED)
        return Feed(
            session, runs, self._post, skip=self.skip, pack=self._outline.pack, ahead=self._send_needed
        )

    def _answer(self, intent: AnyIntent) -> bool:
        self._unasked.call_off()  # there is a page, and the kernel hears it
        if isinstance(intent, Read):
            self._feed.beside(lambda session: _contents(self._outline.contents(session, intent.nodes)))
        elif not super()._answer(intent):
            return False
        if isinstance(intent, Resync | Read):
            self._trickle.start()
        return True

    def _send_whole(self) -> None:
        self._send_code()
        self._feed.resync()

    def _send_some(self) -> bool:
        return self.comm is not None and self._feed.beside(
            lambda session: _contents(self._outline.some(session))
        )

    def _send_needed(self, session: Session, events: list[AnyEvent]) -> None:
        found = _contents(self._outline.needed(session, events))
        if found is not None:
            self._post(found)

    def _nearest(self, session: Session) -> Iterable[str]:
        start = self.start if self.start in session.nodes else next(iter(session.roots), "")
        if start:
            yield from (node.id for node in session.path(start))
            yield from session.nodes[start].children


def _contents(packed: str | None) -> dict[str, Any] | None:
    return None if packed is None else {"contents": packed}
