"""``acs-jupyter keys``: one action in, lines for a person out.

Owns the words, the table of keys and what is said of killed servers. It must not know argument parsing or HTTP. A key
is shown once, when made.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .budget import settle_left_behind
from .holds import Hold, Holds
from .keys import Keys
from .ledger import Ledger, month_of
from .store import Store, StoreFailed, data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping


class Failed(Exception):
    """The action was not done; the message is one line."""


def run(action: str, given: Mapping[str, Any]) -> list[str]:
    """Do one action (create, list, revoke, budget, settle) in the data folder; what to print."""
    try:
        store = Store(data_folder(given["data"]))
    except StoreFailed as problem:
        raise Failed(str(problem)) from None
    try:
        return _done(action, given, store)
    except sqlite3.Error as problem:
        raise Failed(f"The keys cannot be changed now: {problem}.") from None
    finally:
        store.close()


def _done(action: str, given: Mapping[str, Any], store: Store) -> list[str]:
    keys = Keys(store)
    if action == "create":
        name: str = given["name"]
        if not name.isprintable() or len(name) > 80:
            raise Failed("A name has at most 80 printable characters.")
        return [keys.create(name, given["budget"])]
    if action == "list":
        return _table(keys, Ledger(store)) + _left_behind(Holds(store))
    if action == "settle":
        return _settled(store, given["prefix"], charge=not given["release"])
    prefix: str = given["prefix"]
    known = keys.revoke(prefix) if action == "revoke" else keys.set_budget(prefix, given["budget"])
    if not known:
        raise Failed(f"There is no key with the prefix {prefix!r}; 'acs-jupyter keys list' shows them.")
    return [f"{prefix}: revoked" if action == "revoke" else f"{prefix}: {_limit(given['budget'])} a month"]


def _table(keys: Keys, ledger: Ledger) -> list[str]:
    month = month_of(time.time())
    lines = [f"{'PREFIX':8}  {'STATE':7}  {'CREATED':10}  {'USED ' + month:>14}  {'BUDGET':>14}  NAME"]
    for key in keys.listed():
        state = "active" if key.revoked is None else "revoked"
        made = datetime.fromtimestamp(key.created, UTC).strftime("%Y-%m-%d")
        used = ledger.used(key.id, month)
        line = f"{key.prefix:8}  {state:7}  {made}  {used:>14,}  {_limit(key.budget):>14}  {key.name}"
        lines.append(line.rstrip())
    return lines


def _left_behind(holds: Holds) -> list[str]:
    found: dict[str, list[Hold]] = {}
    for hold in holds.left_behind().values():
        found.setdefault(hold.prefix, []).append(hold)
    return [
        f"{prefix}: {sum(hold.tokens for hold in held):,} tokens held for {_requests(held)} of a server that was killed"
        f"; 'acs-jupyter keys settle {prefix}' counts them as used, with --release as not used"
        for prefix, held in found.items()
    ]


def _settled(store: Store, prefix: str | None, *, charge: bool) -> list[str]:
    held = settle_left_behind(store, time.time(), charge=charge, prefix=prefix)
    if not held:
        return ["No server that was killed holds anything" + (f" of {prefix}." if prefix else ".")]
    tokens = sum(hold.tokens for hold in held)
    return [f"{_requests(held)}: {tokens:,} tokens {'counted as used' if charge else 'released'}"]


def _requests(held: list[Hold]) -> str:
    return f"{len(held)} request{'s' if len(held) > 1 else ''}"


def _limit(budget: int) -> str:
    return f"{budget:,}" if budget else "no limit"
