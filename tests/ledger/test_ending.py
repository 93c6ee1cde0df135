"""A process that ends in good order leaves nothing held, whatever runs in its background."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from acs_jupyter.ledger import ledger, report, resolve
from tests.support.between import Deaf
from tests.support.servers import environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Running

SLOW = "#scripted rate=40 tokens=900\nx"

PUMPED = """
import sys
from acs_jupyter import AsyncClient, Session
from acs_jupyter.pump import Pump
pump, session = Pump(AsyncClient(sys.argv[1], sys.argv[2], model="scripted", retries=0)), Session()
options = {"include_usage": True, "continuous_usage_stats": True}
request = pump.client.request(sys.argv[3], max_tokens=999, stream=True, stream_options=options, logprobs=0)
handle = pump.start(request, session)
handle.detach()
while sum(len(node.tokens) for node in list(session.nodes.values())) < 5:
    handle._ended.wait(0.01)
"""
ROLLED = """
import sys
from acs_jupyter import Client, rollout
client = Client(sys.argv[1], sys.argv[2], model="scripted")
run = rollout([f"{sys.argv[3]}{i}" for i in range(40)], client=client, into=sys.argv[4], max_tokens=999, bg=True,
              in_flight=4, progress=False)
from acs_jupyter.ledger import ledger
while sum(t.seen is not None and t.seen[1] > 2 for t in list(ledger().open.values())) < 4:
    run._ended.wait(0.01)
"""
WAYS = {
    "stopped": PUMPED + "handle.stop()",
    "closed": PUMPED + "pump.close()",
    "running": PUMPED,
    "rollout": ROLLED + "sys.exit()",
    "rollout that is stopped": ROLLED + "run.stop(drop=True)",
}


PATIENT = "from acs_jupyter.machine import ending; ending.MOMENT = 20.0\n"
"""The end is waited for, however slow this machine is."""


def ended(code: str, server: str, key: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code, server, key, SLOW, str(folder / "run.acs.db")],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_what_runs_when_a_process_ends_is_paid_by_the_servers_count(
    scripted_server: Running, tmp_path: Path, way: str
) -> None:
    ended(PATIENT + WAYS[way], scripted_server.base, scripted_server.key, tmp_path)
    assert resolve.holds(ledger()) == []
    sources = [entry["source"] for entry in report.entries(ledger())]
    assert sources == ["usage"] * (4 if "rollout" in way else 1)


@pytest.mark.parametrize("way", ["stopped", "closed", "rollout"])
def test_a_server_that_does_not_hear_it_is_not_waited_for(
    scripted_server: Running, tmp_path: Path, way: str
) -> None:
    with Deaf(scripted_server.base) as between:
        ended(WAYS[way], between.base, scripted_server.key, tmp_path)
    assert resolve.holds(ledger()) == []
    for entry in report.entries(ledger()):
        assert entry["source"] == "estimate"
        assert 3 <= entry["completion_tokens"] < 700
