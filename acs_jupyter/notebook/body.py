"""The body of a ``%%acs`` cell as it was typed.

Owns how it is found again, since IPython's own copy has lost prompts and blanks. It must not know requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

BODILESS = "cell"
"""What a cell that is nothing but its ``%%acs`` line becomes: ``%acs cell ...``; nobody needs to type it."""
PROMPTED = "pasted"
"""What a cell becomes whose ``%%acs`` stands behind ``>>>`` or ``In [1]:``."""
_HEAD = re.compile(r"(?m)^[ \t]*%%acs(?=[ \t\r\n])")
_PASTED = re.compile(r"[ \t]*(>>>|In \[\d*\]:)[ \t]*%%acs(?=\s)")


def bodiless(lines: list[str]) -> list[str]:
    """A cell of its ``%%acs`` line alone as a line magic: IPython would refuse it before anyone could say more."""
    if len(lines) != 1 or not _HEAD.match(lines[0]):
        return lines
    return [f"%acs {BODILESS} {lines[0].removeprefix('%%acs').strip()}\n"]


# In a terminal, whether a cell is complete is asked after its first line: then the body is still to come.
bodiless.has_side_effects = True  # type: ignore[attr-defined]


def as_typed(lines: list[str]) -> list[str]:
    """A cell whose first line is an indented ``%%acs``, with that line alone moved to the margin.

    IPython would move the body along with it, or not know the cell for a magic. Behind ``>>>`` or ``In [1]:`` it would
    take such prompts out of every line; such a cell is refused, in a line.
    """
    first = next((place for place, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return lines
    if pasted := _PASTED.match(lines[first]):
        return [f"%acs {PROMPTED} {pasted[1]}\n"]
    if not _HEAD.match(lines[first]):
        return lines
    return [*lines[:first], lines[first].lstrip(" \t"), *lines[first + 1 :]]


def exact_body(running: list[str], line: str, cell: str, transform: Callable[[str], str]) -> str:
    """The prompt of a cell, as it was typed.

    ``running``: the cells under way as the front end sent them, outermost first. IPython's own copy of a body has lost
    ``>>>`` prompts and blanks, so the typed one is taken: the part of a running cell of which IPython (``transform``)
    makes this very call. To end a prompt in a newline, end the cell in an empty line. When other code calls the magic,
    ``cell`` is the prompt, less the one newline that IPython puts at the end of every body.
    """
    call = f"get_ipython().run_cell_magic('acs', {line!r}, {cell!r})\n"
    for raw in running:
        for found in _HEAD.finditer(raw):
            typed = raw[found.start() :]
            if transform(typed) == call:
                return typed.partition("\n")[2]
    return cell[:-1] if cell.endswith("\n") else cell
