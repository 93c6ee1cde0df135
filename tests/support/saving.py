"""A notebook of one run, executed and written as a headless run does: with the state of its widgets."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from pathlib import Path

CELL = """
from acs_jupyter.notebook.display import NotebookView
from tests.support.texts import run_events
from types import SimpleNamespace
from acs_jupyter.log.session import Session
for count, kind, n in {runs}:
    session = Session(); view = NotebookView()
    first, *rest = run_events(count, kind, n=n)
    session.apply(first)
    view.open(session, SimpleNamespace(run="r", stop=lambda: None), SimpleNamespace())
    for events in rest: session.apply(events)
    view.close()
"""


@dataclass
class Saved:
    """Bytes of a run in the file, of each of its parts."""

    state: int
    html: int
    record: int
    text: int
    packed: int

    @property
    def whole(self) -> int:
        return self.state + self.html + self.record + self.text


def execute(path: Path, runs: list[tuple[int, str, int]]) -> list[Saved]:
    """Show ``(tokens, kind of text, choices)`` each by the display path of ``%%acs``, in a kernel; write ``path``."""
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    book.cells = [nbformat.v4.new_code_cell(CELL.format(runs=runs))]
    NotebookClient(book, timeout=300, store_widget_state=True).execute()
    nbformat.write(book, path)
    return _parts(json.loads(path.read_bytes()))


def _parts(book: dict[str, Any]) -> list[Saved]:
    states = book["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    found = []
    outputs = iter(book["cells"][0]["outputs"])
    for window in outputs:
        copy = next(outputs)
        key = window["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
        mine = {
            key: states[key],
            (layout := states[key]["state"]["layout"].removeprefix("IPY_MODEL_")): states[layout],
        }
        parts = [mine, copy["data"]["text/html"], copy["metadata"], copy["data"]["text/plain"]]
        packed = len(gzip.compress(_on_file([window, copy, mine]), 9))
        found.append(Saved(*(len(_on_file(part)) for part in parts), packed))
    return found


def _on_file(part: Any) -> bytes:
    """As the file has it, which indents by one blank a level; these parts stand about six levels in."""
    lines = json.dumps(part, ensure_ascii=False, indent=1).split("\n")
    return "\n".join(f"{' ' * 6}{line}" for line in lines).encode()
