"""A loom's window when what it stands on is gone: no node left, a node deleted under a box; and text that steers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook
from tests.browser.loom_page import Desk
from tests.support.servers import Running

Open = Callable[..., Notebook]
RLO = "\u202e"
ONE = "from acs_jupyter import Loom\nloom = Loom('Once'); loom.show()"
TWO = "from acs_jupyter import Loom\nloom = Loom('Once'); kid = loom.new_child(loom.roots[0], ' kid'); loom.show()"
STEERED = (
    "from acs_jupyter import Loom\nloom = Loom('said \\u202eevil')\n"
    "kid = loom.new_child(loom.roots[0], ' child \\u202eabc def'); loom.show()"
)
PRINT = "import json; print(json.dumps([loom.own_text(n) for n in loom.nodes]))"
LEFT_TO_RIGHT = """element => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const at = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest(".acs-ghost"))
      for (let i = 0; i < node.length; i++) {
        const range = document.createRange();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        const { left, top, width } = range.getBoundingClientRect();
        if (width > 0) at.push([Math.round(top / 4), left]);
      }
  return at.length > 4 && at.every(([top, left], i) => i === 0 || top > at[i - 1][0] || left > at[i - 1][1]);
}"""
"""Whether characters stand on the page in the order in which they are sent."""


def shown(notebook: Open, page: Page, server: Running, cell: str) -> tuple[Notebook, Desk]:
    nb = notebook(setup(server), cell, PRINT, "loom.delete(kid)", "loom.show()")
    nb.run(0)
    nb.run(1)
    return nb, Desk(nb, page)


def texts(nb: Notebook) -> Any:
    nb.run(2)
    return json.loads(nb.printed(2))


def test_a_loom_without_nodes_goes_on_by_its_keys(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb, desk = shown(notebook, page, scripted_server, ONE)
    desk.settled(1)
    desk.rows.first.click()
    desk.keys("Delete")
    desk.settled(0)
    none = desk.loom.locator(".acs-loom-none")
    expect(none).to_have_text("No nodes. u undoes the last step, w writes a root")
    expect(desk.loom.get_by_role("tree")).to_be_focused()
    assert violations(desk.loom) == []
    desk.keys("u")
    desk.settled(1)
    expect(desk.current).to_be_focused()
    expect(none).to_be_hidden()
    desk.keys("Delete")
    desk.settled(0)
    desk.keys("w")
    desk.write("again", "Control+Enter")
    desk.settled(1)
    expect(desk.loom.locator(".acs-told")).to_be_hidden()  # nobody asked for the node that was there
    assert texts(nb) == ["again"]
    desk.rows.first.click()
    desk.keys("Delete")
    desk.settled(0)
    nb.run(4)  # a window that never saw a node says so too
    other = Desk(nb, page, 4)
    expect(other.loom.locator(".acs-loom-none")).to_have_text(
        "No nodes. u undoes the last step, w writes a root"
    )
    other.loom.get_by_role("tree").focus()
    other.keys("u")
    other.settled(1)


def test_what_was_typed_stays_when_its_node_is_deleted(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb, desk = shown(notebook, page, scripted_server, TWO)
    desk.settled(2)
    desk.rows.nth(1).click()
    desk.keys("e")
    desk.write(" and more")
    nb.run(3)
    desk.settled(1)
    box = desk.loom.locator(".acs-loom-ask textarea")
    expect(box).to_have_value(" kid and more")
    box.focus()
    desk.keys("Control+Enter")
    expect(desk.loom.locator(".acs-loom-ask .acs-error")).to_contain_text("deleted meanwhile")
    expect(box).to_have_value(" kid and more")
    desk.loom.get_by_role("toolbar").get_by_role("button", name="Undo", exact=True).click()
    desk.settled(2)
    box.focus()
    desk.keys("Control+Enter")
    desk.settled(3)
    expect(box).to_be_hidden()
    assert texts(nb) == ["Once", " kid", " kid and more"]


def test_text_that_steers_is_read_as_it_is_sent(notebook: Open, page: Page, scripted_server: Running) -> None:
    _, desk = shown(notebook, page, scripted_server, STEERED)
    desk.settled(2)
    card = desk.loom.locator(".acs-loom-children .acs-text").first
    path = desk.loom.locator(".acs-loom-path")
    expect(card.locator(".acs-mark")).to_have_attribute("data-mark", "U+202E")
    assert card.evaluate(LEFT_TO_RIGHT)
    desk.rows.nth(1).click()
    expect(path.locator(".acs-mark")).to_have_count(2)
    assert path.evaluate(LEFT_TO_RIGHT)
    assert path.evaluate("element => element.textContent") == f"said {RLO}evil child {RLO}abc def"
