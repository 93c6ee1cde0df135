"""``%acs budget`` and ``acs-jupyter budget``: one set of options, carried out on the ledger.

Owns the options, the order in which they act, and the files of an export. It must not know SQL, nor IPython.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..amounts import tokens
from ..commands.budget_options import add_arguments
from ..commands.parsing import near
from ..errors import AcsError, InvalidRequest, NotConfigured
from ..machine import whole_file
from . import ledger, of_environment, report, resolve
from . import words as budget_words

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from .book import Ledger
    from .meter import KeyMeter

_TIMES = ("at", "ended")


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but an unknown option is told first: what follows it would be taken for an action."""
        known = [flag for action in self._actions for flag in action.option_strings]
        for word in args or ():
            if word.startswith("--") and word.partition("=")[0] not in known:
                raise InvalidRequest(
                    f"%acs budget has no option {word}.{near(word.partition('=')[0], known)} "
                    "`%acs help budget` lists them."
                )
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        missing = re.fullmatch(r"argument (\S+): expected one argument", message)
        if missing:
            message = f"{missing[1]} needs a value{', such as 200k, 3m or none' * (missing[1] == '--limit')}"
        wrong = re.match(r"argument action: invalid choice: '?(.*?)'?(?:, maybe| \(choose)", message)
        if wrong:
            message = f"there is no '{wrong[1]}'; it takes settle, or options such as --limit 3m"
        raise InvalidRequest(f"%acs budget: {message}. `%acs help budget` lists the options.")


def parse(words: list[str]) -> argparse.Namespace:
    """The words of a line. Raises :class:`InvalidRequest`."""
    parser = _Parser(prog="%acs budget", add_help=False, allow_abbrev=False)
    add_arguments(parser)
    for word, after in zip(words, [*words, ""][1:], strict=True):
        if word.partition("=")[0] == "--session" and (number := word.partition("=")[2] or _number(after)):
            raise InvalidRequest(
                f"%acs budget: --session takes no number; --limit {number} --session sets the session's limit."
            )
    return parser.parse_args(words)


def _number(word: str) -> str:
    """The word, where it can be a limit; else nothing."""
    if word.lower() == "none":
        return word
    with suppress(ValueError):
        return word if tokens(word) else ""
    return ""


def in_notebook(words: list[str], meter: KeyMeter | None) -> pd.DataFrame | None:
    """``%acs budget``: prints; when everything is to be shown, how it stands, and the tables come as a frame."""
    asked = parse(words)
    if _acted(asked, meter, print, session=True):
        return None
    print(brief(meter))
    return frame()


def in_shell(asked: argparse.Namespace) -> int:
    """``acs-jupyter budget``; its exit code."""
    try:
        meter = of_environment()
        if not _acted(asked, meter, print, session=False):
            print(text(meter))
    except AcsError as error:
        print(f"acs-jupyter: {error}", file=sys.stderr)
        return 2
    return 0


def _acted(
    asked: argparse.Namespace, meter: KeyMeter | None, tell: Callable[[str], Any], *, session: bool
) -> bool:
    """Carry out what was asked, told line by line; whether that was anything but to show all."""
    book = ledger()
    if asked.session and asked.limit is None:
        raise InvalidRequest("--session goes with --limit N.")
    if asked.limit is not None:
        tell(_limited(book, asked, meter, session))
    if asked.reset:
        tell(_reset(book, _key(meter)))
    if asked.export is not None:
        tell(export(book, asked.export, overwrite=asked.overwrite))
    if asked.action == "settle":
        tell(_settled(book, asked, meter))
    return bool(
        asked.limit is not None or asked.reset or asked.export is not None or asked.action == "settle"
    )


def _settled(book: Ledger, asked: argparse.Namespace, meter: KeyMeter | None) -> str:
    asked_about = _ask_about_jobs(book, meter) if meter is not None else 0
    ended = resolve.resolve(book, asked.way, jobs=asked.jobs, out_of_sight=asked.elsewhere)
    return budget_words.settled(ended, resolve.holds(book), asked.way, asked_about)


def _ask_about_jobs(book: Ledger, meter: KeyMeter) -> int:
    """Ask the server about the jobs held under a key; how many have ended. What cannot be asked now stays held."""
    from ..client import Client  # noqa: PLC0415  # only where there are jobs

    mine = [hold for hold in resolve.holds(book) if hold.job and hold.key == meter.key]
    if not mine:
        return 0
    with Client(*meter.where, retries=0, meter=meter) as client:
        for hold in mine:
            with suppress(AcsError):
                client.jobs.result(str(hold.job))
    still = {hold.entry for hold in resolve.holds(book)}
    return sum(hold.entry not in still for hold in mine)


def brief(meter: KeyMeter | None) -> str:
    """How it stands, without the tables."""
    book = ledger()
    key = meter.key if meter is not None else None
    return budget_words.brief(
        report.glance(book, key),
        report.sums(book, ("month", "today")),
        resolve.holds(book),
        report.clamped(book),
        report.limited(book, key),
    )


def text(meter: KeyMeter | None) -> str:
    """The whole picture."""
    book = ledger()
    key = meter.key if meter is not None else None
    return budget_words.page(
        report.glance(book, key),
        report.sums(book),
        resolve.holds(book),
        report.clamped(book),
        book.store.where,
        others=report.limited(book, key),
    )


def frame() -> pd.DataFrame:
    """One row a group, over all keys: ``by`` (month, today, key, model, notebook, cell), ``name``, requests and tokens.

    ``held`` is held by running requests and not part of ``tokens``; ``estimated`` is part of ``tokens``.
    """
    import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

    rows = [report.as_dict(each) for each in report.sums(ledger())]
    columns = list(report.Sum.__dataclass_fields__)
    return pd.DataFrame(rows, columns=columns)


def export(book: Ledger, name: str, *, overwrite: bool = False) -> str:
    """Write every entry to a file; the line that tells so. Times are ISO 8601, UTC. A file that is there stays."""
    path = Path(name).expanduser()
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise InvalidRequest(f"--export {name}: a name that ends in .csv or .jsonl is needed.")
    rows = [{**row, **{time: _iso(row[time]) for time in _TIMES}} for row in report.entries(book)]
    try:
        if path.exists() and not overwrite:
            raise InvalidRequest(f"--export {name}: it is there already; --overwrite replaces it.")
        file = io.StringIO(newline="")
        if path.suffix.lower() == ".csv":
            writer = csv.DictWriter(file, report.ENTRY_COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        whole_file.write(path, file.getvalue().encode())
    except (OSError, ValueError) as problem:
        raise InvalidRequest(
            f"--export {name}: {getattr(problem, 'strerror', None) or problem}. Name another place."
        ) from None
    return f"{len(rows):,} entries in {path}"


def _limited(book: Ledger, asked: argparse.Namespace, meter: KeyMeter | None, session: bool) -> str:
    limit = None
    if asked.limit.lower() != "none":
        try:
            limit = tokens(asked.limit)
        except ValueError as problem:
            raise InvalidRequest(f"--limit {asked.limit}: {problem}, or none can be given.") from None
    told = "no limit" if limit is None else f"a limit of {limit:,} tokens"
    if asked.session:
        if not session:
            raise InvalidRequest(
                "--session is about a notebook's session; use `%acs budget --limit N --session` there."
            )
        book.scope("session", book.session.state.name, limit or 0)
        return f"This session has {told}; {book.session.spent:,} are spent."
    key = _key(meter)
    book.set_month_limit(key, limit)
    month = book.month(key)
    return f"{month.prefix or f'key {key}'} has {told} a month; {month.used:,} are spent in {month.name}."


def _reset(book: Ledger, key: int) -> str:
    if resolve.reset(book, key):
        return "The key may be used again; the server decides."
    return "The server has not called this key's budget used up."


def _key(meter: KeyMeter | None) -> int:
    if meter is None:
        raise NotConfigured("Limits belong to a key, and none is set.")
    return meter.key


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
