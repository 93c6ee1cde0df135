"""The demo: the local server, JupyterLab beside it and the first notebook, ended together.

Owns the work folder and the two processes. It must not know requests or the notebook's content.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .run import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTEBOOK = "01-first-completion.ipynb"
FOLDER = "acs-demo"


def run(*, port: int, browser: bool, gguf: str | None) -> int:
    """Start both, wait until one of them ends or Ctrl-C comes, end both; the exit code."""
    if find_spec("jupyterlab") is None:
        raise BadSetting("The demo needs JupyterLab: pip install 'acs-jupyter[lab,local]'")
    notebook = work_notebook(Path.cwd() / FOLDER)
    signal.signal(signal.SIGTERM, _as_interrupt)
    with ExitStack() as stack:
        try:
            server = _start(_serve_command(gguf), dict(os.environ), stack, stdout=subprocess.PIPE)
            settings = dict(_two_lines(server))
            if len(settings) != 2:
                return server.wait() or 1
            lab = _start(
                _lab_command(notebook, port, browser), os.environ | settings, stack, cwd=notebook.parent
            )
            while server.poll() is None and lab.poll() is None:
                time.sleep(0.2)
            return lab.poll() or server.poll() or 0
        except KeyboardInterrupt:
            return 0


def work_notebook(folder: Path) -> Path:
    """The first notebook in the work folder; a file that is already there is the user's and stays."""
    folder.mkdir(exist_ok=True)
    place = folder / NOTEBOOK
    try:
        with place.open("x", encoding="utf-8") as file:
            file.write(_first_notebook())
    except FileExistsError:
        pass
    return place


def _first_notebook() -> str:
    packaged = resources.files("acs_jupyter").joinpath("notebooks", NOTEBOOK)
    beside = Path(__file__).parents[2] / "notebooks" / NOTEBOOK
    for place in (packaged, beside):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    return json.dumps(_plain_notebook(), indent=1)


def _plain_notebook() -> dict[str, object]:
    sources = ["%load_ext acs_jupyter", "%%acs --max-tokens 40 --logprobs 5\nThe old lighthouse keeper"]
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"cell-{i}",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": text,
        }
        for i, text in enumerate(sources)
    ]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}


def _serve_command(gguf: str | None) -> list[str]:
    command = [sys.executable, "-m", "acs_jupyter", "serve", "--port", "0"]
    return [*command, "--gguf", str(Path(gguf).absolute())] if gguf else command


def _lab_command(notebook: Path, port: int, browser: bool) -> list[str]:
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", f"--port={port}", notebook.name]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command if browser else [*command, "--no-browser"]


def _two_lines(server: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    assert server.stdout is not None
    for _ in range(2):
        name, _, value = server.stdout.readline().decode().strip().partition("=")
        if value:
            yield name, value


def _start(
    command: list[str],
    environment: dict[str, str],
    stack: ExitStack,
    *,
    stdout: int | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches only this process, which then ends the others in order.
    process = subprocess.Popen(command, env=environment, stdout=stdout, cwd=cwd, start_new_session=True)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _as_interrupt(*_: object) -> None:
    raise KeyboardInterrupt
