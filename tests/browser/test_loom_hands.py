"""The loom by mouse alone, its graph in both themes, keys that are others, and that none of them leaks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import violations
from tests.browser.cell_page import SCRIPT, setup
from tests.browser.labkit import Notebook, painted, shoot
from tests.browser.loom_page import CELLS, Desk
from tests.support.servers import Running

Open = Callable[..., Notebook]
LAB = "window.jupyterapp.shell.currentWidget.content"
PRINT = "import json; print(json.dumps([[n, loom.parent(n), loom.own_text(n), loom.marks(n)] for n in loom.nodes]))"
"""A cell; the desk reads what it prints."""


class Hands(Desk):
    """A loom on a page, and hands that know only the mouse; they type where a text is asked for."""

    def click(self, words: str) -> None:
        button = self.loom.get_by_role("toolbar").get_by_role("button", name=words, exact=True)
        button.click()

    def row(self, place: int) -> Locator:
        return self.rows.nth(place)

    def at(self, place: int) -> dict[str, Any]:
        """A row's marks, by code."""
        found: dict[str, Any] = self.tree()[place][3]
        return found


def it_grows_and_branches(hands: Hands) -> None:
    hands.row(0).click()
    hands.click("Grow 3")
    hands.settled(4)
    hands.cards.nth(1).get_by_role("button", name="2 of 3").click()
    expect(hands.current).to_have_attribute("aria-posinset", "2")
    token = hands.loom.locator(".acs-loom-here .acs-t").nth(3)
    token.click()
    alternative = hands.loom.locator(".acs-tip .acs-alternative").first
    text = alternative.inner_text().strip("“”").strip("·")
    alternative.click()
    hands.settled(5)
    expect(hands.current).to_have_attribute("aria-posinset", "4")
    nodes = hands.tree()
    assert nodes[4][2].startswith(nodes[2][2][:3])
    assert text in nodes[4][2]


def it_moves_and_reorders(hands: Hands) -> None:
    hands.row(1).click()
    first = hands.row(1).get_attribute("data-node")
    hands.click("More")
    hands.click("Move down")
    expect(hands.current).to_have_attribute("aria-posinset", "2")
    hands.click("Move up")
    expect(hands.current).to_have_attribute("aria-posinset", "1")
    hands.click("Take")
    expect(hands.loom.locator(".acs-loom-taken")).to_have_attribute("data-node", str(first))
    hands.row(3).click()
    over = hands.row(3).get_attribute("data-node")
    hands.click("Put below")
    expect(hands.loom.locator(f"[role=treeitem][data-node='{first}']")).to_have_attribute("aria-level", "3")
    assert {node[0]: node[1] for node in hands.tree()}[first] == over
    hands.click("Undo")
    expect(hands.row(1)).to_have_attribute("data-node", str(first))


def a_focused_row_is_the_cursor(hands: Hands) -> None:
    """Whoever gives a row the focus without a click, a screen reader say, has gone there."""
    third = hands.row(3).get_attribute("data-node")
    hands.row(3).evaluate("row => row.focus()")
    expect(hands.current).to_have_attribute("data-node", str(third))
    expect(hands.current).to_be_focused()
    expect(hands.loom.locator(".acs-loom-here")).to_have_attribute("data-node", str(third))
    hands.keys("ArrowUp")
    expect(hands.row(2)).to_be_focused()
    expect(hands.row(2)).to_have_attribute("aria-selected", "true")


def rows_are_dragged(hands: Hands) -> None:
    first, second, third = (str(hands.row(place).get_attribute("data-node")) for place in (1, 2, 3))
    below = {node[0]: node[1] for node in hands.tree()}
    hands.row(1).drag_to(hands.row(2), target_position={"x": 80, "y": 12})
    moved = hands.loom.locator(f"[role=treeitem][data-node='{first}']")
    expect(moved).to_have_attribute("aria-level", "3")
    assert {node[0]: node[1] for node in hands.tree()}[first] == second
    hands.click("Undo")
    expect(hands.row(1)).to_have_attribute("data-node", first)
    assert {node[0]: node[1] for node in hands.tree()} == below
    # Between two rows it stands beside them.
    hands.row(3).drag_to(hands.row(1), target_position={"x": 80, "y": 2})
    expect(hands.row(1)).to_have_attribute("data-node", third)
    hands.click("Undo")
    expect(hands.row(3)).to_have_attribute("data-node", third)
    # A node is not put below itself, and where nothing can be dropped nothing is done.
    hands.row(0).drag_to(hands.row(2), target_position={"x": 80, "y": 12})
    assert {node[0]: node[1] for node in hands.tree()} == below
    expect(hands.loom.locator("[data-drop]")).to_have_count(0)


def it_marks(hands: Hands) -> None:
    hands.row(1).click()
    hands.click("Rate +")
    hands.click("Rate +")
    hands.click("bookmark")
    hands.click("Tags")
    hands.page.keyboard.type("fine")
    hands.loom.get_by_role("button", name="Set tags").click()
    hands.click("Note")
    hands.page.keyboard.type("a note")
    hands.loom.get_by_role("button", name="Set note").click()
    expect(hands.current).to_have_attribute("aria-label", re.compile("tagged fine, has a note, rated 2/5"))
    hands.click("Unread")
    expect(hands.current).to_have_class(re.compile("acs-loom-unread"))
    marks = hands.at(1)
    assert (marks["tags"], marks["note"], marks["bookmark"], marks["rating"]) == (["fine"], "a note", True, 2)
    assert marks["unread"] is True


def it_folds_hoists_and_searches(hands: Hands) -> None:
    hands.row(0).locator(".acs-loom-twist").click()
    expect(hands.rows).to_have_count(1)
    expect(hands.row(0)).to_have_attribute("aria-expanded", "false")
    hands.row(0).locator(".acs-loom-twist").click()
    expect(hands.rows).to_have_count(5)
    hands.row(2).click()
    hands.click("Hoist")
    expect(hands.rows).to_have_count(1)
    hands.click("Unhoist")
    expect(hands.rows).to_have_count(5)
    hands.click("Search")
    hands.loom.get_by_role("combobox", name="Search by").select_option("predicate")
    hands.loom.get_by_role("textbox", name="Search").fill("rating >= 2")
    expect(hands.loom.locator(".acs-loom-count")).to_have_text("1 found; Enter goes through them")
    expect(hands.row(1)).to_have_class(re.compile("acs-loom-found"))
    hands.loom.get_by_role("textbox", name="Search").press("Escape")
    expect(hands.current).to_be_focused()
    hands.keys("Escape")  # what was found is marked until then
    expect(hands.loom.locator(".acs-loom-found")).to_have_count(0)


def its_graph_is_seen(hands: Hands) -> None:
    page, graph = hands.page, hands.loom.locator(".acs-graph")
    expect(graph).to_be_hidden()
    hands.row(2).click()
    hands.click("Graph")
    expect(graph).to_be_visible()
    expect(graph).to_have_attribute("data-drawn", "5")
    sheet = graph.locator(".acs-graph-sheet")
    colours = sheet.evaluate(
        """sheet => { const { data } = sheet.getContext("2d").getImageData(0, 0, sheet.width, sheet.height);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
          return seen.size; }"""
    )
    assert colours > 5  # something is drawn
    scale = graph.get_attribute("data-scale")
    graph.get_by_role("button", name="Nearer (+)").click()
    expect(graph).not_to_have_attribute("data-scale", str(scale))
    graph.get_by_role("button", name="All of it (0)").click()
    # A small tree stands in the middle; its root is at the left.
    box = sheet.bounding_box()
    assert box is not None
    sheet.click(position={"x": 60, "y": box["height"] / 2})
    expect(hands.current).to_have_attribute("aria-level", "1")
    page.mouse.move(box["x"] + 300, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(hands.current).to_have_attribute("aria-level", "1")  # a drag is no click


def the_graph_has_keys(hands: Hands) -> None:
    page, graph = hands.page, hands.loom.locator(".acs-graph")
    before = page.evaluate(f"{LAB}.widgets.length")
    graph.focus()
    hands.keys("ArrowRight")
    expect(hands.current).to_have_attribute("aria-level", "2")
    hands.keys("ArrowLeft", "ArrowRight", "Home", "l")
    expect(hands.current).to_have_attribute("aria-level", "2")
    place = hands.current.get_attribute("aria-posinset")
    hands.keys("ArrowDown" if place != "4" else "ArrowUp")
    expect(hands.current).not_to_have_attribute("aria-posinset", str(place))
    # The one who does not see it is told.
    words = str(hands.current.get_attribute("aria-label"))
    expect(graph.locator("[role=status]")).to_have_text(words)
    described = graph.get_attribute("aria-describedby")
    expect(hands.loom.locator(f"#{described}")).to_have_text(words)
    scale = float(graph.get_attribute("data-scale") or 0)
    hands.keys("+")
    expect(graph).to_have_attribute("data-scale", f"{scale * 1.3:.3f}")
    hands.keys("-")
    expect(graph).to_have_attribute("data-scale", f"{scale:.3f}")
    assert "rating" not in hands.at(0)  # plus was nothing else
    graph.focus()
    hands.keys("d", "d", "a", "y", "Alt+b", "0", "j", "k")
    assert page.evaluate(f"[{LAB}.widgets.length, {LAB}.mode]") == [before, "command"]
    expect(graph).to_be_focused()
    hands.keys("Escape")
    expect(hands.current).to_be_focused()


def test_by_mouse(notebook: Open, page: Page, scripted_server: Running) -> None:
    nb = notebook(setup(scripted_server), CELLS[0], PRINT)
    nb.run(0)
    nb.run(1)
    hands = Hands(nb, page)
    hands.settled(1)
    it_grows_and_branches(hands)
    it_moves_and_reorders(hands)
    a_focused_row_is_the_cursor(hands)
    rows_are_dragged(hands)
    it_marks(hands)
    it_folds_hoists_and_searches(hands)
    its_graph_is_seen(hands)
    the_graph_has_keys(hands)
    for theme in nb.in_both_themes():
        assert violations(hands.loom) == []
        shoot(page, f"loom-graph-{theme}")


def test_other_keys(notebook: Open, page: Page, scripted_server: Running) -> None:
    keys = {"delete": "d", "undo": "z", "split": "", "zoom in": "i", "graph": "g"}
    nb = notebook(setup(scripted_server), CELLS[0].removesuffix("loom") + f"loom.show(keys={keys!r})", PRINT)
    nb.run(0)
    nb.run(1)
    desk = Desk(nb, page)
    desk.settled(1)
    desk.rows.first.focus()
    desk.keys("2")
    desk.settled(3)
    cells = page.evaluate(f"{LAB}.widgets.length")
    desk.keys("ArrowDown", "d")
    desk.settled(2)
    desk.keys("z")
    desk.settled(3)
    desk.keys("s", "u", "Delete")  # nobody's any more
    desk.settled(3)
    assert page.evaluate(f"{LAB}.widgets.length") == cells
    desk.keys("g")
    graph = desk.loom.locator(".acs-graph")
    graph.focus()
    scale = float(graph.get_attribute("data-scale") or 0)
    desk.keys("i")
    expect(graph).to_have_attribute("data-scale", f"{scale * 1.3:.3f}")
    desk.keys("?")
    sheet = desk.loom.locator(".acs-loom-sheet")
    expect(
        sheet.locator("dd", has_text=re.compile("^delete, with all below$")).locator("xpath=../dt")
    ).to_have_text("d")
    desk.keys("Escape")


def test_a_large_tree_has_a_minimap(notebook: Open, page: Page) -> None:
    made = "from acs_jupyter import Loom\nfrom tests.support.trees import grown\nloom = Loom(grown(400, 60))\nloom"
    nb = notebook(made, PRINT)
    nb.run(0)
    desk = Desk(nb, page, 0)
    strip = desk.loom.locator(".acs-loom-side .acs-minimap")
    expect(strip).to_be_visible()
    expect(desk.current).to_have_attribute("aria-level", "1")
    strip.click(position={"x": 10, "y": 400})  # of about 620
    page.wait_for_function("document.querySelector('.acs-loom-tree').scrollTop > 4000")
    desk.rows.first.focus()
    desk.keys("End")
    last = desk.rows.last
    last.click()
    # Its contents were not in the outline: they came.
    expect(desk.loom.locator(".acs-loom-here .acs-t")).to_have_count(60)
    desk.keys("G")
    graph = desk.loom.locator(".acs-graph")
    expect(graph.locator(".acs-minimap")).to_be_visible()
    assert int(graph.get_attribute("data-drawn") or 0) < 150
    shoot(page, "loom-minimap")
    graph.focus()
    desk.keys("0")
    page.wait_for_function("Number(document.querySelector('.acs-graph').dataset.scale) < 0.2")
    shoot(page, "loom-graph-whole")


CARDS = f"{SCRIPT}tokens=300 alternatives=2\nOnce"


def test_every_card_can_be_seen_whole(notebook: Open, page: Page, scripted_server: Running) -> None:
    """Cards that have no room below each other scroll; one whose text was there begins at its beginning."""
    made = (
        f"from acs_jupyter import Client, Loom\nloom = Loom({CARDS!r}, client=Client(), max_tokens=300)\n"
        "grown = loom.grow(loom.roots[0], 7)\nloom.show(height=300)"
    )
    nb = notebook(setup(scripted_server), made, "loom.show(height=620)")
    nb.run(0)
    for index, height in ((1, 300), (2, 620)):
        nb.run(index)
        _every_card_is_whole(Hands(nb, page, index), height)


def _every_card_is_whole(hands: Hands, height: int) -> None:
    hands.settled(8)
    hands.row(0).click()
    expect(hands.cards).to_have_count(7)
    box = hands.loom.locator(".acs-loom-main")
    for theme in hands.nb.in_both_themes():
        box.evaluate("e => { e.scrollTop = 0; }")
        box.scroll_into_view_if_needed()
        shoot(hands.page, f"loom-cards-{height}-{theme}")
    for card in hands.cards.all():
        assert painted(card.locator(".acs-finish"), scroll=True, seconds=5)
        assert painted(card.locator(".acs-loom-head"), scroll=True, seconds=5)
        assert card.locator(".acs-boxed").evaluate("e => e.scrollTop") == 0
        assert card.locator(".acs-boxed").evaluate("e => e.scrollHeight - e.clientHeight") > 0
    inside, last = box.bounding_box(), hands.cards.last.bounding_box()
    assert inside is not None
    assert last is not None
    assert last["height"] <= inside["height"]
    assert last["x"] + last["width"] <= inside["x"] + inside["width"] + 1


SLOW = f"{SCRIPT}tokens=4000 rate=60 alternatives=2\nOnce"


def test_one_of_several_is_stopped(notebook: Open, page: Page, scripted_server: Running, root: Path) -> None:
    first = f"from acs_jupyter import Loom\nloom = Loom({SLOW!r}, max_tokens=4000)\nloom"
    nb = notebook(setup(scripted_server), first)
    nb.run(0)
    nb.run(1)
    hands = Hands(nb, page)
    hands.settled(1)
    hands.row(0).click()
    hands.click("Grow 3")
    expect(hands.cards).to_have_count(3)
    texts = [hands.cards.nth(i).locator(".acs-t") for i in range(3)]
    for text in texts:
        expect(text.nth(10)).to_be_attached()
    stop = hands.cards.nth(1).get_by_role("button", name="stop")
    assert "billed" in str(stop.get_attribute("title"))
    # What still comes is not moved, nor what it hangs below.
    hands.row(2).drag_to(hands.row(1), target_position={"x": 80, "y": 12})
    expect(hands.loom.locator(".acs-loom-said")).to_contain_text("still being generated")
    expect(hands.row(2)).to_have_attribute("aria-level", "2")
    hands.row(0).click()
    stop.click()
    expect(hands.cards.nth(1).locator(".acs-finish")).to_contain_text("stopped")
    kept = texts[1].count()
    expect(texts[0].nth(kept + 60)).to_be_attached()
    assert texts[1].count() == kept
    expect(stop).to_be_hidden()
    expect(hands.cards.nth(0).get_by_role("button", name="stop")).to_be_visible()
    shoot(page, "loom-one-stopped")
    # By key too: the cursor on one that comes.
    hands.row(3).click()
    hands.keys(".")
    expect(hands.loom.locator(".acs-loom-busy")).to_have_count(1)
    hands.click("Stop all")
    expect(hands.loom.locator(".acs-loom-busy")).to_have_count(0)


ORDERS = (("d", "d"), ("a",), ("x",), ("Shift+D",), ("0", "0"), ("i", "i"))


def test_no_command_of_jupyterlab_is_reached(notebook: Open, page: Page) -> None:
    nb = notebook(*["from acs_jupyter import Loom\nloom = Loom('x')\nloom"] * len(ORDERS), "1 + 1")
    for index, order in enumerate(ORDERS):
        nb.run(index)
        desk = Desk(nb, page, index)
        desk.settled(1)
        for where in (desk.rows.first, desk.loom.get_by_role("button", name="Graph", exact=True)):
            where.focus()
            desk.keys(*order)
            page.wait_for_timeout(100)
            lab = page.evaluate(f"[{LAB}.widgets.length, {LAB}.mode, {LAB}.activeCellIndex]")
            assert lab == [len(ORDERS) + 1, "command", index], (order, index)
            desk.keys("Escape")
