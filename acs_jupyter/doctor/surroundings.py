"""Versions, the widgets' front end, files and room: what can be seen without asking anybody.

Owns those checks. It must not know servers, nor change anything: a file that is not there is not made.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from .findings import Finding, size
from .kept import kept

if TYPE_CHECKING:
    from .kept import Kept

PACKAGES = (
    "acs-jupyter", "anywidget", "argcomplete", "httpx", "ipykernel", "ipython", "ipywidgets", "jupyter-server",
    "jupyterlab", "jupyterlab-widgets", "marimo", "matplotlib", "msgspec", "notebook", "pandas", "platformdirs",
    "pyarrow", "starlette", "tqdm", "traitlets", "uvicorn", "voila", "xllamacpp",
)  # fmt: skip
LEAST = 300_000_000
"""Bytes that should be free: the model and its fetching take 200 MB."""
_FRONT_ENDS = {
    "anywidget": "anywidget",
    "ipywidgets": "@jupyter-widgets/jupyterlab-manager",
}


def versions() -> dict[str, str]:
    """Installed packages that matter here, by name."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def look() -> list[Finding]:
    """All checks, in the order in which they are told."""
    return [_python(), *_packages(), _front_end(), *map(_file, kept()), _room()]


def _python() -> Finding:
    told = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("ok", "python", told)


def _packages() -> list[Finding]:
    found, wrong = versions(), []
    for name, least in _required().items():
        if name not in found:
            wrong.append(Finding("wrong", name, "is not installed", f"pip install '{name}>={least}'"))
        elif _numbers(found[name]) < _numbers(least):
            do = f"pip install --upgrade '{name}>={least}'"
            wrong.append(Finding("wrong", name, f"{found[name]} is older than {least}", do))
    kernel = "ipykernel" in found
    state = Finding("ok", "packages", f"{len(found)} found, none older than needed")
    none = Finding(
        "note",
        "ipykernel",
        "is not installed: no Jupyter runs in this environment",
        "pip install 'acs-jupyter[lab]'",
    )
    return [*(wrong or [state]), *([] if kernel else [none])]


def _required() -> dict[str, str]:
    """What the installed package says that it needs, extras left out, with the least version."""
    try:
        lines = metadata.requires("acs-jupyter") or []
    except metadata.PackageNotFoundError:
        return {}
    found = (re.match(r"([\w-]+)>=([\d.]+)$", line) for line in lines)
    return {each[1]: each[2] for each in found if each}


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", version)[:3]]
    return (*numbers, *[0] * (3 - len(numbers)))


def _front_end() -> Finding:
    """Whether a JupyterLab of this environment can draw widgets."""
    folders = _extension_folders()
    missing = [name for name, place in _FRONT_ENDS.items() if not any((f / place).is_dir() for f in folders)]
    if missing:
        do = f"where JupyterLab is installed: pip install --force-reinstall {' '.join(missing)}; then reload the page"
        told = f"{' and '.join(missing)} brought no JupyterLab part here: cells stream as plain text"
        return Finding("wrong", "widgets", told, do)
    return Finding("ok", "widgets", "anywidget and ipywidgets are there for JupyterLab and Notebook 7")


def _extension_folders() -> list[Path]:
    try:
        from jupyter_core.paths import jupyter_path  # noqa: PLC0415  # comes with Jupyter
    except ImportError:
        return [Path(sys.prefix) / "share" / "jupyter" / "labextensions"]
    return [Path(path) for path in jupyter_path("labextensions")]


def _file(one: Kept) -> Finding:
    if one.path is None:
        return Finding("note", one.name, f"switched off ({one.variable})")
    if not one.path.exists():
        above = next(parent for parent in one.path.absolute().parents if parent.exists())
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return Finding("ok", one.name, f"none yet: {one.path}")
        do = f"make it writable, or name another place ({one.variable})"
        return Finding("wrong", one.name, f"{one.path} cannot be made: {above} is not writable", do)
    if not os.access(one.path, os.R_OK | os.W_OK):
        do = f"take it back (chown, chmod u+rw), or name another place ({one.variable})"
        return Finding("wrong", one.name, f"{one.path} cannot be read and written by you", do)
    fault = _fault(one.path) if one.database else None
    if fault:
        return Finding("wrong", one.name, f"{one.path} is damaged: {fault}", f"move it away: {one.erase}")
    return Finding("ok", one.name, f"{one.path} ({size(_bytes(one.path))})")


def _fault(path: Path) -> str | None:
    """What SQLite says of a file; one that others hold at the moment is not at fault."""
    if not path.stat().st_size:
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=2)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as problem:
        return str(problem)
    return None if said == "ok" else str(said)


def _bytes(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size


def _room() -> Finding:
    places = {one.path for one in kept() if one.path is not None} | {Path.cwd() / "x"}
    above = [next(parent for parent in path.absolute().parents if parent.exists()) for path in places]
    least, where = min((shutil.disk_usage(folder).free, folder) for folder in above)
    if least < LEAST:
        return Finding("wrong", "disk", f"{size(least)} free at {where}", "free some room before a long run")
    return Finding("ok", "disk", f"{size(least)} free at the least")
