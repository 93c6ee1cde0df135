"""The demo: the local server, JupyterLab beside it and the notebooks, ended together.

Owns the two processes and what they are started with. It must not know requests or notebooks.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from .run import BadSetting
from .workbooks import work_notebooks

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "acs-demo"
_ENDS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def run(*, port: int, browser: bool, gguf: str | None) -> int:
    """Start both, wait until one of them ends or Ctrl-C comes, end both; the exit code, which is 0 after Ctrl-C.

    A second Ctrl-C changes nothing: both are on their way out, and are waited for.
    """
    if find_spec("jupyterlab") is None:
        raise BadSetting("The demo needs JupyterLab: pip install 'acs-jupyter[lab,local]'.")
    for number in _ENDS:
        signal.signal(number, _as_interrupt)
    try:
        return _run(port, browser, gguf)
    except KeyboardInterrupt:
        return 0


def _run(port: int, browser: bool, gguf: str | None) -> int:
    notebook = work_notebooks(Path.cwd() / FOLDER)
    with ExitStack() as stack:
        try:
            server = _start(_serve_command(gguf), dict(os.environ), stack, stdout=subprocess.PIPE)
            settings = dict(_two_lines(server))
            if len(settings) != 2:
                return server.wait() or 1
            token, place = token_urlsafe(24), free_port(port)
            environment = os.environ | settings | {"JUPYTER_TOKEN": token} | _no_question(stack)
            lab = _start(_lab_command(notebook, place, browser), environment, stack, cwd=notebook.parent)
            if _answers(lab, place):
                print(f"\nThe notebook: http://127.0.0.1:{place}/lab/tree/{notebook.name}?token={token}")
                print("Ctrl-C ends the server and JupyterLab.", flush=True)
                tell_a_shell(settings)
            while server.poll() is None and lab.poll() is None:
                time.sleep(0.2)
            return lab.poll() or server.poll() or 0
        except KeyboardInterrupt:
            print("\nEnding the server and JupyterLab ...", flush=True)
            return 0


def tell_a_shell(settings: dict[str, str]) -> None:
    """What a shell beside it needs, on a terminal alone: a log would keep the key."""
    if sys.stderr.isatty():
        exports = " ".join(f"{name}={value}" for name, value in settings.items())
        print(f"In another shell: export {exports}", file=sys.stderr, flush=True)


def free_port(wanted: int) -> int:
    """The wanted port, or the next one that is free."""
    for port in [*range(wanted, min(wanted + 50, 65_536)), 0]:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    return wanted


def _answers(lab: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until JupyterLab listens; false when it ended instead."""
    while lab.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False


STAYS_HOME = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)
"""JupyterLab asks no other machine for news, newer versions or extensions, even where a reader says yes to news."""

NO_NEWS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
"""What the page starts from. Its question whether news are wanted hangs on this default alone, not on the address."""


def _no_question(stack: ExitStack) -> dict[str, str]:
    """A variable by which JupyterLab finds that default; the reader's own settings stand above it, untouched."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="acs-demo-", ignore_cleanup_errors=True))
    defaults = Path(folder) / "labconfig" / "default_setting_overrides.json"
    defaults.parent.mkdir()
    defaults.write_text(json.dumps(NO_NEWS), encoding="utf-8")
    name = "JUPYTER_CONFIG_PATH"
    return {name: os.pathsep.join(filter(None, [folder, os.environ.get(name)]))}


def _serve_command(gguf: str | None) -> list[str]:
    command = [sys.executable, "-m", "acs_jupyter", "serve", "--port", "0", "--until-stdin-closes"]
    return [*command, "--gguf", str(Path(gguf).absolute())] if gguf else command


def _lab_command(notebook: Path, port: int, browser: bool) -> list[str]:
    command = [sys.executable, "-m", "acs_jupyter.local.leash", sys.executable, "-m", "jupyterlab"]
    command += [
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--log-level=WARN",
        *STAYS_HOME,
        *_private_kernels(),
        notebook.name,
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command if browser else [*command, "--no-browser"]


def _private_kernels() -> list[str]:
    """Kernels speak to JupyterLab encrypted, where these versions can: others on this machine cannot listen in.

    A kernel that could and is not asked to says so in the terminal with each start.
    """
    import zmq
    from jupyter_server.services.kernels.kernelmanager import MappingKernelManager

    able = "transport_encryption" in MappingKernelManager.class_trait_names() and zmq.has("curve")
    return ["--MappingKernelManager.transport_encryption=auto"] if able else []


def _two_lines(server: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    assert server.stdout is not None
    for _ in range(2):
        name, _, value = server.stdout.readline().decode().strip().partition("=")
        if value:
            yield name, value


def _start(
    command: list[str],
    environment: dict[str, str],
    stack: ExitStack,
    *,
    stdout: int | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches only this process, which then ends the others in order.
    # The pipe closes when this process is gone, however it went; the children watch it.
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=stdout, cwd=cwd, start_new_session=True
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _as_interrupt(*_: object) -> None:
    """The first asks for the end; from then on they are not heard, so that the end is an orderly one."""
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
