"""The ``acs-jupyter`` command: words on the command line to one function a command.

Owns which commands there are and the exit codes they share. It must not know how anything is done.
A command is one function that adds its arguments and names what runs; later ones go into ``COMMANDS``.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ._version import __version__
from .commands.asking import add_budget, add_completion, add_doctor, complete_if_asked
from .commands.files import add_export, add_strip
from .commands.jobs import add_jobs
from .commands.keys import add_keys
from .commands.parsing import Parser, refused
from .commands.serving import add_demo, add_serve

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

COMMANDS = (
    add_serve,
    add_demo,
    add_keys,
    add_jobs,
    add_budget,
    add_doctor,
    add_strip,
    add_export,
    add_completion,
)
_EPILOG = "Exit codes: 0 done, 1 failed, 2 bad input; jobs, export and doctor --help tell their own."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code (0 done, 1 failed, 2 bad input)."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        complete_if_asked(parser)
    if not (sys.argv[1:] if argv is None else argv):
        names = [name for action in parser._actions for name in action.choices or ()]
        parser.error(f"name a COMMAND: {', '.join(names)}; --help tells what each does")
    args = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        code = run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell tells of an interrupt
    except Exception as problem:
        from .errors import AcsError  # noqa: PLC0415  # only when something went wrong

        if not isinstance(problem, AcsError):
            raise
        return refused(problem)
    return code


def make_parser() -> Parser:
    """The parser with all commands."""
    parser = Parser(prog="acs-jupyter", description="Base language models in Jupyter.", epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"acs-jupyter {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for add in COMMANDS:
        add(commands)
    return parser
