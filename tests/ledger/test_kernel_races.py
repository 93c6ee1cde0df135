"""Two real kernels, one limit, a real server: 200 races for the last tokens, none of which passes the limit."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_client.manager import start_new_kernel

from acs_jupyter.ledger import ledger, report
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.local.ledger import read_log
from acs_jupyter.secret import Secret
from tests.support.desks import until
from tests.support.servers import ROOT, serving

if TYPE_CHECKING:
    import pytest

KEY = "acs-bm-testtest-key-of-racing-kernels"
RACES = 200
EACH = 4 + 8
"""The worst case of one request: three bytes of prompt, its start, eight tokens."""

RACER = f"""
import socket
from acs_jupyter import Client
from acs_jupyter.errors import BudgetRefused
gate = socket.create_connection(("127.0.0.1", GATE))
won = 0
with Client(model="scripted", retries=0) as client:
    for number in range({RACES}):
        gate.sendall(b"r")
        assert gate.recv(1) == b"g"
        try:
            client.complete("abc", max_tokens=8)
            won += 1
        except BudgetRefused:
            pass
    gate.sendall(b"r" + str(won).encode())
"""


def test_a_limit_is_never_passed_by_two_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "served"
    with (
        serving("--scripted", "--starts", "0", "--key", KEY, "--data", str(folder)) as server,
        socket.create_server(("127.0.0.1", 0)) as gate,
    ):
        for name, value in (("ACS_API_BASE", server.base), ("ACS_API_KEY", KEY), ("PYTHONPATH", str(ROOT))):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
        key = KeyMeter(Secret(KEY), server.base).key
        cell = f"GATE = {gate.getsockname()[1]}\n{RACER}"
        kernels = [start_new_kernel(kernel_name="python3") for _ in range(2)]
        try:
            for _, kernel in kernels:
                kernel.execute(cell)
            racers = [gate.accept()[0] for _ in range(2)]
            passed = _races(racers, key)
            won = [int(racer.recv(9)) for racer in racers]
            for racer in racers:
                racer.close()
        finally:
            for manager, kernel in kernels:
                kernel.stop_channels()
                manager.shutdown_kernel(now=True)
    assert passed == []
    assert sum(won) == RACES  # in each race there was room for one, and one of them had it
    assert min(won) > 0
    log = read_log(folder)
    assert len(log) == RACES
    mine = report.entries(ledger())
    assert sum(e["prompt_tokens"] + e["completion_tokens"] for e in mine) == sum(
        row.prompt_tokens + row.completion_tokens for row in log
    )


def _races(racers: list[socket.socket], key: int) -> list[int]:
    """Before each race the limit leaves room for one of the two; which of them passed it."""
    book, passed = ledger(), []
    for number in range(RACES + 1):
        for racer in racers:
            assert racer.recv(1) == b"r"
        month = book.month(key)
        if month.most is not None and month.used + month.held > month.most:
            passed.append(number)
        if number < RACES:
            until(
                lambda: book.month(key).held == 0
            )  # a kernel's loop waits for no file: a thread writes the end
            month = book.month(key)
            book.set_month_limit(key, month.used + EACH)
            for racer in racers:
                racer.sendall(b"g")
    return passed
