"""What Binder does with ``binder/``, in an environment of its own: install, postBuild, start, and a browser that comes
through a proxy under a prefix. The first notebook runs there, in less memory than Binder gives."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.browser.labkit import PANEL, Notebook, answers, chromium, point_at, shoot
from tests.support.ports import free_port
from tests.support.prefix_proxy import Proxy, proxied

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
BINDER = ROOT / "binder"
MOST = 2 * 10**9
"""Bytes of memory: above it Binder ends a session."""
PREFIX = "/user/x/"
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Memory:
    """The most that a process and all it started took at one time, by their proportional shares, in bytes."""

    def __init__(self, process: int) -> None:
        self.peak = 0
        self.parts: dict[str, int] = {}
        self._root = psutil.Process(process)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.25):
            with suppress(psutil.Error):
                parts: dict[str, int] = {}
                for one in [self._root, *self._root.children(recursive=True)]:
                    with suppress(psutil.Error):
                        name = " ".join(one.cmdline()[1:4])
                        parts[f"{one.pid} {name}"] = one.memory_full_info().pss
                if sum(parts.values()) > self.peak:
                    self.peak, self.parts = sum(parts.values()), parts

    def close(self) -> None:
        self._ended.set()
        self._thread.join(5)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The repository in a home of its own, installed and built as repo2docker does; and the environment there."""
    home = tmp_path_factory.mktemp("binder")
    unneeded = shutil.ignore_patterns(".*", "node_modules", "screenshots", "__pycache__", "acs-demo")
    shutil.copytree(ROOT, home / "repo", ignore=unneeded)
    subprocess.run([sys.executable, "-m", "venv", home / "env"], check=True)
    kept = {
        k: v
        for k, v in os.environ.items()
        if k.startswith(("PIP_", "SSL_", "LC_")) or k.endswith(("proxy", "PROXY"))
    }
    asked = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    path = f"{home}/env/bin:/usr/local/bin:/usr/bin:/bin"
    env = {**kept, "HOME": str(home), "PATH": path, **({"PIP_CACHE_DIR": cache} if cache else {})}
    for command in (
        ["pip", "install", "-q", "--no-compile", "-r", "binder/requirements.txt"],
        [str(home / "repo/binder/postBuild")],
    ):
        done = subprocess.run(
            command, cwd=home / "repo", env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
    return home, env


@contextmanager
def session(image: tuple[Path, dict[str, str]]) -> Iterator[tuple[Proxy, Memory, subprocess.Popen[bytes]]]:
    """What a hub starts for a user: ``start`` with the command of the session, behind its proxy."""
    home, env = image
    port = free_port()
    command = [
        str(home / "repo/binder/start"),
        "jupyter",
        "lab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
    ]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.base_url={PREFIX}"]
    command += ["--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True"]
    with (home / "log").open("wb") as log, proxied(port, PREFIX) as proxy:
        process = subprocess.Popen(
            command,
            cwd=home / "repo",
            env=env,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        memory = Memory(process.pid)
        try:
            end = time.monotonic() + 120
            while not answers(f"{proxy.base}{PREFIX}api/status"):
                assert process.poll() is None, (home / "log").read_text()[-2000:]
                assert time.monotonic() < end
                time.sleep(0.2)
            yield proxy, memory, process
        finally:
            memory.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


def test_the_files_are_what_repo2docker_reads() -> None:
    assert {file.name for file in BINDER.iterdir()} == {
        "requirements.txt",
        "runtime.txt",
        "postBuild",
        "start",
    }
    assert re.fullmatch(r"python-3\.\d+\n", (BINDER / "runtime.txt").read_text())
    for name in ("postBuild", "start"):
        assert os.access(BINDER / name, os.X_OK)
        assert (BINDER / name).read_text().startswith("#!")
    assert (BINDER / "start").read_text().rstrip().endswith('exec "$@"')
    words = "".join(file.read_text() for file in BINDER.iterdir())
    assert "://" not in words
    assert "acs-bm-" not in words


def test_the_first_notebook_runs_as_on_binder(image: tuple[Path, dict[str, str]]) -> None:
    """In a real browser, behind a prefix; the key is a new one, and what was started ends with the session."""
    home, env = image
    assert not [name for name in env if name.startswith("ACS_")]
    (urlpath,) = re.findall(r"\?urlpath=(\S+)", README)
    with session(image) as (proxy, memory, process), chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        nb = Notebook(page, f"{proxy.base}{PREFIX}".rstrip("/"), "")
        nb.open(at=urlpath)
        # What was saved shows with its colours before anything is run: the notebook is trusted.
        nb.output(3).locator(".acs-static .k1, .acs-static .k2, .acs-static .k3").first.wait_for()
        assert not page.evaluate(f"{PANEL}.context.model.dirty")  # nor has opening it changed it
        nb.command("notebook:run-all-cells")
        assert not [
            o
            for i in range(11)
            for o in (nb.outputs(i) if i in (1, 3, 5, 6, 8, 10) else ())
            if o["output_type"] == "error"
        ]
        page.wait_for_function("document.querySelectorAll('.acs-run[data-outcome=done]').length === 2")
        assert nb.output(3).locator(".acs-text").first.text_content().startswith(" Paris")
        point_at(nb.output(3).locator(".acs-t").first)
        nb.output(3).locator(".acs-tip").wait_for(state="visible")
        assert page.locator(".Toastify__toast").count() == 0  # nobody asks about news
        shoot(page, "binder")
        assert all(socket.startswith(PREFIX) for socket in proxy.sockets)
        assert [socket for socket in proxy.sockets if "/channels" in socket]
        children = psutil.Process(process.pid).children(recursive=True)
        server = [one for one in children if "serve" in one.cmdline()]
        assert server
        page.close()
    print(f"peak {memory.peak / 1e6:.0f} MB", memory.parts)
    assert 2 * 10**8 < memory.peak < MOST, memory.parts
    psutil.wait_procs(server, timeout=20)
    assert not [one for one in server if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert "ACS_API_KEY" not in (home / "log").read_text()
