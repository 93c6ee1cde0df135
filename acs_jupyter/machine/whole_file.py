"""A file that is written whole or not at all: what stood there stays until all of the new one is on the disk.

Owns the file beside it, its rights and its taking the place. It must not know what is written, nor words for users.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to be written, which takes the place of ``path`` at the end; after an error nothing has changed.

    Of a link, the file it leads to is replaced; its rights stay. What is no file, a pipe say, is written to as it is.
    Raises ``OSError``.
    """
    target = path.resolve()
    there = target.stat() if target.exists() else None
    if there is not None and not stat.S_ISREG(there.st_mode):
        with target.open("wb") as file:
            yield file
        return
    rights = None if there is None else stat.S_IMODE(there.st_mode)
    beside = target.with_name(f"{target.name[:50]}.{token_hex(4)}")
    new = _new(beside, 0o666 if rights is None else rights)
    try:
        with new as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if rights is not None:
            beside.chmod(rights)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes) -> None:
    """Write all of a file; see :func:`replacing`."""
    with replacing(path) as file:
        file.write(content)


def _new(path: Path, rights: int) -> BinaryIO:
    """A file that is new; the system takes from its rights what this process gives to nobody (its umask)."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, rights | stat.S_IWUSR), "wb")


__all__ = ["replacing", "write"]
