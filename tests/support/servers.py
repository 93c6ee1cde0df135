"""A local server in a process of its own, for any test that needs something to talk to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
KEPT = ("ACS_GGUF", "ACS_LOCAL_DATA", "ACS_JOURNAL", "ACS_LEDGER", "ACS_UNSAVED")


@dataclass
class Running:
    """A server that answers: ``base`` ends in ``/v1``; ``lines`` is its stdout, ``log`` its stderr so far."""

    base: str
    key: str
    process: subprocess.Popen[str]
    lines: list[str]
    log: list[str] = field(default_factory=list)

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def root(self) -> str:
        return self.base.removesuffix("/v1")


def environment(**more: str) -> dict[str, str]:
    """The environment of a child that finds the package in this checkout."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("ACS_") or k in KEPT}
    return known | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | more


@contextmanager
def serving(*arguments: str, **env: str) -> Iterator[Running]:
    """``acs-jupyter serve`` with these arguments on a free port, ended at the end."""
    if "ACS_LOCAL_DATA" in os.environ:  # one folder a server: completion jobs belong to one
        env = {"ACS_LOCAL_DATA": f"{os.environ['ACS_LOCAL_DATA']}/{token_hex(4)}"} | env
    process = subprocess.Popen(
        [sys.executable, "-m", "acs_jupyter", "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    log: list[str] = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr), daemon=True)
    reader.start()
    try:
        lines = [process.stdout.readline().rstrip("\n") for _ in range(2)]
        values = dict(line.partition("=")[::2] for line in lines)
        assert set(values) == {"ACS_API_BASE", "ACS_API_KEY"}, (lines, log)
        yield Running(values["ACS_API_BASE"], values["ACS_API_KEY"], process, lines, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reader.join(5)
        process.stdout.close()
        process.stderr.close()
