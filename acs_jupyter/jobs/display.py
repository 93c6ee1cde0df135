"""How jobs are shown in the front end at hand: a live board and a static copy of it, or lines of text.

Owns the choice between them, the order of the outputs, and what a cell's output becomes when its job ends. It must not
know requests or servers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..keeping.showing import show
from ..notebook.display import show_copy
from ..widgets.job_table import plain_text, static_html
from .entry import Shown

if TYPE_CHECKING:
    from ..completion import Completion
    from ..widgets.jobs import JobWindow
    from .handle import JobHandle
    from .watch import Watch


def show_job(shell: Any, watch: Watch, handle: JobHandle) -> None:
    """Show a job that goes on: it becomes its completion when it ends well."""
    if getattr(shell, "kernel", None) is None:
        print(handle)
        return
    show_window(watch, window_on(watch, job=handle.id))


def show_ended(shell: Any, handle: JobHandle, completion: Completion) -> None:
    """Show a job that has ended well: its line, and the completion as a copy that is saved with the notebook."""
    print(handle)
    show_copy(shell, completion)


def show_board(shell: Any, watch: Watch) -> None:
    """Show all jobs."""
    if getattr(shell, "kernel", None) is None:
        print(plain_text(watch.rows(), time.time()))
        return
    show_window(watch, window_on(watch))


def window_on(watch: Watch, job: str | None = None) -> JobWindow:
    """A window on all jobs, or on one."""
    from ..widgets.jobs import JobWindow  # noqa: PLC0415  # anywidget loads with the first window

    return JobWindow(watch, job)


def show_window(watch: Watch, window: JobWindow) -> None:
    """Show a window and, below it, the copy that is read where no kernel is; both follow the jobs."""
    _Copy(watch, window.job, show(window, _copy_of(_rows(watch, window.job))))


class _Copy:
    """The static copy below a window: written again when a job's state changes, and at last its completion."""

    def __init__(self, watch: Watch, job: str | None, handle: Any) -> None:
        self._watch, self._job, self._handle = watch, job, handle
        self._shown: Any = None
        self._over = False
        self._lock = threading.Lock()
        self._end: Callable[[], None] = watch.subscribe(self._changed)
        self._changed()

    def _changed(self) -> None:
        with self._lock:  # the poller's thread and the cell's may both have news
            if not self._over:
                self._write()
            if self._over:
                self._end()

    def _write(self) -> None:
        completion = self._watch.result(self._job) if self._job else None
        if completion is not None:
            self._over = True
            self._become(completion)
            return
        rows = _rows(self._watch, self._job)
        states = [(row.entry.state, row.entry.outcome, row.entry.problem, row.preview) for row in rows]
        if states != self._shown:
            self._shown = states
            self._handle.update(_copy_of(rows), raw=True)
        # A job that succeeded is over when its result has come too.
        self._over = self._job is not None and [row.entry.outcome for row in rows] not in (
            [None],
            ["succeeded"],
        )

    def _become(self, completion: Completion) -> None:
        from ..keeping.record import record_of  # noqa: PLC0415  # packed at the end
        from ..widgets.snapshot import mimebundle  # noqa: PLC0415  # drawn at the end

        session, run = completion.session, completion.run
        self._handle.update(mimebundle(session, run), raw=True, metadata=record_of(session, run))


def _rows(watch: Watch, job: str | None) -> list[Shown]:
    return [row for row in watch.rows() if job is None or row.entry.job == job]


def _copy_of(rows: list[Shown]) -> dict[str, str]:
    now = time.time()
    return {"text/plain": plain_text(rows, now), "text/html": static_html(rows, now)}
