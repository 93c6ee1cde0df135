"""Copies that were written while no cell of theirs ran, written once more from the cell that runs next.

Owns which those are. It must not know what a copy shows, nor who shows it.

A run in the background, a job or a branch ends in a thread of its own. A page takes what that thread writes; a notebook
that is run without one (nbclient, papermill, nbconvert) takes changes from the running cell alone and drops the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

_waiting: dict[Place, tuple[Any, dict[str, Any], Callable[[], Any] | None]] = {}
_lock = threading.RLock()


class Place:
    """Where a copy stands: an IPython ``DisplayHandle``, or nothing where there is no display."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def update(self, bundle: Any, then: Callable[[], Any] | None = None, **options: Any) -> None:
        """Show another copy there. One from another thread is shown again by :func:`again`, which calls ``then``."""
        if self._handle is None:
            return
        with _lock:
            _waiting.pop(self, None)
            if threading.current_thread() is not threading.main_thread():
                _waiting[self] = (bundle, options, then)
            self._handle.update(bundle, **options)


def placed(copy: Mapping[str, str] | None = None, *, name: str | None = None) -> Place:
    """A place shown now, with a copy or empty; places of one ``name`` are written to together."""
    from IPython.display import display  # noqa: PLC0415  # only in a notebook

    return Place(display(dict(copy or {"text/plain": ""}), raw=True, display_id=name or True))


def again() -> None:
    """Show what waits once more, from this thread; called when a cell ends."""
    for place in list(_waiting):
        with _lock:  # a newer one may have come
            if (late := _waiting.pop(place, None)) is not None:
                place._handle.update(late[0], **late[1])
                if late[2] is not None:
                    late[2]()
