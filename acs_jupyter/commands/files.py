"""``acs-jupyter strip`` and ``export``: what is done to the files of notebooks.

Owns their arguments. It must not know what stands in a notebook.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .parsing import refused

if TYPE_CHECKING:
    from .parsing import Commands


def add_strip(commands: Commands) -> None:
    """``acs-jupyter strip``."""
    parser = commands.add_parser(
        "strip", help="take widget state out of a notebook; texts and static views stay"
    )
    parser.add_argument("notebook", nargs="+", help="files, changed in place")
    parser.add_argument("--records", action="store_true", help="take the packed completions out too")
    parser.set_defaults(run=_strip)


def add_export(commands: Commands) -> None:
    """``acs-jupyter export``."""
    parser = commands.add_parser(
        "export",
        help="a notebook's completions as JSONL, text, CSV or Parquet",
        description="Writes each completion that a saved notebook keeps, branches too. It needs no kernel and no key.",
        epilog="Exit codes: 0 written, 1 the notebook keeps no completion, 2 bad input.",
    )
    parser.add_argument("notebook", help="the .ipynb file")
    parser.add_argument(
        "--to", metavar="FILE", help="a new file; its name's end says the form (default: standard output)"
    )
    parser.add_argument(
        "--form", choices=["jsonl", "text", "csv", "parquet"], help="default: from --to, else jsonl"
    )
    parser.add_argument("--tokens", action="store_true", help="each token with its logprob and alternatives")
    parser.add_argument("--overwrite", action="store_true", help="--to may replace a file that is there")
    parser.set_defaults(run=_export)


def _strip(args: argparse.Namespace) -> int:
    from ..keeping.strip import strip

    worst = 0
    for path in args.notebook:  # one that is missing keeps no other from being stripped
        try:
            print(f"{path}: {strip(path, records=args.records)}")
        except (OSError, ValueError) as problem:
            worst = refused(problem)
    return worst


def _export(args: argparse.Namespace) -> int:
    from ..errors import AcsError
    from ..keeping.export import export

    try:
        return export(args.notebook, to=args.to, form=args.form, tokens=args.tokens, overwrite=args.overwrite)
    except (AcsError, OSError, ValueError) as problem:
        return refused(problem)
