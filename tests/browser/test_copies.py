"""Whether a copy has arrived: in which pages, in how many places, and what is kept until then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from acs_jupyter import load
from tests.browser.cell_page import SCRIPT, setup
from tests.browser.labkit import PANEL, READY, Notebook
from tests.support.desks import until
from tests.support.servers import Running

Open = Callable[..., Notebook]


def test_a_page_that_was_closed_and_a_kernel_that_was_killed_lose_nothing(
    notebook: Open, page: Page, scripted_server: Running, tmp_path: Path
) -> None:
    folder = tmp_path / "unsaved"
    place = f"import os; os.environ['ACS_UNSAVED'] = {str(folder)!r}; print(os.getpid())"
    nb = notebook(
        f"{setup(scripted_server)}\n{place}",
        f"%%acs --max-tokens 20 -o first\n{SCRIPT}tokens=20 rate=0 alternatives=3",
        f"%%acs --max-tokens 60 -o r\n{SCRIPT}tokens=60 rate=20 alternatives=3",
        "%acs recover",
        "print(len(_acs.tokens), _acs.outcome)",
    )
    nb.run(0)
    kernel = int(nb.printed(0))
    nb.run(1)
    nb.output(1).locator(".acs-static").wait_for(state="attached")
    until(lambda: not list(folder.glob("*")), 20)  # the page has said that it shows it
    nb.save()
    nb.start(2)
    nb.output(2).locator(".acs-t").nth(10).wait_for()
    line = nb.output(2).locator(".acs-wait")
    expect(line).to_have_count(1)
    expect(line).to_be_hidden()  # the window is there
    nb.save()  # else the page asks whether it may be left
    page.goto("about:blank")
    until(lambda: any('"RunClosed"' in file.read_text() for file in folder.glob("*")), 30)
    time.sleep(2)  # the copy went out to nobody
    assert len(list(folder.glob("*"))) == 1
    os.kill(kernel, signal.SIGKILL)
    nb.open(reset=False)
    expect(line).to_be_visible()
    expect(line).to_contain_text("still coming when the notebook was saved")
    expect(nb.output(1).locator(".acs-wait")).to_have_count(0)
    page.wait_for_function(READY, timeout=60_000)
    nb.run(0)
    nb.run(3)
    assert f"from {nb.name} [3]:" in nb.printed(3)
    nb.run(4)
    assert nb.printed(4).split() == ["60", "done"]


def test_a_restart_in_the_middle_of_the_first_cell_loses_nothing(
    notebook: Open, page: Page, scripted_server: Running, tmp_path: Path
) -> None:
    """The kernel is interrupted and ended in order, before it has heard that there is a page: that hears no more."""
    place = f"import os; os.environ['ACS_UNSAVED'] = {str(tmp_path / 'unsaved')!r}"
    nb = notebook(
        f"{place}\n{setup(scripted_server)}",
        f"%%acs --max-tokens 9000 -o r\n{SCRIPT}tokens=9000 rate=60 alternatives=3",
        "%acs recover",
        "print(len(_acs.tokens), _acs.outcome)",
    )
    nb.run(0)
    nb.start(1)
    nb.output(1).locator(".acs-t").nth(40).wait_for()
    page.evaluate(f"() => {PANEL}.sessionContext.session.kernel.restart().then(() => null)")
    expect(nb.output(1).locator(".acs-told")).to_contain_text("%acs recover")
    page.wait_for_function(READY, timeout=60_000)
    shown = nb.output(1).locator(".acs-t").count()
    nb.run(0)
    assert "note: 1 text of a kernel that ended early" in nb.printed(0)
    nb.run(2)
    nb.run(3)
    count, outcome = nb.printed(3).split()
    assert int(count) >= shown
    assert outcome == "stopped"


def test_a_cell_that_was_moved_in_mid_run_says_what_the_notebook_lacks(
    notebook: Open, page: Page, root: Path, scripted_server: Running
) -> None:
    """JupyterLab gives a cell that is taken away and put back its window, and no change to what it displayed."""
    nb = notebook(
        setup(scripted_server),
        f"%%acs --max-tokens 150 -o r\n{SCRIPT}tokens=150 rate=60 alternatives=3",
        f"%%acs --max-tokens 10\n{SCRIPT}tokens=10",
        "%acs last r",
    )
    nb.run(0)
    nb.start(1)
    nb.output(1).locator(".acs-t").nth(10).wait_for()
    nb.command("notebook:delete-cell")
    nb.command("notebook:undo-cell-action")
    expect(nb.output(1).locator(".acs-run[data-outcome=done] .acs-t")).to_have_count(150)
    notice = nb.output(1).locator(".acs-notice")
    expect(notice).to_contain_text("%acs last writes one")
    nb.run(2)
    page.wait_for_timeout(1500)
    assert nb.output(2).locator(".acs-notice").is_hidden()
    nb.run(3)
    expect(notice).to_be_hidden()
    nb.save()
    assert sorted(len(one.tokens) for one in load(root / nb.name)) == [10, 150]


def test_what_is_shown_twice_has_its_copy_in_both_places(
    notebook: Open, page: Page, root: Path, scripted_server: Running
) -> None:
    nb = notebook(
        setup(scripted_server),
        f"from acs_jupyter import Compare, Workbench\nbench = Workbench(prompt={SCRIPT + 'tokens=12'!r})\nbench",
        "bench",
        f"board = Compare({SCRIPT + 'tokens=9'!r}, [{{}}, {{'seed': 1}}])\nboard",
        "board",
        "board.run().wait(); None",
    )
    for index in range(6):
        nb.run(index)
    nb.output(2).get_by_role("button", name="Run", exact=True).click()
    for index in (1, 2, 3, 4):
        nb.output(index).locator(".acs-static pre").first.wait_for(state="attached")
    texts = [nb.output(index).locator(".acs-static pre").all_inner_texts() for index in (1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert texts[2] == texts[3]
    assert all(texts)
    nb.save()
    # Each run is listed once, though its record stands in two outputs.
    assert sorted(len(one.tokens) for one in load(root / nb.name)) == [9, 9, 12]
