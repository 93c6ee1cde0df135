"""The shell commands and the magics that the README and CONTRIBUTING print run as they are printed.

A command is run here, or stands in ``ELSEWHERE`` with the test that runs it. Names that a reader fills in (``PREFIX``,
``x.ipynb``, a port of their own server) are filled in here too.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.keeping.test_export import write_book
from tests.support.servers import Running, environment, serving
from tests.support.shells import Shell, dispose

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ELSEWHERE = {
    "python3 -m venv": "tests/test_packaging.py installs, tests/local/test_command.py runs the demo",
    "pip install '.[local]'": "tests/test_packaging.py",
    "bash tests/run": "it runs this",
    "python tests/make_notebooks.py": "tests/test_notebooks.py runs the notebooks",
    "python tests/make_golden.py": "tests/log/test_golden.py compares",
    "(cd js && npm run dev)": "tests/run builds the bundles",
    "curl -s": "tests/test_readme.py",
    "-d '{": "the same",
    "python tests/packaging_matrix.py": "by hand: it takes minutes",
}


def lines(text: str) -> list[str]:
    """The commands of all shell blocks, without their comments."""
    found = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL)).splitlines()
    return [line.partition("  #")[0].strip() for line in found if line.strip()]


OURS = [line for text in (README, CONTRIBUTING) for line in lines(text) if line.startswith("acs-jupyter ")]


def test_every_command_is_run_somewhere() -> None:
    shown = [*lines(README), *lines(CONTRIBUTING)]
    assert len(OURS) >= 12
    assert [line for line in shown if line not in OURS and not line.startswith(tuple(ELSEWHERE))] == []


@pytest.fixture(scope="module")
def named() -> Iterator[Running]:
    with serving("--scripted", "--model", "llama-8b") as running:
        yield running


@pytest.fixture
def command(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``acs-jupyter`` is this checkout's."""
    script = tmp_path / "bin" / "acs-jupyter"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m acs_jupyter "$@"\n')
    script.chmod(0o755)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    more = {
        "PATH": path,
        "PYTHONPATH": paths,
        "HOME": str(tmp_path),
        "ACS_LOCAL_DATA": str(tmp_path / "local"),
    }
    return environment(**more) | {"PYTHONPATH": paths}


@pytest.mark.parametrize("line", [line for line in OURS if not line.startswith("acs-jupyter serve")])
def test_a_command_runs(line: str, named: Running, command: dict[str, str], tmp_path: Path) -> None:
    write_book(tmp_path / "x.ipynb")
    env = command | {"ACS_API_BASE": named.base, "ACS_API_KEY": named.key}

    def run(words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    if line.startswith("acs-jupyter keys"):
        key = run("acs-jupyter keys create").stdout
        line = line.replace("PREFIX", re.findall(r"acs-bm-(\w{8})", key)[0])
    line = line.replace("--model M --prompt P --max-tokens N", "--model llama-8b --prompt P --max-tokens 8")
    done = run(line)
    assert done.returncode == 0, done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", [line for line in OURS if line.startswith("acs-jupyter serve")])
def test_a_server_starts(line: str, named: Running, command: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "model.gguf").symlink_to(model_file())
    # Ports and addresses are the reader's own; the upstream here wants its key.
    line = re.sub(r"http://127\.0\.0\.1:\d+", named.root, line)
    if "--upstream" in line and "--upstream-key-env" not in line:
        line += " --upstream-key-env VLLM_KEY"
    words = [*shlex.split(re.sub(r"--port \d+", "", line))[1:], "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "acs_jupyter", *words], cwd=tmp_path, env=command | {"VLLM_KEY": named.key},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(2)]
        assert [one.partition("=")[0] for one in told] == ["ACS_API_BASE", "ACS_API_KEY"], (
            process.communicate(timeout=9)
        )
    finally:
        process.terminate()
        process.communicate(timeout=30)


def model_file() -> Path:
    from acs_jupyter.local.fetch import cached_model

    return Path(os.environ.get("ACS_GGUF") or cached_model(print))


@pytest.fixture
def cells(named: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACS_API_BASE", named.base)
    monkeypatch.setenv("ACS_API_KEY", named.key)
    made = InteractiveShell()
    made.run_line_magic("load_ext", "acs_jupyter")
    yield Shell(made)
    dispose(made)


def test_the_cells_run(cells: Shell) -> None:
    found = re.findall(r"```\n(%%?acs.*?)\n```", README, re.DOTALL)
    assert len(found) >= 2
    for cell in found:
        ran = cells.run(cell)
        assert ran.ok, (cell, ran.out)
    assert cells["night"].wait(60).text


def test_the_magics_run(cells: Shell) -> None:
    blocks = [
        block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if block.startswith("%")
    ]
    found = [line for block in blocks for line in block.splitlines()]
    assert len(found) >= 4
    for line in found:
        ran = cells.run(f"{line}\nHi" if line.startswith("%%acs") else line)
        assert ran.ok, (line, ran.out)
    cells.run("%acs budget --limit none")


def test_the_rollout_and_the_meter_run(cells: Shell) -> None:
    cells.shell.user_ns["frame"] = pd.DataFrame({"text": ["One", "Two"], "kind": ["a", "b"]})
    blocks = [
        block
        for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        if block.startswith(("from acs_jupyter import BudgetMeter", "from acs_jupyter import rollout"))
    ]
    assert len(blocks) == 2
    for block in blocks:
        ran = cells.run(block)
        assert ran.ok, (block, ran.out)
    frame = cells["run"].frame()
    assert len(frame) == 2 * 5 * 2
    assert set(frame["kind"]) == {"a", "b"}
    assert Path("run.parquet").exists()
    begun = time.monotonic()
    cells["run"].wait()
    assert time.monotonic() - begun < 30
