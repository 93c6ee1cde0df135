"""Ctrl+S saves the notebook wherever the focus is, and letters stay with what has the focus."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as TooLate

from tests.browser.cell_page import SCRIPT, setup
from tests.browser.cells import SETUP
from tests.browser.labkit import Notebook
from tests.support.servers import Running

Open = Callable[..., Notebook]
NOTEBOOK = "window.jupyterapp.shell.currentWidget"
CELL = """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a", seed=7)); session.apply([head("a")])
for made in tokens(20): session.apply([arrived("a.0", made)])
session.apply([ev.Finished("a.0", "length"), ev.Spent("a", 3, 20), ev.RunClosed("a", "done")])
"""
LONG = "\\n".join(f"line {n}" for n in range(60))


def saves(nb: Notebook, page: Page, file: Path, focused: Locator, word: str) -> None:
    """The file gets what was changed in the notebook, and no cell is touched by a letter."""
    page.evaluate(f"word => {NOTEBOOK}.content.widgets[0].model.setMetadata('word', word)", word)
    page.wait_for_function(f"() => {NOTEBOOK}.context.model.dirty")
    focused.focus()
    expect(focused).to_be_focused()
    for _ in range(6):  # JupyterLab drops it while the save before is still under way
        page.keyboard.press("Control+s")
        with contextlib.suppress(TooLate):
            page.wait_for_function(f"() => !{NOTEBOOK}.context.model.dirty", timeout=5000)
            break
    assert json.loads(file.read_text())["cells"][0]["metadata"]["word"] == word
    cells = page.evaluate(f"{NOTEBOOK}.content.widgets.length")
    for key in ("b", "x", "Escape"):
        page.keyboard.press(key)
    assert page.evaluate(f"[{NOTEBOOK}.content.widgets.length, {NOTEBOOK}.content.mode]") == [
        cells,
        "command",
    ]


def test_control_s_saves_from_a_token(notebook: Open, page: Page, root: Path) -> None:
    nb = notebook(SETUP, CELL)
    nb.run(0)
    nb.run(1)
    token = nb.output(1).locator(".acs-t").nth(3)
    token.wait_for()
    saves(nb, page, root / nb.name, nb.output(1).locator(".acs-t[tabindex='0']"), "from a token")
    token.click()  # pinned: the focus is in the tooltip
    saves(nb, page, root / nb.name, nb.output(1).locator(".acs-tip"), "from a tooltip")


def test_control_s_saves_from_a_loom_and_a_workbench(
    notebook: Open, page: Page, root: Path, scripted_server: Running
) -> None:
    nb = notebook(
        setup(scripted_server),
        f"from acs_jupyter import Loom, Workbench\nloom = Loom({SCRIPT + 'tokens=5'!r}, max_tokens=5)\nloom",
        f"Workbench(prompt={SCRIPT + 'tokens=400'!r} + '\\n' + '{LONG}\\n', max_tokens=400)",
    )
    for index in range(3):
        nb.run(index)
    row = nb.output(1).locator(".acs-loom-row").first
    row.wait_for()
    saves(nb, page, root / nb.name, row, "from a row")
    box = nb.output(2).get_by_label("Prompt")
    box.wait_for()
    saves(nb, page, root / nb.name, box, "from a box")
    nb.output(2).get_by_role("button", name="Run", exact=True).click()
    nb.output(2).locator(".acs-run[data-outcome=done]").wait_for()
    box.evaluate("e => e.scrollTop = 0")
    nb.output(2).get_by_role("button", name="Continue", exact=True).click()
    assert box.evaluate("e => e.scrollHeight - e.clientHeight - e.scrollTop") < 2  # the seam is in sight


def test_stop_leaves_the_focus_at_its_run(notebook: Open, page: Page, scripted_server: Running) -> None:
    nb = notebook(
        setup(scripted_server),
        f"from acs_jupyter import Workbench\n"
        f"Workbench(prompt={SCRIPT + 'tokens=30000 rate=50'!r}, max_tokens=30000)",
    )
    nb.run(0)
    nb.run(1)
    nb.output(1).get_by_role("button", name="Run", exact=True).click()
    nb.output(1).locator(".acs-t").nth(10).wait_for()
    nb.output(1).get_by_role("button", name="Stop", exact=True).click()
    run = nb.output(1).locator(".acs-run[data-outcome=stopped]")
    run.wait_for()
    expect(run.locator(".acs-status")).to_be_focused()
