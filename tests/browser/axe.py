"""What axe-core finds wrong with a part of a page for people who read or move otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.browser.labkit import CHECKOUT

if TYPE_CHECKING:
    from playwright.sync_api import Locator

AXE = CHECKOUT / "js" / "node_modules" / "axe-core" / "axe.min.js"

RUN = """async part => {
  const { violations } = await axe.run(part, { resultTypes: ["violations"] });
  return violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary]);
}"""


def violations(part: Locator) -> list[Any]:
    """Rule, how often, the first element and why, of each rule that the first such part breaks."""
    if part.page.evaluate("typeof axe === 'undefined'"):
        part.page.evaluate(AXE.read_text())
    found: list[Any] = part.first.evaluate(RUN)
    return found
