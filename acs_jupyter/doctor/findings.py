"""What a check found, and how it is told.

Owns the form of a finding and of a page of them. It must not know what is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "wrong"]
_SIGNS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``note``: it may be as wanted; ``wrong``: it will not work. ``do``: the fix."""

    state: State
    name: str
    told: str
    do: str = ""


def page(findings: list[Finding]) -> str:
    """Aligned lines, each with what to do below it."""
    width = max(len(each.name) for each in findings)
    lines = []
    for each in findings:
        lines.append(f"{_SIGNS[each.state]} {each.name.ljust(width)}  {each.told}")
        if each.do:
            lines.append(f"{' ' * (width + 8)}-> {each.do}")
    return "\n".join(lines)


def size(count: float) -> str:
    """Bytes for a reader."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
