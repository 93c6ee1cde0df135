"""Servers shared by all tests: one scripted, one with the small model. Each has ``.base`` and ``.key``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Running]:
    with serving("--scripted") as running:
        yield running


@pytest.fixture(scope="session")
def smollm_server() -> Iterator[Running]:
    with serving() as running:
        yield running
