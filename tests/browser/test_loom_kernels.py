"""The loom and its kernel: busy, killed, a second one on the same file, a reloaded page; several windows."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from acs_jupyter import Loom
from tests.browser.cell_page import SCRIPT, setup
from tests.browser.labkit import PANEL, READY, Notebook, write_notebook
from tests.browser.loom_page import Desk
from tests.support.servers import Running

Open = Callable[..., Notebook]
SLOW = f"{SCRIPT}tokens=4000 rate=60 alternatives=2\nOnce"
MADE = f"from acs_jupyter import Loom\nloom = Loom({SLOW!r}, max_tokens=4000)\nloom"


def save_when_copied(nb: Notebook, index: int, text: str) -> None:
    """Save when the copy below a window holds a text: it is written a moment after a change, and a change is unsaved."""
    nb.page.wait_for_function(
        f"([index, text]) => JSON.stringify({PANEL}.content.widgets[index].model.outputs.toJSON()).includes(text)",
        arg=[index, text],
    )
    nb.save()


def test_a_busy_kernel_shows_its_loom(notebook: Open, page: Page, root: Path) -> None:
    """The page cannot ask for the window's script while the next cell runs; it comes by itself, and so do events."""
    go = root / "go-on"
    go.unlink(missing_ok=True)
    nb = notebook(
        "from acs_jupyter import Loom\nloom = Loom('Once')\nloom",
        "import os, time\nchild = loom.new_child(loom.roots[0], ' more')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)\nloom.new_child(child, ' and more')",
    )
    nb.start(0)
    nb.start(1)
    desk = Desk(nb, page, 0)
    desk.settled(2)
    assert page.evaluate(f"{PANEL}.content.widgets[1].model.executionState") == "running"
    desk.rows.nth(1).click()
    expect(desk.loom.locator(".acs-loom-here")).to_have_text(" more")
    go.touch()
    desk.settled(3)
    nb.wait(1)


def test_killed_in_the_middle_and_opened_again(
    notebook: Open, page: Page, scripted_server: Running, root: Path
) -> None:
    (root / "killed.loom").unlink(missing_ok=True)
    nb = notebook(
        setup(scripted_server),
        MADE,
        "import os; loom.keep('killed.loom'); print(os.getpid())",
        "from acs_jupyter import Loom\nloom = Loom.open('killed.loom')\nloom",
    )
    for index in range(3):
        nb.run(index)
    desk = Desk(nb, page)
    desk.rows.first.focus()
    desk.keys("2")
    expect(desk.cards).to_have_count(2)
    expect(desk.cards.nth(1).locator(".acs-t").nth(30)).to_be_attached()
    seen = [desk.cards.nth(i).locator(".acs-t").count() for i in range(2)]
    os.kill(int(nb.printed(2)), signal.SIGKILL)
    expect(desk.loom.locator(".acs-told")).to_contain_text("kernel")
    page.locator(".jp-Dialog button.jp-mod-accept").click()  # JupyterLab says that a kernel died
    page.wait_for_function(READY, timeout=60_000)
    nb.run(3)
    again = Desk(nb, page, 3)
    again.settled(3)
    again.rows.first.click()
    for place, before in enumerate(seen):
        kept = again.cards.nth(place).locator(".acs-t")
        expect(kept.nth(before - 1)).to_be_attached()  # nothing that was seen is lost
        expect(again.cards.nth(place).locator(".acs-finish")).to_contain_text("interrupted")


def test_a_second_kernel_is_told_and_may_look(notebook: Open, page: Page, root: Path, base: str) -> None:
    (root / "shared.loom").unlink(missing_ok=True)
    made = "from acs_jupyter import Loom\nloom = Loom('Once')\nloom.keep('shared.loom')\nloom"
    nb = notebook(made, "loom.new_child(loom.roots[0], ' one')")
    nb.run(0)
    nb.run(1)
    first = Desk(nb, page, 0)
    first.settled(2)
    save_when_copied(nb, 0, " one</pre>")
    write_notebook(
        root / "second.ipynb",
        [
            "from acs_jupyter import Loom\ntry:\n    Loom.open('shared.loom')\n"
            "except Exception as error:\n    print(error)",
            "look = Loom.open('shared.loom', read_only=True)\nlook",
        ],
    )
    other = Notebook(page, base, "second.ipynb").open()
    other.run(0)
    told = other.printed(0)
    assert "being written" in told
    assert "read_only=True" in told
    assert "\n" not in told.strip()
    other.run(1)
    desk = Desk(other, page, 1)
    desk.settled(2)
    desk.rows.nth(1).click()
    desk.keys("Delete")
    expect(desk.loom.locator(".acs-loom-said")).to_contain_text("opened to look at")
    desk.settled(2)
    assert len(Loom.open(root / "shared.loom", read_only=True).nodes) == 2


def test_two_windows_on_one_loom(notebook: Open, page: Page, scripted_server: Running) -> None:
    prompt = f"{SCRIPT}tokens=12 alternatives=3\nOnce upon a time"
    nb = notebook(
        setup(scripted_server),
        f"from acs_jupyter import Loom\nloom = Loom({prompt!r}, max_tokens=12)\nloom.show(height=300)",
        "loom.show(height=300)",
        "import json; print(json.dumps([loom.selected, len(loom.nodes)]))",
    )
    page.set_viewport_size({"width": 1200, "height": 1800})  # JupyterLab takes cells out of view off the page
    for index in range(3):
        nb.run(index)
    one, two = Desk(nb, page, 1), Desk(nb, page, 2)
    one.settled(1)
    two.settled(1)
    one.rows.first.focus()
    one.keys("3")
    one.settled(4)
    two.settled(4)
    two.rows.nth(2).click()
    expect(two.loom.locator(".acs-loom-here .acs-t")).to_have_count(12)
    expect(one.current).to_have_attribute("aria-level", "1")  # each has a cursor of its own
    two.keys("b", " ")
    expect(one.rows.nth(2)).to_have_class(re.compile("acs-loom-lit"))
    expect(one.rows.nth(2)).to_have_attribute("aria-label", re.compile("bookmarked"))
    one.rows.nth(1).click()
    one.keys("Delete")
    two.settled(3)
    two.keys("u")
    one.settled(4)
    nb.run(3)
    assert json.loads(nb.printed(3))[1] == 4
    one.rows.first.focus()
    one.keys("n")
    one.write("the last change", "Control+Enter")
    for index in (1, 2):
        save_when_copied(nb, index, "the last change")
    nb.open(reset=False)
    for desk in (one, two):
        desk.settled(4)
