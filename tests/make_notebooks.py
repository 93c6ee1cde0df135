"""Runs the notebooks and writes their outputs, as a reader finds them: ``python tests/make_notebooks.py [NAME ...]``.

Owns what is kept of a run: texts, static views, records and pictures; no state of widgets, which without a kernel
shows nothing, no times but those of a bar, nothing of this machine. The sources stand in the notebooks themselves.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

sys.path.insert(0, str(Path(__file__).parents[1]))

from acs_jupyter.keeping.strip import strip
from tests.support.servers import Running, serving

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_PORT = re.compile(r"(127\.0\.0\.1:)\d+")


def execute(source: Path, server: Running, folder: Path) -> Any:
    """The notebook with fresh outputs. It runs in ``folder``, where it may leave files, and talks to ``server``."""
    book = nbformat.read(source, as_version=4)
    known = {
        "ACS_API_BASE": server.base,
        "ACS_API_KEY": server.key,
        "ACS_JOURNAL": str(folder / "jobs.sqlite3"),
    }
    known |= {"ACS_LEDGER": str(folder / "ledger.sqlite3"), "ACS_UNSAVED": "off", "MPLBACKEND": ""}
    known |= {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": str(NOTEBOOKS.parent)}
    del known["MPLBACKEND"]
    client = NotebookClient(
        book,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, **known})
    return book


def tidy(book: Any) -> Any:
    """Without what differs from run to run or names this machine, where it is no part of the text."""
    book.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                output.text = _PORT.sub(r"\g<1>8000", output.text)
    return book


def write(source: Path, book: Any) -> None:
    """Over the old one, as a whole; windows leave their static views."""
    nbformat.write(tidy(book), source)
    strip(source)


def main(names: list[str]) -> None:
    """Run these notebooks (all), one after the other, on one server with the small model."""
    chosen = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if not names or path.stem in names]
    with serving("--starts", "0", "--reads", "0") as server:
        for path in chosen:
            with tempfile.TemporaryDirectory() as folder:
                write(path, execute(path, server, Path(folder)))
            print(path.name, f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
