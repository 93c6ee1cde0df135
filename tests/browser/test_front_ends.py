"""Notebook 7, Voila and marimo: the same cells and windows in front ends that are not JupyterLab."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from acs_jupyter import load
from tests.browser.cell_page import ENDED, SCRIPT, setup, text_of
from tests.browser.labkit import Notebook, answers, painted, point_at, shoot, write_notebook
from tests.support.desks import until
from tests.support.ports import free_port
from tests.support.servers import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.support.servers import Running

ENDLESS = f"%%acs --max-tokens 30000 -o partial\n{SCRIPT}tokens=30000 rate=100 alternatives=3"
PARIS = "%%acs -t 0 --max-tokens 12 -o paris\nThe capital of France is"


WINDOWS = {
    ".acs-inspector": "Inspector(paris)",
    ".acs-loom": "Loom(paris, client=Client())",
    ".acs-bench": "Workbench(prompt='Once upon a time')",
    ".acs-compare": "Compare('Once upon a time', [{}, {'temperature': 1.2}], max_tokens=8)",
    ".acs-budget": "BudgetMeter()",
    ".acs-jobs": "JobBoard()",
}
NAMES = "Client, BudgetMeter, Compare, Inspector, JobBoard, Loom, Workbench"
EACH = [f"from acs_jupyter import {NAMES}\n{window}" for window in WINDOWS.values()]


def seen(page: Page, name: str) -> None:
    """Each window is there in full; a picture of each."""
    for selector in WINDOWS:
        window = page.locator(selector).first
        window.scroll_into_view_if_needed()
        expect(window).to_contain_text(re.compile(r"\w"))
        box = window.bounding_box()
        assert box is not None
        assert box["width"] > 300, selector
        shoot(page, f"{name}{selector.replace('.acs', '')}")


def asked(page: Page) -> None:
    """What is pressed reaches Python, and the answer comes back."""
    bench = page.locator(".acs-bench")
    bench.get_by_role("spinbutton", name="max_tokens").or_(bench.get_by_label("max_tokens")).first.fill("4")
    bench.get_by_role("button", name="Run", exact=True).click()
    bench.locator(".acs-run[data-outcome=done]").wait_for(timeout=60_000)


def whole(nb: Notebook, path: Path, runs: int) -> bool:
    """Whether the notebook has so many when it is saved now: a last copy comes a moment after its run's end."""
    nb.save()
    return len(load(path)) >= runs


@pytest.fixture
def other_page(browser: Browser) -> Iterator[Page]:
    """A page of a front end that may have trouble of its own (Notebook 7.6 has, with settings); ours fails the test."""
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    trouble: list[str] = []
    opened.on("pageerror", lambda error: trouble.append(f"{error} {error.stack}"))
    yield opened
    opened.close()
    assert not [one for one in trouble if "blob:" in one or "acs" in one]


def test_notebook_7_streams_stops_saves_and_reopens(
    other_page: Page, base: str, root: Path, smollm_server: Running, scripted_server: Running
) -> None:
    page = other_page
    name = "notebook-7.ipynb"
    again = setup(scripted_server).replace("%load_ext acs_jupyter", "")
    write_notebook(
        root / name, (setup(smollm_server), PARIS, again, ENDLESS, "print(len(partial.tokens))", *EACH)
    )
    nb = Notebook(page, base, name).open(at=f"notebooks/{name}", reset=False)
    try:
        assert page.evaluate("jupyterapp.name") == "Jupyter Notebook"
        nb.run(0)
        nb.run(1, timeout=60_000)
        page.wait_for_function(f"{ENDED} === 'done'")
        text = text_of(nb, 1)
        assert text.startswith(" Paris")
        assert not nb.output(1).locator(".acs-beside").is_visible()
        point_at(nb.output(1).locator(".acs-t").first)
        tip = nb.output(1).locator(".acs-tip")
        tip.wait_for(state="visible")
        shoot(page, "notebook-7")
        nb.output(1).locator(".acs-t").first.click()  # it stays, and can be pointed at
        assert painted(tip.locator("tr").first)
        page.keyboard.press("Escape")
        nb.run(2)
        nb.start(3)
        nb.output(3).locator(".acs-t").nth(30).wait_for()
        nb.output(3).get_by_role("button", name="Stop").click()
        nb.output(3).locator(".acs-run[data-outcome=stopped]").wait_for()
        nb.wait(3)
        nb.run(4)
        assert int(nb.printed(4)) == nb.output(3).locator(".acs-t").count() >= 30
        for index in range(5, 5 + len(EACH)):
            nb.run(index)
        seen(page, name.partition(".")[0])
        asked(page)
        until(lambda: whole(nb, root / name, 3), 20)
    finally:
        nb.end_kernels()
    assert [one.outcome for one in load(root / name)] == ["done", "stopped", "done"]
    page.goto("about:blank")
    nb.open(at=f"notebooks/{name}", reset=False, kernel=False)
    copy = nb.output(1).locator(".acs-beside pre")
    copy.wait_for()
    assert copy.text_content() == text
    assert copy.locator("[title*='Paris']").count() >= 1
    shoot(page, "notebook-7-reopened")


def test_voila_shows_the_live_cell_and_its_tooltips(
    other_page: Page, base: str, root: Path, smollm_server: Running
) -> None:
    write_notebook(
        root / "voila.ipynb",
        (setup(smollm_server), PARIS, *EACH),
    )
    page = other_page
    page.goto(f"{base}/voila/render/voila.ipynb", timeout=90_000)
    live = page.locator(".acs-live .acs-text").first
    live.wait_for(timeout=60_000)
    assert (live.text_content() or "").startswith(" Paris")
    assert not page.locator(".acs-beside").first.is_visible()
    point_at(page.locator(".acs-live .acs-t").first)
    page.locator(".acs-live .acs-tip").first.wait_for(state="visible")
    shoot(page, "voila")
    seen(page, "voila")
    asked(page)


MARIMO = """
import marimo

app = marimo.App()


@app.cell
def _():
    from acs_jupyter import Client, BudgetMeter, Compare, Inspector, JobBoard, Loom, Workbench

    client = Client()
    return Client, BudgetMeter, Compare, Inspector, JobBoard, Loom, Workbench, client


@app.cell
def _(client):
    completion = client.complete("The capital of France is", max_tokens=8, temperature=0, logprobs=5)
    completion
    return (completion,)


@app.cell
def _(Inspector, completion):
    Inspector(completion)
    return


@app.cell
def _(Loom, client, completion):
    loom = Loom(completion, client=client)
    loom
    return


@app.cell
def _(Workbench):
    Workbench(prompt="Once upon a time")
    return


@app.cell
def _(Compare):
    Compare("Once upon a time", [{}, {"temperature": 1.2}], max_tokens=8)
    return


@app.cell
def _(BudgetMeter):
    BudgetMeter()
    return


@app.cell
def _(JobBoard):
    JobBoard()
    return


@app.cell
def _(client):
    for token in client.stream("The capital of France is", max_tokens=8, temperature=0):
        print(token.text, end="")
    return


if __name__ == "__main__":
    app.run()
"""


@contextmanager
def marimo(folder: Path, **more: str) -> Iterator[str]:
    """marimo in its run mode over the notebook in ``folder``; its address."""
    (folder / "page.py").write_text(MARIMO)
    port = free_port()
    command = [sys.executable, "-m", "marimo", "--quiet", "run", "page.py", "--headless", "--no-token"]
    known = {"MARIMO_SKIP_UPDATE_CHECK": "1", "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder, env=environment(**known, **more), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            end = time.monotonic() + 60
            while not answers(f"http://127.0.0.1:{port}/health"):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def test_marimo_shows_texts_and_windows(other_page: Page, tmp_path: Path, smollm_server: Running) -> None:
    """No magics there: a completion is its static view, windows are live."""
    with marimo(tmp_path, ACS_API_BASE=smollm_server.base, ACS_API_KEY=smollm_server.key) as address:
        page = other_page
        page.goto(address)
        static = page.locator(".acs-static pre").last
        static.wait_for(timeout=60_000)
        assert (static.text_content() or "").startswith(" Paris")
        inspector = page.locator(".acs-inspector")
        inspector.wait_for(timeout=60_000)
        inspector.locator(".acs-t").first.wait_for()
        # A window stands in a shadow tree there, where the page's style sheets do not count.
        tint = inspector.locator(".acs-t").first.evaluate("e => getComputedStyle(e).fontFamily")
        assert "mono" in tint
        inspector.locator(".acs-t").first.click()
        inspector.get_by_text("77.2 %").first.wait_for()
        page.locator(".acs-loom").wait_for(timeout=60_000)
        page.wait_for_timeout(500)
        shoot(page, "marimo")
        seen(page, "marimo")
        asked(page)
