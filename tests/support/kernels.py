"""Real kernels that run the cells of a notebook, as a front end would, and can be killed."""

from __future__ import annotations

import os
import signal
from typing import Any

import nbformat
from nbclient import NotebookClient


class Kernel:
    """A kernel that runs cells of a notebook, as a front end would."""

    def __init__(self, *cells: str) -> None:
        book = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        )
        book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        self.book = book
        self._client = NotebookClient(book, timeout=60, kernel_name="python3", allow_errors=True)

    def __enter__(self) -> Kernel:
        self._running = self._client.setup_kernel()
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)

    def run(self, index: int) -> str:
        """Run a cell; everything it shows as text."""
        for shown in self._client._display_id_map.values():
            shown.pop(index, None)  # nbclient would still write to outputs of the run before
        cell = self._client.execute_cell(self.book.cells[index], index)
        return "\n".join(filter(None, map(_text_of, cell.outputs)))

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self._client.km.provisioner.pid, signal.SIGKILL)


def _text_of(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return str(output.data.get("text/plain", ""))
