"""``acs-jupyter`` on the command line: two lines, one-line refusals, a quick end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import nbformat
import pexpect
import psutil
import pytest
from jupyter_client.blocking import BlockingKernelClient
from nbformat.sign import NotebookNotary

from acs_jupyter import __version__
from acs_jupyter.local import workbooks
from tests.support.command import one_line, run
from tests.support.desks import until
from tests.support.ports import free_port
from tests.support.servers import environment, serving


def test_version() -> None:
    assert run("--version").stdout.strip() == f"acs-jupyter {__version__}"


def test_two_lines_and_nothing_else() -> None:
    with serving("--scripted") as server:
        assert server.lines[0].startswith("ACS_API_BASE=http://127.0.0.1:")
        assert server.lines[0].endswith("/v1")
        assert server.lines[1].startswith("ACS_API_KEY=acs-bm-")
        assert httpx.get(f"{server.base}/models", headers=server.auth).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        rest, errors = server.process.stdout.read(), server.log  # type: ignore[union-attr]
        assert server.process.wait(10) == 0
    assert rest == ""
    assert errors == []


def test_keys() -> None:
    with serving("--scripted") as one, serving("--scripted") as two:
        assert one.key != two.key
    with serving("--scripted", "--key", "my-own-key") as given:
        assert given.key == "my-own-key"
    with serving("--scripted", ACS_LOCAL_KEY="from-environment") as given:
        assert given.key == "from-environment"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("engine", ["scripted", "smollm"])
def test_signals_end_it_quickly_even_while_streaming(number: int, engine: str) -> None:
    with serving(*(["--scripted", "--rate", "50"] if engine == "scripted" else [])) as server:
        body = {"prompt": "x", "max_tokens": 1000, "stream": True}
        with httpx.stream("POST", f"{server.base}/completions", json=body, headers=server.auth) as answer:
            parts = answer.iter_raw()
            next(parts)
            start = time.perf_counter()
            server.process.send_signal(number)
            assert server.process.wait(10) == 0
        assert time.perf_counter() - start < 3
        assert not [line for line in server.log if "Traceback" in line]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["serve", "--port", "x"], "port"),
        (["serve", "--port", "70000"], "port"),
        (["serve", "--rate", "-1"], "rate"),
        (["serve", "--scripted", "--gguf", "a"], "not allowed"),
        (["serve", "--nonsense"], "nonsense"),
        (["nonsense"], "nonsense"),
        ([], "COMMAND"),
        (["serve", "--scripted", "--key", "short"], "key"),
        (["serve", "--scripted", "--host", "203.0.113.1"], "203.0.113.1"),
        (["serve", "--port", "0", "--gguf", "/nowhere/x.gguf"], "/nowhere/x.gguf"),
        (["serve", "--port", "0", "--gguf", __file__], "GGUF"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], word: str) -> None:
    assert word in one_line(run(*arguments))


def test_damaged_model_file(tmp_path: Path) -> None:
    for name, data in (
        ("short.gguf", b"GGUF\x03\x00"),
        ("empty.gguf", b""),
        ("head.gguf", b"GGUF" + b"\xff" * 64),
    ):
        (tmp_path / name).write_bytes(data)
        assert name in one_line(run("serve", "--port", "0", "--gguf", str(tmp_path / name))) or data == b""


def test_port_in_use() -> None:
    with serving("--scripted") as server:
        port = server.root.rsplit(":", 1)[1]
        assert port in one_line(run("serve", "--scripted", "--port", port))


def test_an_open_address_says_so_and_needs_the_key() -> None:
    with serving("--scripted", "--host", "0.0.0.0") as server:
        base = server.base.replace("0.0.0.0", "127.0.0.1")
        body = {"prompt": "x", "max_tokens": 1}
        assert httpx.post(f"{base}/completions", json=body).status_code == 401
        assert httpx.post(f"{base}/completions", json=body, headers=server.auth).status_code == 200
        until(lambda: bool(server.log))
    assert server.log[0].strip() == "Other machines can reach 0.0.0.0: every request needs the key below."


def test_missing_extra_names_the_command(tmp_path: Path) -> None:
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text("import sys\nsys.modules['uvicorn'] = None\n")
    done = run("serve", "--scripted", PYTHONPATH=f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}")
    assert "pip install 'acs-jupyter[local]'" in one_line(done)


def test_demo_runs_and_ends_together(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "acs_jupyter", "demo", "--no-browser", "--port", str(port)]
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(JUPYTER_DATA_DIR=str(tmp_path / "jupyter")),
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + 60
        while not answers(f"http://127.0.0.1:{port}/api"):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.2)
        children = children_of(process.pid)
        assert len(children) == 2
        page = httpx.get(address_in(tmp_path / "log"))
        [told] = re.findall(r'id="jupyter-config-data"[^>]*>\s*(\{.*?\})\s*</script>', page.text, re.S)
        config = json.loads(told)
        assert config["news"] == {"disabled": True}  # nobody else is asked for anything
        assert config["extensionManager"]["name"] == "read-only"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert not [child for child in children if Path(f"/proc/{child}").exists()]
        assert len([*(tmp_path / "acs-demo").glob("0*.ipynb")]) == 7
    finally:
        process.kill()
        process.wait()
        log.close()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_the_demo_in_order_however_often_it_is_pressed(tmp_path: Path, times: int) -> None:
    """In a terminal: no traceback, exit code 0, and nothing runs on, the kernel neither."""
    marked = {"JUPYTER_DATA_DIR": str(tmp_path / "data"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "run")}
    options = ["-m", "acs_jupyter", "demo", "--no-browser", "--port", str(free_port())]
    with pexpect.spawn(
        sys.executable, options, cwd=tmp_path, env=environment(**marked), encoding="utf-8", timeout=90
    ) as child:
        child.expect(r"The notebook: (http://[^/]+)\S+token=(\S+)")
        assert child.match is not None
        base, token = child.match.groups()
        child.expect_exact("Ctrl-C ends the server and JupyterLab.")
        header = {"Authorization": f"token {token}"}
        assert httpx.post(f"{base}/api/kernels", json={}, headers=header, timeout=30).status_code == 201
        (file,) = (tmp_path / "run").glob("kernel-*.json")
        wait_for_kernel(file)  # one that has not begun to run would say so loudly
        started = having(str(tmp_path / "run"))
        assert len(started) >= 5  # the command, the server, JupyterLab and its leash, the kernel
        for _ in range(times):
            child.sendintr()
        child.expect(pexpect.EOF)
        child.wait()
        assert (child.exitstatus, child.signalstatus) == (0, None)
        if times == 1:  # a terminal drops what it has not shown yet when Ctrl-C is pressed again
            assert "Ending the server and JupyterLab" in child.before
        assert "Traceback" not in child.before
    until(lambda: not having(str(tmp_path / "run")))


def wait_for_kernel(file: Path) -> None:
    """Until a kernel answers. A busy machine misses heartbeats: a kernel that is said to be dead is asked again."""
    kernel = BlockingKernelClient(connection_file=str(file))
    kernel.load_connection_file()
    kernel.start_channels()
    end = time.monotonic() + 60
    while True:
        try:
            kernel.wait_for_ready(timeout=60)
            break
        except RuntimeError:
            assert time.monotonic() < end
    kernel.stop_channels()


def having(variable: str) -> list[str]:
    """The processes whose environment holds this."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if variable in process.environ().values():
                found.append(" ".join(process.cmdline()))
    return found


def address_in(log: Path) -> str:
    end = time.monotonic() + 20
    while not (found := re.search(r"The notebook: (\S+)", log.read_text())):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found.group(1)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def children_of(parent: int) -> list[str]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def test_the_demo_brings_all_notebooks_and_keeps_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    folder = tmp_path / "acs-demo"
    place = workbooks.work_notebooks(folder)
    assert place.name == "01-first-completion.ipynb"
    ours = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
    assert len(ours) == 7
    for one in ours:
        there, here = (nbformat.read(path, 4) for path in (folder / one.name, one))
        assert there.cells == here.cells
        # They name the kernel that opens them, so that JupyterLab has nothing to write into them.
        version = ".".join(map(str, sys.version_info[:3]))
        assert there.metadata.language_info.version == version
        assert there.metadata.kernelspec.name == "python3"
    # Their outputs are shown with their colours: they are signed.
    assert all(NotebookNotary().check_signature(nbformat.read(one, 4)) for one in folder.glob("*.ipynb"))
    place.write_text("mine")
    (folder / "04-scoring-text.ipynb").unlink()
    assert workbooks.work_notebooks(folder).read_text() == "mine"
    assert (folder / "04-scoring-text.ipynb").exists()
