"""``acs-jupyter keys``: one action in, lines for a person out.

Owns the words, the table of keys and what is said of killed servers. It must not know argument parsing or HTTP. A key
is shown once, when made.
"""

from __future__ import annotations

import re
import shlex
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


_GIVEN = re.compile(r"(?:acs-bm-)?([0-9a-f]{8})(?:-.*)?")


class Failed(Exception):
    """The action was not done; the message is one line."""


def run(action: str, given: Mapping[str, Any]) -> list[str]:
    """Do one action (create, list, revoke, budget, settle) in the data folder; what to print."""
    folder = data_folder(given["data"])
    if action != "create" and not folder.exists():  # looking makes nothing
        raise Failed(f"There are no keys yet: {folder} does not exist; 'acs-jupyter keys create' makes one.")
    try:
        store = Store(folder)
    except StoreFailed as problem:
        raise Failed(str(problem)) from None
    try:
        return _done(action, given, store)
    except sqlite3.Error as problem:
        raise Failed(f"The keys cannot be changed now: {problem}. Try again in a moment.") from None
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
        return _table(keys, Ledger(store), Holds(store)) + _left_behind(Holds(store), given["data"])
    prefix = None if given["prefix"] is None else _prefix(given["prefix"])
    if action == "settle":
        return _settled(store, keys, prefix, charge=not given["release"])
    assert prefix is not None
    known = keys.revoke(prefix) if action == "revoke" else keys.set_budget(prefix, given["budget"])
    if not known:
        raise _unknown(prefix)
    return [f"{prefix}: revoked" if action == "revoke" else f"{prefix}: {_limit(given['budget'])} a month"]


def _prefix(given: str) -> str:
    # A whole key is understood, since it is what a user has at hand; but it is never printed.
    found = _GIVEN.fullmatch(given.strip())
    if found is None:
        raise Failed(
            "PREFIX must be the 8 characters after acs-bm- in a key (0-9 and a-f); 'acs-jupyter keys list' lists them."
        )
    return found[1]


def _unknown(prefix: str) -> Failed:
    return Failed(f"There is no key with the prefix '{prefix}'; 'acs-jupyter keys list' lists them.")


def _table(keys: Keys, ledger: Ledger, holds: Holds) -> list[str]:
    month = month_of(time.time())
    lines = [f"{'PREFIX':8}  {'STATE':7}  {'CREATED':10}  {'USED ' + month:>14}  {'BUDGET':>14}  NAME"]
    for key in keys.listed():
        state = "active" if key.revoked is None else "revoked"
        made = datetime.fromtimestamp(key.created, UTC).strftime("%Y-%m-%d")
        used = ledger.used(key.id, month)
        line = f"{key.prefix:8}  {state:7}  {made}  {used:>14,}  {_limit(key.budget):>14}  {key.name}"
        lines.append(line.rstrip())
    stored = {key.id for key in keys.listed()}
    for key_id, prefix in _others(ledger, holds, stored):
        used = ledger.used(key_id, month)
        lines.append(f"{prefix:8}  {'-':7}  {'-':10}  {used:>14,}  {'-':>14}  a server's own key, not stored")
    return lines


def _others(ledger: Ledger, holds: Holds, stored: set[str]) -> list[tuple[str, str]]:
    # Keys that servers were started with are in no table; what they used and hold is.
    seen = {**ledger.callers(), **{hold.key_id: hold.prefix for hold in holds.left_behind().values()}}
    return [(key_id, prefix) for key_id, prefix in seen.items() if key_id not in stored]


def _left_behind(holds: Holds, data: str | None) -> list[str]:
    where = f" --data {shlex.quote(data)}" if data else ""
    found: dict[str, list[Hold]] = {}
    for hold in holds.left_behind().values():
        found.setdefault(hold.prefix, []).append(hold)
    return [
        f"{prefix}: {sum(hold.tokens for hold in held):,} tokens held for {_requests(held)} of a server that was killed"
        f"; 'acs-jupyter keys settle {prefix}{where}' counts them as used, with --release as not used"
        for prefix, held in found.items()
    ]


def _settled(store: Store, keys: Keys, prefix: str | None, *, charge: bool) -> list[str]:
    def mine(left: dict[int, Hold]) -> list[int]:
        return [number for number, hold in left.items() if prefix in (None, hold.prefix)]

    held = settle_left_behind(store, time.time(), charge=charge, of=mine)
    if not held:
        known = {key.prefix for key in keys.listed()} | set(Ledger(store).callers().values())
        if prefix is not None and prefix not in known:
            raise _unknown(prefix)
        return ["No server that was killed holds anything" + (f" of {prefix}." if prefix else ".")]
    tokens = sum(hold.tokens for hold in held)
    return [f"{_requests(held)}: {tokens:,} tokens {'counted as used' if charge else 'released'}"]


def _requests(held: list[Hold]) -> str:
    return f"{len(held)} request{'s' if len(held) > 1 else ''}"


def _limit(budget: int) -> str:
    return f"{budget:,}" if budget else "no limit"
