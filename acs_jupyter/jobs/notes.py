"""What a client writes down of its jobs, and what it finds there again.

Owns the steps of writing: before a submission, after each answer. It must not know HTTP, nor the file's tables.
A journal that is switched off, or cannot be used, costs no job: what is known then lives in this process only, and one
warning says so. One that others have locked is tried again; what could not be written then is written first.
"""

from __future__ import annotations

import sqlite3
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from .. import wire
from ..checks import parse_request
from ..errors import AcsError, ApiError, ConnectionFailed, Interrupted, JobPending
from . import entry as job_entry
from .terms import fingerprint

if TYPE_CHECKING:
    from ..completion import Completion
    from ..secret import Secret
    from ..wire import CompletionRequest, Job
    from .entry import Entry
    from .journal import Pages, Row

T = TypeVar("T")


class Notes:
    """Everything known of one key's jobs at one server.

    ``opened`` gives the journal's pages, when first needed; ``instead`` others, when those cannot be used.
    """

    def __init__(
        self,
        opened: Callable[[], Pages],
        instead: Callable[[], Pages],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._opened, self._instead = opened, instead
        self._pages: Pages | None = None
        self._in_memory = self._told_locked = False
        self._missed: list[Callable[[Pages], object]] = []
        self._numbers: dict[int, int] = {}
        """The rows of submissions that were written later, by the numbers (below 0) they had until then."""
        self._clock = clock

    def sending(self, request: CompletionRequest, key: str, tag: str | None) -> Row | None:
        """Write down that a request is about to be sent."""
        entry = job_entry.submitted(request, key, tag, self._clock())
        body = wire.encode_request(request)
        number = -1 - len(self._numbers)
        self._numbers[number] = number

        def begin(pages: Pages) -> Row:
            row = pages.begin(fingerprint(request), entry, body)
            self._numbers[number] = row.number
            return row

        from .journal import Row  # noqa: PLC0415  # sqlite3's file loads with the first job

        return self._with(begin, Row(number, entry), late=True)

    def submitted(self, row: Row | None, job: Job | None, error: AcsError | None) -> Entry | None:
        """Write down how a submission was answered: by a job, a refusal, or by nothing that counts."""
        if row is None:
            return None
        if error is None and job is not None:
            return self._change(row.number, lambda entry: job_entry.seen(entry, job))
        if error is None:
            return None
        if _says_nothing(error):
            return self._change(row.number, lambda entry: job_entry.troubled(entry, error))
        return self._change(row.number, lambda entry: _refused(entry, error, self._clock()))

    def seen(self, job: Job) -> Entry | None:
        """Write down what the server told of a job."""
        return self._of(job.id, lambda entry: job_entry.seen(entry, job))

    def read(self, completion: Completion) -> Entry | None:
        """Write down that a job's result has been read."""
        usage, reason = completion.usage, completion.finish_reason
        spent = wire.Usage(usage.prompt_tokens, usage.completion_tokens)
        return self._of(
            completion.run, lambda entry: job_entry.succeeded(entry, spent, reason, self._clock())
        )

    def failed(self, job: str, error: AcsError) -> Entry | None:
        """Write down how a job ended, when that is what the error says, or that it could not be asked."""
        if isinstance(error, JobPending):
            return None
        if job_entry.is_final(error):
            return self._of(job, lambda entry: job_entry.ended(entry, error, self._clock()))
        return self._of(job, lambda entry: job_entry.troubled(entry, error))

    def rows(self) -> list[Row]:
        """All that is known, newest first."""
        return self._with(lambda pages: pages.rows(), [])

    def entry(self, job: str) -> Entry | None:
        """What is known of a job."""
        row = self._with(lambda pages: pages.of_job(job), None)
        return row.entry if row else None

    def request(self, job: str) -> CompletionRequest | None:
        """The request a job was made of, when it is still kept."""
        row = self._with(lambda pages: pages.of_job(job), None)
        return self.request_of(row) if row else None

    def request_of(self, row: Row) -> CompletionRequest | None:
        """The request of a row, when it is still kept."""
        body = self._with(lambda pages: pages.journal.request(row.number), None)
        try:
            return parse_request(body) if body is not None else None
        except (AcsError, msgspec.DecodeError):
            return None

    def _of(self, job: str, how: Callable[[Entry], Entry]) -> Entry | None:
        def change(pages: Pages) -> Entry | None:
            row = pages.of_job(job)
            return pages.journal.change(row.number, how) if row else None

        return self._with(change, None, late=True)

    def _change(self, number: int, how: Callable[[Entry], Entry]) -> Entry | None:
        def change(pages: Pages) -> Entry | None:
            return pages.journal.change(self._numbers.get(number, number), how)

        return self._with(change, None, late=True)

    def _with(self, use: Callable[[Pages], T], otherwise: T, *, late: bool = False) -> T:
        """What ``use`` makes of the pages; ``late``: when others have them, it is done as soon as can be."""
        try:
            if self._pages is None:
                self._pages = self._opened()
            while self._missed:
                self._missed[0](self._pages)
                del self._missed[0]
            return use(self._pages)
        except (OSError, sqlite3.Error, msgspec.DecodeError) as problem:
            if self._in_memory:
                return otherwise
            if getattr(problem, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                self._missed += [use] if late else []
                self._say_locked()
                return otherwise
            told = f"{type(problem).__name__}: {problem}"
        self._in_memory, self._opened = True, self._instead
        self._pages = None
        warnings.warn(
            f"The journal of jobs cannot be used ({told}); jobs go on, and are written down nowhere. "
            "ACS_JOURNAL names another file.",
            stacklevel=2,
        )
        return self._with(use, otherwise, late=late)

    def _say_locked(self) -> None:
        if not self._told_locked:
            self._told_locked = True
            warnings.warn(
                "The journal of jobs is locked by another program; jobs go on, and are written down when it is free.",
                stacklevel=4,
            )


def notes_for(base: str, secret: Secret) -> Notes:
    """The notes of a client; nothing is opened yet."""

    def opened() -> Pages:
        from . import journal as job_journal  # noqa: PLC0415  # sqlite3 loads with the first job

        return job_journal.Pages(job_journal.journal() or job_journal.Journal(None), base, secret)

    def instead() -> Pages:
        from . import journal as job_journal  # noqa: PLC0415

        return job_journal.Pages(job_journal.Journal(None), base, secret)

    return Notes(opened, instead)


def _says_nothing(error: AcsError) -> bool:
    """Whether the job may be there all the same."""
    if isinstance(error, ApiError):
        return error.status >= 500
    return isinstance(error, ConnectionFailed | Interrupted | JobPending)


def _refused(entry: Entry, error: AcsError, now: float) -> Entry:
    # An answer about the submission says nothing of a job that this row already has.
    return entry if entry.job is not None else job_entry.ended(entry, error, now)
