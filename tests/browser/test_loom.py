"""The loom in JupyterLab, worked by the keyboard alone, in both themes; then with the small model."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from acs_jupyter import Loom
from acs_jupyter.looms.file import read
from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook, shoot
from tests.browser.loom_page import CELLS, Desk
from tests.support.servers import Running

Open = Callable[..., Notebook]
MORE = " and <b>more</b> & 🦊"


def it_grows(desk: Desk) -> None:
    desk.rows.first.focus()
    desk.keys("3")
    desk.settled(4)
    expect(desk.cards).to_have_count(3)
    assert "unread" in desk.names()[1]
    desk.keys("ArrowDown")
    expect(desk.loom.locator(".acs-loom-here .acs-t")).to_have_count(12)
    assert desk.is_one_text()
    expect(desk.loom.locator(".acs-loom-unread[role=treeitem]")).to_have_count(2)
    desk.keys("g")
    desk.write("2")
    temperature = desk.loom.locator(".acs-loom-grow").get_by_label("temperature", exact=True)
    temperature.focus()
    temperature.fill("")
    desk.write("hot", "Enter")
    assert "a number is needed" in desk.loom.locator(".acs-field-error:visible").inner_text()
    desk.keys("Home", "Shift+End")
    desk.write("0.5", "Enter")
    desk.settled(6)
    desk.keys("1")
    desk.settled(7)
    nodes = desk.tree()
    assert nodes[1][3]["sampling"]["temperature"] == 0.5  # remembered, and used by the last growth
    assert [node[1] for node in nodes[2:5]] == [nodes[1][0]] * 3


def _alone(row: Any, tree: Any) -> bool:
    return row[1] is not None and [other[1] for other in tree].count(row[1]) == 1


def it_edits_splits_and_merges(desk: Desk) -> None:
    before = desk.tree()
    desk.keys("ArrowRight", "e")
    desk.write(MORE, "Control+Enter")
    desk.settled(8)
    edited = f"{before[2][2]}{MORE}"
    assert desk.tree()[3][2] == edited
    assert desk.tree()[2] == [*before[2][:3], desk.tree()[2][3]]  # the original stays
    desk.keys("s")
    expect(desk.loom.locator(".acs-t:focus")).to_have_count(1)
    said = desk.loom.locator(".acs-loom-said")
    expect(said).to_contain_text("Arrows choose a token; s splits before it")
    desk.keys("Escape")
    expect(desk.current).to_be_focused()
    expect(said).not_to_contain_text("Arrows")
    desk.keys("s")
    expect(said).to_contain_text("Arrows")
    desk.keys("ArrowRight")
    expect(said).to_contain_text("Arrows")
    desk.keys("s")
    desk.settled(9)
    expect(said).not_to_contain_text("Arrows")
    desk.keys("u")
    desk.settled(8)
    desk.keys("r")
    desk.settled(9)
    head, tail = desk.tree()[3:5]
    assert (tail[1], head[2] + tail[2]) == (head[0], edited)
    levels = [int(str(desk.rows.nth(row).get_attribute("aria-level"))) for row in (3, 4)]
    assert levels[1] == levels[0] + 1
    goes_on = desk.loom.locator(".acs-loom-row > .acs-loom-goes:visible")
    expect(desk.rows.nth(4).locator(".acs-loom-goes")).to_be_visible()
    expect(desk.rows.nth(3).locator(".acs-loom-goes")).to_be_hidden()
    assert goes_on.count() == len([row for row in desk.tree() if _alone(row, desk.tree())])
    shoot(desk.page, "loom-goes-on")
    desk.keys("ArrowRight", "T")
    expect(said).to_have_text("No children here: ← goes to the parent, 3 grows three.")
    expect(desk.loom.locator(".acs-loom-measure")).to_be_hidden()
    desk.keys("m")
    desk.settled(8)
    assert desk.tree()[3][2] == edited
    desk.keys("Delete")
    desk.settled(7)
    desk.keys("Control+z")
    desk.settled(8)
    desk.keys("w")
    desk.write("another root", "Control+Enter")
    desk.settled(9)
    assert desk.current.get_attribute("aria-label") == "another root"
    desk.keys("u")
    desk.settled(8)


def it_searches_and_marks(desk: Desk) -> None:
    count = desk.loom.locator(".acs-loom-count")
    desk.keys("Home", "/")
    desk.write(MORE[-1])
    expect(count).to_have_text("1 found; Enter goes through them")
    desk.keys("Enter")
    expect(desk.current).to_have_class(re.compile("acs-loom-found"))
    desk.keys("Tab", "ArrowDown", "Shift+Tab", "Home", "Shift+End")
    desk.write("depth == 1 and finish")
    expect(count).to_have_text("3 found; Enter goes through them")
    desk.write(" ==")
    expect(count).to_have_text(re.compile("ends where a value is needed"))
    shoot(desk.page, "loom-search")
    desk.keys("Escape", "Home", "ArrowDown")
    desk.keys("b", "t")
    desk.write("good odd", "Enter")
    desk.keys("n")
    desk.write("look here", "Control+Enter")
    desk.keys("+", "+", "+", "-")
    expect(desk.current).to_have_attribute(
        "aria-label", re.compile("bookmarked, tagged good, odd, has a note, rated 2/5")
    )
    marks = desk.tree()[1][3]
    assert (marks["tags"], marks["note"], marks["bookmark"]) == (["good", "odd"], "look here", True)


def it_moves_folds_and_hoists(desk: Desk) -> None:
    first = desk.tree()[1][0]
    desk.keys("J")
    expect(desk.current).to_have_attribute("aria-posinset", "2")
    desk.keys("x", "ArrowUp", "v")
    expect(desk.loom.locator(f".acs-loom-row[data-node='{first}']")).to_have_attribute("aria-level", "3")
    expect(desk.current).to_have_attribute("data-node", first)
    assert {node[0]: node[1] for node in desk.tree()}[first] == desk.tree()[1][0]
    desk.keys("u", "u")
    expect(desk.rows.nth(1)).to_have_attribute("data-node", first)
    desk.rows.nth(1).focus()
    desk.keys("Home", "ArrowDown", "f")
    expect(desk.rows).to_have_count(4)
    assert desk.current.get_attribute("aria-expanded") == "false"
    desk.keys("ArrowRight")
    expect(desk.rows).to_have_count(8)
    desk.keys("o")
    expect(desk.rows).to_have_count(5)
    assert desk.told(3)[1] == first
    desk.keys("ArrowLeft")  # nothing above it is shown
    desk.keys("O")
    expect(desk.rows).to_have_count(8)


def python_and_the_window_share_a_selection(desk: Desk) -> None:
    desk.keys("Home", "ArrowDown", " ", "ArrowDown", " ")
    expect(desk.loom.locator(".acs-loom-lit")).to_have_count(2)
    assert desk.told(3)[0] == [node[0] for node in desk.tree()[1:3]]
    desk.nb.run(4)
    expect(desk.loom.locator(".acs-loom-lit[aria-level='2']")).to_have_count(3)
    desk.rows.nth(2).focus()
    desk.keys("{")
    expect(desk.current).to_have_attribute("aria-level", "2")


def an_alternative_is_a_branch(desk: Desk) -> None:
    desk.keys("Home", "ArrowDown", "Enter", "ArrowRight", "Enter", "Tab")
    chosen = desk.page.evaluate("document.activeElement.textContent")
    desk.keys("Enter")
    desk.settled(9)
    expect(desk.current).to_have_attribute("aria-posinset", "4")
    (branch,) = [node for node in desk.tree() if node[1] == desk.tree()[0][0]][3:]
    assert f" {chosen.strip('“”').strip('·')}" in branch[2]


def it_is_kept_and_two_windows_show_it(desk: Desk, root: Path) -> None:
    desk.keys("S", "Home", "Shift+End")
    desk.write("day.loom", "Enter")
    expect(desk.loom.locator(".acs-loom-file")).to_have_text(re.compile("^day.loom$"))
    desk.nb.run(5)
    other = Desk(desk.nb, desk.page, 5)
    other.settled(9)
    other.rows.first.focus()
    other.keys("2")
    other.settled(11)
    desk.settled(11)
    desk.rows.first.focus()
    kept = Loom(read(root / "day.loom"))
    assert [[node, kept.parent(node), kept.own_text(node)] for node in kept.nodes] == [
        node[:3] for node in desk.tree()
    ]


def no_key_has_left(desk: Desk) -> None:
    desk.keys("?")
    clipped = desk.loom.locator(".acs-loom-sheet").evaluate(
        """sheet => { const { left, right } = sheet.getBoundingClientRect();
          const boxes = [...sheet.querySelectorAll("kbd")].map(kbd => kbd.getBoundingClientRect());
          return boxes.filter(box => box.left < left || box.right > right).length; }"""
    )
    assert clipped == 0
    shoot(desk.page, "loom-keys")
    desk.keys("Escape", "d", "d", "a", "y", "Alt+b")
    lab = "window.jupyterapp.shell.currentWidget.content"
    assert desk.page.evaluate(f"[{lab}.widgets.length, {lab}.mode]") == [len(CELLS) + 1, "command"]


def it_reads_without_a_kernel(desk: Desk) -> None:
    nb = desk.nb
    desk.page.wait_for_timeout(1500)  # the copy is written a moment after the last change
    nb.save()
    nb.open(reset=False)
    desk.settled(11)
    nb.end_kernels()
    desk.page.goto("about:blank")
    nb.open(kernel=False)
    copy = nb.output(1).locator(".acs-static")
    copy.wait_for()
    assert copy.locator("script, b b").count() == 0
    assert MORE.strip() in copy.evaluate("e => e.textContent")
    shoot(desk.page, "loom-static")


def test_a_day_at_the_loom(notebook: Open, page: Page, root: Path, scripted_server: Running) -> None:
    nb = notebook(setup(scripted_server), *CELLS)
    nb.run(0)
    nb.run(1)
    desk = Desk(nb, page)
    desk.settled(1)
    it_grows(desk)
    assert violations(desk.loom) == []
    it_edits_splits_and_merges(desk)
    it_searches_and_marks(desk)
    shoot(page, "loom-light")
    it_moves_folds_and_hoists(desk)
    python_and_the_window_share_a_selection(desk)
    an_alternative_is_a_branch(desk)
    nb.theme("dark")
    assert violations(desk.loom) == []
    shoot(page, "loom-dark")
    nb.theme("light")
    it_is_kept_and_two_windows_show_it(desk, root)
    no_key_has_left(desk)
    it_reads_without_a_kernel(desk)


def test_with_the_small_model(notebook: Open, page: Page, smollm_server: Running) -> None:
    prompt = "Once upon a time"
    nb = notebook(
        setup(smollm_server),
        f"from acs_jupyter import Loom\nloom = Loom({prompt!r}, max_tokens=16, seed=3)\nloom",
        CELLS[1],
    )
    nb.run(0)
    nb.run(1)
    desk = Desk(nb, page)
    desk.settled(1)
    desk.rows.first.focus()
    desk.keys("4")
    desk.settled(5)
    desk.keys("ArrowRight", "2")
    desk.settled(7)
    desk.keys("ArrowRight", "s", "ArrowLeft", "s")
    desk.settled(8)
    desk.keys("ArrowRight", "m")
    desk.settled(7)
    desk.keys("u")
    desk.settled(8)
    desk.keys("u")
    desk.settled(7)
    nodes = desk.tree()
    assert all(text for _, _, text, _ in nodes)
    assert len({text for _, _, text, _ in nodes}) == 7
    shoot(page, "loom-small-model")


def test_a_closed_loom_says_so_in_the_window(notebook: Open, page: Page) -> None:
    nb = notebook(
        "from acs_jupyter import Loom\nloom = Loom('x')\nloom.keep('closed.loom')\nloom", "loom.close()"
    )
    nb.run(0)
    desk = Desk(nb, page, 0)
    desk.settled(1)
    expect(desk.loom.locator(".acs-loom-file")).to_have_text("closed.loom")
    nb.run(1)
    told = desk.loom.locator(".acs-told")
    expect(told).to_have_text("closed: closed.loom does not keep it any more.")
    desk.rows.first.focus()
    desk.keys("c")
    desk.write(" y", "Control+Enter")
    expect(told).to_contain_text("This loom is closed: closed.loom would not keep the change.")
    expect(desk.rows).to_have_count(1)
    shoot(page, "loom-closed")
