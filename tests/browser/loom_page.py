"""A loom in a page: its cells, its keys and rows, and what axe says of it."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.cell_page import SCRIPT
from tests.browser.labkit import Notebook

PROMPT = f"{SCRIPT}tokens=12 alternatives=3\nOnce upon a time"
CELLS = (
    f"from acs_jupyter import Loom\nloom = Loom({PROMPT!r}, max_tokens=12)\nloom",
    "import json; print(json.dumps([[n, loom.parent(n), loom.own_text(n), loom.marks(n)] for n in loom.nodes]))",
    "print(json.dumps([loom.selected, loom.hoisted, str(loom.file)]))",
    "loom.select(loom.frame().query('depth == 1'))",
    "loom.show(height=300)",
)


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
        """What a cell prints; the focus stays in the loom."""
        self.nb.run(index)
        printed = json.loads(self.nb.printed(index))
        self.current.focus()
        return printed

    def is_one_text(self) -> bool:
        """Whether each node's text goes on where the one before it ends, on the same line."""
        found: bool = self.loom.locator(".acs-loom-path").evaluate(
            """path => [...path.children].every((segment, i, all) => i === 0 ||
              Math.abs(segment.getClientRects()[0].top - [...all[i - 1].getClientRects()].at(-1).top) < 8)"""
        )
        return found

    def tree(self) -> Any:
        return self.told(2)
