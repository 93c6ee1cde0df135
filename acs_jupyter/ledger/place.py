"""Where the ledger lies and where a request comes from: the file, the notebook, the cell and its limits.

Owns ``ACS_LEDGER``, the default folder and the names of places. It must not know what is in the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..machine.folder import settled

OFF = "off"
MEMORY = ":memory:"
SESSION = "JPY_SESSION_NAME"
"""The variable in which Jupyter's server tells a kernel its notebook's path."""
FILE = "ledger.sqlite3"

cell: ContextVar[str] = ContextVar("acs_cell", default="")
"""The notebook cell that runs, as ``[12]``; whoever runs cells sets it."""


scopes: ContextVar[tuple[int, ...]] = ContextVar("acs_scopes", default=())
"""The accounts with limits of their own that what is sent here counts against."""


class Here:
    """A cell and its limits, to be come back to: one that ran before goes on with a branch."""

    def __init__(self) -> None:
        self.cell, self.scopes = cell.get(), scopes.get()

    @contextmanager
    def again(self) -> Iterator[None]:
        """What is sent in here is booked under that cell, and counts against its limits."""
        tokens = cell.set(self.cell), scopes.set(self.scopes)
        try:
            yield
        finally:
            scopes.reset(tokens[1])
            cell.reset(tokens[0])


def setting() -> str:
    """The ledger's file as text, ``off`` or ``:memory:``: ``ACS_LEDGER``, else a file in the user's data folder."""
    named = os.environ.get("ACS_LEDGER", "").strip()
    if named.lower() in (OFF, "none", "0", "false"):
        return OFF
    if named == MEMORY:
        return MEMORY
    return str(settled(named)) if named else _default()


def is_named() -> bool:
    """Whether the user named the file: then it must work."""
    return bool(os.environ.get("ACS_LEDGER", "").strip())


def _default() -> str:
    from platformdirs import user_data_path  # noqa: PLC0415  # only where no file is named

    return str(user_data_path("acs-jupyter", appauthor=False) / FILE)


def notebook() -> str:
    """The notebook (or program) this process works for, as far as it says so."""
    told = os.environ.get(SESSION) or sys.argv[0]
    name = os.path.basename(told)
    return "" if name in ("", "-c", "-m", "ipykernel_launcher.py") else name
