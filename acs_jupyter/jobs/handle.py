"""A submitted job, as a cell's ``-o NAME`` keeps it.

Owns what a user does with one job. It must not know how jobs are asked about: the watch (``watch.py``) does that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .entry import Entry, line

if TYPE_CHECKING:
    from ..completion import Completion
    from .watch import Watch


class JobHandle:
    """A submitted job. It needs no connection: it is found again by its id, or by the same request."""

    def __init__(
        self, watch: Watch, job: str, *, found: bool | None = None, instead_of: str | None = None
    ) -> None:
        self._watch = watch
        self.id = job
        self.found = found
        """Whether it had been there before it was submitted."""
        self.instead_of = instead_of
        """The job this request had before, when the service has forgotten that and made a new one."""

    @property
    def entry(self) -> Entry | None:
        """Everything known of it."""
        return self._watch.entry(self.id)

    @property
    def done(self) -> bool:
        """Whether its outcome is known."""
        entry = self.entry
        return entry is not None and not entry.open

    def completion(self) -> Completion:
        """What it gave; raises its outcome when that is an error, :class:`JobPending` while there is none."""
        return self._watch.read(self.id)

    def wait(self, deadline: float | None = None) -> Completion:
        """Wait until it has ended, at most ``deadline`` seconds; an interrupt ends the waiting, not the job."""
        return self._watch.wait(self.id, deadline)

    def cancel(self) -> None:
        """Cancel it; without effect when it has ended."""
        self._watch.cancel(self.id)

    def __repr__(self) -> str:
        entry = self.entry
        return line(entry, time.time()) if entry else f"job {self.id}"
