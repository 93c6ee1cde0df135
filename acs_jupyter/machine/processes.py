"""Processes that can be told apart, also after their pid was given to another.

Owns what makes a process known again. It must not know what processes do here.

A process is its pid and the moment it started, on one boot of one machine and in one namespace of pids: a pid that is
used again started later, and a pid of another machine or container that shares the folder says nothing here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


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
