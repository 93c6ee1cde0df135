"""The nouns of completion jobs on the server: whose, how many, how long, and how one ended.

Owns these values. It must not know where they are kept or what happens to them.
"""

from __future__ import annotations

from dataclasses import dataclass

ACTIVE = ("queued", "running")


@dataclass(frozen=True)
class Limits:
    """How much is kept, how long (seconds), and how large a result may be (bytes)."""

    active_per_key: int = 8
    active_per_account: int = 32
    active: int = 128
    stored_per_account: int = 100
    stored: int = 1000
    queue_time: float = 24 * 3600.0
    content_time: float = 24 * 3600.0
    record_time: float = 7 * 24 * 3600.0
    result_bytes: int = 2 * 2**20


@dataclass(frozen=True)
class Owner:
    """Whose a job is: the hash or id of exactly one API key, and the account behind it."""

    key: str
    account: str = "local"


@dataclass(frozen=True)
class New:
    """A job to be stored."""

    id: str
    owner: Owner
    idempotency: str
    fingerprint: str
    request_id: str
    model: str
    request: bytes


@dataclass(frozen=True)
class Row:
    """A stored job. Times are seconds since the epoch; ``result`` is the body behind ``outcome``."""

    seq: int
    id: str
    owner: str
    account: str
    idempotency: str
    fingerprint: str
    request_id: str
    model: str
    status: str
    cancel_requested: bool
    usage_pending: bool
    created: float
    started: float | None
    ended: float | None
    content_gone: bool
    request: bytes | None
    outcome: int | None
    result: bytes | None
    headers: str | None

    @property
    def ended_for_good(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status not in ACTIVE


@dataclass(frozen=True)
class End:
    """How a job ended: state, HTTP status, body (a completion, or an error's code and message) and headers."""

    status: str
    outcome: int
    result: bytes
    headers: dict[str, str]
    usage_pending: bool = False
