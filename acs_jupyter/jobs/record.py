"""A job's result as a completion.

Owns the events a finished job becomes. It must not know how the result was fetched.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..completion import Completion
from ..errors import Interrupted
from ..exchange import KEPT_HEADERS
from ..failures import Redact, unchanged
from ..log.events import AnyEvent, RunClosed, Served, opening
from ..log.session import Session
from ..reader import Reader
from ..wire import Answer, CompletionRequest, Job


def record(
    job_id: str,
    answer: Answer,
    headers: Mapping[str, str],
    *,
    job: Job | None,
    request: CompletionRequest | None,
    session: Session,
    redact: Redact = unchanged,
) -> Completion:
    """The completion of a job that succeeded, folded into ``session``; the job's id is the id of its run.

    ``request`` of ``None`` (submitted elsewhere): the prompt is not known and reads as empty.
    """
    run = job_id
    if run in session.runs:
        return Completion(session, run)
    request = request or _stand_in(answer, job)
    request_id = job.request_id if job else None
    kept = {name: headers[name] for name in KEPT_HEADERS if name in headers}
    events: list[AnyEvent] = opening(run, request, request_id=request_id)
    events.append(Served(run, request_id=request_id, headers=kept))
    try:
        Reader(run, request, redact=redact).read_body(answer, events)
    except IndexError:
        broken = Interrupted("The result holds choices nobody asked for.", request_id=request_id)
        broken.job_id = run
        raise broken from None
    session.apply([*events, RunClosed(run, "done")])
    return Completion(session, run)


def _stand_in(answer: Answer, job: Job | None) -> CompletionRequest:
    count = 1 + max((choice.index for choice in answer.choices or ()), default=0)
    model = job.model if job and job.model else msgspec.UNSET
    return CompletionRequest(prompt="", model=model, n=count if count > 1 else msgspec.UNSET)
