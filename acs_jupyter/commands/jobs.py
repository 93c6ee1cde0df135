"""``acs-jupyter jobs``: completion jobs from a shell, and those that a local server left open.

Owns its arguments. It must not know how jobs travel or are kept.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .parsing import Parser, data_argument, positive, rate, refused

if TYPE_CHECKING:
    from .parsing import Commands


def add_jobs(commands: Commands) -> None:
    """``acs-jupyter jobs``."""
    parser = commands.add_parser(
        "jobs",
        help="submit, find and read completion jobs",
        epilog="Exit codes: 0 the job succeeded (or the question was answered), 1 it failed or was refused, "
        "2 bad input, 3 it has not ended yet, 4 it was cancelled, 5 it was interrupted (and is not run again by "
        "itself), 6 its content is gone, 7 the server could not be asked: the same command again is safe, 8 the "
        "idempotency key belongs to another request, 9 the local budget refused it.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    run = actions.add_parser(
        "run",
        help="submit a job, or find the one this request already has, wait, and print the text",
        description="Safe to run again: the same request finds its job instead of paying twice.",
        epilog=parser.epilog,
    )
    run.add_argument("--model", required=True, metavar="ID", help="the model's id")
    run.add_argument("--prompt", required=True, metavar="TEXT", help="'-' reads standard input")
    run.add_argument(
        "--max-tokens", required=True, type=positive, metavar="N", help="most tokens of a choice"
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other field; VALUE is JSON"
    )
    run.add_argument("--idempotency-key", metavar="KEY", help="default: made from the request's content")
    run.add_argument("--tag", help="sets jobs with equal requests apart")
    run.add_argument("--deadline", type=rate, metavar="SECONDS", help="stop after this; the job goes on")
    for name, what in (("show", "how a job stands"), ("result", "what a job gave"), ("cancel", "end a job")):
        action = actions.add_parser(name, help=what, epilog=parser.epilog)
        action.add_argument("id", metavar="ID")
    listed = actions.add_parser("list", help="the jobs submitted from this machine", epilog=parser.epilog)
    listed.add_argument("--all", action="store_true", help="of all keys and servers, as last known")
    for action in actions.choices.values():
        action.add_argument("--json", action="store_true", help="print one JSON object")
    reconcile = actions.add_parser(
        "reconcile", help="local server, stopped: settle the usage of interrupted jobs, as all that was held"
    )
    reconcile.add_argument("id", metavar="ID", nargs="?", help="default: all of them")
    reconcile.add_argument("--release", action="store_true", help="as not used at all")
    data_argument(reconcile)
    parser.set_defaults(run=_jobs)


def _jobs(args: argparse.Namespace) -> int:
    if args.action == "reconcile":
        return _reconcile(args)
    from ..jobs.command import run

    return run(args)


def _reconcile(args: argparse.Namespace) -> int:
    from ..local.job_store import StoreBusy
    from ..local.reconcile import reconcile

    try:
        print(reconcile(args.data, args.id, charge=not args.release))
    except StoreBusy as problem:
        return refused(problem)
    return 0
