"""What is measured of a loom, in JupyterLab: the trie, the diff and the map, by keyboard, in both themes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook, shoot
from tests.browser.loom_page import CELLS, Desk
from tests.support.servers import Running

Open = Callable[..., Notebook]
PROMPT = "The capital of France is"
STATIC = (
    "loom.trie(loom.roots[0])",
    "loom.diff(*loom.children(loom.roots[0])[:2])",
    "loom.multiverse(loom.roots[0])",
)

PAINTED = """e => { const { fill, fillOpacity } = getComputedStyle(e);
  return [...fill.match(/[\\d.]+/g), fillOpacity].map(Number); }"""

STRENGTHS = """all => all.map(e => [parseFloat(/this token ([\\d.]+) %/.exec(e.title)[1]),
  Number(getComputedStyle(e).backgroundColor.match(/[\\d.]+/g)[3] ?? 1)])"""


def both_themes(desk: Desk, name: str, found: list[Any]) -> None:
    """A picture in each theme, and what axe finds there."""
    for theme in desk.nb.in_both_themes():
        shoot(desk.page, f"loom-{name}-{theme}")
        found += [(name, theme, *each) for each in violations(desk.loom)]


def samples_part(desk: Desk, found: list[Any]) -> None:
    desk.rows.first.focus()
    desk.keys("8")
    desk.settled(9)
    desk.keys("T")
    panel = desk.loom.locator(".acs-loom-measure")
    expect(panel.get_by_role("status")).to_contain_text("8 samples")
    over = panel.locator(".acs-m-body").evaluate("e => e.scrollWidth - e.clientWidth")
    assert over <= 0, "no column is out of view"
    counts = panel.locator("td:nth-child(2)").all_inner_texts()
    ways = [re.match(r"(\d+) of (\d+)", text) for text in counts]
    assert all(ways)
    both_themes(desk, "trie", found)
    way = panel.locator(".acs-m-token button").first
    way.focus()
    desk.keys("Enter")
    expect(desk.loom.locator(".acs-loom-lit").first).to_be_visible()
    desk.keys("Escape")
    expect(panel).to_be_hidden()
    expect(desk.current).to_be_focused()
    desk.nb.run(4)  # other nodes are lit, by code
    desk.nb.run(5)
    expect(desk.loom.locator(".acs-loom-lit")).to_have_count(0)


def two_differ(desk: Desk, found: list[Any]) -> None:
    desk.rows.first.focus()
    desk.keys("ArrowDown", "D")
    panel = desk.loom.locator(".acs-loom-measure")
    expect(panel.get_by_role("status")).to_contain_text(re.compile("part after|one and the same"))
    ids = [row.get_attribute("data-node") for row in desk.rows.all()]
    expect(panel.locator("thead th")).to_have_text(["tokens", f"node {ids[1]}", f"node {ids[2]}"])
    own = {node[0]: node[2] for node in desk.told(2)}
    text = panel.locator("tbody tr > td:nth-child(2) .acs-m-t").all_inner_texts()
    assert "".join(text).replace("·", " ").replace("↵", "\n") == own[str(ids[1])]
    both_themes(desk, "diff", found)
    panel.get_by_role("button", name="Close").click()


def what_may_follow(desk: Desk, found: list[Any]) -> str:
    """Measure and look; gives the colour of the first cell."""
    desk.rows.first.click()
    expect(desk.current).to_contain_text("The capital of France is")
    desk.keys("M")
    panel = desk.loom.locator(".acs-loom-measure")
    tokens = panel.get_by_label("Tokens at most")
    expect(tokens).to_be_focused()
    tokens.fill("0")
    desk.keys("Enter")
    expect(panel.get_by_role("alert")).to_contain_text("at least 1")
    tokens.fill("900")
    desk.keys("Enter")
    cells = panel.get_by_role("treeitem")
    expect(cells.first).to_contain_text("Paris", timeout=60_000)
    expect(panel.get_by_role("button", name="Go on")).to_be_enabled(timeout=120_000)
    expect(panel.get_by_role("status")).to_contain_text("in tokens not followed yet")
    assert cells.count() > 3
    expect(panel.locator(".acs-m-rest").first).to_be_attached()
    tint: str = cells.first.evaluate("e => getComputedStyle(e).backgroundColor")
    strengths = sorted(
        (share, -alpha) for share, alpha in panel.locator(".acs-m-cell").evaluate_all(STRENGTHS)
    )
    assert strengths == sorted(strengths, key=lambda one: one[1]), (
        "the likelier, the plainer, as the legend says"
    )
    assert len({alpha for _, alpha in strengths}) > 1
    heights = panel.locator(".acs-m-cell").evaluate_all("all => all.map(e => [e.style.left, e.offsetHeight])")
    assert sum(high for left, high in heights if left == "0px") <= 340
    both_themes(desk, "map", found)
    cells.first.focus()
    expect(panel.locator(".acs-m-here")).to_contain_text(re.compile("^“·Paris”: [0-9.]+ %; this token"))
    desk.keys("ArrowRight")
    expect(panel.locator("[role=treeitem]:focus")).to_have_attribute("aria-level", "2")
    desk.keys("ArrowLeft", "Enter")
    expect(panel.locator(".acs-m-here")).to_contain_text("Zoomed to")
    shoot(desk.page, "loom-map-zoomed")
    desk.keys("Backspace")
    expect(panel.locator(".acs-m-here")).not_to_contain_text("Zoomed to")
    panel.get_by_role("button", name="Branch here").click()
    expect(desk.loom.locator(".acs-loom-row")).to_have_count(10)  # the prompt, eight samples and the branch
    expect(desk.loom.locator(".acs-loom-row[aria-selected=true]")).to_have_attribute(
        "aria-label", re.compile("Paris")
    )
    return tint


def test_what_both_have_is_shortened(notebook: Open, page: Page) -> None:
    """What stands for the tokens that are left out is no text: it has no marks for blanks."""
    made = (
        "from acs_jupyter import Loom\nloom = Loom('x')\nalike = ' many words' * 50\n"
        "a, b = (loom.new_child(loom.roots[0], alike + end) for end in (' here', ' there'))\nloom"
    )
    nb = notebook(made, "loom.diff(a, b)")
    nb.run(0)
    nb.run(1)
    desk = Desk(nb, page, 0)
    desk.settled(3)
    desk.rows.first.focus()
    desk.keys("ArrowDown", "D")
    panel = desk.loom.locator(".acs-loom-measure")
    expect(panel.locator(".acs-m-left")).to_have_text(["… 40 more …"] * 2)
    expect(nb.output(1).locator(".acs-measure em")).to_have_text(["… 40 more …"] * 2)
    shoot(page, "loom-diff-shortened")


def test_the_measures(notebook: Open, page: Page, smollm_server: Running) -> None:
    nb = notebook(
        setup(smollm_server),
        f"from acs_jupyter import Loom\nloom = Loom({PROMPT!r}, max_tokens=12, seed=3)\nloom",
        CELLS[1],
        "print(json.dumps([loom.selected, loom.hoisted, str(loom.file)]))",
        "loom.select(loom.frame().query('depth == 1'))",
        "loom.select()",
        *STATIC,
    )
    nb.run(0)
    nb.run(1)
    desk = Desk(nb, page)
    desk.settled(1)
    found: list[Any] = []
    samples_part(desk, found)
    two_differ(desk, found)
    tint = what_may_follow(desk, found)
    for index in (6, 7, 8):
        nb.run(index)
    for theme in nb.in_both_themes():
        for index, name in ((6, "trie"), (7, "diff"), (8, "map")):
            shown = nb.output(index).locator(".acs-measure")
            shown.scroll_into_view_if_needed()
            expect(shown).to_be_visible()
            shoot(page, f"measure-static-{name}-{theme}")
        painted = nb.output(8).locator("svg > rect[fill-opacity]").first.evaluate(PAINTED)
        live = [float(part) for part in re.findall(r"[\d.]+", tint)]
        assert painted == pytest.approx(live, abs=0.01), "as the live one, in both themes"
    assert found == []
