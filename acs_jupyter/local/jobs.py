"""Completion jobs: stored first, then run once, then kept until somebody has read them.

Owns who runs when, what cancelling does, and what stopping the server does to running jobs. It must not know HTTP
paths or a particular engine: work is a function from a request to a body, the same that answers a JSON request.

A job that has been claimed is never run again. When the server stops, running jobs get ``grace`` seconds to end;
the rest are stopped and recorded as interrupted, with nothing pending because their work really ended. When the
server is killed, they are found at the next start and recorded as interrupted, with their usage pending.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..checks import parse_request
from ..errors import ApiError, JobCancelled, JobInterrupted, JobResultTooLarge, UpstreamServerError, class_for
from ..wire import CompletionRequest, encode_request, request_fields
from .guard import log
from .job_store import JobStore
from .job_values import End, New, Owner, Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T = TypeVar("T")

WORKERS = 4
GRACE = 3.0
SWEEP = 30.0
"""Seconds between looks at the retention times while nothing else happens."""
_STOPPING_TIME = 10.0


@dataclass(frozen=True)
class Done:
    """What work gave: the body of a JSON answer, the headers beside it, and whether its usage is still open."""

    body: bytes
    headers: dict[str, str]
    usage_pending: bool = False


Work = Callable[[CompletionRequest, Owner, str], Awaitable[Done]]
"""Runs one request (for its owner, under its request id) as a JSON request would be run.

Raises :class:`ApiError` for every other outcome; cancelling it ends the work behind it.
"""


class Jobs:
    """All jobs of one store. ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        store: JobStore,
        work: Work,
        *,
        clock: Callable[[], float] = time.time,
        workers: int = WORKERS,
        grace: float = GRACE,
    ) -> None:
        self.limits = store.limits
        self._store, self._work, self._clock = store, work, clock
        self._workers, self._grace = workers, grace
        self._thread = ThreadPoolExecutor(1, "jobs")  # the store waits for the disk; the loop must not
        self._wake = asyncio.Event()
        self._stopping = False
        self._working: dict[str, asyncio.Future[Done]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._cancelled: set[str] = set()
        self._worker: asyncio.Task[None] | None = None

    # -- what owners do ---------------------------------------------------------------------------

    async def known(self, owner: Owner, key: str, request: CompletionRequest) -> Row | None:
        """The job this key and request already have."""
        return await self._ask(self._store.known, owner, _hash(key), fingerprint(request), self._clock())

    async def submit(
        self, owner: Owner, key: str, request: CompletionRequest, request_id: str
    ) -> tuple[Row, bool]:
        """Store a job and wake the worker; the second value says whether it is new."""
        new = New(
            id=f"job_{token_hex(12)}",
            owner=owner,
            idempotency=_hash(key),
            fingerprint=fingerprint(request),
            request_id=request_id,
            model=str(request.model),
            request=encode_request(request),
        )
        row, is_new = await self._ask(self._store.add, new, self._clock())
        self._wake.set()
        return row, is_new

    async def get(self, owner: Owner, job: str) -> Row:
        """An owner's job."""
        return await self._ask(self._store.get, owner, job, self._clock())

    async def cancel(self, owner: Owner, job: str) -> Row:
        """A queued job ends at once, a running one as soon as its engine lets go."""
        row = await self._ask(self._store.cancel, owner, job, self._clock())
        if row.status == "running":
            self._cancelled.add(job)
            work = self._working.get(job)
            if work is not None:
                work.cancel()
        self._wake.set()  # what was dropped is wiped from the disk
        return row

    # -- the worker -------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Runs jobs while an application serves."""
        self.start()
        try:
            yield
        finally:
            await self.stop()

    def start(self) -> None:
        """Begin to run what is queued."""
        self._worker = asyncio.ensure_future(self._claim_forever())

    async def stop(self) -> None:
        """Claim nothing more, let running jobs end within the grace, stop the rest, close the store."""
        self._stopping = True
        self._wake.set()
        if self._worker is not None:
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._grace)
        for work in list(self._working.values()):
            work.cancel()
        if self._closing:
            await asyncio.wait(self._closing, timeout=_STOPPING_TIME)
        await self._ask(self._store.close)
        self._thread.shutdown()

    async def _claim_forever(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                await self._claim_all()
                await self._ask(self._store.retire, self._clock())
            except sqlite3.Error as problem:
                log.error("the job store failed: %s", type(problem).__name__)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), SWEEP)

    async def _claim_all(self) -> None:
        while not self._stopping and len(self._closing) < self._workers:
            row = await self._ask(self._store.claim, self._clock())
            if row is None:
                return
            task = asyncio.ensure_future(self._run(row))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            task.add_done_callback(lambda _: self._wake.set())

    async def _run(self, row: Row) -> None:
        work = asyncio.ensure_future(self._do(row))
        self._working[row.id] = work
        if row.id in self._cancelled:
            work.cancel()
        await asyncio.wait({work})
        try:
            await self._finish(row.id, work)
        finally:
            del self._working[row.id]
            self._cancelled.discard(row.id)

    async def _finish(self, job: str, work: asyncio.Future[Done]) -> None:
        # Whatever the work gave or raised, the job ends: one that was left running could never be run again.
        try:
            await self._write(job, self._end_of(job, work))
        except Exception as problem:  # noqa: BLE001
            log.error("the end of a job cannot be told: %s", type(problem).__name__)
            await self._write(job, _failed(UpstreamServerError("The engine's answer cannot be stored.")))

    async def _do(self, row: Row) -> Done:
        assert row.request is not None
        request = parse_request(row.request)
        return await self._work(request, Owner(row.owner, row.account), row.request_id)

    def _end_of(self, job: str, work: asyncio.Future[Done]) -> End:
        if work.cancelled():
            if job in self._cancelled:
                return _failed(JobCancelled("The job was cancelled while it ran."), "cancelled")
            return _failed(JobInterrupted("The server stopped while the job ran."), "interrupted")
        problem = work.exception()
        if problem is None:
            return judge(work.result(), self.limits.result_bytes)
        if isinstance(problem, ApiError):
            return _failed(problem)
        log.error("a job failed: %s", type(problem).__name__)
        return _failed(UpstreamServerError("The engine failed while it worked on this job."))

    async def _write(self, job: str, end: End) -> None:
        # An outcome is paid for: while the disk refuses it, it stays here and is offered again.
        while True:
            try:
                await self._ask(self._store.finish, job, end, self._clock())
            except sqlite3.Error as problem:
                log.error("the job store failed: %s", type(problem).__name__)
                if self._stopping:
                    return
                await asyncio.sleep(1.0)
            else:
                return

    async def _ask(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(function, *arguments))


def fingerprint(request: CompletionRequest) -> str:
    """What makes two requests the same: all parameters that are set, however they were written."""
    fields = {name: value for name, value in request_fields(request).items() if value is not None}
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()


class _Body(msgspec.Struct):
    # Only what decides how a job ends: whatever else a body holds, it was paid for.
    choices: list[msgspec.Raw] | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_Body).decode
_CODE = re.compile(r"[a-z0-9_]{1,64}")


def judge(done: Done, most: int) -> End:
    """How a finished piece of work ends its job: a body may be too large, broken, or an error after all."""
    if len(done.body) > most:
        error: ApiError = JobResultTooLarge(f"The result has {len(done.body)} bytes; {most} are kept.")
        return _failed(error, usage_pending=done.usage_pending)
    try:
        answer = _decode(done.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = _Body()
    if bytes(answer.error) != b"null":
        return _failed(_error_inside(bytes(answer.error)), usage_pending=done.usage_pending)
    if not answer.choices:
        broken = UpstreamServerError("The engine's answer cannot be read.")
        return _failed(broken, usage_pending=done.usage_pending)
    return End("succeeded", 200, done.body, done.headers, done.usage_pending)


def _error_inside(raw: bytes) -> ApiError:
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        told = "The engine's error cannot be read."
    code, message = (told.get("code"), told.get("message")) if isinstance(told, dict) else (None, told)
    known = code if isinstance(code, str) and _CODE.fullmatch(code) else None
    return class_for(known, 502)(str(message or ""), code=known)


def _failed(error: ApiError, status: str = "failed", *, usage_pending: bool = False) -> End:
    told = {"code": error.code, "message": error.message.encode("utf-8", "replace").decode()}
    return End(status, error.status, msgspec.json.encode(told), {}, usage_pending)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
