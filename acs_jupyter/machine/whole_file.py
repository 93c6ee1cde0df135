"""A file that is written whole or not at all: what stood there stays until all of the new one is on the disk.

Owns the file beside it, its rights and its taking the place. It must not know what is written, nor words for users.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to be written, which takes the place of ``path`` at the end; after an error nothing has changed.

    Of a link, the file it leads to is replaced; its rights stay. What is no file, a pipe say, is written to as it is.
    Raises ``OSError``.
    """
    target = path.resolve()
    mode = _mode(target)
    if mode is None:
        with target.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(prefix=target.name[:100], dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write(path: Path, content: bytes) -> None:
    """Write all of a file; see :func:`replacing`."""
    with replacing(path) as file:
        file.write(content)


def _mode(target: Path) -> int | None:
    """The rights that the file shall have; ``None`` when something else than a file is there."""
    try:
        there = target.stat().st_mode
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
    return stat.S_IMODE(there) if stat.S_ISREG(there) else None


__all__ = ["replacing", "write"]
