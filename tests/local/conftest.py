"""HTTP clients on the two shared servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Running


def _client(server: Running) -> httpx.Client:
    return httpx.Client(base_url=server.base + "/", headers=server.auth, timeout=120)


@pytest.fixture
def scripted(scripted_server: Running) -> Iterator[httpx.Client]:
    with _client(scripted_server) as client:
        yield client


@pytest.fixture
def smollm(smollm_server: Running) -> Iterator[httpx.Client]:
    with _client(smollm_server) as client:
        yield client
