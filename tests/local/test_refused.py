"""A refused request leaves nothing: no place taken, nothing held, no row in the log, and the next one is answered.

Every refused contract case is followed by a good request, on a server with a single place and no queue.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from acs_jupyter.local.desk import Limits
from tests.support.contract import ASK, CASES, envelope, renamed
from tests.support.desks import counter, until
from tests.support.joined import joined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from acs_jupyter.local.desk import Desk
    from acs_jupyter.local.ledger import Entry
    from tests.support.servers import Running

REFUSED = [case for case in CASES if case["status"] == "400"]
ONE = Limits(active=1, waiting=0, starts=0)


@contextmanager
def embedded(folder: Path, _: Running) -> Iterator[tuple[httpx.Client, Desk]]:
    with counter(folder, limits=ONE) as running:
        yield running.client(running.new_key(budget=100_000)), running.desk


@contextmanager
def forwarding(_: Path, upstream: Running) -> Iterator[tuple[httpx.Client, Desk]]:
    with joined(upstream.base, key=upstream.key, budget=100_000, limits=ONE) as server:
        yield server.client, server.desk


def metered(desk: Desk) -> list[Entry]:
    """What counts. An upstream's own refusal leaves a row of zero tokens."""
    return [entry for entry in desk.ledger.entries() if entry.prompt_tokens + entry.completion_tokens]


@pytest.mark.parametrize("backend", [embedded, forwarding])
def test_a_good_request_after_every_refused_one(
    backend: object, tmp_path: Path, scripted_server: Running
) -> None:
    assert len(REFUSED) > 60
    with backend(tmp_path, scripted_server) as (client, desk):  # type: ignore[operator]
        for number, case in enumerate(REFUSED):
            raw = case["raw"] if "raw" in case else json.dumps(renamed(case["body"], case["code"]))
            if backend is forwarding:
                raw = raw.replace('"scripted"', '"m"')
            refused = client.post("completions", content=raw.encode("utf-8", "surrogatepass"))
            envelope(refused, 400, case["code"])
            assert len(metered(desk)) == number, case["note"]
            until(lambda: (desk.gate.active, desk.gate.waiting, desk.budget.reserved) == (0, 0, 0))
            assert client.post("completions", json=ASK).status_code == 200, case["note"]
            until(lambda: (desk.gate.active, desk.budget.reserved) == (0, 0))
        until(lambda: len(metered(desk)) == len(REFUSED))
        assert {(e.status, e.source) for e in metered(desk)} == {(200, "usage")}
