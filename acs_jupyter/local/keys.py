"""Who may ask: keys, kept as hashes, and the callers they stand for.

Owns the shape of keys, their table and their comparison. It must not know engines, or HTTP beyond the text of
one header.

A key carries 192 random bits, so nobody can guess it from its hash: plain SHA-256 is enough, and a salt or a
slow hash would only cost time on every request. A key that the user chose may be guessable; it is never stored.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from secrets import token_hex, token_urlsafe
from typing import TYPE_CHECKING

from ..errors import KeyRevoked, MissingAuthorization, Unauthorized

if TYPE_CHECKING:
    from .store import Store

_SHAPE = re.compile(r"acs-bm-([0-9a-f]{8})-[A-Za-z0-9_-]{16,}")


@dataclass(frozen=True, slots=True)
class Caller:
    """The key behind a request: ``id`` is stable across restarts, ``prefix`` may be shown; neither is secret."""

    id: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Key:
    """One stored key as it may be shown; times in seconds since 1970, ``budget`` 0 for no limit."""

    id: str
    prefix: str
    name: str
    budget: int
    created: float
    revoked: float | None


def new_key() -> str:
    """A fresh key: a public prefix of 32 bits and a secret of 192."""
    return f"acs-bm-{token_hex(4)}-{token_urlsafe(24)}"


def own_caller(key: str) -> Caller:
    """The caller of a key that is in no table.

    Its id is derived slowly, since a chosen key may be guessable and the id is stored beside what it used.
    """
    known = hashlib.pbkdf2_hmac("sha256", _bytes(key), b"acs-jupyter own key", 100_000).hex()[:32]
    shaped = _SHAPE.fullmatch(key)
    return Caller(known, shaped[1] if shaped else known[:8])


def bearer(authorization: str | None) -> str:
    """The key in an Authorization header; raises the contract's 401 when there is none."""
    scheme, _, key = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise MissingAuthorization("The Authorization header must be 'Bearer <key>'.")
    return key.strip()


class Keys:
    """The stored keys, and the one the server was started with (``own``), which lives in memory only.

    Every request reads the table again, so that what another process changes there counts at once.
    """

    def __init__(self, store: Store, own: str | None = None, own_budget: int = 0) -> None:
        self._store = store
        self._own = None if own is None else (hashed(own), own_caller(own))
        self._own_budget = own_budget

    def require(self, authorization: str | None) -> Caller:
        """The caller, or the contract's 401. A stored key is what the table says, even when it is also ``own``."""
        key = bearer(authorization)
        stored = self._stored(key)
        if stored is not None:
            if stored.revoked is not None:
                raise KeyRevoked(f"The API key with the prefix {stored.prefix} was revoked.")
            return Caller(stored.id, stored.prefix)
        if self._own is not None and hmac.compare_digest(hashed(key), self._own[0]):
            return self._own[1]
        raise Unauthorized("The API key is not valid for this server.")

    def caller(self, key_id: str) -> Caller | None:
        """The caller of an id, for work that goes on without a request; revoked or not."""
        for (prefix,) in self._store.rows("SELECT prefix FROM keys WHERE id = ?", key_id):
            return Caller(key_id, prefix)
        return self._own[1] if self._own is not None and self._own[1].id == key_id else None

    def budget_of(self, caller: Caller) -> int:
        """Tokens a month the caller may use; 0 for no limit."""
        found = self._store.rows("SELECT budget FROM keys WHERE id = ?", caller.id)
        return int(found[0][0]) if found else self._own_budget

    def create(self, name: str = "", budget: int = 0) -> str:
        """Store a new key and return it; it can be read nowhere afterwards."""
        while True:
            key = new_key()
            row = (token_hex(16), _prefix(key), hashed(key), name, budget, time.time())
            with self._store.writing() as db:
                made = db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
            if made.rowcount == 1:  # else the prefix was taken
                return key

    def listed(self) -> list[Key]:
        """All stored keys, oldest first."""
        query = "SELECT id, prefix, name, budget, created, revoked FROM keys ORDER BY created, prefix"
        return [Key(*row) for row in self._store.rows(query)]

    def revoke(self, prefix: str) -> bool:
        """Refuse a key from now on; whether there is one. What it has running ends in peace."""
        change = "UPDATE keys SET revoked = coalesce(revoked, ?) WHERE prefix = ?"
        return self._changed(change, time.time(), prefix)

    def set_budget(self, prefix: str, budget: int) -> bool:
        """Change a key's monthly budget; whether there is such a key."""
        return self._changed("UPDATE keys SET budget = ? WHERE prefix = ?", budget, prefix)

    def _changed(self, change: str, *values: object) -> bool:
        with self._store.writing() as db:
            return db.execute(change, values).rowcount == 1

    def _stored(self, key: str) -> Key | None:
        query = "SELECT hash, id, prefix, name, budget, created, revoked FROM keys WHERE prefix = ?"
        for kept, *rest in self._store.rows(query, _prefix(key)):
            if hmac.compare_digest(kept, hashed(key)):
                return Key(*rest)
        return None


def hashed(key: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(_bytes(key)).digest()


def _prefix(key: str) -> str:
    shaped = _SHAPE.fullmatch(key)
    return shaped[1] if shaped else ""


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
