"""JupyterLab and a browser for tests: a server of its own, a notebook page, waits that ask the application.

The page's status dot says "idle" before a run can be served, and while a cell runs; nothing here reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHECKOUT = Path(__file__).parent.parent.parent
SCREENSHOTS = CHECKOUT / "tests" / "screenshots"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
IPYKERNEL_6 = os.environ.get("IPYKERNEL_6", "")
"""A folder with ipykernel 6 and what it needs beside this environment's packages."""
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
LAB_ARGS = [
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    "--ServerApp.port_retries=0",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    "--ServerApp.disable_check_xsrf=True",
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--LabApp.expose_app_in_browser=True",
    "--JupyterNotebookApp.expose_app_in_browser=True",  # Notebook 7, which the same server serves
]
QUIET = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
DARK = {"apputils-extension/themes": {"theme": "JupyterLab Dark"}}

PANEL = "window.jupyterapp.shell.currentWidget"
READY = f"""async () => {{
  const panel = window.jupyterapp && {PANEL};
  if (!panel || !panel.context || !panel.sessionContext) return false;
  await panel.context.ready;
  await panel.sessionContext.ready;
  const kernel = panel.sessionContext.session && panel.sessionContext.session.kernel;
  if (!kernel) return false;
  await kernel.info;
  return kernel.connectionStatus === "connected" && kernel.status === "idle";
}}"""
INSTEAD = """async path => {
  const { shell, commands } = window.jupyterapp;
  for (const widget of [...shell.widgets("main")]) {
    if (widget.context) widget.context.model.dirty = false;  // else it is asked whether to save
    widget.close();
  }
  for (let wait = 0; [...shell.widgets("main")].length && wait < 50; wait++) await new Promise(go => setTimeout(go, 20));
  if (path) await commands.execute("docmanager:open", { path });
}"""
FINISHED = f"""index => {{
  const cell = {PANEL}.content.widgets[index].model;
  return cell.executionState === "idle" && cell.executionCount !== null;
}}"""


def lab_environment(home: Path) -> dict[str, str]:
    """No setting of the user leaks in; the kernel imports this checkout."""
    names = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, **{name: str(home / folder) for name, folder in names.items()}, "PYTHONPATH": path}


@contextlib.contextmanager
def lab(root: Path, settings: Mapping[str, Mapping[str, Any]] = {}) -> Iterator[str]:
    """A JupyterLab over ``root``; gives its address. ``settings``: plugin to its user settings."""
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for plugin, values in {**QUIET, **settings}.items():
            name = plugin if plugin.startswith("@") else f"@jupyterlab/{plugin}"
            file = home / "settings" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        _add_ipykernel_6(home / "data")
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            *LAB_ARGS,
            f"--port={port}",
            f"--ServerApp.root_dir={root}",
        ]
        with (home / "lab.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env=lab_environment(home),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            base = f"http://127.0.0.1:{port}"
            _wait_for_server(process, base, home / "lab.log")
            yield base
        finally:
            _stop(process)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, headless."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        try:
            yield browser
        finally:
            browser.close()


def write_notebook(path: Path, cells: Sequence[str], kernel: str = "python3") -> None:
    """A notebook of code cells."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
    )
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    nbformat.write(notebook, path)


def in_lab(page: Page, base: str) -> bool:
    """Whether a page shows the JupyterLab of a server, with a document or none."""
    return page.url.startswith((f"{base}/doc", f"{base}/lab")) and page.locator(".jp-LabShell").count() == 1


class Notebook:
    """A notebook in a page."""

    def __init__(self, page: Page, base: str, name: str) -> None:
        self.page = page
        self.base = base
        self.name = name

    def open(
        self, *, reset: bool = True, kernel: bool = True, at: str = "", within: bool = False
    ) -> Notebook:
        """Show the notebook alone, or ``at`` another path; without ``reset`` it is a plain reload.

        ``within``: in the JupyterLab that the page shows, if it shows one, in place of what is open there.
        """
        place = at or f"doc/tree/{self.name}"
        if within and in_lab(self.page, self.base):
            self.page.evaluate(INSTEAD, self.name)
        else:
            self.page.goto(f"{self.base}/{place}{'?reset' if reset else ''}")
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        if kernel:
            self.page.wait_for_function(READY, timeout=60_000)
        return self

    def theme(self, name: str) -> None:
        """Have the lab drawn in a theme, such as ``dark``; it stays so for the pages that come."""
        full = f"JupyterLab {name.title()}"
        if self.page.evaluate("document.body.dataset.jpThemeName") == full:
            return
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => null)",
            full,
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=full)
        self.page.wait_for_timeout(300)  # its style sheet comes

    def in_both_themes(self) -> Iterator[str]:
        """Draw what is there in one theme after the other, and tell which; the light one stays."""
        for name in ("dark", "light"):
            self.theme(name)
            yield name

    def start(self, index: int) -> None:
        """Run a cell without waiting for it."""
        self.page.evaluate(
            f"""index => {{
              const notebook = {PANEL}.content;
              notebook.activeCellIndex = index;
              notebook.deselectAll();
              void window.jupyterapp.commands.execute("notebook:run-cell");
            }}""",
            index,
        )

    def wait(self, index: int, timeout: float = 30_000) -> None:
        """Wait until a cell has its reply."""
        self.page.wait_for_function(FINISHED, arg=index, timeout=timeout)

    def run(self, index: int, timeout: float = 30_000) -> None:
        """Run a cell and wait for it."""
        self.start(index)
        self.wait(index, timeout)

    def command(self, name: str) -> None:
        """Execute a command of the application and wait for it."""
        self.page.evaluate("name => window.jupyterapp.commands.execute(name).then(() => null)", name)

    def save(self) -> None:
        """Save; the file is complete when this returns."""
        self.command("docmanager:save")
        self.page.wait_for_function(f"() => !{PANEL}.context.model.dirty")
        self.page.wait_for_timeout(500)

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """A cell's outputs, as the notebook would save them."""
        found: list[dict[str, Any]] = self.page.evaluate(
            f"index => {PANEL}.content.widgets[index].model.outputs.toJSON()", index
        )
        return found

    def printed(self, index: int) -> str:
        """What a cell has printed."""
        return "".join(
            "".join(o.get("text", "")) for o in self.outputs(index) if o["output_type"] == "stream"
        )

    def output(self, index: int) -> Locator:
        """A cell's output area."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")

    def end_kernels(self) -> None:
        """Shut every kernel of the server down."""
        with urllib.request.urlopen(f"{self.base}/api/sessions") as answer:
            sessions = json.load(answer)
        for session in sessions:
            request = urllib.request.Request(f"{self.base}/api/sessions/{session['id']}", method="DELETE")
            urllib.request.urlopen(request).close()


def point_at(element: Locator) -> None:
    """Move the mouse onto an inline element. It may be broken over two lines: its middle is then not its own."""
    element.scroll_into_view_if_needed()
    place = element.evaluate(
        """e => { const b = [...e.getClientRects()].at(-1); return [b.left + b.width / 2, b.top + b.height / 2]; }"""
    )
    element.page.mouse.move(*place)


ON_TOP = """element => {
  const box = element.getBoundingClientRect();
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return box.width > 0 && top !== null && (top === element || element.contains(top));
}"""


def painted(element: Locator, *, scroll: bool = False, seconds: float = 0.0) -> bool:
    """Whether an element is really on top at its centre, neither clipped nor covered, now or within some seconds, where
    what is beside it may still get its size. ``scroll``: it is brought into view first."""
    last = time.monotonic() + seconds
    while True:
        if scroll:
            element.scroll_into_view_if_needed()
        found = bool(element.evaluate(ON_TOP))
        if found or time.monotonic() >= last:
            return found
        element.page.wait_for_timeout(100)


def shoot(page: Page, name: str) -> None:
    """Keep a picture of the page."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=str(SCREENSHOTS / f"{name}.png"))


def _add_ipykernel_6(data: Path) -> None:
    """A second kernel of the same Python with the ipykernel that ``tests/run`` has put aside."""
    if not IPYKERNEL_6:
        return
    path = os.pathsep.join(filter(None, [IPYKERNEL_6, str(CHECKOUT), os.environ.get("PYTHONPATH")]))
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "ipykernel 6",
        "language": "python",
        "env": {"PYTHONPATH": path},
    }
    folder = data / "kernels" / "ipykernel6"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(spec))


def answers(url: str) -> bool:
    """Whether there is a page; a refusal is closed, too."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refusal:
        refusal.close()
    except OSError:
        pass
    return False


def _wait_for_server(process: subprocess.Popen[bytes], base: str, log: Path) -> None:
    for _ in range(300):
        if answers(f"{base}/api/status"):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        process.send_signal(sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.3 if sign == signal.SIGINT else 5)
    if process.poll() is None:
        process.kill()
        process.wait(5)
