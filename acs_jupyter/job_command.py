"""``acs-jupyter jobs``: jobs from a shell.

Owns what is printed and which exit code an outcome has. It must not know how jobs travel, nor argument parsing.
Text goes to standard output exactly as it came, everything about it to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from .client import Client
from .errors import (
    AcsError,
    InvalidRequest,
    JobCancelled,
    JobExpired,
    JobInterrupted,
    JobPending,
    NotConfigured,
)

if TYPE_CHECKING:
    import argparse

    from .completion import Completion
    from .wire import Job

CODES: tuple[tuple[type[AcsError], int], ...] = (
    (InvalidRequest, 2),
    (NotConfigured, 2),
    (JobPending, 3),
    (JobCancelled, 4),
    (JobInterrupted, 5),
    (JobExpired, 6),
    (AcsError, 1),
)
"""The first class an error belongs to gives the exit code."""


def run(args: argparse.Namespace) -> int:
    """Carry out one action; its exit code."""
    actions = {"run": _run, "show": _show, "result": _result, "cancel": _cancel}
    try:
        with Client() as client:
            actions[args.action](client, args)
    except AcsError as error:
        _failed(error, args.json)
        return next(code for kind, code in CODES if isinstance(error, kind))
    except KeyboardInterrupt:
        again = "run the same command again" if args.action == "run" else "ask again"
        print(f"acs-jupyter: stopped waiting; the job goes on. To wait for it, {again}.", file=sys.stderr)
        return 3
    except BrokenPipeError:  # whoever read the output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _run(client: Client, args: argparse.Namespace) -> None:
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    fields = {"model": args.model, "max_tokens": args.max_tokens, **_fields(args.set)}
    job = client.jobs.submit(prompt, idempotency_key=args.idempotency_key, tag=args.tag, **fields)
    if not args.json:
        print(f"job {job.id}: {job.status}", file=sys.stderr, flush=True)
    _print(client.jobs.wait(job, args.deadline), args.json)


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
        after = "\n" if sys.stdout.isatty() else ""  # the text itself ends where it ends
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
    print(json.dumps(told, ensure_ascii=False), flush=True)


def _summary(completion: Completion) -> str:
    usage, count = completion.usage, len(completion.choices)
    more = f" (the first of {count} choices)" if count > 1 else ""
    tokens = f"{usage.prompt_tokens} + {usage.completion_tokens} tokens"
    return (
        f"job {completion.run}: {completion.finish_reason}{more}, {tokens}, request {completion.request_id}"
    )


def _describe(job: Job, as_json: bool) -> None:
    said = job.fields or {"id": job.id}
    if as_json:
        print(json.dumps(said, ensure_ascii=False))
        return
    width = max(map(len, said))
    for name, value in said.items():
        print(f"{name.ljust(width)}  {value if isinstance(value, str) else json.dumps(value)}")


def _failed(error: AcsError, as_json: bool) -> None:
    print(f"acs-jupyter: {error}", file=sys.stderr)
    if as_json:
        told = {
            "code": error.code,
            "message": error.message,
            "status": getattr(error, "status", None),
            "job": error.job_id,
            "request_id": error.request_id,
        }
        print(json.dumps({"error": told}, ensure_ascii=False), flush=True)
