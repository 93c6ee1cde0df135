"""What the server may know, and what the command may load before it serves."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import acs_jupyter
from tests.support.servers import environment

PACKAGE = Path(acs_jupyter.__file__).parent
SHARED = {"wire", "errors", "checks", "sse", "_version", "machine", "resending"}
FOREIGN = {"IPython", "anywidget", "ipywidgets", "pandas", "httpx", "traitlets"}
CALLERS = {
    "upstream.py",
    "relay.py",
    "reading.py",
    "asking.py",
    "spread.py",
}  # they ask another server, with httpx


def test_the_server_knows_only_the_shared_vocabulary() -> None:
    seen = 0
    for path in (PACKAGE / "local").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 2:
                seen += 1
                assert (node.module or "").split(".")[0] in SHARED, path.name
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += (
                [node.module] if isinstance(node, ast.ImportFrom) and not node.level and node.module else []
            )
            allowed = {"httpx"} if path.name in CALLERS else set()
            assert not {name.split(".")[0] for name in names} & (FOREIGN - allowed), path.name
    assert seen > 10


def test_the_command_loads_nothing_heavy() -> None:
    heavy = ["starlette", "uvicorn", "xllamacpp", "httpx", "IPython", "pandas", "platformdirs", "msgspec"]
    code = f"import sys, acs_jupyter.cli; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_module_says_what_it_owns() -> None:
    for path in (PACKAGE / "local").glob("*.py"):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        assert "must not know" in text or path.name == "__init__.py", path.name
