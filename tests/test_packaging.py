"""A wheel built without Node holds everything, and nothing it should not."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_wheel_is_built_without_node(tmp_path: Path) -> None:
    env = {**os.environ, "PATH": os.path.dirname(sys.executable)}
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, env=env, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name for name in names if name.startswith("acs_jupyter/")}
    for needed in ("static/live.js", "static/live.css", "py.typed", "notebooks/01-first-completion.ipynb"):
        assert f"acs_jupyter/{needed}" in inside
    sources = {
        f"acs_jupyter/{p.relative_to(ROOT / 'acs_jupyter').as_posix()}"
        for p in ROOT.glob("acs_jupyter/**/*.py")
    }
    assert sources <= inside
    assert not [name for name in names if name.startswith(("tests/", "js/")) or "node_modules" in name]
    metadata = next(name for name in names if name.endswith("entry_points.txt"))
    assert "acs-jupyter = acs_jupyter.cli:main" in zipfile.ZipFile(wheel).read(metadata).decode()


def test_bundles_are_small() -> None:
    for bundle in ROOT.glob("acs_jupyter/static/*.js"):
        assert bundle.stat().st_size < 80_000, bundle.name
