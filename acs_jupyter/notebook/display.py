"""How a run is shown in the front end at hand: a live widget and a static copy, or plain text.

Owns the choice between them and the order of the outputs. It must not know requests or servers.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..keeping.copies import Copies
from ..keeping.copying import Copier
from ..keeping.late import placed
from ..keeping.unsaved import Unsaved
from ..ledger import place
from ..log.branching import descendants, root_of
from ..log.events import AnyEvent, TokensArrived
from ..log.intents import AnyIntent
from ..log.session import Session
from .root import Asking, View

if TYPE_CHECKING:
    from ..completion import Completion
    from ..pump import Handle


_log = logging.getLogger(__name__)


_views: WeakValueDictionary[str, NotebookView] = WeakValueDictionary()
"""By run, the views of this kernel's cells: a copy that is asked for later is one of theirs."""


def make_view(shell: Any, kind: str = "live") -> View:
    """The view for a shell: in a terminal text; where a kernel serves a notebook what ``kind`` names."""
    if getattr(shell, "kernel", None) is None:
        return TextView()
    return NotebookView() if kind == "live" else StreamedView()


def show_copy(shell: Any, completion: Completion) -> None:
    """Show a completion once more, as a copy that is saved with the notebook; in a terminal, its text.

    Its text is that of a cell's own copy: all choices and branches.
    """
    from ..widgets.snapshot import branches_shown, plain_text, static_html  # noqa: PLC0415  # drawn when shown

    session, run = completion.session.copy(), completion.run
    position = len(session)
    if getattr(shell, "kernel", None) is None:
        print(plain_text(session, run))
        return
    from IPython.display import display  # noqa: PLC0415  # only in a notebook

    from ..keeping.record import record_of  # noqa: PLC0415  # packed when shown

    record = record_of(session, run)
    view = _views.get(root_of(session, run))
    view = view if view is not None and view.shows(completion.session) else None
    name = "" if view is None else view.copies.name(position)
    spent = len(json.dumps(record))
    page = static_html(session, run, spent=spent, name=name)
    text = plain_text(session, run, branches_shown(session, run, spent))
    display({"text/plain": text, "text/html": page}, raw=True, metadata=record)
    if view is not None:
        view.sent(name, position, running=True)


class NotebookView:
    """The live cell, then a static copy that hides itself while the live cell is there.

    The copy is written when the run ends, and again when branches of it have ended. Written while they stream it would
    harm the page: until a copy has all, it stands in a file (``keeping/unsaved.py``), where a killed kernel leaves it.
    """

    def __init__(self) -> None:
        self._copy: Any = None
        self._background = False
        self._saving = threading.Lock()
        self._copier = Copier(self._save, self._coming)

    def open(self, session: Session, handle: Handle, asking: Asking, *, background: bool = False) -> None:
        """Show the live cell and a place for the copy."""
        from IPython.display import display  # noqa: PLC0415  # only in a notebook

        from ..widgets.live import LiveCell  # noqa: PLC0415  # anywidget loads with the first cell
        from ..widgets.snapshot import coming_html  # noqa: PLC0415

        self._session, self._run = session, handle.run
        # First: what a window shows is kept by then.
        self._unsaved = Unsaved(session, handle.run, notebook=place.notebook(), cell=place.cell.get())
        self._background = background
        self.copies = Copies(self._unsaved.saved)

        def obey(intent: AnyIntent) -> None:
            asking.obey(intent, window.tell)

        window = LiveCell(
            session, runs=[handle.run], on_intent=obey, can_branch=True, interrupts=not background
        )
        self._window = window
        window.on_confirm = self.copies.confirm
        _views[handle.run] = self
        display(window)
        self._copy = placed({"text/plain": "", "text/html": coming_html()})
        asking.ended = self._copier.soon

    def close(self) -> None:
        """Write the copy that is read where no kernel is, with the records of run and branches in its metadata."""
        if self._copy is not None:
            self._save(fit=True, running=not self._background)

    def doubted(self) -> None:
        """Keep what there is until a page says that it has it."""
        if self._copy is not None:
            self._unsaved.doubted()

    def shows(self, session: Session) -> bool:
        """Whether it is this session that it shows."""
        return self._session is session

    def sent(self, name: str, position: int, *, running: bool) -> None:
        """A copy went out; the page is asked whether it has it. ``running``: while a cell ran."""
        self._window.copy = name
        if running:
            self._unsaved.shown(position)

    def _save(self, *, fit: bool = False, running: bool = False) -> None:
        from ..keeping.record import record_of  # noqa: PLC0415  # packed at the end
        from ..widgets.snapshot import mimebundle, plain_text, room_left  # noqa: PLC0415  # drawn at the end

        with self._saving:
            now = self._session.copy()  # branches may be coming while it is drawn
            if self._run not in now.runs:
                return
            position = len(now)
            name = self.copies.name(position)
            record = record_of(now, self._run)  # of what is open as open; read again, it is interrupted
            part = any(now.runs[run].outcome == "open" for run in self._family(now))
            now.interrupt_open()  # nothing more comes into this copy
            spent = len(json.dumps(record)) + self._window.weight
            try:
                bundle = mimebundle(now, self._run, spent=spent, part=part, name=name)
            except Exception:  # noqa: BLE001 - whatever it was: text and record must not be lost
                _log.exception("the static view of a run could not be drawn; its text and record are kept")
                bundle = {"text/plain": plain_text(now, self._run)}
            if fit and not part:
                self._window.fit(room_left(now, self._run, bundle, spent))
            self._copy.update(bundle, raw=True, metadata=record, then=lambda: self._unsaved.shown(position))
            self.sent(name, position, running=running)

    def _family(self, session: Session) -> list[str]:
        return [self._run, *descendants(session, self._run)]

    def _coming(self) -> bool:
        return any(self._session.runs[run].outcome == "open" for run in self._family(self._session))


class TextView:
    """Plain text to standard output, as it comes; several choices one after the other, each with its number."""

    def __init__(self, write: Callable[[str], Any] | None = None) -> None:
        self._out = write or sys.stdout.write
        self._unsubscribe: Callable[[], None] = lambda: None

    def open(self, session: Session, handle: Handle, asking: Asking, *, background: bool = False) -> None:
        """Start to write what arrives; a terminal asks for nothing."""
        self._session, self._run = session, handle.run
        self._unsubscribe = session.subscribe(self._show)

    def close(self) -> None:
        """Write the choices that could not be streamed, and a last newline."""
        self._unsubscribe()
        run = self._session.runs.get(self._run) if self._session else None
        if run is None:
            return
        if len(run.nodes) > 1:
            for number, node in enumerate(run.nodes, start=1):
                self._write(f"[{number} of {len(run.nodes)}] {self._session.nodes[node].text}\n")
        else:
            self._write("\n")
        sys.stdout.flush()

    def doubted(self) -> None:
        """A terminal has what was written."""

    def _write(self, text: str) -> None:
        try:
            self._out(text)
        except UnicodeEncodeError:  # a terminal of few characters; the record has them all
            self._out(text.encode("ascii", "backslashreplace").decode())

    def _show(self, events: list[AnyEvent]) -> None:
        if len(self._session.runs[self._run].nodes) > 1:
            return
        for event in events:
            if isinstance(event, TokensArrived):
                self._write(event.text)
        sys.stdout.flush()


class StreamedView(TextView):
    """Text as it comes and, below it when it has ended, the copy with probabilities, folded.

    For front ends without widgets, or without changes to what was displayed: everything is written once and stays.
    A run in the background prints nothing, since its text would go into other cells; its copy comes when it ends.
    """

    def open(self, session: Session, handle: Handle, asking: Asking, *, background: bool = False) -> None:
        """Start to write what arrives."""
        self._unsaved = Unsaved(session, handle.run, notebook=place.notebook(), cell=place.cell.get())
        self._place: Any = None
        if not background:
            super().open(session, handle, asking)
            return
        self._session, self._run = session, handle.run
        self._place = placed()

    def close(self) -> None:
        """Write what the terminal gets, then the copy and its record."""
        from ..keeping.record import record_of  # noqa: PLC0415  # packed at the end
        from ..widgets.snapshot import folded_html, mimebundle  # noqa: PLC0415  # drawn at the end

        now = self._session.copy()
        if self._run not in now.runs:
            return
        position, record = len(now), record_of(now, self._run)
        now.interrupt_open()
        spent = len(json.dumps(record))
        if self._place is not None:
            self._place.update(mimebundle(now, self._run, spent=spent), raw=True, metadata=record)
        else:
            from IPython.display import display  # noqa: PLC0415  # only in a notebook

            super().close()
            page = folded_html(now, self._run, spent=spent)
            display({"text/plain": "", "text/html": page}, raw=True, metadata=record)
        self._unsaved.shown(position)

    def doubted(self) -> None:
        """Keep what there is until the notebook's file has it."""
        self._unsaved.doubted()
