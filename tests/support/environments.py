"""Clean environments for the installed package: a wheel, a virtual environment, what is pinned in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.servers import Running

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "tests" / "packaging_smoke.py"
OLDEST = (
    "anywidget==0.9.14", "httpx==0.27.0", "ipython==8.12.3", "ipywidgets==8.1.0", "msgspec==0.19.0", "numpy<2",
    "pandas==2.0.3", "platformdirs==4.0.0", "tqdm==4.66.1", "traitlets==5.9.0", "ipykernel==6.29.5",
    "argcomplete==3.1.0",
)  # fmt: skip
"""The least version that each requirement allows."""
NEWEST = ("anywidget", "ipywidgets", "pandas", "ipykernel")


def quiet(**more: str) -> dict[str, str]:
    """An environment in which nothing of this checkout is found."""
    known = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ACS_", "JUPYTER", "VIRTUAL_ENV"))
    }
    return (
        known | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "IPYTHONDIR": more.get("HOME", "") + "/ipython"} | more
    )


def wheel(folder: Path, python: str = sys.executable) -> Path:
    """The wheel of this checkout."""
    command = [python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env=quiet())
    (made,) = folder.glob("*.whl")
    return made


def environment(folder: Path, *packages: str, python: str = sys.executable) -> Path:
    """A virtual environment with these packages, no source builds; its interpreter."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True, env=quiet())
    own = folder / "bin" / "python"
    command = [str(own), "-m", "pip", "install", "-q", "--no-compile", "--only-binary", ":all:", *packages]
    done = subprocess.run(command, capture_output=True, text=True, env=quiet(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return own


def smoke(own: Path, server: Running, folder: Path) -> dict[str, Any]:
    """Run :mod:`tests.packaging_smoke` there; what it saw."""
    folder.mkdir(exist_ok=True)
    env = quiet(HOME=str(folder), ACS_API_BASE=server.base, ACS_API_KEY=server.key)
    done = subprocess.run(
        [str(own), "-P", str(SMOKE)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-1000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
