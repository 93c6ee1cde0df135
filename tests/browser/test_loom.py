"""The loom in JupyterLab, worked by the keyboard alone, in both themes; then with the small model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from acs_jupyter import Loom
from acs_jupyter.loom_file import read
from tests.browser.labkit import CHECKOUT, DARK, Notebook, lab, shoot, write_notebook
from tests.browser.test_cell import SCRIPT, setup
from tests.support.servers import Running

AXE = CHECKOUT / "js" / "node_modules" / "axe-core" / "axe.min.js"
PROMPT = f"{SCRIPT}tokens=12 alternatives=3\nOnce upon a time"
CELLS = (
    f"from acs_jupyter import Loom\nloom = Loom({PROMPT!r}, max_tokens=12)\nloom",
    "import json; print(json.dumps([[n, loom.parent(n), loom.own_text(n), loom.marks(n)] for n in loom.nodes]))",
    "print(json.dumps([loom.selected, loom.hoisted, str(loom.file)]))",
    "loom.select(loom.frame().query('depth == 1'))",
    "loom.show(height=300)",
)


def violations(page: Page) -> list[Any]:
    found: list[Any] = page.evaluate(
        """async () => {
          const { violations } = await axe.run(document.querySelector(".acs-loom"), { resultTypes: ["violations"] });
          return violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary]);
        }"""
    )
    return found


class Desk:
    """A loom on a page, and hands that know only keys."""

    def __init__(self, nb: Notebook, page: Page, index: int = 1) -> None:
        self.nb, self.page = nb, page
        self.loom = nb.output(index).locator(".acs-loom")
        self.rows = self.loom.get_by_role("treeitem")
        self.cards = self.loom.locator(".acs-loom-children .acs-choice")

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, text: str, *end: str) -> None:
        self.page.keyboard.type(text)
        self.keys(*end)

    @property
    def current(self) -> Locator:
        return self.loom.locator("[role=treeitem][aria-selected=true]")

    def names(self) -> list[str]:
        return [str(row.get_attribute("aria-label")) for row in self.rows.all()]

    def settled(self, rows: int) -> None:
        expect(self.rows).to_have_count(rows)
        expect(self.loom.locator(".acs-loom-busy")).to_have_count(0)

    def told(self, index: int) -> Any:
        self.nb.run(index)
        return json.loads(self.nb.printed(index))


def it_grows(desk: Desk) -> None:
    desk.rows.first.focus()
    desk.keys("3")
    desk.settled(4)
    expect(desk.cards).to_have_count(3)
    assert "unread" in desk.names()[1]
    desk.keys("ArrowDown")
    expect(desk.loom.locator(".acs-loom-here .acs-t")).to_have_count(12)
    expect(desk.current).not_to_have_attribute("aria-label", "unread")
    desk.keys("g")
    desk.write("2")
    desk.keys("Tab")  # to the button; the parameters stand behind it
    temperature = desk.loom.locator(".acs-loom-grow").get_by_label("temperature", exact=True)
    temperature.focus()
    desk.write("9", "Enter")
    assert "at most 2" in desk.loom.locator(".acs-field-error:visible").inner_text()
    desk.keys("Control+a")
    desk.write("0.5", "Enter")
    desk.settled(6)
    desk.keys("1")
    desk.settled(7)
    nodes = desk.told(2)
    assert nodes[1][3]["sampling"]["temperature"] == 0.5  # remembered, and used by the last growth
    assert {"unread": True}.items() <= nodes[2][3].items()


def it_edits_splits_and_merges(desk: Desk) -> None:
    desk.keys("[", "End", "e")
    desk.write(" and <b>more</b> & 🦊", "Control+Enter")
    desk.settled(8)
    expect(desk.current).to_have_attribute("aria-label", "x")
def test_a_day_at_the_loom(root: Path, browser: Browser, scripted_server: Running) -> None:
    write_notebook(root / "loom.ipynb", (setup(scripted_server), *CELLS))
    with lab(root, DARK) as base:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        nb = Notebook(page, base, "loom.ipynb").open()
        nb.run(0)
        nb.run(1)
        page.evaluate(AXE.read_text())
        desk = Desk(nb, page)
        desk.settled(1)
        desk.rows.first.focus()
        desk.keys("3")
        desk.settled(4)
        shoot(page, "loom-dark")
        assert violations(page) == []
        page.close()
