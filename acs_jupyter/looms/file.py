"""A session that is kept in a file while it grows: every event is appended as it happens.

Owns the file's end and who may write to it. It must not know what the events mean. A killed process loses at most the
line it was writing: what was written is the system's, and a line without its end is cut off at the next opening.

``NAME.lock`` stands beside the file while somebody writes. It goes with the writer: when the loom is closed, when
nobody has it any more, and at an orderly end of the process. After a kill it stays and holds nothing: whoever opens the
file next takes it, and takes it away. The open file itself is locked, too: it can have several names, and be moved.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from ..errors import InvalidRequest
from ..log.events import AnyEvent, Finished, Revised, RunClosed
from ..log.session import Session
from ..machine import forking, whole_file
from ..rollouts.lock import FileLock, take
from . import storing

_log = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds that the end waits for a write: in a forked child, somebody who is not there may be in one."""
_FAR = 1 << 40
"""Where Windows locks the file: behind all of it, so that others can read."""


class LoomFile:
    """Writes a session to a file from here on. One process writes; a second one gets ``InvalidRequest``.

    ``trouble`` is one line while the file cannot be written, else ``""``; what waits is written when it can be again.
    A file that is gone is written anew, whole. One that somebody else replaced or changed is left alone.
    """

    def __init__(self, path: Path, session: Session, lock: FileLock, file: int, written: int) -> None:
        self.path = path
        self.trouble = ""
        self.cut = 0
        self._place = Path(os.path.abspath(path))  # links stay as they are
        self._session = session
        self._position = written
        self._writing = threading.Lock()
        self._end = os.lseek(file, 0, os.SEEK_END)
        self._known = os.fstat(file)
        self._file = [file]  # empty once it has been closed
        self._let_go = weakref.finalize(
            self, _let_go, self._file, self._writing, lock
        )  # at the process's end, too
        forking.tell(self)
        self._unsubscribe: Callable[[], None] = session.subscribe(lambda batch: self._write(_is_worth(batch)))
        self._write(durably=True)

    @classmethod
    def create(cls, path: str | os.PathLike[str], session: Session) -> LoomFile:
        """Keep a session in a new file. Raises ``InvalidRequest`` when it is there already or cannot be written."""
        target = Path(path)
        lock = _locked(target)
        file = -1
        try:
            if target.exists():
                raise InvalidRequest(f"{target} is there already: open it, or name another file.")
            data, count, _ = storing.whole(session)
            whole_file.write(target, data)
            target.chmod(0o600)
            file = _taken(target)
            return cls(target, session, lock, file, count)
        except BaseException as error:
            _gave_up(file, lock)
            if isinstance(error, OSError):
                raise InvalidRequest(
                    f"{target} cannot be written: {error.strerror}. Name another place."
                ) from None
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LoomFile:
        """Read a session's file and go on writing to it."""
        target = Path(path)
        if not target.is_file():
            raise InvalidRequest(f"There is no file {target}: check the name, or begin one with loom.keep.")
        lock = _locked(target)
        file = -1
        try:
            file = _taken(target)
            cut = _cut_torn(target)
            session = read(target)
            with target.open("rb") as lines:
                written = sum(1 for _ in lines) - 1
            made = cls(
                target, session, lock, file, written
            )  # runs that were open are closed now, in the file too
            made.cut = cut
        except BaseException as error:
            _gave_up(file, lock)
            if isinstance(error, OSError):
                raise InvalidRequest(
                    f"{target} cannot be opened: {error.strerror}. Check the name and that you may read and write it."
                ) from None
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

    def forked(self) -> None:
        """See :class:`acs_jupyter.machine.forking.Forked`: the file is the parent's; a child keeps all in memory."""
        self._writing = threading.Lock()
        if not self._file:
            return
        os.close(self._file.pop())
        self.trouble = f"{self.path} is written by the process that this one was forked from. {_ELSEWHERE}"

    def _write(self, durably: bool) -> None:
        with self._writing:
            if not self._file:
                return
            try:
                self.trouble = self._appended(durably)
            except OSError as error:
                self.trouble = (
                    f"{self.path} cannot be written ({error.strerror}); what waits is kept in memory."
                )

    def _appended(self, durably: bool) -> str:
        """Write what waits; what is to be said of it."""
        there = self._there()
        if there is None:
            return self._anew()
        if not os.path.samestat(there, self._known):
            return f"{self.path} was replaced by somebody; it is left as it is. {_ELSEWHERE}"
        [file] = self._file
        if there.st_size != self._known.st_size != os.fstat(file).st_size:
            return f"{self.path} was changed by somebody; it is left as it is. {_ELSEWHERE}"
        data, count, half = storing.encoded(self._session.since(self._position))
        try:
            os.lseek(file, self._end, os.SEEK_SET)
            _write_all(file, data)
        except OSError:
            self._take_back(file)
            raise
        self._end += len(data)
        self._position += count
        self._known = os.fstat(file)
        if durably:
            os.fsync(file)
        return storing.HALF if half else ""

    def _there(self) -> os.stat_result | None:
        try:
            return self._place.stat()
        except FileNotFoundError:
            return None

    def _anew(self) -> str:
        """The file has no such name any more: all of the session in a new one."""
        data, count, _ = storing.whole(self._session)
        file = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            _lock(file, self.path)
            _write_all(file, data)
            os.fsync(file)
        except BaseException:
            os.close(file)
            self._place.unlink(missing_ok=True)
            raise
        os.close(self._file[0])
        self._file[:] = [file]
        self._end, self._position, self._known = len(data), count, os.fstat(file)
        return f"{self.path} was not there any more, deleted or moved; it was written anew, whole."

    def _take_back(self, file: int) -> None:
        """After a write that failed: what came of it goes, if it can; the next one begins at the same place."""
        try:
            os.ftruncate(file, self._end)
        except OSError:
            _log.debug("%s could not be cut to its last line", self.path)
        there = self._there()
        if there is not None and os.path.samestat(there, self._known):
            self._known = there


_ELSEWHERE = 'All is kept in memory: loom.keep("another.loom") goes on in another file.'


def read(path: str | os.PathLike[str]) -> Session:
    """The session in a file, which another process may be writing. Raises ``InvalidRequest`` when it is none."""
    try:
        return Session.load(path, torn=True)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from None


def export(path: Path, data: bytes) -> None:
    """Write a copy, whole or not at all. Raises ``InvalidRequest``, also for a file that a loom is kept in."""
    try:
        if path.is_file():
            file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            try:
                _lock(file, path)
            finally:
                os.close(file)
        whole_file.write(path, data)
    except InvalidRequest:
        raise InvalidRequest(f"A loom is kept in {path}: name another file for the copy.") from None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}. Name another place.") from None


def _let_go(file: list[int], writing: threading.Lock, lock: FileLock) -> None:
    held = writing.acquire(timeout=_PATIENCE)
    while file:
        os.close(file.pop())
    if held:
        writing.release()
    lock.release()


def _gave_up(file: int, lock: FileLock) -> None:
    if file >= 0:
        os.close(file)
    lock.release()


def _locked(path: Path) -> FileLock:
    real = path.resolve()
    return FileLock(
        real.with_name(f"{real.name}.lock"), "call loom.close() on the loom that keeps it, then open it again"
    )


def _taken(path: Path) -> int:
    """The file, open and locked."""
    file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        _lock(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _lock(file: int, path: Path) -> None:
    try:
        take(file, _FAR)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            raise InvalidRequest(
                f"{path.name} is being written under another name: close the loom that keeps it, then open it again."
            ) from None  # a file system that knows no locks: the named one holds


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
