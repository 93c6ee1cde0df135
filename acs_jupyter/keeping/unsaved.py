"""What a kernel that is killed leaves behind: a run in a private file until it is known that a notebook has all of it.

Owns the files, which runs go into one, and how they are found again. It must not know windows, IPython or servers. A
file is a session's log that is appended to as things happen, so that what was received is the system's before it is
shown: it outlives the end of the kernel at any moment (a power cut may take its last seconds). It holds prompts and
texts, no key, and only its owner reads it.

What counts as known: a page has said that it shows the copy (``Confirm``), or a notebook file holds its record
(``recovering.py``). Where no page was ever seen, a client without one collects outputs: what it was shown while a cell
ran counts when the kernel ends in order, unless the cell was interrupted: a page whose kernel is restarted hears no
more of it, and in its first cell may not have been heard yet.

``ACS_UNSAVED=FOLDER`` names the folder, ``ACS_UNSAVED=off`` keeps none; else it is ``unsaved`` in the user's folder.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from ..completion import Completion
from ..ledger.place import SESSION
from ..log import events as ev
from ..log.events import AnyEvent
from ..log.session import FORMAT, FORMAT_VERSION, Session
from ..machine.folder import setting
from ..machine.processes import Process, is_gone, this_process

VARIABLE = "ACS_UNSAVED"
FOLDER = "unsaved"
SILENT = 60.0
"""Seconds without a write after which a file counts as left behind, where its kernel cannot be looked for."""

_LONGEST_HEADER = 65_536
_BINARY = getattr(os, "O_BINARY", 0)

_log = logging.getLogger(__name__)


class _Exit:
    """What an orderly end of this process removes, unless a page was seen by then."""

    def __init__(self) -> None:
        self.page_seen = False
        self._files: dict[Path, int] = {}

    def add(self, path: Path) -> None:
        if not self._files:
            atexit.register(self.leave)
        self._files[path] = os.getpid()

    def discard(self, path: Path) -> None:
        self._files.pop(path, None)

    def leave(self) -> None:
        mine = [path for path, pid in self._files.items() if pid == os.getpid()]  # a fork leaves its parent's
        for path in [] if self.page_seen else mine:
            _remove(path)


_exit = _Exit()


def page_seen() -> None:
    """A page shows a window of this kernel: from here on, what is displayed counts when a page says that it has it."""
    _exit.page_seen = True


@dataclass
class Family:
    """Which events of a session are a run's and its branches', in an order that folds by itself."""

    session: Session
    runs: set[str]
    open: set[str] = field(default_factory=set)
    _nodes: set[str] = field(default_factory=set)
    _unplaced: dict[str, ev.RunOpened] = field(default_factory=dict)

    def of(self, event: AnyEvent) -> Iterator[AnyEvent]:
        """The event if it belongs here, after what must be known before it."""
        if isinstance(event, ev.Revised):
            return
        if isinstance(event, ev.RunOpened):
            if event.run in self.runs:
                self.open.add(event.run)
                yield event
            else:
                self._unplaced[event.run] = event  # its first node says whether it is a branch
        elif isinstance(event, ev.NodeOpened):
            yield from self._opened(event)
        elif isinstance(event, (ev.TokensArrived, ev.PromptScored, ev.SeamSought, ev.Finished)):
            if event.node in self._nodes:
                yield event
        elif event.run in self.runs:
            if isinstance(event, ev.RunClosed):
                self.open.discard(event.run)
            yield event

    def _opened(self, event: ev.NodeOpened) -> Iterator[AnyEvent]:
        waiting = self._unplaced.pop(event.run, None)
        if waiting is not None and event.origin is not None and event.origin.node in self._nodes:
            self.runs.add(event.run)
            self.open.add(event.run)
            yield waiting
        if event.run not in self.runs:
            return
        if event.parent is not None and event.parent not in self._nodes:
            # What stands before it is one text.
            before = self.session.nodes[event.parent]
            text = self.session.text_to(event.parent)
            yield ev.NodeOpened(event.parent, event.run, text=text, ids=before.ids)
            self._nodes.add(event.parent)
        self._nodes.add(event.node)
        yield event


class Unsaved:
    """Keeps a run of a session, and its branches, in a file until :meth:`saved` is told that a notebook has all of it.

    A branch that opens after that begins a new file. ``about``: what helps a person to know it again. A file
    that cannot be written is given up, with a line in the log; the run goes on.
    """

    def __init__(self, session: Session, run: str, **about: str) -> None:
        self._session, self._run, self._about = session, run, about
        self._folder = setting(VARIABLE, FOLDER)
        self._family = Family(session, {run})
        self._cursor = self._last = 0
        self._lock = threading.RLock()
        self._file: int | None = None
        self._path = Path()
        self._unsubscribe: Callable[[], None] = lambda: None
        if self._folder is not None:
            self._unsubscribe = session.subscribe(lambda _: self._go_on())
            self._go_on()

    def saved(self, position: int) -> bool:
        """A notebook is known to have a copy of everything up to a position of the session's log.

        The file goes, if nothing has come since and nothing is still coming; says whether.
        """
        with self._lock:
            if not self._is_all(position):
                return False
            self._close()
            self._drop()  # one that was given up is not whole, and not needed
            return True

    def shown(self, position: int) -> None:
        """A copy of everything up to there was displayed while a cell ran: whoever runs cells without a page has it."""
        with self._lock:
            if self._is_all(position) and self._path.name:
                _exit.add(self._path)

    def doubted(self) -> None:
        """The cell that displayed it was interrupted, as by a restart of its kernel: then nobody may have it."""
        with self._lock:
            _exit.discard(self._path)

    def end(self) -> None:
        """Write on no more; a file that is there stays."""
        self._unsubscribe()
        with self._lock:
            self._close()

    def _is_all(self, position: int) -> bool:
        self._go_on()
        return not self._family.open and self._last <= position

    def _drop(self) -> None:
        if self._path.name:
            _exit.discard(self._path)
            _remove(self._path)
            self._path = Path()

    def _go_on(self) -> None:
        with self._lock:
            entries = self._session.since(self._cursor)
            self._cursor += len(entries)
            own = [(at, one) for at, event in entries for one in self._family.of(event)]
            if not own or self._folder is None:
                return
            self._last = self._cursor
            _exit.discard(self._path)
            try:
                if (
                    self._file is None and self._path.name
                ):  # no notebook has it yet: it goes on in the same file
                    self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | _BINARY)
                elif self._file is None:
                    if not self._family.open and not any(isinstance(one, ev.RunOpened) for _, one in own):
                        return  # a word on what a notebook has already
                    own = self._begin(self._folder)
                _write_all(self._file, b"".join([msgspec.json.encode(one) + b"\n" for one in own]))
                if not self._family.open:
                    self._close()  # many cells may wait for a page
            except OSError as error:
                _log.warning("what arrives is not kept beside the notebook: %s", error.strerror)
                self._folder = None
                self._close()

    def _begin(self, folder: Path) -> list[tuple[float, AnyEvent]]:
        """A new file with its header; gives back all that belongs into it so far."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{time.time_ns()}-{token_hex(4)}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY
        self._file = os.open(self._path, flags, 0o600)
        process = this_process()
        kernel = [process.machine, process.pid, process.began]
        about = {**self._about, "path": os.environ.get(SESSION, "")}
        header = {"format": FORMAT, "version": FORMAT_VERSION, "kernel": kernel, "about": about}
        _write_all(self._file, json.dumps(header).encode() + b"\n")
        self._family = Family(self._session, {self._run})
        entries = self._session.since(0)[: self._cursor]
        return [(at, one) for at, event in entries for one in self._family.of(event)]

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


@dataclass(frozen=True)
class Left:
    """A file that a kernel left. ``about`` has ``notebook``, its ``path`` and ``cell``, as far as they were known."""

    path: Path
    about: dict[str, str]

    def completion(self) -> Completion:
        """What had come, with its branches; what was still coming is interrupted. Raises ``ValueError``."""
        session = Session.load(self.path, torn=True)
        if not session.runs:
            raise ValueError(f"{self.path} holds no run.")
        return Completion(session, next(iter(session.runs)))

    def forget(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)


def left() -> list[Left]:
    """The files of kernels that are gone, oldest first. One whose kernel runs is that kernel's."""
    folder = setting(VARIABLE, FOLDER)
    if folder is None or not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        with contextlib.suppress(OSError):
            if one := _looked_at(path):
                found.append(one)
    return found


def _looked_at(path: Path) -> Left | None:
    """A file that was left behind. One that cannot be read is one too: whoever opens it is told."""
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST_HEADER)
            if not first:
                return None  # somebody is beginning it
            header = json.loads(first)
            anything = file.readline().endswith(b"\n")
        about = {str(key): str(value) for key, value in header["about"].items()}
        gone = _is_left(path, header["kernel"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return Left(path, {})
    if gone and not anything:  # it was killed before it had written anything down
        path.unlink(missing_ok=True)
    return Left(path, about) if gone and anything else None


def recover() -> list[Completion]:
    """Texts of killed kernels that no notebook has, oldest first, each with its branches in ``branches``.

    Reading takes nothing away: ``%acs recover`` puts them into a notebook and removes their files. Raises
    ``ValueError`` naming a file that cannot be read.
    """
    return [one.completion() for one in left()]


def _is_left(path: Path, kernel: Any) -> bool:
    machine, pid, began = kernel
    gone = is_gone(Process(machine, pid, began))
    # Another machine or container that shares the folder: one that writes no more counts as gone.
    return time.time() - path.stat().st_mtime > SILENT if gone is None else gone


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _write_all(file: int | None, data: bytes) -> None:
    view = memoryview(data)
    while file is not None and view:
        view = view[os.write(file, view) :]
