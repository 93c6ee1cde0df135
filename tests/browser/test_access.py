"""Every window in one notebook, under the settings of people who see, read or move otherwise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.browser.axe import AXE
from tests.browser.cell_page import setup
from tests.browser.conftest import VIEW
from tests.browser.labkit import CHECKOUT, Notebook, shoot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.support.servers import Running

ASKED = CHECKOUT / "tests" / "browser" / "access.js"
MIXED = "مرحبا بالعالم 123, שלום עולם (abc) 版本二、漢字 🎉👩‍👩‍👧 end"
SAYS = f'#scripted say="{MIXED}" alternatives=4\n'
PROMPT = f"{SAYS}قال: "
CELLS = (
    f"%%acs --max-tokens 60 -n 2 -o mixed\n{PROMPT}",
    "%%acs --bg --max-tokens 9000\n#scripted rate=4 tokens=9000",
    f"from acs_jupyter import Workbench\nbench = Workbench(prompt={PROMPT!r}, max_tokens=30)\nbench",
    "from acs_jupyter import Inspector\nInspector(mixed)",
    f"from acs_jupyter import Compare\nboard = Compare({PROMPT!r}, max_tokens=60, lanes=[{{'name': 'דרך'}},"
    "{'temperature': 1.2, 'n': 2}])\nboard.run().wait()\nboard",
    f"from acs_jupyter import Client, Loom\nloom = Loom({PROMPT!r}, client=Client(), max_tokens=20)\nfirst, *_ = loom.grow(loom.roots[0], 3)\n"
    "loom.mark(first, tags=['סימן'])\nloom",
    "%acs budget --limit 20000\nfrom acs_jupyter import BudgetMeter\nBudgetMeter()",
    "%%acs --job -o night --max-tokens 600 --job-tag לילה\n#scripted rate=15\nقال:",
    "from acs_jupyter import JobBoard\nJobBoard()",
    f"from acs_jupyter import rollout\nrollout([{PROMPT!r}], max_tokens=4, into='שלום.acs.db')",
    "slow = rollout(['#scripted rate=2 tokens=900'] * 9, max_tokens=900, into='slow.acs.db', bg=True)",
)
ROOTS = {
    "live": (1, ".acs-live"),
    "running": (2, ".acs-live"),
    "workbench": (3, ".acs-bench"),
    "inspector": (4, ".acs-inspector"),
    "compare": (5, ".acs-compare"),
    "loom": (6, ".acs-loom"),
    "budget": (7, ".acs-budget"),
    "job": (8, ".acs-jobs"),
    "jobs": (9, ".acs-jobs"),
    "rollout": (10, "div:has(> progress)"),
    "moving rollout": (11, ".jupyter-widgets.widget-hbox"),
}


class Room:
    """The page, and what it answers of every window."""

    def __init__(self, nb: Notebook, page: Page) -> None:
        self.nb, self.page = nb, page
        for script in (AXE, ASKED):
            page.evaluate(script.read_text())

    def window(self, name: str) -> Locator:
        index, selector = ROOTS[name]
        return self.nb.output(index).locator(selector).first

    def ask(self, question: str) -> dict[str, list[str]]:
        """The complaints of every window that has any."""
        told = {name: self.window(name).evaluate(f"root => acsAccess.{question}(root)") for name in ROOTS}
        return {name: found for name, found in told.items() if found}

    def clean(self, question: str) -> None:
        """Nobody complains, at the latest when the page has come to rest."""
        end = time.monotonic() + 10
        while found := self.ask(question):
            assert time.monotonic() < end, (question, found)
            self.page.wait_for_timeout(200)

    def fits(self) -> None:
        """No control is cut off or lies on another, and the page does not scroll sideways."""
        self.clean("laidOut")
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def pictures(self, setting: str) -> None:
        for name in ("live", "workbench", "compare", "loom", "jobs", "moving rollout"):
            self.window(name).scroll_into_view_if_needed()
            self.page.evaluate(DRAWN)  # what comes into view is drawn in the next frame
            shoot(self.page, f"access-{setting}-{name.replace(' ', '-')}")


def test_every_window_under_the_settings_of_many(
    notebook: Callable[..., Notebook], page: Page, scripted_server: Running, tmp_path: Path
) -> None:
    own = {name: str(tmp_path / name) for name in ("ACS_LEDGER", "ACS_JOURNAL")} | {"ACS_UNSAVED": "off"}
    first = setup(scripted_server).replace(
        "\n%load", f"\nos.environ |= {own!r}\nos.chdir({str(tmp_path)!r})\n%load"
    )
    nb = notebook(first, *CELLS)
    for index in range(len(CELLS) + 1):
        nb.run(index, timeout=60_000)
    room = Room(nb, page)
    for name in ROOTS:
        room.window(name).wait_for()

    assert {"running", "budget", "jobs"} <= room.ask("moving").keys()  # it would be told
    page.emulate_media(reduced_motion="reduce")
    room.clean("moving")
    page.emulate_media(reduced_motion="no-preference")

    # Each text has its own direction, and takes along neither what stands beside it nor a control.
    assert room.window("live").locator(".acs-text").first.evaluate(START) == "right"
    assert room.window("running").locator(".acs-text").first.evaluate(START) == "left"
    room.clean("entangled")
    room.clean("rightToLeft")

    page.emulate_media(forced_colors="active")
    room.clean("violations")
    room.pictures("forced")
    page.emulate_media(forced_colors="none")
    for theme in ("dark high contrast", "light"):
        nb.theme(theme)
        room.clean("violations")
        room.pictures(theme.split()[0])

    page.set_viewport_size({"width": VIEW["width"] // 2, "height": VIEW["height"] // 2})  # 200 %
    room.fits()
    room.pictures("zoom")
    page.set_viewport_size(VIEW)
    room.fits()
    room.ask("enlarge")  # 200 %, of the text alone
    room.fits()
    room.pictures("text")


DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))))"
START = """text => {
  const walk = document.createTreeWalker(text, NodeFilter.SHOW_TEXT, one => one.data.trim() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP);
  const letter = document.createRange();
  const at = walk.nextNode().data.search(/\\S/);
  letter.setStart(walk.currentNode, at);
  letter.setEnd(walk.currentNode, at + 1);
  const [own, first] = [text.getBoundingClientRect(), letter.getBoundingClientRect()];
  return first.left - own.left < own.right - first.right ? "left" : "right";
}"""
"""Where a text begins."""
