"""A ledger of a test's own: its clock, its key, and holds of so many tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from acs_jupyter.ledger import meter_for
from acs_jupyter.ledger.rows import Origin
from acs_jupyter.ledger.terms import Worst
from acs_jupyter.secret import Secret

if TYPE_CHECKING:
    from acs_jupyter.ledger.book import Ledger
    from acs_jupyter.ledger.meter import KeyMeter

KEY = "acs-bm-0123abcd-do-not-show-me-anywhere"
BASE = "http://127.0.0.1:9/v1"


class Clock:
    def __init__(self, *date: int) -> None:
        self.now = datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]

    def __call__(self) -> float:
        return self.now


def hold(book: Ledger, tokens: int, key: int = 1, **more: Any) -> Any:
    if not book.store.rows("SELECT 1 FROM keys"):
        book.key(Secret(KEY), "host")
    return book.hold(Origin(key, "m", "r", **more), Worst(0, tokens, exact=True))


def meter() -> KeyMeter:
    made = meter_for(Secret(KEY), BASE)
    assert made is not None
    return made
