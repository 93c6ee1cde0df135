"""``acs-jupyter budget``, ``doctor`` and ``completion``: questions that a shell has.

Owns their arguments. It must not know how any of them is answered.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from .budget_options import add_arguments

if TYPE_CHECKING:
    from .parsing import Commands

SHELLS = ("bash", "zsh", "fish")


def add_budget(commands: Commands) -> None:
    """``acs-jupyter budget``."""
    parser = commands.add_parser("budget", help="what was spent, held and is left; limits, export")
    add_arguments(parser)
    parser.set_defaults(run=_ledger)


def add_doctor(commands: Commands) -> None:
    """``acs-jupyter doctor``."""
    parser = commands.add_parser(
        "doctor",
        help="check server, key, versions, widgets and files; print what a bug report needs",
        description="Nothing is changed and nothing is billed: the server is asked for its health and its models.",
        epilog="Exit codes: 0 nothing is wrong, 1 something is (each line says what to do), 2 bad input.",
    )
    parser.add_argument("--offline", action="store_true", help="do not ask the server")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_doctor)


def add_completion(commands: Commands) -> None:
    """``acs-jupyter completion``."""
    parser = commands.add_parser(
        "completion",
        help="print the script that lets a shell complete this command",
        description='bash and zsh: eval "$(acs-jupyter completion bash)" in the file your shell starts with. '
        "fish: acs-jupyter completion fish | source",
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_completion)


def complete_if_asked(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks what may follow, and end."""
    import argcomplete

    argcomplete.autocomplete(parser)


def _ledger(args: argparse.Namespace) -> int:
    from ..ledger.command import in_shell

    return in_shell(args)


def _doctor(args: argparse.Namespace) -> int:
    from ..doctor.report import in_shell

    return in_shell(ask=not args.offline, as_json=args.json)


def _completion(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    script = shellcode(["acs-jupyter"], shell=args.shell)
    print(re.sub(r"[ \t]+\n", "\n", script).strip())
    return 0
