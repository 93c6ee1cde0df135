"""``acs-jupyter jobs``: jobs from a shell.

Owns what is printed and which exit code an outcome has. It must not know how jobs travel, nor argument parsing.
Text goes to standard output exactly as it came, everything about it to standard error.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from ..client import Client
from ..errors import (
    AcsError,
    ApiError,
    BudgetRefused,
    ConnectionFailed,
    Interrupted,
    InvalidRequest,
    JobCancelled,
    JobConflict,
    JobExpired,
    JobInterrupted,
    JobPending,
    NotConfigured,
)
from . import entry as job_entry
from . import journal as job_journal

if TYPE_CHECKING:
    import argparse

    from ..completion import Completion
    from ..wire import Job
    from .entry import Entry
    from .journal import Row

CODES: tuple[tuple[type[AcsError], int], ...] = (
    (InvalidRequest, 2),
    (NotConfigured, 2),
    (JobPending, 3),
    (JobCancelled, 4),
    (JobInterrupted, 5),
    (JobExpired, 6),
    (ConnectionFailed, 7),
    (Interrupted, 7),
    (JobConflict, 8),
    (BudgetRefused, 9),
    (AcsError, 1),
)
"""The first class an error belongs to gives the exit code."""
_ASK_AGAIN = 7


def run(args: argparse.Namespace) -> int:
    """Carry out one action; its exit code."""
    actions = {"run": _run, "list": _list, "show": _show, "result": _result, "cancel": _cancel}
    try:
        if args.action == "list" and args.all:
            _print_rows(_everybodys(), args.json)
            return 0
        with Client() as client:
            actions[args.action](client, args)
    except AcsError as error:
        _failed(error, args.json)
        return exit_code(error)
    except KeyboardInterrupt:
        again = "The same command finds it again." if args.action == "run" else "Ask again."
        print(f"acs-jupyter: stopped waiting; the job goes on. {again}", file=sys.stderr)
        return 3
    return 0


def exit_code(error: AcsError) -> int:
    """The exit code of an error: whether it is how the job ended, a bad question, or one that may be asked again."""
    code = next(code for kind, code in CODES if isinstance(error, kind))
    if code == 1 and isinstance(error, ApiError) and error.retryable:
        return _ASK_AGAIN
    return code


def _run(client: Client, args: argparse.Namespace) -> None:
    end = None if args.deadline is None else time.monotonic() + args.deadline
    fields = {"model": args.model, "max_tokens": args.max_tokens, **_fields(args.set)}
    job = client.jobs.submit(
        _prompt(args.prompt),
        idempotency_key=args.idempotency_key,
        tag=args.tag,
        deadline=args.deadline,
        **fields,
    )
    if not args.json:
        found = " (found: this request has it already)" if job.found else ""
        print(f"job {job.id}: {job.status}{found}", file=sys.stderr, flush=True)
    left = None if end is None else max(0.0, end - time.monotonic())
    _print(client.jobs.wait(job, left), args.json)


def _prompt(given: str) -> str:
    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode()  # as text, Python would change the ends of lines
    except UnicodeDecodeError as error:
        problem = f"The prompt on standard input is not UTF-8 (byte {error.start})."
    raise InvalidRequest(problem)


def _list(client: Client, args: argparse.Namespace) -> None:
    """This key's jobs from the journal, those that have not ended asked about."""
    notes, trouble = client.jobs.notes, None
    for row in notes.rows():
        if row.entry.open and row.entry.job is not None and trouble is None:
            trouble = _asked(client, row.entry.job)
    _print_rows(notes.rows(), args.json)
    if trouble is not None:
        print(f"acs-jupyter: not asked about all: {trouble}", file=sys.stderr)


def _asked(client: Client, job: str) -> AcsError | None:
    """Bring what is known of a job up to date; the error when the server cannot be asked."""
    try:
        client.jobs.result(job)
    except JobPending:
        return None
    except AcsError as error:
        return None if job_entry.is_final(error) else error
    return None


def _everybodys() -> list[Row]:
    book = job_journal.journal()
    return book.rows() if book is not None else []


def _print_rows(rows: list[Row], as_json: bool) -> None:
    now = time.time()
    for row in rows:
        print(json.dumps(_row(row.entry)) if as_json else job_entry.line(row.entry, now))
    if not rows and not as_json:
        print("no jobs", file=sys.stderr)


def _row(entry: Entry) -> dict[str, Any]:
    told = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return {name: value for name, value in told.items() if value is not None}


def _result(client: Client, args: argparse.Namespace) -> None:
    _print(client.jobs.result(args.id), args.json)


def _show(client: Client, args: argparse.Namespace) -> None:
    _describe(client.jobs.get(args.id), args.json)


def _cancel(client: Client, args: argparse.Namespace) -> None:
    _describe(client.jobs.cancel(args.id), args.json)


def _fields(pairs: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for pair in pairs:
        name, equals, raw = pair.partition("=")
        if not equals or name in ("prompt", "model", "max_tokens", "idempotency_key", "tag"):
            raise InvalidRequest(f"--set {pair!r}: expected the NAME=VALUE of another field.")
        try:
            fields[name] = json.loads(raw)
        except ValueError:
            raise InvalidRequest(f"--set {name}: the value is not JSON (texts need quotes).") from None
    return fields


def _print(completion: Completion, as_json: bool) -> None:
    if not as_json:
        sys.stdout.buffer.write(completion.text.encode("utf-8", "surrogatepass"))
        sys.stdout.flush()
        after = "" if completion.text.endswith("\n") else "\n"  # the text itself ends where it ends
        print(f"{after}{_summary(completion)}", file=sys.stderr)
        return
    choices = [
        {"index": c.index, "text": c.text, "finish_reason": c.finish_reason, "stop_reason": c.stop_reason}
        for c in completion.choices
    ]
    usage = completion.usage
    told = {
        "job": completion.run,
        "request_id": completion.request_id,
        "id": completion.id,
        "model": completion.model,
        "choices": choices,
        "usage": {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
    }
    _print_json(told)


def _print_json(told: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(told, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    sys.stdout.flush()


def _summary(completion: Completion) -> str:
    usage, count = completion.usage, len(completion.choices)
    more = f" (the first of {count} choices)" if count > 1 else ""
    many = "" if usage.completion_tokens == 1 else "s"
    tokens = f"{usage.prompt_tokens} + {usage.completion_tokens} token{many}"
    return (
        f"job {completion.run}: {completion.finish_reason}{more}, {tokens}, request {completion.request_id}"
    )


def _describe(job: Job, as_json: bool) -> None:
    said = job.fields or {"id": job.id}
    if as_json:
        _print_json(said)
        return
    width = max(map(len, said))
    for name, value in said.items():
        print(f"{name.ljust(width)}  {value if isinstance(value, str) else json.dumps(value)}")


def _failed(error: AcsError, as_json: bool) -> None:
    error.reworded(lambda text: text.replace("%acs budget", "acs-jupyter budget"))
    print(f"acs-jupyter: {error}", file=sys.stderr)
    if as_json:
        told = {
            "code": error.code,
            "message": error.message,
            "status": getattr(error, "status", None),
            "job": error.job_id,
            "request_id": error.request_id,
        }
        _print_json({"error": told})
