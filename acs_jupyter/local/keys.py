"""Who may ask: the bearer key of a request, and the caller it stands for.

Owns the shape of keys, their public prefix and their comparison. It must not know budgets, engines or HTTP
beyond the text of one header.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from secrets import token_hex, token_urlsafe

from ..errors import MissingAuthorization, Unauthorized

_SHAPE = re.compile(r"acs-bm-([0-9a-f]{8})-[A-Za-z0-9_-]{16,}")


@dataclass(frozen=True, slots=True)
class Caller:
    """The key behind a request: ``id`` is stable across restarts, ``prefix`` may be shown; neither is secret."""

    id: str
    prefix: str


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


class KeyCheck:
    """Compares bearer keys with the hash of the one that is valid."""

    def __init__(self, key: str) -> None:
        self._hash = hashed(key)
        self._caller = own_caller(key)

    def require(self, authorization: str | None) -> Caller:
        """The caller, or the contract's 401 unless the header carries a valid key."""
        if not hmac.compare_digest(hashed(bearer(authorization)), self._hash):
            raise Unauthorized("The API key is not valid for this server.")
        return self._caller


def hashed(key: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(_bytes(key)).digest()


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
