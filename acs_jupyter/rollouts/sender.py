"""Whom a rollout asks, and as whom; a word to its user when its file was begun with somebody else.

Owns what a journal remembers of server and key. It must not know requests.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..machine.folder import mark, new_salt
from ..machine.transactions import transaction
from ..secret import Secret


@dataclass(frozen=True, slots=True)
class Sender:
    """Whom a rollout asks, as whom: the server's address, and the key as it may be written down (``known``)."""

    server: str = ""
    key: Secret | None = None

    def known(self, salt: str) -> str:
        """The key's public part and a salted hash."""
        return mark(self.key, salt) if self.key is not None else ""


@lru_cache(maxsize=1)
def _salt() -> str:
    """One for the files that this process makes: a key is hashed once for all of them."""
    return new_salt()


def sent_elsewhere(db: sqlite3.Connection, path: Path, sender: Sender) -> str:
    """Remember who is asked; a line when the file was begun with another server, or another key."""
    known = dict(db.execute("SELECT name, value FROM about WHERE name IN ('server', 'key', 'salt')"))
    salt = known.get("salt") or _salt()
    now = {"server": sender.server, "key": sender.known(salt), "salt": salt}
    if now == known:
        return ""
    with transaction(db):
        db.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", now.items())
    begun = db.execute("SELECT 1 FROM requests WHERE attempts > 0 LIMIT 1").fetchone()
    other = [
        f"{what} {known[name].partition(':')[0] if name == 'key' else known[name]}"
        for name, what in (("server", "at"), ("key", "with the key"))
        if known.get(name) and known[name] != now[name]
    ]
    if not (begun and other):
        return ""
    return (
        f"{path.name} was begun {' '.join(other)}; what is left is asked at {now['server']} with the key "
        f"{now['key'].partition(':')[0]}. Name another file to keep them apart."
    )
