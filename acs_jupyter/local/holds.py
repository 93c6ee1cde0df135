"""What running requests hold of a budget, written down, so that a killed server leaves it behind.

Owns one table: a row from the moment tokens are held until they are settled. It must not know limits or HTTP.
A row whose server was killed stays held until someone settles it: nobody knows what it used, and a budget that
forgot it could be overspent.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..machine.processes import Process, is_gone, this_process

if TYPE_CHECKING:
    from .store import Store

log = logging.getLogger("acs_jupyter.local")
_COLUMNS = (
    "number, request_id, key_id, prefix, endpoint, model, prompt_tokens, completion_tokens, month, at, "
    "machine, pid, began"
)


@dataclass(frozen=True, slots=True)
class Hold:
    """Tokens held for one request, from time ``at`` on; ``completion_tokens`` counts all its choices."""

    request_id: str
    key_id: str
    prefix: str
    endpoint: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    month: str
    at: float

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.prompt_tokens + self.completion_tokens


class Holds:
    """The table as one process sees it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._me = this_process()

    def add(self, db: sqlite3.Connection, hold: Hold) -> int:
        """Write a hold within a transaction; its number."""
        row = (
            hold.request_id, hold.key_id, hold.prefix, hold.endpoint, hold.model, hold.prompt_tokens,
            hold.completion_tokens, hold.month, hold.at, self._me.machine, self._me.pid, self._me.began,
        )  # fmt: skip
        marks = ", ".join("?" for _ in row)
        number = db.execute(f"INSERT INTO holds ({_COLUMNS}) VALUES (NULL, {marks})", row).lastrowid
        assert number is not None
        return number

    def of_others(self, key_id: str, month: str) -> int:
        """Tokens of a key that other servers on this file hold, those that were killed included."""
        query = (
            "SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM holds WHERE key_id = ? AND month = ?"
            " AND NOT (machine = ? AND pid = ? AND began = ?)"
        )
        me = self._me
        [(tokens,)] = self._store.rows(query, key_id, month, me.machine, me.pid, me.began)
        return int(tokens)

    def lost(self, key_id: str, month: str) -> int:
        """Those of them that servers hold which are known to be gone."""
        held = self.left_behind().values()
        return sum(hold.tokens for hold in held if (hold.key_id, hold.month) == (key_id, month))

    def left_behind(self) -> dict[int, Hold]:
        """Holds by number whose server is known to be gone, oldest first."""
        found: dict[int, Hold] = {}
        for number, *values, machine, pid, began in self._store.rows(
            f"SELECT {_COLUMNS} FROM holds ORDER BY number"
        ):
            if is_gone(Process(machine, pid, began)):
                found[number] = Hold(*values)
        return found


def drop(db: sqlite3.Connection, number: int) -> None:
    """Give a hold back, within the transaction that settles it."""
    db.execute("DELETE FROM holds WHERE number = ?", (number,))
