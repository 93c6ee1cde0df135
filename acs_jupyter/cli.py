"""The ``acs-jupyter`` command: words on the command line to one function a command.

Owns argument names and exit codes. It must not know how anything is done.
A command is one function that adds its arguments and names what runs; later ones go into ``COMMANDS``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, NoReturn

from ._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_BUDGET_HELP = "tokens a month; 0 or none for no limit"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # One line, without the usage text.
        print(f"{self.prog}: {_without_keys(message)}", file=sys.stderr)
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code (0 done, 1 failed, 2 bad input)."""
    parser = _Parser(prog="acs-jupyter", description="Base language models in Jupyter.")
    parser.add_argument("--version", action="version", version=f"acs-jupyter {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for add in COMMANDS:
        add(commands)
    if not (sys.argv[1:] if argv is None else argv):
        parser.error(f"name a COMMAND: {', '.join(commands.choices)}; --help tells what each does")
    args = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        code = run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("serve", help="run the local server and print the two variables to set")
    _engine_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="0 picks a free one (default: %(default)s)")
    parser.add_argument("--key", help="the API key (default: ACS_LOCAL_KEY, else a new one each start)")
    _limit_arguments(parser)
    parser.add_argument(
        "--job-workers",
        type=_positive,
        metavar="N",
        default=4,
        help="jobs run at once (default: %(default)s)",
    )
    parser.set_defaults(run=_serve)


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("demo", help="local server, JupyterLab and the first notebook")
    parser.add_argument("--port", type=_port, default=8888, help="JupyterLab's port (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--gguf", metavar="FILE", help="a model file (default: SmolLM2-135M, fetched once)")
    parser.set_defaults(run=_demo)


def _add_keys(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("keys", help="keys of the local server, also while it runs")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("--name", default="", help="a note to know it by")
    create.add_argument("--budget", type=_budget, default=0, metavar="TOKENS", help=_BUDGET_HELP)
    actions.add_parser("list", help="prefix, state, use of this month, budget and name of each key")
    revoke = actions.add_parser("revoke", help="refuse a key from now on")
    budget = actions.add_parser("budget", help="change a key's monthly budget")
    for one in (revoke, budget):
        one.add_argument("prefix", metavar="PREFIX", help="the 8 characters after acs-bm-")
    budget.add_argument("budget", type=_budget, metavar="TOKENS", help=_BUDGET_HELP)
    settle = actions.add_parser("settle", help="settle what a server that was killed holds: as used in full")
    settle.add_argument("prefix", metavar="PREFIX", nargs="?", help="of one key (default: of all)")
    settle.add_argument("--release", action="store_true", help="as not used at all")
    for each in actions.choices.values():
        _data_argument(each)
    parser.set_defaults(run=_keys)


def _add_jobs(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "jobs",
        help="submit, find and read completion jobs",
        epilog="Exit codes: 0 the job succeeded (or the question was answered), 1 it failed or was refused, "
        "2 bad input, 3 it has not ended yet, 4 it was cancelled, 5 it was interrupted (and is not run again by "
        "itself), 6 its content is gone, 7 the server could not be asked: the same command again is safe, 8 the "
        "idempotency key belongs to another request, 9 the local budget refused it.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    run = actions.add_parser(
        "run",
        help="submit a job, or find the one this request already has, wait, and print the text",
        description="Safe to run again: the same request finds its job instead of paying twice.",
        epilog=parser.epilog,
    )
    run.add_argument("--model", required=True, metavar="ID")
    run.add_argument("--prompt", required=True, metavar="TEXT", help="'-' reads standard input")
    run.add_argument("--max-tokens", required=True, type=_positive, metavar="N")
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other field; VALUE is JSON"
    )
    run.add_argument("--idempotency-key", metavar="KEY", help="default: made from the request's content")
    run.add_argument("--tag", help="sets jobs with equal requests apart")
    run.add_argument("--deadline", type=_rate, metavar="SECONDS", help="stop after this; the job goes on")
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
    _data_argument(reconcile)
    parser.set_defaults(run=_jobs)


def _limit_arguments(parser: argparse.ArgumentParser) -> None:
    _data_argument(parser)
    group = parser.add_argument_group("limits of each key")
    numbers = (
        ("active", _positive, 16, "requests that run at once"),
        ("waiting", _whole, 64, "requests that wait for one of these to end"),
        ("starts", _whole, 600, "completions a minute; 0 for no limit"),
        ("reads", _whole, 60, "model lists a minute; 0 for no limit"),
        ("window", _rate, 840.0, "seconds an answer without streaming may take; 0 for no limit"),
        ("window-tokens", _whole, 15_600, "max_tokens that fit in it; 0 for no limit"),
        ("body-wait", _rate, 60.0, "seconds without a byte of a request's body; 0 for no limit"),
    )
    for name, kind, default, what in numbers:
        words = f"{what} (default: %(default)g)"
        group.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=words)
    words = "of the printed key, in tokens a month (default: no limit)"
    group.add_argument("--budget", type=_budget, default=0, metavar="TOKENS", help=words)
    group.add_argument(
        "--try-infeasible", dest="refuse_infeasible", action="store_false",
        help="run an explicit max_tokens above --window-tokens, instead of refusing it",
    )  # fmt: skip


def _data_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="keys, usage and jobs (default: ACS_LOCAL_DATA, else your data folder, and jobs in memory)",
    )


def _add_budget(commands: argparse._SubParsersAction[_Parser]) -> None:
    from .ledger.command import add_arguments

    parser = commands.add_parser("budget", help="what was spent, held and is left; limits, export")
    add_arguments(parser)
    parser.set_defaults(run=_ledger)


def _add_strip(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser(
        "strip", help="take widget state out of a notebook; texts and static views stay"
    )
    parser.add_argument("notebook", nargs="+", help="files, changed in place")
    parser.add_argument("--records", action="store_true", help="take the packed completions out too")
    parser.set_defaults(run=_strip)


def _engine_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--gguf", metavar="FILE", help="a model file (default: ACS_GGUF, else SmolLM2-135M)")
    which.add_argument("--scripted", action="store_true", help="a deterministic engine for tests")
    parser.add_argument(
        "--model", metavar="ID[=URL]", action=_Model, help="the model id that requests name, or an upstream's"
    )
    _upstream_arguments(parser)
    parser.add_argument("--context", type=_positive, metavar="TOKENS", help="prompt and completion together")
    parser.add_argument("--threads", type=_positive, metavar="N", help="CPU threads of the engine")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input ends")
    parser.add_argument("--rate", type=_rate, default=0.0, help="scripted: tokens a second, 0 for no wait")


def _upstream_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream", metavar="URL", action="append", help="front this completions server (again for more)"
    )
    parser.add_argument("--upstream-key-env", metavar="NAME", help="the variable with the upstream's key")
    parser.add_argument(
        "--upstream-set", metavar="NAME=NUMBER", action="append", help="a time or count, e.g. retries=3"
    )


class _Model(argparse.Action):
    """``ID`` names the one model; ``ID=URL`` adds an upstream under that id."""

    def __call__(
        self, parser: object, args: argparse.Namespace, value: object, option: object = None
    ) -> None:
        if "=" in str(value):
            args.upstream = [*(args.upstream or []), value]
        else:
            args.model = value


def _serve(args: argparse.Namespace) -> int:
    from .local.run import BadSetting, Settings, serve

    if args.upstream and (args.gguf or args.scripted):
        return _refused(ValueError("--upstream stands alone: leave out --gguf and --scripted"))
    args.upstream, args.upstream_set = tuple(args.upstream or ()), tuple(args.upstream_set or ())
    try:
        return serve(Settings(**{item.name: getattr(args, item.name) for item in fields(Settings)}))
    except BadSetting as problem:
        return _refused(problem)
    except KeyboardInterrupt:
        return 0


def _keys(args: argparse.Namespace) -> int:
    from .local.keys_command import Failed, run

    try:
        for line in run(args.action, vars(args)):
            print(line)
    except Failed as problem:
        return _refused(problem)
    return 0


def _demo(args: argparse.Namespace) -> int:
    from .local.demo import run
    from .local.run import BadSetting

    try:
        return run(port=args.port, browser=not args.no_browser, gguf=args.gguf)
    except BadSetting as problem:
        return _refused(problem)


def _jobs(args: argparse.Namespace) -> int:
    if args.action == "reconcile":
        return _reconcile(args)
    from .jobs.command import run

    return run(args)


def _reconcile(args: argparse.Namespace) -> int:
    from .local.job_store import StoreBusy
    from .local.reconcile import reconcile

    try:
        print(reconcile(args.data, args.id, charge=not args.release))
    except StoreBusy as problem:
        return _refused(problem)
    return 0


def _ledger(args: argparse.Namespace) -> int:
    from .ledger.command import in_shell

    return in_shell(args)


def _strip(args: argparse.Namespace) -> int:
    from .keeping.strip import strip

    worst = 0
    for path in args.notebook:  # one that is missing keeps no other from being stripped
        try:
            print(f"{path}: {strip(path, records=args.records)}")
        except (OSError, ValueError) as problem:
            worst = _refused(problem)
    return worst


def _refused(problem: Exception) -> int:
    print(f"acs-jupyter: {_without_keys(str(problem))}", file=sys.stderr)
    return 2


def _without_keys(text: str) -> str:
    # Messages name what was given, and a key is easily given in the wrong place.
    return re.sub(r"acs-bm-(\w{8})-[\w-]+", r"acs-bm-\1-…", text)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number (0..65535)")
    return int(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999999999999999")
    return int(text)


def _budget(text: str) -> int:
    return 0 if text.lower() == "none" else _whole(text)


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return value


COMMANDS = (_add_serve, _add_keys, _add_jobs, _add_budget, _add_strip, _add_demo)
