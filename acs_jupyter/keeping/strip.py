"""A notebook without widget state, and without records when asked.

Owns what is taken out of the file and that the file stays whole. It must not know kernels or the records' form.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..machine import whole_file

KEY = "acs_jupyter"
WIDGET = "application/vnd.jupyter.widget-view+json"
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: JSON can name it, UTF-8 cannot carry it


@dataclass(frozen=True)
class Stripped:
    """What was taken out: bytes before and after, widget outputs, records."""

    before: int
    after: int
    widgets: int
    records: int

    def __str__(self) -> str:
        size = f"{self.before / 1000:.1f} KB to {self.after / 1000:.1f} KB"
        return f"{size}; {self.widgets} widget outputs and {self.records} records taken out"


def strip(notebook: str | os.PathLike[str], *, records: bool = False) -> Stripped:
    """Take widget state and widget outputs out of a notebook, in place; ``records`` too.

    Texts and static views stay. The file is replaced as a whole or not at all; of a link, the file it leads to.
    Raises ``ValueError`` when it is no notebook.
    """
    path = Path(notebook).resolve()
    raw = path.read_bytes()
    try:
        book = json.loads(raw)
        cells = book["cells"]
        widgets = sum(_strip_widgets(cell) for cell in cells)
        taken = sum(_strip_records(cell) for cell in cells) if records else 0
        (book.get("metadata") or {}).pop("widgets", None)
        new = (_SURROGATE.sub(_escaped, json.dumps(book, ensure_ascii=False, indent=1)) + "\n").encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{notebook} is not a notebook: give the .ipynb file.") from None
    whole_file.write(path, new)
    return Stripped(len(raw), len(new), widgets, taken)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _strip_widgets(cell: dict[str, Any]) -> int:
    outputs = cell.get("outputs")
    if not outputs:
        return 0
    count = 0
    kept = []
    for output in outputs:
        data = output.get("data") or {}
        if WIDGET not in data:
            kept.append(output)
            continue
        count += 1
        rest = {kind: value for kind, value in data.items() if kind != WIDGET}
        if any("".join(value).strip() for value in rest.values() if isinstance(value, (str, list))):
            kept.append({**output, "data": rest})
    cell["outputs"] = kept
    return count


def _strip_records(cell: dict[str, Any]) -> int:
    count = 0
    for output in cell.get("outputs") or ():
        count += (output.get("metadata") or {}).pop(KEY, None) is not None
    return count
