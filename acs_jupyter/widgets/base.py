"""A window on a session: the one widget class the others are made from.

Owns the comm: messages out, intents in, the snapshot that survives a reload. It must not know clients,
servers or budgets; what an intent leads to is the caller's, through ``on_intent``.

To the browser:  ``{"seq": n, "at": seconds, "events": [...]}``, ``{"seq": n, "snapshot": packed}`` after a
Resync, ``{"ack": "Cancel", "ask": number}`` (or another intent's name) at once, ``{"told": line}`` when something could
not be done (``""``: no more of it; with ``"stops"``, the run that a Cancel ends while the line stands). From it: the
intents of ``intents.py``, each with the number it is acknowledged by.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import anywidget
import traitlets
from ipywidgets import Layout

from ..log.intents import AnyIntent, Confirm, Fetch, Resync
from .bundle import Code, pressed
from .feed import Feed
from .inbox import Inbox
from .outward import textless
from .snapshot import FULL
from .tinted import on_file

if TYPE_CHECKING:
    from ..log.events import AnyEvent
    from ..log.session import Session

STATIC = Path(__file__).parent.parent / "static"

OnIntent = Callable[[AnyIntent], None]

FRAME = 1_300
"""Bytes of a saved window and its layout without their contents."""


class LeanLayout(Layout):  # type: ignore[misc]  # ipywidgets tells no types
    """A layout that names what is set: forty properties that are not would be saved with every output."""

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """The synced state; asked for as a whole, without what is not set."""
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        return state if key is not None else _told(state)


class Window(anywidget.AnyWidget):
    """Shows some runs of a session, live, and says what the user asks for.

    ``runs``: ids of the runs to follow, known before they open; ``None`` follows all. ``on_intent`` is called
    with every intent but Resync, on whatever thread the kernel handles messages.
    """

    skip: ClassVar[tuple[type[AnyEvent], ...]] = ()
    """Events that do not cross to this kind of window."""

    grows: ClassVar[bool] = False
    """Whether branches of the followed runs are followed too."""

    code: ClassVar[Code | None] = None
    """The script of a kind of window that travels as a message; ``_esm`` then only asks for it."""

    interrupts = traitlets.Bool(True).tag(sync=True)
    """Whether a Stop that gets no answer may interrupt the kernel: only when a run is what keeps it busy."""

    copy = traitlets.Unicode("").tag(sync=True)
    """Name of the last copy that was sent for the notebook. A page that shows it says so, by ``Confirm``."""

    snapshot = traitlets.Unicode("").tag(sync=True)
    """The packed state when a run last closed; a state request is answered with the state of now."""

    def __init_subclass__(cls, *, carried: bool = False, **keys: Any) -> None:
        """A class names its two files; what travels is one short module. Hot reloading needs the files.

        ``carried``: the script is sent as a message to the page that asks for it, and stands in no saved state.
        """
        if isinstance(cls.__dict__.get("_esm"), Path) and not os.environ.get("ANYWIDGET_HMR"):
            if carried:
                cls.code = Code.of(cls._esm, cls._css)
                cls._esm = cls.code.loader
            else:
                cls._esm = pressed(cls._esm, cls._css)
            del cls._css
        super().__init_subclass__(**keys)

    def __init__(
        self,
        session: Session,
        runs: Iterable[str] | None = None,
        *,
        on_intent: OnIntent | None = None,
        **traits: Any,
    ) -> None:
        self._on_intent = on_intent
        self.on_confirm: Callable[[str], None] = lambda copy: None
        self._feed = self._follow(session, runs)
        self._inbox = Inbox(self._post)
        super().__init__(**{"layout": LeanLayout(), **traits})
        self.on_msg(self._received)

    def _follow(self, session: Session, runs: Iterable[str] | None) -> Feed:
        return Feed(session, runs, self._post, closed=self._keep_snapshot, skip=self.skip, grows=self.grows)

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """The synced state; asked for as a whole, its snapshot is the state of now."""
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        if key is None:
            state = {**_told(state), "snapshot": self._feed.packed()}
        return state

    def close(self) -> None:
        """End the window; the session stays."""
        if hasattr(self, "_feed"):  # one that was never made is closed too, by the garbage collector
            self._feed.close()
        super().close()

    def tell(self, line: str, stops: str = "") -> None:
        """Say why something was not done; ``""`` takes it back. Not kept: it is about a click, not about a run.

        ``stops``: what a Cancel of that name ends, when the line speaks of something that goes on.
        """
        self._post({"told": line, "stops": stops} if stops else {"told": line})

    def forget(self) -> None:
        """Obey no more: what the window was for is over, and nothing is kept alive for it."""
        self._on_intent = None

    @property
    def weight(self) -> int:
        """Bytes that the window takes in a notebook that keeps the state of widgets, its snapshot left out."""
        return FRAME + on_file(str(self._esm))

    def fit(self, room: float) -> None:
        """Keep the snapshot in the saved state only if it takes no more bytes than that."""
        if on_file(self.snapshot) > room:
            self._drop_snapshot()

    def __repr__(self) -> str:
        runs = self._feed.runs
        return f"<{type(self).__name__} of {'all runs' if runs is None else ', '.join(runs)}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return textless(super()._repr_mimebundle_(**options))

    def _post(self, message: dict[str, Any]) -> None:
        self.send(message)

    def _keep_snapshot(self) -> None:
        # A page that is reloaded asks for the state; a long one is not kept in files, where its copy is enough.
        self.snapshot = self._feed.packed() if self._feed.tokens <= FULL else ""
        if not self.snapshot:
            self._drop_snapshot()

    def _drop_snapshot(self) -> None:
        self.snapshot = ""
        self.send_state("snapshot")  # the one that went out when the window opened may stand there

    def _received(self, _: Any, content: Any, buffers: Any) -> None:
        intent = self._inbox.take(content)
        if intent is not None and not self._answer(intent) and self._on_intent is not None:
            self._on_intent(intent)

    def _answer(self, intent: AnyIntent) -> bool:
        """What a page asks of the window itself; says whether it was that."""
        if isinstance(intent, Resync):
            self._feed.resync()
        elif isinstance(intent, Confirm):
            self.on_confirm(intent.copy)
        elif isinstance(intent, Fetch):
            self._send_code()
        else:
            return False
        return True

    def _send_code(self) -> None:
        if self.code is not None:
            self.send({"code": self.code.digest}, buffers=[self.code.data])


def _told(state: dict[str, Any]) -> dict[str, Any]:
    """What is unset is so in a browser's model, too."""
    return {name: value for name, value in state.items() if value is not None}
