"""Where this package keeps what it must remember on this machine: the user's data folder, and private files in it.

Owns the folder's place, its mode and the mode of a new file, and how a key is known there without being there.
It must not know what the files hold.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..secret import Secret

OFF = "off"


def user_folder() -> Path:
    """The user's data folder for this package; it need not exist."""
    from platformdirs import user_data_path  # noqa: PLC0415  # only when something is kept

    return user_data_path("acs-jupyter", appauthor=False)


def setting(variable: str, file: str) -> Path | None:
    """The file that an environment variable names, ``None`` when it says ``off``, else ``file`` in the folder."""
    named = os.environ.get(variable, "").strip()
    if named.lower() == OFF:
        return None
    return settled(named) if named else user_folder() / file


def settled(named: str) -> Path:
    """The file that a setting names: where it was when it was first asked for, whatever folder is changed to later."""
    path = Path(named).expanduser()
    return path if path.is_absolute() else _first.setdefault(named, path.absolute())


_first: dict[str, Path] = {}
"""Relative names that were asked for, as the files they meant then; a forked child goes on with these."""


def private(path: Path) -> Path:
    """Make a file that only its owner reads, in a folder made for it. Raises ``OSError``.

    A folder that is there already may be shared: its mode stays.
    """
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)  # SQLite gives its side files the mode of this one
    return path


def new_salt() -> str:
    """A salt for :func:`mark`."""
    return token_bytes(16).hex()


@lru_cache(maxsize=16)
def mark(secret: Secret, salt: str) -> str:
    """A key as it may be written down: its public prefix and a salted hash, derived slowly.

    A key that somebody chose may be guessable, so it has no prefix here.
    """
    text = secret.reveal()
    digest = hashlib.scrypt(text.encode(), salt=salt.encode(), n=2**13, r=8, p=1, dklen=12).hex()
    del text  # a verbose traceback shows a frame's names with their values
    return f"{secret.prefix or 'key'}:{digest}"
