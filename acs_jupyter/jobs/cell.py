"""``%%acs --job`` and ``%acs jobs``: a cell's request as a job, and what is shown of it.

Owns which of a cell's settings go into a job, and the order of submitting and showing. It must not parse lines
(``notebook/options.py``) nor know how a job is asked about (``watch.py``).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..checks import beyond_job, job_too_large
from ..errors import AcsError, InvalidRequest, JobPending, NotConfigured
from ..machine.folder import setting
from ..wire import encode_request, request_fields
from . import watch as job_watch
from .display import show_board, show_ended, show_job
from .journal import FILE, VARIABLE
from .terms import WAITING, idempotency_key

if TYPE_CHECKING:
    from ..completion import Completion
    from ..notebook.options import CellOptions
    from ..notebook.root import Notebook
    from ..wire import CompletionRequest
    from .handle import JobHandle
    from .watch import Watch

_WITHOUT = "Without --job a cell can do it."
NOT_IN_A_JOB = ("logprobs", "prompt_logprobs", "stream", "stream_options")
"""Fields that are dropped from a cell's defaults, since no job can have them; on the cell's own line they are told."""


def run(
    notebook: Notebook, shell: Any, prompt: str, options: CellOptions, keep: Callable[[JobHandle], None]
) -> None:
    """Submit a cell, or find its job, show how it stands, and return; the job's outcome if it has ended already."""
    request = request_of(notebook, prompt, options)
    asked = options.job
    assert asked is not None
    if options.dry:
        key = asked.idempotency_key or idempotency_key(request, asked.tag)
        told = {"Idempotency-Key": key, **request_fields(request)}
        print(json.dumps(told, ensure_ascii=False, indent=2))
        return
    notebook.last_prompt = (prompt, options)
    notebook.point_out_notes(prompt, request)
    watch = watch_of(notebook)
    try:
        with notebook.limited(options.budget):
            handle = watch.submit(request, idempotency_key=asked.idempotency_key, tag=asked.tag)
    except KeyboardInterrupt:
        notebook.point_out("note: the job may be there already; the same cell finds it and pays once.")
        raise
    keep(handle)
    if handle.instead_of is not None:
        notebook.point_out(
            f"note: the service has forgotten {handle.instead_of}, the job this cell had before; "
            f"{handle.id} is a new, paid one."
        )
    completion = _if_ended(handle)
    if handle.found and notebook.show_notes:
        notebook.point_out(
            f"note: found {handle.id}, which this very request has already; nothing new is paid for."
        )
    if completion is None:
        show_job(shell, watch, handle)
    else:
        notebook.last = completion
        show_ended(shell, handle, completion)


def _if_ended(handle: JobHandle) -> Completion | None:
    """What a job gave, if it has ended; raises its outcome when that is an error."""
    entry = handle.entry
    if entry is not None and entry.state in WAITING:
        return None
    try:
        return handle.completion()
    except JobPending:  # its state is a word of the server's that nobody knows yet
        return None


def command(notebook: Notebook, shell: Any, words: list[str]) -> Any:
    """``%acs jobs``, ``%acs jobs ID``, ``%acs jobs cancel ID``."""
    watch = watch_of(notebook)
    watch.pick_up()
    if not words:
        show_board(shell, watch)
        return None
    if words[0] == "cancel" and len(words) == 2:
        handle = watch.handle(words[1])
        handle.cancel()
        print(handle)
        return None
    if len(words) != 1 or words[0] == "cancel":
        raise InvalidRequest("%acs jobs takes nothing, a job's id, or `cancel` and a job's id.")
    handle = watch.handle(words[0])
    notebook.last = handle.completion()
    show_ended(shell, handle, notebook.last)
    return None


def pick_up(notebook: Notebook) -> None:
    """At a kernel's first cell: follow what earlier kernels left unfinished, and say so. It costs no cell."""
    path = setting(VARIABLE, FILE)
    if path is None or not path.exists():
        return
    with contextlib.suppress(AcsError):
        found = watch_of(notebook).pick_up()
        if found:
            jobs = "1 job" if found == 1 else f"{found} jobs"
            notebook.point_out(f"note: {jobs} of earlier kernels had not ended; %acs jobs shows them.")


def close() -> None:
    """End all watches; the jobs go on."""
    job_watch.close()


def request_of(notebook: Notebook, prompt: str, options: CellOptions) -> CompletionRequest:
    """The request a job cell makes. Raises :class:`InvalidRequest` for what a job cannot carry."""
    for name in ("stream", "stream_options"):
        if options.fields.get(name):
            raise InvalidRequest(f"{name}: a job is not streamed.", advice=_WITHOUT)
    given = {**dict.fromkeys(NOT_IN_A_JOB), **options.fields, "stream": False}
    made = notebook.request(prompt, replace(options, fields=given))
    request = msgspec.structs.replace(made, stream=msgspec.UNSET)
    problem = beyond_job(request) or job_too_large(len(encode_request(request)))
    if problem:
        raise InvalidRequest(problem, advice=_WITHOUT)
    return request


def watch_of(notebook: Notebook) -> Watch:
    """The watch over the jobs of the notebook's key."""
    base, key = notebook.where()
    if not base or not key:
        raise NotConfigured.without(base, key)
    from ..settings import normal_base  # noqa: PLC0415  # httpx loads with the first request

    return job_watch.shared(normal_base(base), key)
