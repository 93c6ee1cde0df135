"""``JobBoard()``: the window on all jobs of a key, for Python code.

Owns which server and key it stands for, and that it shows its static copy beside it. It must not know how jobs are
asked about (``watch.py``) nor drawn (``widgets/jobs.py``).
"""

from __future__ import annotations

import os
from typing import Any

from ..errors import NotConfigured
from ..secret import Secret
from ..settings import normal_base
from ..widgets.jobs import JobWindow
from . import watch as job_watch
from .display import show_window


class JobBoard(JobWindow):
    """All completion jobs of a key at a server, live: state, age, expiry, result; cancel, open, copy the ids.

    ``base_url`` and ``api_key`` are those of the environment unless given. However many boards and cells look on, each
    job is asked about once. The last expression of a cell shows it, with a static table that the notebook saves.
    """

    def __init__(self, base_url: str | None = None, api_key: str | Secret | None = None) -> None:
        secret = (
            api_key if isinstance(api_key, Secret) else Secret(api_key or os.environ.get("ACS_API_KEY", ""))
        )
        base = secret.redact(base_url or os.environ.get("ACS_API_BASE") or "")
        if not base or not secret:
            raise NotConfigured.without(base, secret)
        self._watch = job_watch.shared(normal_base(base), secret)
        self._watch.pick_up()
        super().__init__(self._watch)

    def _ipython_display_(self, **_: Any) -> None:
        show_window(self._watch, self)
