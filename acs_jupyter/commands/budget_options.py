"""The options of ``acs-jupyter budget``, which are those of ``%acs budget`` too.

Owns their names and help. It must not know the ledger: a shell that completes a word loads this and nothing of it.
"""

from __future__ import annotations

import argparse

WAYS = ("held", "estimate", "nothing")
"""Those of ``ledger.resolve``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, on a parser of the magic or of the command line."""
    parser.add_argument("action", nargs="?", choices=["show", "settle"], default="show")
    parser.add_argument(
        "--limit",
        metavar="N",
        help="tokens a month (UTC) of the key in use, such as 200k or 3m; none: no limit",
    )
    parser.add_argument("--session", action="store_true", help="--limit is of this session, not of the month")
    parser.add_argument(
        "--reset", action="store_true", help="believe no longer that the server called the budget used up"
    )
    parser.add_argument("--export", metavar="FILE", help="all entries to a new .csv or .jsonl file")
    parser.add_argument("--overwrite", action="store_true", help="--export may replace a file that is there")
    parser.add_argument(
        "--as", dest="way", choices=WAYS, default="held",
        help="settle: count all that was held (the default), what was seen (estimate), or nothing",
    )  # fmt: skip
    parser.add_argument("--jobs", action="store_true", help="settle: end holds of jobs too")
    parser.add_argument(
        "--elsewhere", action="store_true",
        help="settle: end holds of processes that cannot be seen from here too (another machine or container, or"
        " before a restart), of which nobody can tell whether they still run; without it after 24 hours",
    )  # fmt: skip
