"""Completion jobs on disk: one SQLite file that one server holds.

Owns the table, every change of a job's state (each one transaction), the caps and the retention times.
It must not know HTTP, engines or who runs a job. Times come in from outside; nothing here reads a clock.

A prompt is stored until its job ends, a result until its time is over; both are then overwritten on disk. Of keys
and idempotency keys there are hashes only.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import JobConflict, JobLimitReached, JobNotFound, JobStoreFull
from .job_values import End, Limits, New, Owner, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "jobs.db"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  account TEXT NOT NULL,
  idempotency TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  request_id TEXT NOT NULL,
  model TEXT NOT NULL,
  status TEXT NOT NULL,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  usage_pending INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  started REAL,
  ended REAL,
  content_gone INTEGER NOT NULL DEFAULT 0,
  request BLOB,
  outcome INTEGER,
  result BLOB,
  headers TEXT,
  UNIQUE (owner, idempotency)
);
CREATE INDEX IF NOT EXISTS jobs_by_status ON jobs (status, seq);
"""


class StoreBusy(Exception):
    """Another server holds the file, or it cannot be opened; the message is one line."""


class JobStore:
    """One open file (``folder`` of ``None``: memory only). Not for several threads at once.

    Opening it ends what a former server left running: such jobs become ``interrupted``, their usage unknown.
    """

    def __init__(self, folder: Path | None, now: float, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._db = _open(folder)
        self._dropped = True
        with self._change():
            self._drop(
                "UPDATE jobs SET status = 'interrupted', ended = ?, request = NULL WHERE status = 'running'",
                (now,),
            )

    def close(self) -> None:
        """Close the file; another server may open it then."""
        self._db.close()

    # -- what owners do ---------------------------------------------------------------------------

    def known(self, owner: Owner, idempotency: str, fingerprint: str, now: float) -> Row | None:
        """The job under an idempotency key, or ``None``; raises :class:`JobConflict` for another request."""
        with self._change():
            self._retire(now)
            return self._known(owner, idempotency, fingerprint)

    def add(self, new: New, now: float) -> tuple[Row, bool]:
        """Store a job, or find the one that is there (then the second value is false)."""
        with self._change():
            self._retire(now)
            row = self._known(new.owner, new.idempotency, new.fingerprint)
            if row is not None:
                return row, False
            self._check_caps(new.owner)
            self._db.execute(
                "INSERT INTO jobs (id, owner, account, idempotency, fingerprint, request_id, model, status, created,"
                " request) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?)",
                (
                    new.id, new.owner.key, new.owner.account, new.idempotency, new.fingerprint, new.request_id,
                    new.model, now, new.request,
                ),
            )  # fmt: skip
            return self._owned(new.owner, new.id), True

    def get(self, owner: Owner, job: str, now: float) -> Row:
        """An owner's job; raises :class:`JobNotFound` for everybody else, too."""
        with self._change():
            self._retire(now)
            return self._owned(owner, job)

    def cancel(self, owner: Owner, job: str, now: float) -> Row:
        """End a queued job, ask a running one to end, leave an ended one as it is."""
        with self._change():
            self._retire(now)
            row = self._owned(owner, job)
            if row.status == "queued":
                self._drop(
                    "UPDATE jobs SET status = 'cancelled', cancel_requested = 1, ended = ?, request = NULL"
                    " WHERE id = ?",
                    (now, job),
                )
            elif row.status == "running":
                self._db.execute("UPDATE jobs SET cancel_requested = 1 WHERE id = ?", (job,))
            return self._owned(owner, job)

    # -- what the worker does ---------------------------------------------------------------------

    def claim(self, now: float) -> Row | None:
        """Take the next queued job, once and for all; keys take turns. Its usage is pending from here on."""
        with self._change():
            self._retire(now)
            return self._one(
                "UPDATE jobs SET status = 'running', started = ?, usage_pending = 1 WHERE seq = ("
                " SELECT seq FROM jobs AS next WHERE status = 'queued' ORDER BY"
                " (SELECT count(*) FROM jobs WHERE status = 'running' AND owner = next.owner), seq LIMIT 1)"
                " RETURNING *",
                now,
            )

    def finish(self, job: str, end: End, now: float) -> None:
        """Write how a running job ended; a job in any other state stays as it is."""
        with self._change():
            self._drop(
                "UPDATE jobs SET status = ?, outcome = ?, result = ?, headers = ?, usage_pending = ?, ended = ?,"
                " request = NULL WHERE id = ? AND status = 'running'",
                (
                    end.status, end.outcome, end.result, json.dumps(end.headers), int(end.usage_pending), now, job,
                ),
            )  # fmt: skip

    def retire(self, now: float) -> None:
        """Apply the retention times, and wipe from the files what was dropped since the last time."""
        with self._change():
            self._retire(now)
        if self._dropped:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._dropped = False

    def reconcile(self, job: str | None = None) -> list[Row]:
        """Say that the usage of interrupted jobs (one, or all) has been settled; these jobs."""
        with self._change():
            return self._many(
                "UPDATE jobs SET usage_pending = 0 WHERE usage_pending AND status NOT IN ('queued', 'running')"
                " AND coalesce(?, id) = id RETURNING *",
                job,
            )

    def has(self, job: str) -> bool:
        """Whether a job is known, whoever's it is."""
        return self._one("SELECT * FROM jobs WHERE id = ?", job) is not None

    # -- inside -----------------------------------------------------------------------------------

    @contextmanager
    def _change(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _retire(self, now: float) -> None:
        limits = self.limits
        self._drop(
            "UPDATE jobs SET status = 'expired', ended = created + ?, request = NULL, content_gone = 1"
            " WHERE status = 'queued' AND created + ? <= ?",
            (limits.queue_time, limits.queue_time, now),
        )
        self._drop(
            "UPDATE jobs SET content_gone = 1, result = NULL, headers = NULL WHERE NOT content_gone AND ended + ? <= ?",
            (limits.content_time, now),
        )
        self._drop("DELETE FROM jobs WHERE ended + ? <= ? AND NOT usage_pending", (limits.record_time, now))

    def _drop(self, sql: str, values: tuple[Any, ...]) -> None:
        # Dropped content is overwritten in the file at once, and still stands in the write-ahead log.
        if self._db.execute(sql, values).rowcount:
            self._dropped = True

    def _known(self, owner: Owner, idempotency: str, fingerprint: str) -> Row | None:
        row = self._one("SELECT * FROM jobs WHERE owner = ? AND idempotency = ?", owner.key, idempotency)
        if row is not None and row.fingerprint != fingerprint:
            raise JobConflict("This Idempotency-Key belongs to a job with another request.")
        return row

    def _owned(self, owner: Owner, job: str) -> Row:
        row = self._one("SELECT * FROM jobs WHERE owner = ? AND id = ?", owner.key, job)
        if row is None:
            raise JobNotFound("There is no such job under this API key.")
        return row

    def _check_caps(self, owner: Owner) -> None:
        limits = self.limits
        active = "status IN ('queued', 'running')"
        caps = (
            (limits.active_per_key, "active jobs of this key", f"{active} AND owner = ?", owner.key),
            (
                limits.active_per_account,
                "active jobs of this account",
                f"{active} AND account = ?",
                owner.account,
            ),
            (limits.active, "active jobs", f"{active} AND ? IS NOT NULL", owner.key),
            (limits.stored_per_account, "stored jobs of this account", "account = ?", owner.account),
            (limits.stored, "stored jobs", "? IS NOT NULL", owner.key),
        )
        for cap, what, where, value in caps:
            [count] = self._db.execute(f"SELECT count(*) FROM jobs WHERE {where}", (value,)).fetchone()
            if count >= cap:
                kind = JobLimitReached if what.startswith("active") else JobStoreFull
                raise kind(f"There are {cap} {what}, which is the most.", retry_after=_wait(what))

    def _one(self, sql: str, *values: Any) -> Row | None:
        return next(iter(self._many(sql, *values)), None)

    def _many(self, sql: str, *values: Any) -> list[Row]:
        rows = [dict(found) for found in self._db.execute(sql, values).fetchall()]
        for row in rows:
            for name in ("cancel_requested", "usage_pending", "content_gone"):
                row[name] = bool(row[name])
        return [Row(**row) for row in rows]


def folder_of(given: str | None) -> Path | None:
    """The data folder that was given, or the environment's, or ``None``."""
    folder = given or os.environ.get("ACS_LOCAL_DATA")
    return Path(folder).expanduser() if folder else None


def _wait(what: str) -> float | None:
    return 5 if what.startswith("active") else None


def _open(folder: Path | None) -> sqlite3.Connection:
    place = ":memory:"
    try:
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = str(folder / FILE)
            # Made here so that it is never readable by others; SQLite gives its side files the same mode.
            os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))
            (folder / FILE).chmod(0o600)
        db = sqlite3.connect(place, timeout=1.0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as problem:
        raise StoreBusy(f"{place} cannot be opened: {problem}.") from None
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA locking_mode = EXCLUSIVE")  # one server a file: who opens it ends running jobs
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")
        db.executescript(_SCHEMA)
    except sqlite3.Error as problem:
        db.close()
        why = "another server holds it" if "locked" in str(problem) else str(problem)
        raise StoreBusy(f"{place} cannot be used: {why}.") from None
    return db
