"""A key, an answer that costs four tokens, and a ledger that somebody else holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from acs_jupyter.ledger import ledger
from tests.support.player import DONE, frames, stream, whole

KEY = "acs-bm-0123abcd-do-not-show-me-anywhere"
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
ANSWER = {
    "id": "c",
    "model": "m",
    "choices": [{"index": 0, "text": "yes", "finish_reason": "length"}],
    "usage": USAGE,
}
OK = whole(ANSWER)
OK_STREAM = stream(*frames(["yes"]), DONE)


def month() -> tuple[int, int]:
    sums = "SELECT coalesce(sum(used), 0), coalesce(sum(held), 0) FROM accounts WHERE kind = 'month'"
    return ledger().store.rows(sums)[0]


@contextmanager
def locked(file: Path) -> Iterator[sqlite3.Connection]:
    """The file, held by somebody else."""
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")
