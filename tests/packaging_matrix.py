"""The longer matrix of environments, by hand: ``python tests/packaging_matrix.py``. Takes some minutes and the network.

For each Python that is found (``--python`` names more) and each set of versions: a clean environment, the wheel, the
smoke test, one line each. ``--sizes``: what ``pip install .`` and ``pip install .[local]`` pull, with sizes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.environments import NEWEST, OLDEST, environment, quiet, smoke, wheel
from tests.support.servers import serving

SETS = {
    "newest": NEWEST,
    "oldest": OLDEST,
    "pandas 2": ("pandas<3", "ipykernel"),
    "pandas 3": ("pandas>=3", "ipykernel"),
    "ipykernel 6": ("ipykernel<7", "ipywidgets", "anywidget"),
    "ipykernel 7": ("ipykernel>=7", "ipywidgets", "anywidget"),
    "ipywidgets 8.1.0": ("ipywidgets==8.1.0", "ipykernel"),
    "anywidget 0.9.14": ("anywidget==0.9.14", "ipykernel"),
}
ONLY = {"oldest": ("3.11",)}
"""Old versions have no wheels for newer Pythons."""


def pythons(more: list[str]) -> dict[str, str]:
    """Version to interpreter, of those on this machine."""
    found: dict[str, str] = {}
    places = [*more, sys.executable, *map(str, Path.home().glob(".pyenv/versions/3.*/bin/python"))]
    places += [place for minor in range(11, 16) if (place := shutil.which(f"python3.{minor}"))]
    for place in places:
        asked = [place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if told and tuple(map(int, told.split("."))) >= (3, 11):
            found.setdefault(told, place)
    return dict(sorted(found.items(), key=lambda each: [int(part) for part in each[0].split(".")]))


def sizes(python: Path) -> dict[str, int]:
    """Installed distributions and their bytes."""
    code = (
        "from importlib import metadata as m; from pathlib import Path\n"
        "for d in m.distributions():\n"
        "    files = [Path(f.locate()) for f in d.files or () if '__pycache__' not in str(f)]\n"
        "    print(d.name, d.version, sum(f.stat().st_size for f in files if f.exists()))"
    )
    told = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=True, env=quiet()
    ).stdout
    rows = (line.rsplit(" ", 2) for line in told.splitlines())
    return {f"{name} {version}": int(size) for name, version, size in rows}


def pulled(made: Path, folder: Path, extra: str) -> None:
    """Print what an installation brings."""
    begun = time.monotonic()
    own = environment(folder, f"{made}{extra}")
    took = time.monotonic() - begun
    found = sizes(own)
    found = {name: size for name, size in found.items() if not name.startswith(("pip ", "setuptools "))}
    print(
        f"\npip install '.{extra}': {len(found)} packages, {sum(found.values()) / 1e6:.0f} MB, {took:.0f} s"
    )
    for name, size in sorted(found.items(), key=lambda each: -each[1]):
        print(f"  {size / 1e6:7.2f} MB  {name}")


def main() -> int:
    """Run it; 1 when an environment failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="an interpreter more")
    parser.add_argument("--only", help="sets whose name begins so")
    parser.add_argument("--sizes", action="store_true", help="only what an installation pulls")
    args = parser.parse_args()
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="matrix-") as scratch,
        serving("--scripted", "--starts", "0") as server,
    ):
        top = Path(scratch)
        (top / "wheel").mkdir()
        made = wheel(top / "wheel")
        for version, python in ({} if args.sizes else pythons(args.python)).items():
            for name, pins in SETS.items():
                if version not in ONLY.get(name, (version,)) or not name.startswith(args.only or ""):
                    continue
                folder = top / "env"
                try:
                    begun = time.monotonic()
                    seen = smoke(environment(folder, str(made), *pins, python=python), server, top / "home")
                    took = time.monotonic() - begun
                    told = ", ".join(
                        f"{each} {seen[each]}" for each in ("ipykernel", "ipywidgets", "anywidget", "pandas")
                    )
                    print(f"ok      Python {seen['python']:8} {name:18} {told}  ({took:.0f} s)", flush=True)
                except (AssertionError, subprocess.SubprocessError) as problem:
                    failed = 1
                    print(f"FAILED  Python {version:8} {name:18} {str(problem)[-1500:]}", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
        for extra in ("", "[local]") if args.sizes else ():
            pulled(made, top / f"pulled{extra.strip('[]')}", extra)
    return failed


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    raise SystemExit(main())
