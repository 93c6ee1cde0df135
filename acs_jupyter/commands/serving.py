"""``acs-jupyter serve`` and ``demo``: what the local server is started with.

Owns their arguments. It must not know how anything is served.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING

from .parsing import data_argument, port, positive, rate, refused, token_budget, whole

if TYPE_CHECKING:
    from .parsing import Commands


def add_serve(commands: Commands) -> None:
    """``acs-jupyter serve``."""
    parser = commands.add_parser("serve", help="run the local server and print the two variables to set")
    _engine_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=port, default=8000, help="0 picks a free one (default: %(default)s)")
    parser.add_argument("--key", help="the API key (default: ACS_LOCAL_KEY, else a new one each start)")
    _limit_arguments(parser)
    parser.add_argument(
        "--job-workers",
        type=positive,
        metavar="N",
        default=4,
        help="jobs run at once (default: %(default)s)",
    )
    parser.set_defaults(run=_serve)


def add_demo(commands: Commands) -> None:
    """``acs-jupyter demo``."""
    about = "local server, JupyterLab and the first notebook"
    parser = commands.add_parser(
        "demo", help=about, epilog="Ctrl-C ends all of it, in order; the exit code is then 0."
    )
    parser.add_argument("--port", type=port, default=8888, help="JupyterLab's port (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--gguf", metavar="FILE", help="a model file (default: SmolLM2-135M, fetched once)")
    parser.set_defaults(run=_demo)


def _limit_arguments(parser: argparse.ArgumentParser) -> None:
    data_argument(parser)
    group = parser.add_argument_group("limits of each key")
    numbers = (
        ("active", positive, 16, "requests that run at once"),
        ("waiting", whole, 64, "requests that wait for one of these to end"),
        ("starts", whole, 600, "completions a minute; 0 for no limit"),
        ("reads", whole, 60, "model lists a minute; 0 for no limit"),
        ("window", rate, 840.0, "seconds an answer without streaming may take; 0 for no limit"),
        ("window-tokens", whole, 15_600, "max_tokens that fit in it; 0 for no limit"),
        ("body-wait", rate, 60.0, "seconds without a byte of a request's body; 0 for no limit"),
    )
    for name, kind, default, what in numbers:
        words = f"{what} (default: %(default)g)"
        group.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=words)
    words = "of the printed key, in tokens a month (default: no limit)"
    group.add_argument("--budget", type=token_budget, default=0, metavar="TOKENS", help=words)
    group.add_argument(
        "--try-infeasible", dest="refuse_infeasible", action="store_false",
        help="run an explicit max_tokens above --window-tokens, instead of refusing it",
    )  # fmt: skip


def _engine_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--gguf", metavar="FILE", help="a model file (default: ACS_GGUF, else SmolLM2-135M)")
    which.add_argument("--scripted", action="store_true", help="a deterministic engine for tests")
    parser.add_argument(
        "--model", metavar="ID[=URL]", action=_Model, help="the model id that requests name, or an upstream's"
    )
    _upstream_arguments(parser)
    parser.add_argument("--context", type=positive, metavar="TOKENS", help="prompt and completion together")
    parser.add_argument("--threads", type=positive, metavar="N", help="CPU threads of the engine")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input ends")
    parser.add_argument("--rate", type=rate, default=0.0, help="scripted: tokens a second, 0 for no wait")


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
    from ..local.run import BadSetting, Settings, serve

    if args.upstream and (args.gguf or args.scripted):
        return refused(ValueError("--upstream stands alone: leave out --gguf and --scripted"))
    args.upstream, args.upstream_set = tuple(args.upstream or ()), tuple(args.upstream_set or ())
    try:
        return serve(Settings(**{item.name: getattr(args, item.name) for item in fields(Settings)}))
    except BadSetting as problem:
        return refused(problem)
    except KeyboardInterrupt:
        return 0


def _demo(args: argparse.Namespace) -> int:
    from ..local.demo import run
    from ..local.run import BadSetting

    try:
        return run(port=args.port, browser=not args.no_browser, gguf=args.gguf)
    except BadSetting as problem:
        return refused(problem)
