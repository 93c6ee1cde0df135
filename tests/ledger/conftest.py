"""A ledger with a file and a clock of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acs_jupyter.ledger.book import Ledger
from acs_jupyter.ledger.store import Store
from tests.support.ledgers import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(Store(str(tmp_path / "l.sqlite3")), clock=Clock(2026, 11, 17, 12))
    yield made
    made.close()
