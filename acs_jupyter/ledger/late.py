"""What has happened and must be written down, now or as soon as can be: nobody waits for it on an event loop.

Owns the order, the second try and the thread that waits for a file in a loop's place. It must not know what is
written.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import LedgerFailed
from ..machine.patience import Busy, hurried, is_hurried, on_a_loop
from . import store
from .store import Store

_log = logging.getLogger(__name__)

Statement = Callable[[sqlite3.Connection], object]
"""Something to be carried out within a transaction."""


class Late:
    """Statements for one file, in order. What cannot be written now is written with the next, or by a thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.forked()

    def forked(self) -> None:
        """In a forked child: what the parent has not written yet, the parent writes."""
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._waiting: list[Statement] = []
        self._writer: threading.Thread | None = None

    def add(self, statement: Statement) -> None:
        """Write something that has happened. Never fails; on an event loop it never waits for the file."""
        self.keep(statement)
        self.hasten()

    def keep(self, statement: Statement) -> None:
        """Something that has happened is written with whatever is written next."""
        with self._lock:
            self._waiting.append(statement)

    def hasten(self) -> None:
        """Write what waits now, or beside an event loop that others have the file before. Never fails."""
        try:
            with hurried(on_a_loop()):
                self.write()
        except Busy:
            self._write_beside()
        except LedgerFailed as problem:
            _log.warning("a settlement waits: %s", problem)

    def write(self) -> None:
        """Write what waits, all in one transaction. Raises :class:`LedgerFailed`, or :class:`Busy` in a hurry."""
        if self._waiting:
            with self.transaction():
                pass

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that begins with what waits. When it is rolled back, that waits on.

        Raises :class:`LedgerFailed`, or :class:`Busy` in a hurry.
        """
        if not self._writing.acquire(timeout=0 if is_hurried() else store.BUSY_SECONDS):
            if is_hurried():
                raise Busy
            raise LedgerFailed(f"The budget ledger {self._store.where} cannot be used: database is locked.")
        try:
            with self._lock:
                waiting = tuple(self._waiting)
            with self._store.writing() as db:
                for statement in waiting:
                    statement(db)
                yield db
            with self._lock:
                del self._waiting[: len(waiting)]
        finally:
            self._writing.release()

    @property
    def waits(self) -> bool:
        """Whether there is anything that is not written yet."""
        return bool(self._waiting)

    def join(self) -> None:
        """Wait for the thread that writes, if there is one."""
        writer = self._writer
        if writer is not None and writer is not threading.current_thread():
            writer.join()

    def _write_beside(self) -> None:
        if (
            not threading.main_thread().is_alive()
        ):  # the process ends: nobody waits for a new thread, or for this loop
            with suppress(LedgerFailed):
                self.write()
            return
        with self._lock:
            if self._writer is None:
                # No daemon: the process waits for it at its end, as long as a locked file is waited for.
                self._writer = threading.Thread(target=self._catch_up, name="acs-ledger")
                self._writer.start()

    def _catch_up(self) -> None:
        while True:
            try:
                self.write()
            except LedgerFailed as problem:
                _log.warning("a settlement waits: %s", problem)
            with self._lock:
                if not self._waiting or not threading.main_thread().is_alive():
                    self._writer = None
                    return
            time.sleep(0.1)
