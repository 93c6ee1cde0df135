"""The wheel and the sdist hold everything and nothing else; installed in clean environments, old and new, they work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.environments import NEWEST, OLDEST, environment, quiet, smoke, wheel
from tests.support.servers import Running

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, made without Node."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.path.dirname(sys.executable))
        return wheel(tmp_path_factory.mktemp("wheel"))


def test_a_wheel_is_built_without_node(built: Path) -> None:
    archive = zipfile.ZipFile(built)
    names = set(archive.namelist())
    inside = {name for name in names if name.startswith("acs_jupyter/")}
    notebooks = [f"notebooks/{path.name}" for path in ROOT.glob("notebooks/*.ipynb")]
    for needed in ("static/live.js", "static/live.css", "py.typed", *notebooks):
        assert f"acs_jupyter/{needed}" in inside
    sources = {
        f"acs_jupyter/{p.relative_to(ROOT / 'acs_jupyter').as_posix()}"
        for p in ROOT.glob("acs_jupyter/**/*.py")
    }
    assert sources <= inside
    assert not [name for name in names if name.startswith(("tests/", "js/")) or "node_modules" in name]
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "acs-jupyter = acs_jupyter.cli:main" in archive.read(entry).decode()
    about = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    for line in ("Requires-Python: >=3.11", "Classifier: Typing :: Typed", "License-Expression: MIT"):
        assert line in about


def test_the_sdist_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    tools = environment(tmp_path / "tools", "hatchling")
    command = [str(tools), "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=quiet())
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert not [name for name in names if "node_modules" in name or ".venv" in name]
    for needed in (
        "README.md",
        "LICENSE",
        "SECURITY.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "js/src/host.ts",
        "tests/run",
    ):
        assert needed in names
    (source,) = (tmp_path / "unpacked").iterdir()
    again = [str(tools), "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(again, cwd=source, check=True, capture_output=True, env=quiet())
    (made,) = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(made).namelist()) == sorted(zipfile.ZipFile(built).namelist())


@pytest.mark.parametrize("pins", [OLDEST, NEWEST], ids=["oldest", "newest"])
def test_it_works_where_nothing_else_is(
    built: Path, pins: tuple[str, ...], scripted_server: Running, tmp_path: Path
) -> None:
    own = environment(tmp_path / "venv", str(built), *pins)
    seen = smoke(own, scripted_server, tmp_path / "home")
    assert (seen["tokens"], seen["rows"]) == (12, 4)
    for pin in pins:
        name, equals, version = pin.partition("==")
        if equals and name in seen:
            assert seen[name] == version
    if pins is NEWEST:
        assert int(seen["pandas"].split(".")[0]) >= 2
    command = own.with_name("acs-jupyter")
    told = subprocess.run(
        [command, "--version"], capture_output=True, text=True, env=quiet(), check=True
    ).stdout
    assert re.fullmatch(r"acs-jupyter \d+\.\d+\.\d+\n", told)
    done = subprocess.run([command, "serve"], capture_output=True, text=True, env=quiet(), check=False)
    assert "pip install 'acs-jupyter[local]'" in done.stderr
    assert done.returncode == 2


IMPORT = """
import os, sys
seen = []
def watch(event, args):
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"): seen.append(args)
    acts = ("socket.", "subprocess.", "os.mkdir", "os.putenv", "os.remove", "os.rename", "sqlite3.", "os.system")
    if event.startswith(acts): seen.append((event, args))
class Read(dict):
    def __getitem__(self, name): seen.append(name); return super().__getitem__(name)
    def get(self, name, default=None): seen.append(name); return super().get(name, default)
sys.dont_write_bytecode = True
sys.addaudithook(watch)
os.environ = Read(os.environ)
import acs_jupyter
import acs_jupyter.cli
threads = __import__("threading").active_count()
print([seen, threads])
"""


def test_importing_does_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[[], 1]"


def test_what_is_declared_is_used_and_what_is_used_is_declared() -> None:
    text = "\n".join(path.read_text("utf-8") for path in ROOT.glob("acs_jupyter/**/*.py"))
    imported = set(re.findall(r"(?m)^\s*(?:import|from) (\w+)", text))
    modules = {"ipython": "IPython", "pyarrow": "pyarrow"}
    extras = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(one for name in ("local", "plot", "parquet") for one in extras[name]),
    ]
    names = {modules.get(name, name) for name in (re.split(r"[>=; ]", each)[0] for each in wanted)}
    indirect = {"ipywidgets", "psutil"}  # drawn by anywidget; asked for where there is no /proc
    assert names - imported - indirect == set()
    outside = {
        name
        for name in imported
        if name not in sys.stdlib_module_names and name not in names and name != "acs_jupyter"
    }
    # what Jupyter brings when it is there, and pandas' own
    jupyter = {
        "ipykernel",
        "jupyter_client",
        "jupyter_core",
        "jupyter_server",
        "jupyterlab",
        "nbformat",
        "zmq",
    }
    assert outside <= jupyter | {"numpy", "pygments", "psutil"}, outside


def test_bundles_are_small() -> None:
    for bundle in ROOT.glob("acs_jupyter/static/*.js"):
        assert bundle.stat().st_size < (140_000 if bundle.stem == "loom" else 80_000), bundle.name
