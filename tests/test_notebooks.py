"""The notebooks: each runs from top to bottom and says what it said when its outputs were saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from acs_jupyter import load
from tests.make_notebooks import NOTEBOOKS, execute, write

if TYPE_CHECKING:
    from acs_jupyter.completion import Choice
    from tests.support.servers import Running

NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
ON_PURPOSE = "raises-exception"
NEAR = 0.05
"""Nats between the two likeliest tokens, below which another processor may choose the other."""


def shape(book: Any) -> list[list[str]]:
    """What each code cell shows: the kinds of its outputs."""
    return [
        [kind for output in cell.outputs for kind in sorted(output.get("data", {output.output_type: ""}))]
        for cell in book.cells
        if cell.cell_type == "code"
    ]


def settled(choice: Choice) -> str:
    """The text that another machine must give too: up to the first choice between near equals."""
    text = ""
    for token in choice.tokens:
        first, second, *_ = [*(one.logprob for one in token.alternatives), -99.0, -99.0]
        if first - second < NEAR:
            break
        text += token.text
    return text


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def test_there_are_seven_and_their_first_is_the_demos() -> None:
    from acs_jupyter.local.workbooks import FIRST

    assert len(NAMES) == 7
    assert f"{NAMES[0]}.ipynb" == FIRST


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_says_what_it_said(name: str, smollm_server: Running, tmp_path: Path) -> None:
    source = NOTEBOOKS / f"{name}.ipynb"
    write(again := tmp_path / "again.ipynb", execute(source, smollm_server, tmp_path))
    then, now = read(source), read(again)
    assert [cell.source for cell in now.cells] == [cell.source for cell in then.cells]
    assert shape(now) == shape(then)
    for cell in now.cells:
        errors = [output for output in cell.get("outputs", ()) if output.output_type == "error"]
        assert len(errors) == (ON_PURPOSE in cell.metadata.get("tags", ()))
        assert all(len(error.traceback) == 1 for error in errors)
    before, after = load(source), load(again)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if old.request.get("temperature") != 0:
            continue
        for was, comes in zip(old.choices, new.choices, strict=True):
            assert comes.text.startswith(settled(was))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_names_nobody_and_reads_without_a_kernel(name: str) -> None:
    raw = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    book = read(NOTEBOOKS / f"{name}.ipynb")
    nbformat.validate(book)
    assert len(raw) < 400_000
    for word in (
        "/tmp",
        "/home/",
        "/root",
        "/usr/",
        "acs-bm-",
        "widget-view",
        "widget-state",
        "\\u001b[",
        "Traceback",
    ):
        assert word not in raw, word
    assert set(book.metadata) == {"kernelspec", "language_info"}
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert book.cells[0].source.startswith("# ")
    shown = [cell for cell in code if cell.source.startswith("%%acs") and "--dry" not in cell.source]
    for cell in shown:
        if ON_PURPOSE not in cell.metadata.get("tags", ()):
            assert any(
                "acs-static" in "".join(output.get("data", {}).get("text/html", ""))
                for output in cell.outputs
            )
