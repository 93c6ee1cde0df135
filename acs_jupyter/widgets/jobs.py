"""The window on jobs: how each stands, live, and what the reader asks for.

Owns its bundle, the one trait with all rows, and the windows on results it opens. It must not know clients, servers or
journals: it is given a desk that lists jobs and carries out what is asked. What it draws is in
``js/src/widgets/jobs.ts``.

To the browser: ``rows``, all of them as one JSON text, sent when something changed, and ``opened``, the models of the
completions that are open. From it: ``CancelJob`` and ``OpenJob``.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import anywidget
import traitlets

from ..log.intents import CancelJob, OpenJob
from .base import STATIC
from .inbox import Inbox
from .job_table import browser_rows, plain_text
from .live import LiveCell
from .outward import textless

if TYPE_CHECKING:
    from ..completion import Completion
    from ..jobs.entry import Shown


class Desk(Protocol):
    """What a window on jobs is given."""

    def rows(self) -> list[Shown]:
        """All jobs, newest first."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Tell of changes, from any thread, until what is returned is called."""

    def result(self, job: str) -> Completion | None:
        """What a job gave, if it has been read."""

    def read(self, job: str) -> Completion:
        """What a job gave; asks for it."""

    def cancel(self, job: str) -> None:
        """Cancel a job."""

    def in_background(self, job: str, what: Callable[[str], object]) -> None:
        """Call ``what`` with the job without holding up the caller."""


class JobWindow(anywidget.AnyWidget):
    """A table of jobs. ``job`` limits it to one, which is opened as a completion when it ends well."""

    _esm = STATIC / "jobs.js"
    _css = STATIC / "jobs.css"

    rows = traitlets.Unicode("[]").tag(sync=True)
    opened = traitlets.Unicode("{}").tag(sync=True)
    """Job to the id of the model that shows its completion, as JSON."""
    single = traitlets.Bool(False).tag(sync=True)

    def __init__(self, desk: Desk, job: str | None = None, **traits: Any) -> None:
        self.job = job
        self._desk = desk
        self._windows: dict[str, LiveCell] = {}
        self._lock = threading.Lock()
        super().__init__(single=job is not None, **traits)
        self._inbox = Inbox(self.send)
        self.on_msg(self._received)
        self._unsubscribe = desk.subscribe(_weakly(self))
        self.refresh()

    def refresh(self) -> None:
        """Send the rows as they are now."""
        with self._lock:
            shown = self._shown()
            self.rows = json.dumps(browser_rows(shown), ensure_ascii=False, separators=(",", ":"))
        if self.job is None:
            return
        if self._desk.result(self.job) is not None and self.job not in self._windows:
            self.show_result(self.job)
        if self.job in self._windows or [row.entry.outcome for row in shown] not in ([None], ["succeeded"]):
            self._unsubscribe()

    def show_result(self, job: str) -> None:
        """Show a job's completion in the window."""
        completion = self._desk.read(job)
        with self._lock:
            if job not in self._windows:
                self._windows[job] = LiveCell(completion.session, runs=[completion.run])
            ids = {name: window.model_id for name, window in self._windows.items()}
            self.opened = json.dumps(ids)

    def close(self) -> None:
        """End the window and those it opened; the jobs go on."""
        if hasattr(self, "_unsubscribe"):  # also called for one that could not be made
            self._unsubscribe()
            for window in self._windows.values():
                window.close()
        super().close()

    def __repr__(self) -> str:
        import time  # noqa: PLC0415

        return plain_text(self._shown(), time.time())

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return textless(super()._repr_mimebundle_(**options))

    def _shown(self) -> list[Shown]:
        return [row for row in self._desk.rows() if self.job is None or row.entry.job == self.job]

    def _received(self, _: Any, content: Any, buffers: Any) -> None:
        intent = self._inbox.take(content)
        if isinstance(intent, CancelJob):
            self._desk.in_background(intent.job, self._desk.cancel)
        elif isinstance(intent, OpenJob):
            if self._desk.result(intent.job) is not None:
                self.show_result(intent.job)
            else:
                self._desk.in_background(intent.job, self.show_result)


def _weakly(window: JobWindow) -> Callable[[], None]:
    """A callback that does not keep a window alive."""
    reference = weakref.ref(window)

    def tell() -> None:
        found = reference()
        if found is not None:
            found.refresh()

    return tell
