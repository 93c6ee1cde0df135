"""Answers of requests that give the same each time, kept over rollouts; only for who asks for it.

Owns one SQLite file that several processes may share. Only requests at temperature 0 or with a seed are looked up or
kept, by server, model, parameters and prompt. A server may change what stands behind a model's id: then delete the
file. It must not know journals or what an answer means.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zlib
from contextlib import suppress
from pathlib import Path

from ..errors import InvalidRequest
from .packed import from_bytes
from .plan import Variant, variant_digest

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"


class Cache:
    """``path``: the file, made if it is not there; ``server``: the address whose answers these are."""

    def __init__(self, path: Path, server: str) -> None:
        self.path = path
        self._server = server.encode()
        self._digests: dict[int, bytes | None] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_TABLE)
        except (sqlite3.Error, OSError) as error:
            raise InvalidRequest(
                f"The cache {path} cannot be opened: {error}. Name another file, or leave cache out."
            ) from None
        with suppress(OSError):
            os.chmod(path, 0o600)

    def get(self, variant: Variant, prompt: bytes) -> bytes | None:
        """The packed result, if it is known."""
        key = self._key(variant, prompt)
        try:
            row = key and self._db.execute("SELECT data FROM answers WHERE key=?", (key,)).fetchone()
        except sqlite3.Error:  # a damaged file knows nothing
            return None
        if not row or not _is_whole(row[0]):
            return None
        data: bytes = row[0]
        return data

    def put(self, variant: Variant, prompt: bytes, data: bytes) -> None:
        """Keep a result; one that depends on chance is not kept, and a cache that cannot be written is no failure."""
        key = self._key(variant, prompt)
        if key is not None:
            with suppress(sqlite3.Error):
                self._db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, data))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _key(self, variant: Variant, prompt: bytes) -> bytes | None:
        digest = self._digests.get(id(variant), b"")
        if digest == b"":
            digest = variant_digest(variant) if variant.deterministic else None
            self._digests[id(variant)] = digest  # the plan keeps its variants alive
        if digest is None:
            return None
        return hashlib.blake2b(digest + prompt + self._server, digest_size=20).digest()


def _is_whole(data: object) -> bool:
    """Whether a row can be read: what is damaged is asked again, and then put in its place."""
    try:
        return isinstance(data, bytes) and from_bytes(data).outcome == "done"
    except (ValueError, zlib.error):
        return False


def default_path() -> Path:
    """Where the cache lies unless told otherwise: the user's cache folder."""
    import platformdirs  # noqa: PLC0415  # only for who caches

    return Path(platformdirs.user_cache_dir("acs-jupyter")) / "rollouts.db"
