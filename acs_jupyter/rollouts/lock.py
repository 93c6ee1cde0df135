"""One holder of a file at a time, over all processes; the system lets go when the holder dies.

Owns that lock and the words for whoever comes second. It must not know what is protected.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ..errors import InvalidRequest
from ..machine import forking

_HOLDER = 16
"""Where the holder's process id stands: behind the byte that Windows locks."""


class FileLock:
    """Held from its making until :meth:`release`. Raises :class:`InvalidRequest` when somebody else has it.

    ``own``: what to do when this process has it, in words.
    """

    def __init__(self, path: Path, own: str = "wait for it, or stop it") -> None:
        self._path, self._own = path, own
        self._file: int | None = None
        while self._file is None:
            handle = self._opened()
            if _is(handle, path):
                self._file = handle
            else:  # its last holder removed it between our opening and our taking
                os.close(handle)
        forking.tell(self)
        os.lseek(self._file, _HOLDER, os.SEEK_SET)
        with contextlib.suppress(OSError):  # no room for a name: it is held all the same
            os.write(self._file, f"{os.getpid():<20}".encode())

    def _opened(self) -> int:
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidRequest(
                f"{self._path} cannot be written: {error.strerror}. Name another place."
            ) from None
        try:
            take(handle)
        except OSError:
            os.lseek(handle, _HOLDER, os.SEEK_SET)
            holder = os.read(handle, 20).decode("ascii", "replace").strip()
            os.close(handle)
            by = (
                "this process"
                if holder == str(os.getpid())
                else f"process {holder}"
                if holder
                else "somebody"
            )
            way = self._own if by == "this process" else "wait for it, or stop it"
            name = self._path.name.removesuffix(".lock")
            raise InvalidRequest(f"{name} is being written by {by}: {way}.") from None
        return handle

    def forked(self) -> None:
        """See :class:`acs_jupyter.forking.Forked`: a child that lives on must not keep the file from others."""
        handle, self._file = self._file, None
        if handle is not None:
            os.close(handle)

    def release(self) -> None:
        """Let go; harmless when that has happened."""
        handle, self._file = self._file, None
        if handle is None:
            return
        if sys.platform == "win32":  # what is open cannot be removed there, so nobody's can but ours
            os.close(handle)
        with contextlib.suppress(OSError):
            self._path.unlink()
        if sys.platform != "win32":
            os.close(handle)


def _is(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False


def take(handle: int, place: int | None = None) -> None:
    """Lock an open file for as long as it is open. Raises ``OSError`` (``BlockingIOError`` or ``PermissionError``).

    ``place``: of the byte that Windows locks, and whom it then keeps from reading it; by default where the file stands.
    """
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # that system only

        if place is not None:
            os.lseek(handle, place, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl  # noqa: PLC0415  # not on Windows

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
