"""The embedded server as a child: it answers, it ends with its parent, it says why it cannot start."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from acs_jupyter import Client, errors
from acs_jupyter.machine.local_process import LocalServer
from acs_jupyter.notebook.root import Notebook
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


def test_a_typo_leaves_the_server_that_runs_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACS_API_BASE", "ACS_API_KEY"):
        monkeypatch.setenv(name, "")
    said: list[str] = []
    notebook = Notebook()
    server = notebook.start_local("--scripted", tell=said.append)
    try:
        said.clear()
        with pytest.raises(errors.NotConfigured, match="no-such-file") as caught:
            notebook.start_local("--gguf", "no-such-file.gguf", tell=said.append)
        assert [line for line in said if line in str(caught.value) or "cannot be read" in line] == []
        assert server.alive
        with Client() as client:
            assert client.complete('#scripted say="hello"', max_tokens=9).text == "hello"
            server.stop()
            with pytest.raises(errors.ConnectionFailed, match="%acs local starts it again"):
                client.complete("Hi", max_tokens=3)
    finally:
        notebook.close()


def running(pid: int) -> bool:
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.returncode == 0 and not listed.stdout.strip().startswith("Z")
