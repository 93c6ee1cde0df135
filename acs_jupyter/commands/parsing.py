"""Words on a command line: a parser whose complaints are one line, and the values that options take.

Owns what is said of a bad word, the suggestion beside it, and that a key given in the wrong place is not repeated. It
must not know any command.
"""

from __future__ import annotations

import argparse
import re
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable

    Commands = argparse._SubParsersAction["Parser"]

BUDGET_HELP = "tokens a month, such as 50000, 50k or 3m; 0 or none for no limit"


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, names the nearest word it knows, and takes no shortened options."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but what is left over is refused here, by the command that it was given to.

        An option that there is not is told before anything else: it may be a slip for what would be missing.
        """
        for word in list(sys.argv[1:] if args is None else args):
            if word == "--" or (not word.startswith("-") and self._subparsers is not None):
                break  # the rest is a command's own
            if re.match(r"--\w\S*$", word) and not self._known(word.partition("=")[0]):
                self.error(self._unknown(word))
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(self._unknown(rest[0]))
        return found, rest

    def error(self, message: str) -> NoReturn:
        """One line on standard error, without the usage text, and exit code 2."""
        wrong = re.match(r"argument (\S+): invalid choice: '?(.*?)'?(?:, maybe| \(choose)", message)
        if wrong:
            name, word = wrong.groups()
            known = next((list(a.choices or ()) for a in self._actions if name in _names(a)), [])
            message = f"there is no '{word}'.{near(word, known) or ' There are: ' + ', '.join(known) + '.'}"
        missing = re.match(r"the following arguments are required: (.*)", message)
        if missing:
            known = [
                name
                for action in self._actions
                if action.metavar == missing[1]
                for name in action.choices or ()
            ]
            told = f": {', '.join(known)}" if known else ""
            message = f"{missing[1].replace(', ', ' and ')} must be given{told}; --help tells what each is"
        print(f"{self.prog}: {without_keys(message)}", file=sys.stderr)
        raise SystemExit(2)

    def _known(self, option: str) -> bool:
        return any(option in action.option_strings for action in self._actions)

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"'{word}' is one word too many; --help tells what this takes"
        options = [
            each for action in self._actions for each in action.option_strings if each.startswith("--")
        ]
        return f"unknown option {word}.{near(word.partition('=')[0], options) or ' --help lists them.'}"


def near(word: str, known: Iterable[str]) -> str:
    """A sentence that suggests the nearest known word, one that begins so first; or ``""``."""
    known = list(known)
    begun = [one for one in known if len(word.strip("-")) > 1 and one.startswith(word)]
    found = sorted(begun, key=len)[:1] or get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean {found[0]}?" if found else ""


def _names(action: argparse.Action) -> tuple[object, ...]:
    """How argparse may speak of an argument."""
    return ("/".join(action.option_strings), action.metavar, action.dest)


def refused(problem: Exception | str) -> int:
    """Say in one line why not; the exit code of bad input."""
    told = str(problem)
    if isinstance(problem, OSError) and problem.filename:
        told = (
            f"{problem.filename}: {problem.strerror}. Check the name and that you may read and write there."
        )
    print(f"acs-jupyter: {without_keys(told)}", file=sys.stderr)
    return 2


def without_keys(text: str) -> str:
    """Messages name what was given, and a key is easily given in the wrong place."""
    return re.sub(r"acs-bm-(\w{8})-[\w-]+", r"acs-bm-\1-…", text)


def data_argument(parser: argparse.ArgumentParser) -> None:
    """``--data``: where the local server keeps what it keeps."""
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="keys, usage and jobs (default: ACS_LOCAL_DATA, else your data folder, and jobs in memory)",
    )


def port(text: str) -> int:
    """A port number, 0 for any."""
    if not text.isascii() or not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number (0..65535)")
    return int(text)


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def whole(text: str) -> int:
    """A whole number from 0 on, of 15 digits at most."""
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999999999999999")
    return int(text)


def token_budget(text: str) -> int:
    """Tokens, such as ``50000``, ``50k`` or ``3m``; 0 or ``none`` for no limit."""
    short = re.fullmatch(r"([0-9]{1,9})([km])", text.lower())
    if short:
        return int(short[1]) * {"k": 1_000, "m": 1_000_000}[short[2]]
    if text.lower() == "none":
        return 0
    if not re.fullmatch("[0-9]{1,15}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of tokens, such as 50000, 50k or 3m, up to 999999999999999"
        )
    return int(text)


def rate(text: str) -> float:
    """A number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return value
