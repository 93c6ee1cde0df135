"""What every test of rollouts stands on: a folder of its own, and a client of the scripted server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from acs_jupyter import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import Running


@pytest.fixture(autouse=True)
def in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def client(scripted_server: Running) -> Iterator[Client]:
    with Client(scripted_server.base, scripted_server.key, model="scripted") as made:
        yield made
