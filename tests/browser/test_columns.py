"""Where the columns of a family stand: branches beside the text they left, and one way to scroll in each direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from tests.browser.labkit import Notebook, shoot
from tests.browser.test_branch import closed, setup
from tests.support.servers import Running

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Notebook]

FOUR = "%%acs --max-tokens 40 -n 4 --seed 3 -o r\n#scripted tokens=40 rate=0 alternatives=5\nThe lighthouse keeper"
LONG = (
    "%%acs --max-tokens 900 --seed 3 -o r\n#scripted tokens=900 rate=0 alternatives=5\nThe lighthouse keeper"
)

BARS = """family => [family, ...family.querySelectorAll("*")].flatMap(e => {
  const style = getComputedStyle(e);
  const down = /auto|scroll/.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1;
  const along = /auto|scroll/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1;
  return down || along ? [[e.className.replace("acs-", "").split(" ")[0], down, along]] : [];
})"""
"""Each element with a scroll bar: its name, whether it scrolls down, whether along."""


def branch(output: Locator, section: Locator, token: int, alternative: int = 0) -> None:
    """Begin a branch from a token of a column, by one of its alternatives."""
    section.locator(".acs-t").nth(token).click()
    tip = output.locator(".acs-tip.acs-pinned")
    tip.wait_for(state="visible")
    tip.locator(".acs-alternative").nth(alternative).click()


def test_a_branch_stands_beside_the_choice_it_left(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb = notebook(setup(scripted_server), FOUR)
    nb.run(0)
    nb.run(1)
    output = nb.output(1)
    closed(output, 1)
    choices = output.locator(".acs-many > .acs-choice")
    expect(choices).to_have_count(4)
    for number, (place, token) in enumerate(((1, 5), (3, 7), (1, 9)), start=1):
        branch(output, choices.nth(place), token)
        expect(output.locator(".acs-branch[data-outcome=done]")).to_have_count(number, timeout=20_000)
    order = output.locator(".acs-many").evaluate(
        "e => [...e.children].map(one => one.classList.contains('acs-branch') ? 'branch' : 'choice')"
    )
    assert order == ["choice", "choice", "branch", "branch", "choice", "choice", "branch"]
    # From left to right as they stand there, in one line.
    places = output.locator(".acs-many > *").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().left)"
    )
    assert places == sorted(places)
    tops = output.locator(".acs-many > *").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    assert max(tops) - min(tops) < 2
    # A branch of a branch stands behind it.
    branch(output, output.locator(".acs-branch").first, 20)
    expect(output.locator(".acs-branch[data-outcome=done]")).to_have_count(4, timeout=20_000)
    roads = output.locator(".acs-branch .acs-road ol").all_inner_texts()
    assert [text.replace("\n", " ").count("branch") for text in roads][:2] == [1, 2]
    for name in nb.in_both_themes():
        output.scroll_into_view_if_needed()
        shoot(page, f"four-branched-{name}")


def test_a_row_of_many_branches_has_one_bar_in_each_direction(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb = notebook(setup(scripted_server), LONG, FOUR)
    nb.run(0)
    for index, row, name in ((1, "row", "one"), (2, "group", "four")):
        nb.run(index)
        _one_bar_each(nb, nb.output(index), row, name)


def _one_bar_each(nb: Notebook, output: Locator, row: str, name: str) -> None:
    closed(output, 1)
    first = output.locator(".acs-choice").first
    for number in range(8):
        branch(output, first, 3 + number)
        expect(output.locator(".acs-branch[data-outcome=done]")).to_have_count(number + 1, timeout=20_000)
    bars: list[Any] = output.locator(".acs-family").evaluate(BARS)
    assert [name for name, _, right in bars if right] == [row]
    # Down only the texts scroll, each for itself.
    assert {name for name, down, _ in bars if down} <= {"text"}
    assert all(not down or not right for _, down, right in bars)
    for theme in nb.in_both_themes():
        output.scroll_into_view_if_needed()
        shoot(nb.page, f"many-branches-{name}-{theme}")
