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
from tests.support.branched import add_branches, with_alternatives
from tests.support.texts import run_events
from types import SimpleNamespace
from acs_jupyter.log.session import Session
for place, (count, kind, n, *more) in enumerate({runs}):
    branches, each, exact, alternatives = [*more, *(0, 0, False, 0)[len(more):]]
    run = f"r{{place}}"
    session = Session(); view = NotebookView()
    first, *rest = with_alternatives(run_events(count, kind, n=n, run=run), alternatives)
    session.apply(first)
    view.open(session, SimpleNamespace(run=run, stop=lambda: None), SimpleNamespace())
    for events in rest: session.apply(events)
    add_branches(session, run, branches, each, exact=exact)
    view.close()
"""


LOOMS = """
from acs_jupyter import Loom
from tests.support.trees import grown
for nodes, tokens in {trees}:
    Loom(grown(nodes, tokens)).show()
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


def execute(path: Path, runs: list[tuple[Any, ...]]) -> list[Saved]:
    """Show runs by the display path of ``%%acs``, in a kernel; write ``path``.

    A run is ``(tokens, kind of text, choices)``, and if wanted: branches near its end, tokens of each, whether they
    were sent as ids, alternatives a token.
    """
    return _executed(path, CELL.format(runs=runs))


def execute_looms(path: Path, trees: list[tuple[int, int]]) -> list[Saved]:
    """Show looms of ``(nodes, tokens of each)`` in a kernel; write ``path``."""
    return _executed(path, LOOMS.format(trees=trees))


def _executed(path: Path, cell: str) -> list[Saved]:
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    book.cells = [nbformat.v4.new_code_cell(cell)]
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
