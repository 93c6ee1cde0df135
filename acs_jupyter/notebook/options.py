"""The options of ``%%acs`` and ``%acs``: a line of text in, a plain value out.

Owns names, short forms, help lines and the words of a mistyped option. It must not know IPython, HTTP or SQL.
Every field of the request is an option under its own name, with ``-`` or ``_``.
"""

from __future__ import annotations

import argparse
import builtins
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any, NoReturn

from ..amounts import tokens
from ..errors import InvalidRequest

HELP: dict[str, str] = {
    "model": "model id from `%acs models`",
    "max_tokens": "most tokens to generate for each choice",
    "n": "number of choices, 1 to 16",
    "temperature": "0 is greedy, 1 samples as trained; not sent: the server's default, usually 1",
    "top_p": "keep the smallest set of tokens with this probability mass, above 0 to 1",
    "top_k": "keep the k most likely tokens, -1 is off",
    "min_p": "drop tokens below this share of the best one's probability, 0 to 1",
    "presence_penalty": "-2 to 2, against any token that has appeared",
    "frequency_penalty": "-2 to 2, grows with each appearance",
    "repetition_penalty": "above 0 to 2, multiplicative, 1 is off",
    "seed": "0 to 2^63-1",
    "stop": "stop before this text; up to 4 times; \\n, \\t and \\\\ are read as escapes",
    "logprobs": "alternatives a token, 0 to 100",
    "prompt_logprobs": "alternatives at each prompt position, -1 (all) to 100",
    "echo": "repeat the prompt in front of the text",
    "stream": "true or false; streamed unless prompt_logprobs is set",
    "stream_options": "JSON object",
    "user": "a tag of your own",
    "add_special_tokens": "true or false: whether the tokenizer adds BOS",
}

FLAGS: dict[str, str] = {
    "--bg": "return at once; the text streams on below the cell",
    "--fmt": "fill @@{name} in the prompt with the variable's text",
    "--dry": "show the request, its tokens as far as they are known and the most it can cost; no socket is opened",
}

JOB_FLAGS: dict[str, str] = {
    "--job": "submit a completion job and return at once; the same cell finds the same job and pays once",
    "--job-tag": "with --job: another tag makes another job of the same cell",
    "--idempotency-key": "with --job: a key of your own; else it is made from the request and the tag",
}

BUDGET = "most tokens this cell may take, prompt and text together, such as 2000 or 50k"

SHORT = {"model": "-m", "n": "-n", "temperature": "-t"}


@dataclass(frozen=True)
class JobOptions:
    """How a cell becomes a job."""

    tag: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class CellOptions:
    """What the line of a ``%%acs`` cell asks for."""

    fields: dict[str, Any] = field(default_factory=dict)
    """``None``: the field is not sent, whatever the settings say."""
    name: str | None = None
    dry: bool = False
    background: bool = False
    fill: bool = False
    job: JobOptions | None = None
    continues: str | None = None
    budget: int | None = None


def parse_cell_line(line: str) -> CellOptions:
    """The options of a ``%%acs`` line. Raises :class:`InvalidRequest` with the nearest option's name."""
    parser = _cell_parser()
    parser.words = split(line)
    values = vars(parser.parse_args(parser.words))
    name, dry, background, fill, place, budget = (
        values.pop(key) for key in ("out", "dry", "bg", "fmt", "in", "budget")
    )
    if name is not None and not _free_name(name):
        raise InvalidRequest(f"-o {name}: a name for a variable of your own is needed, such as -o result.")
    job = _job_options(values, background)
    fields = {key: _or_none(key, value) for key, value in values.items() if value is not None}
    return CellOptions(fields, name, dry, background, fill, job, place, budget)


def asks_for_help(line: str) -> bool:
    """Whether ``-h`` or ``--help`` stands in a line. Raises :class:`InvalidRequest`."""
    return not {"-h", "--help"}.isdisjoint(split(line))


def _or_none(name: str, value: Any) -> Any:
    if name == "stop" and NONE in value and len(value) > 1:
        raise InvalidRequest("stop=none stands alone: leave out the other --stop, or this one.")
    return None if value is NONE or value == [NONE] else value


def _job_options(values: dict[str, Any], background: bool) -> JobOptions | None:
    wanted, tag, key = (values.pop(name) for name in ("job", "job_tag", "idempotency_key"))
    if not wanted and (tag is not None or key is not None):
        raise InvalidRequest(f"{'--job-tag' if key is None else '--idempotency-key'} needs --job.")
    if wanted and background:
        raise InvalidRequest("--job returns at once by itself; leave out --bg.")
    return JobOptions(tag, key) if wanted else None


NONE = object()
"""What ``none`` is while a line is read: the field is not sent, whatever the settings say."""
_OF_THE_SHELL = ("_", "__", "___", "In", "Out", "exit", "quit", "get_ipython")
"""Names that IPython writes itself, or cannot do without."""


def _free_name(name: str) -> bool:
    taken = {*dir(builtins), *_OF_THE_SHELL}
    return name.isidentifier() and name.isascii() and not iskeyword(name) and name not in taken


def parse_value(name: str, text: str) -> Any:
    """One field's value from text, as ``%acs set NAME VALUE`` takes it."""
    try:
        return _CONVERT[name](text)
    except ValueError as error:
        raise InvalidRequest(f"{name}={_short(text)}: {error}.") from None


def parse_switch(name: str, text: str) -> bool:
    """``on`` or ``off``."""
    if text.lower() not in ("on", "off"):
        raise InvalidRequest(f"{name}={text!r}: on or off is needed.")
    return text.lower() == "on"


def split(line: str) -> list[str]:
    """Words of a line, quotes honoured. Raises :class:`InvalidRequest` when a quote is not closed."""
    words = shlex.shlex(line, posix=True, punctuation_chars=False)
    words.whitespace_split, words.commenters, words.escape = True, "", ""  # a backslash is the value's own
    try:
        return list(words)
    except ValueError:
        raise InvalidRequest(f"A quote is not closed; add it: {line.strip()}") from None


def uncommented(line: str) -> str:
    """The line without a comment at its end, as Python's are written: two blanks, ``#``, a blank; not within quotes."""
    for found in re.finditer(r"(?:^|[ \t]{2,})#(?= |$)", line):
        before = line[: found.start()]
        if before.count("'") % 2 == 0 and before.count('"') % 2 == 0:
            return before
    return line


def option_names() -> list[str]:
    """Every long option, as completion offers it."""
    own = ["--in", "--out", "--budget"]
    return sorted([*(f"--{name.replace('_', '-')}" for name in _CONVERT), *own, *FLAGS, *JOB_FLAGS])


def setting_names() -> list[str]:
    """Every field that ``%acs set`` takes."""
    return sorted(_CONVERT)


def nearest(word: str, known: list[str]) -> str:
    """A sentence that suggests the nearest known word, one that begins so first; or ``""``."""
    begun = [one for one in known if len(word.strip("-")) > 1 and one.startswith(word)]
    near = sorted(begun, key=len)[:1] or get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean {near[0]}?" if near else ""


class _Parser(argparse.ArgumentParser):
    words: list[str] = []  # noqa: RUF012  # replaced, never changed

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (\S+)", message)
        if unknown:
            word = unknown.group(1)
            if not word.startswith("-"):
                raise InvalidRequest(f"'{word}' is not an option; write {_meant(word, self.words)}.")
            if word == "--":
                raise InvalidRequest("`%acs help options` lists the options.")
            key = word.split("=")[0].replace("_", "-")
            hint = nearest(key, option_names()) or " `%acs help options` lists them."
            raise InvalidRequest(f"Unknown option {word}.{hint}")
        missing = re.match(r"argument (\S+): expected one argument", message)
        if missing:
            # Of the several ways to write an option the one with dashes is told.
            flag = next((one for one in missing.group(1).split("/") if re.fullmatch(r"--[^_]+", one)), "")
            flag = flag or missing.group(1).split("/")[-1]
            raise InvalidRequest(f"{flag} needs a value; one that begins with a dash is written {flag}=-1.")
        raise InvalidRequest(message[0].upper() + message[1:] + ".")


def _meant(word: str, words: list[str]) -> str:
    """What to do about a word that stands where an option is due."""
    name, equals, value = word.partition("=")
    option = f"--{name.replace('_', '-')}"
    if equals and option in option_names():
        return f"{option} {value}" if value else f"{option} and its value"
    before = [one for one in words[: words.index(word)] if one.startswith("--")]
    if before and before[-1].partition("=")[0] == "--stop":
        return "--stop before each text: --stop A --stop B"
    return "the prompt into the cell's body"


def _cell_parser() -> _Parser:
    parser = _Parser(prog="%%acs", add_help=False, allow_abbrev=False)
    for name, convert in _CONVERT.items():
        flags = [f"--{name.replace('_', '-')}"]
        if "_" in name:
            flags.append(f"--{name}")
        if name in SHORT:
            flags.insert(0, SHORT[name])
        extra: dict[str, Any] = {"type": _told(name, convert)}
        if name == "stop":
            extra["action"] = "append"
        if name == "echo":
            extra |= {"nargs": "?", "const": True}
        parser.add_argument(*flags, dest=name, help=HELP[name], metavar=name.upper(), **extra)
    parser.add_argument("-o", "--out", metavar="NAME")
    parser.add_argument("--in", metavar="NAME")
    parser.add_argument("--budget", type=_told("budget", tokens), metavar="N", help=BUDGET)
    for flag in FLAGS:
        parser.add_argument(flag, action="store_true")
    for flag in JOB_FLAGS:
        parser.add_argument(flag, action="store_true" if flag == "--job" else "store")
    return parser


def _told(name: str, convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if (text if name == "stop" else text.lower()) == "none" and name in _CONVERT:
            return NONE
        try:
            return convert(text)
        except ValueError as error:
            raise InvalidRequest(f"{name}={_short(text)}: {error}.") from None

    return read


def _short(text: str) -> str:
    return repr(text) if len(text) <= 40 else repr(text[:39] + "…")


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise ValueError("a whole number is needed")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is needed") from None


def _boolean(text: str) -> bool:
    known = {"true": True, "false": False}
    if text.lower() not in known:
        raise ValueError("true or false is needed")
    return known[text.lower()]


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("a JSON object is needed")
    return value


def _unescaped(text: str) -> str:
    known = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
    return re.sub(r"\\([ntr\\])", lambda found: known[found.group(1)], text)


_CONVERT: dict[str, Callable[[str], Any]] = {
    "model": str,
    "max_tokens": _integer,
    "n": _integer,
    "temperature": _number,
    "top_p": _number,
    "top_k": _integer,
    "min_p": _number,
    "presence_penalty": _number,
    "frequency_penalty": _number,
    "repetition_penalty": _number,
    "seed": _integer,
    "stop": _unescaped,
    "logprobs": _integer,
    "prompt_logprobs": _integer,
    "echo": _boolean,
    "stream": _boolean,
    "stream_options": _json_object,
    "user": str,
    "add_special_tokens": _boolean,
}
