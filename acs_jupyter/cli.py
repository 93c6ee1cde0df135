"""The ``acs-jupyter`` command: words on the command line to one function a command.

Owns argument names and exit codes. It must not know how anything is done.
A command is one function that adds its arguments and names what runs; later ones go into ``COMMANDS``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, NoReturn

from ._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # One line, without the usage text.
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code (0 done, 1 failed, 2 bad input)."""
    parser = _Parser(prog="acs-jupyter", description="Base language models in Jupyter.")
    parser.add_argument("--version", action="version", version=f"acs-jupyter {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for add in COMMANDS:
        add(commands)
    args = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    return run(args)


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("serve", help="run the local server and print the two variables to set")
    _engine_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="0 picks a free one (default: %(default)s)")
    parser.add_argument("--key", help="the API key (default: ACS_LOCAL_KEY, else a new one each start)")
    parser.set_defaults(run=_serve)


def _add_demo(commands: argparse._SubParsersAction[_Parser]) -> None:
    parser = commands.add_parser("demo", help="local server, JupyterLab and the first notebook")
    parser.add_argument("--port", type=_port, default=8888, help="JupyterLab's port (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--gguf", metavar="FILE", help="a model file (default: SmolLM2-135M, fetched once)")
    parser.set_defaults(run=_demo)


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
        "--upstream-set", metavar="NAME=NUMBER", action="append", help="a time or count, e.g. deadline=840"
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


def _demo(args: argparse.Namespace) -> int:
    from .local.demo import run
    from .local.run import BadSetting

    try:
        return run(port=args.port, browser=not args.no_browser, gguf=args.gguf)
    except BadSetting as problem:
        return _refused(problem)


def _refused(problem: Exception) -> int:
    print(f"acs-jupyter: {problem}", file=sys.stderr)
    return 2


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number (0..65535)")
    return int(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens a second")
    return value


COMMANDS = (_add_serve, _add_demo)
