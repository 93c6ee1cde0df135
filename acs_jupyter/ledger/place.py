"""Where the ledger lies and where a request comes from: the file, the notebook, the cell, the process.

Owns ``ACS_LEDGER``, the default folder and how a process is known again. It must not know what is in the file.

A process is its pid and the moment it started, on one boot of one machine and in one namespace of pids: a pid that is
used again started later, and a pid of another machine or container that shares the folder says nothing here.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

OFF = "off"
MEMORY = ":memory:"
FILE = "ledger.sqlite3"

cell: ContextVar[str] = ContextVar("acs_cell", default="")
"""The notebook cell that runs, as ``[12]``; whoever runs cells sets it."""


def setting() -> str:
    """The ledger's file as text, ``off`` or ``:memory:``: ``ACS_LEDGER``, else a file in the user's data folder."""
    named = os.environ.get("ACS_LEDGER", "").strip()
    if named.lower() in (OFF, "none", "0", "false"):
        return OFF
    if named == MEMORY:
        return MEMORY
    return str(Path(named).expanduser()) if named else _default()


def is_named() -> bool:
    """Whether the user named the file: then it must work."""
    return bool(os.environ.get("ACS_LEDGER", "").strip())


def _default() -> str:
    from platformdirs import user_data_path  # noqa: PLC0415  # only where no file is named

    return str(user_data_path("acs-jupyter", appauthor=False) / FILE)


def notebook() -> str:
    """The notebook (or program) this process works for, as far as it says so."""
    told = os.environ.get("JPY_SESSION_NAME") or sys.argv[0]
    name = os.path.basename(told)
    return "" if name in ("", "-c", "-m", "ipykernel_launcher.py") else name


@dataclass(frozen=True)
class Process:
    """A process that can be told from any other: ``began`` is in ticks or seconds, compared and never shown."""

    machine: str
    pid: int
    began: str


def this_process() -> Process:
    """This one."""
    return Process(_machine(), os.getpid(), _began(os.getpid()) or "?")


def is_gone(process: Process) -> bool | None:
    """Whether a process has ended; ``None`` when that cannot be known from here."""
    if process.machine != _machine():
        return None
    began = _began(process.pid)
    if began is None:
        return True
    return None if "?" in (began, process.began) else began != process.began


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        import platform  # noqa: PLC0415  # where there is no /proc

        return platform.node()


def _began(pid: int) -> str | None:
    """When a process started; ``None`` when there is none, ``?`` when it cannot be known."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError:
            return "?"
        fields = stat.rpartition(b")")[2].split()  # the name before it may hold blanks and brackets
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    import psutil  # noqa: PLC0415  # where there is no /proc

    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return "?"
