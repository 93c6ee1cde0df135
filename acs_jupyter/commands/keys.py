"""``acs-jupyter keys``: the keys of the local server.

Owns its arguments. It must not know how keys are kept.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .parsing import BUDGET_HELP, Parser, data_argument, refused, token_budget

if TYPE_CHECKING:
    from .parsing import Commands


def add_keys(commands: Commands) -> None:
    """``acs-jupyter keys``."""
    parser = commands.add_parser("keys", help="keys of the local server, also while it runs")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("--name", default="", help="a note to know it by")
    create.add_argument("--budget", type=token_budget, default=0, metavar="TOKENS", help=BUDGET_HELP)
    actions.add_parser("list", help="prefix, state, use of this month, budget and name of each key")
    revoke = actions.add_parser("revoke", help="refuse a key from now on")
    budget = actions.add_parser("budget", help="change a key's monthly budget")
    for one in (revoke, budget):
        one.add_argument("prefix", metavar="PREFIX", help="the 8 characters after acs-bm-")
    budget.add_argument("budget", type=token_budget, metavar="TOKENS", help=BUDGET_HELP)
    settle = actions.add_parser("settle", help="settle what a server that was killed holds: as used in full")
    settle.add_argument("prefix", metavar="PREFIX", nargs="?", help="of one key (default: of all)")
    settle.add_argument("--release", action="store_true", help="as not used at all")
    for each in actions.choices.values():
        data_argument(each)
    parser.set_defaults(run=_keys)


def _keys(args: argparse.Namespace) -> int:
    from ..local.keys_command import Failed, run

    try:
        for line in run(args.action, vars(args)):
            print(line)
    except Failed as problem:
        return refused(problem)
    return 0
