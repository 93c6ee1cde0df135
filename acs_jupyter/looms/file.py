"""A session that is kept in a file while it grows: every event is appended as it happens.

Owns the file's end and who may write to it. It must not know what the events mean. A killed process loses at most the
line it was writing: what was written is the system's, and a line without its end is cut off at the next opening.

``NAME.lock`` stands beside the file while somebody writes. It goes with the writer: when the loom is closed, when
nobody has it any more, and at an orderly end of the process. After a kill it stays and holds nothing: whoever opens the
file next takes it, and takes it away.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..errors import InvalidRequest
from ..log.events import AnyEvent, Finished, Revised, RunClosed
from ..log.session import Session
from ..rollouts.lock import FileLock

_PATIENCE = 5.0
"""Seconds that the end waits for a write: in a forked child, somebody who is not there may be in one."""


class LoomFile:
    """Writes a session to a file from here on. One process writes; a second one gets ``InvalidRequest``.

    ``trouble`` is one line while the file cannot be written, else ``""``; what waits is written when it can be again.
    """

    def __init__(self, path: Path, session: Session, lock: FileLock, written: int) -> None:
        self.path = path
        self.trouble = ""
        self.cut = 0
        self._session = session
        self._position = written
        self._writing = threading.Lock()
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        self._end = os.lseek(file, 0, os.SEEK_END)
        self._file = [file]  # empty once it has been closed
        self._let_go = weakref.finalize(
            self, _let_go, self._file, self._writing, lock
        )  # at the process's end, too
        self._unsubscribe: Callable[[], None] = session.subscribe(lambda batch: self._write(_is_worth(batch)))
        self._write(durably=True)

    @classmethod
    def create(cls, path: str | os.PathLike[str], session: Session) -> LoomFile:
        """Keep a session in a new file. Raises ``InvalidRequest`` when it is there already or cannot be written."""
        target = Path(path)
        lock = _locked(target)
        try:
            if target.exists():
                raise InvalidRequest(f"{target} is there already: open it, or name another file.")
            session.save(target)
            with target.open("rb") as file:
                written = sum(1 for _ in file) - 1
            return cls(target, session, lock, written)
        except OSError as error:
            lock.release()
            raise InvalidRequest(
                f"{target} cannot be written: {error.strerror}. Name another place."
            ) from None
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LoomFile:
        """Read a session's file and go on writing to it."""
        target = Path(path)
        if not target.is_file():
            raise InvalidRequest(f"There is no file {target}: check the name, or begin one with loom.keep.")
        lock = _locked(target)
        try:
            cut = _cut_torn(target)
            session = read(target)
            with target.open("rb") as file:
                written = sum(1 for _ in file) - 1
            made = cls(target, session, lock, written)  # runs that were open are closed now, in the file too
            made.cut = cut
        except OSError as error:
            lock.release()
            raise InvalidRequest(
                f"{target} cannot be opened: {error.strerror}. Check the name and that you may read and write it."
            ) from None
        except BaseException:
            lock.release()
            raise
        return made

    @property
    def session(self) -> Session:
        """What is kept."""
        return self._session

    def close(self) -> None:
        """Write what waits and let go of the file; harmless when that has happened."""
        self._unsubscribe()
        self._write(durably=True)
        self._let_go()

    def _write(self, durably: bool) -> None:
        with self._writing:
            if not self._file:
                return
            [file] = self._file
            entries = self._session.since(self._position)
            data = b"".join([msgspec.json.encode(list(entry)) + b"\n" for entry in entries])
            try:
                os.lseek(file, self._end, os.SEEK_SET)
                _write_all(file, data)
                if durably:
                    os.fsync(file)
            except OSError as error:
                self.trouble = (
                    f"{self.path} cannot be written ({error.strerror}); what waits is kept in memory."
                )
                return
            self._end += len(data)
            self._position += len(entries)
            self.trouble = ""


def read(path: str | os.PathLike[str]) -> Session:
    """The session in a file, which another process may be writing. Raises ``InvalidRequest`` when it is none."""
    try:
        return Session.load(path, torn=True)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from None


def _let_go(file: list[int], writing: threading.Lock, lock: FileLock) -> None:
    held = writing.acquire(timeout=_PATIENCE)
    while file:
        os.close(file.pop())
    if held:
        writing.release()
    lock.release()


def _locked(path: Path) -> FileLock:
    return FileLock(
        path.with_name(f"{path.name}.lock"), "call loom.close() on the loom that keeps it, then open it again"
    )


def _cut_torn(path: Path) -> int:
    """Take a last line without its end away; how many bytes that were."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        place, kept = size, 0
        while place > 0 and not kept:
            start = max(0, place - 65536)
            file.seek(start)
            kept = start + file.read(place - start).rfind(b"\n") + 1
            if kept == start:  # no line ends in this piece
                kept = 0
            place = start
        if kept and kept < size:
            file.truncate(kept)
            return size - kept
    return 0


def _is_worth(batch: list[AnyEvent]) -> bool:
    """Whether the disk is waited for: at the end of something, not at each token."""
    return any(isinstance(event, (Revised, RunClosed, Finished)) for event in batch)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
