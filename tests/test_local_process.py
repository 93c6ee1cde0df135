"""The embedded server as a child: it answers, it ends with its parent, it says why it cannot start."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from acs_jupyter import Client, errors
from acs_jupyter.machine.local_process import LocalServer
from tests.support.servers import environment


def test_it_answers_and_ends() -> None:
    server = LocalServer.start("--scripted")
    try:
        assert server.base.endswith("/v1")
        assert server.key not in repr(server)
        with Client(server.base, server.key) as client:
            assert client.complete('#scripted say="hello"', max_tokens=9).text == "hello"
    finally:
        server.stop()
    assert not server.alive


def test_it_ends_when_its_parent_is_killed() -> None:
    code = (
        "from acs_jupyter.machine.local_process import LocalServer; import time\n"
        "server = LocalServer.start('--scripted'); print(server.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert parent.stdout is not None
    with parent:
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(child)


def test_it_says_why_it_cannot_start() -> None:
    with pytest.raises(errors.NotConfigured, match="no-such-file"):
        LocalServer.start("--gguf", "no-such-file.gguf")


def running(pid: int) -> bool:
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.returncode == 0 and not listed.stdout.strip().startswith("Z")
