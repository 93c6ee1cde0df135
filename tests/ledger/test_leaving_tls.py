"""A stream that is left behind a proxy that ends TLS, which hears no half-close: its cost is bounded, and said so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from acs_jupyter import parting
from acs_jupyter.ledger import ledger, report
from acs_jupyter.local.keys import Keys
from acs_jupyter.local.store import Store
from tests.conftest import UNHURRIED
from tests.support.between import Secure
from tests.support.desks import until
from tests.support.leavers import LEAVE, Side
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEADY = "#scripted rate=40 tokens=900\nx"


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    folder = tmp_path_factory.mktemp("server")
    with serving("--scripted", *UNHURRIED, "--data", str(folder)) as server:
        yield server, folder


@pytest.mark.parametrize("how", LEAVE)
def test_what_it_cost_is_bounded(
    metered: tuple[Running, Path], how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parting, "_answers", {})
    server, folder = metered
    store = Store(folder)
    with Secure(server.base, tmp_path) as between:
        monkeypatch.setenv("SSL_CERT_FILE", str(between.certificate))
        key = Keys(store).create("a test")
        store.close()
        side = Side(Running(between.base, server.key, server.process, []), folder, key)
        began = time.monotonic()
        LEAVE[how](side, STEADY, 12, 1)
        assert time.monotonic() - began < 15  # and not the 22 seconds of the whole
        until(lambda: len(side.rows()) == 1)
        [row] = side.rows()
    [mine] = report.entries(ledger())
    assert mine["prompt_tokens"] == row.prompt_tokens
    assert mine["source"] == "estimate"
    assert 12 <= row.completion_tokens <= mine["completion_tokens"] < 100
