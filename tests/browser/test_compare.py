"""The board of a comparison on a page: run, stopped, run again, one lane broken, reloaded, saved; in both themes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acs_jupyter import load
from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook, shoot

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.support.servers import Running

Open = Callable[..., Notebook]
PROMPT = "#scripted tokens=60 alternatives=4\nOnce upon a <img src=x onerror=alert(1)> time"
SLOW = "#scripted tokens=9000 rate=60 alternatives=2"
BROKEN = "#scripted tokens=9 fault=cut after=4"
CELLS = (
    f"""from acs_jupyter import Compare
board = Compare({PROMPT!r}, max_tokens=60, lanes=[
    {{"temperature": 0}}, {{"temperature": 1.2}}, {{"n": 2, "temperature": 0.7}},
    {{"name": "slow <b>one</b>", "prompt": {SLOW!r}, "max_tokens": 9000}},
    {{"name": "one that breaks", "prompt": {BROKEN!r}}},
    {{"name": "one that is refused", "top_p": 3}}])
board""",
    """import json
print(json.dumps(board.frame(every=True)[["lane", "round", "outcome", "text", "prompt"]].values.tolist()))""",
)


class Sitting:
    """One page over all of it."""

    def __init__(self, nb: Notebook) -> None:
        self.nb, self.page = nb, nb.page
        self.board = nb.output(1).locator(".acs-compare")

    def lane(self, letter: str) -> Locator:
        return self.board.get_by_role("region", name=f"Lane {letter}:")

    def ended(self, letter: str, outcome: str) -> None:
        self.lane(letter).locator(f".acs-run[data-outcome={outcome}]").wait_for(timeout=20_000)

    def button(self, name: str) -> Locator:
        return self.board.get_by_role("button", name=name, exact=True)

    def rows(self) -> list[list[Any]]:
        self.nb.run(2)
        found: list[list[Any]] = json.loads(self.nb.printed(2))
        return found


def lanes_stream_and_bad_ones_harm_no_other(day: Sitting) -> None:
    assert day.lane("A").get_by_text("Not run yet.").is_visible()
    assert day.button("Stop all").get_attribute("aria-disabled") == "true"
    day.button("Run all").click()
    for letter, outcome in (
        ("A", "done"),
        ("B", "done"),
        ("C", "done"),
        ("E", "interrupted"),
        ("F", "failed"),
    ):
        day.ended(letter, outcome)
    day.ended("D", "open")
    assert "top_p=3" in day.lane("F").get_by_role("alert").first.inner_text()
    assert day.lane("E").locator(".acs-t").count() > 0  # what came is kept, beside its one line
    assert "\n" not in day.lane("E").get_by_role("alert").first.inner_text()
    assert day.lane("C").locator(".acs-choice").count() == 2
    assert day.lane("D").locator(".acs-lane-name").inner_text() == "slow <b>one</b>"
    assert day.button("Run all").get_attribute("aria-disabled") == "true"
    assert day.board.locator("img").count() == 0


def differences_are_told_and_marked(day: Sitting) -> None:
    told = day.lane("B").locator(".acs-lane-diff").inner_text()
    assert "A has “" in told
    assert "%" in told
    place = day.lane("B").locator(".acs-t.acs-parts")
    first = [one.locator(".acs-text").first.evaluate("e => e.textContent") for one in map(day.lane, "AB")]
    shared = next(i for i, (a, b) in enumerate(zip(*first, strict=False)) if a != b)
    if shared:
        assert place.count() == 1
        assert f"for {shared} character" in told
    assert day.lane("A").locator(".acs-lane-diff").is_hidden()
    day.board.get_by_label("against").select_option("B")
    assert "B has “" in day.lane("A").locator(".acs-lane-diff").inner_text()
    assert day.lane("B").locator(".acs-lane-diff").is_hidden()
    day.board.get_by_label("against").select_option("A")


def it_is_coloured_and_read_by_keys(day: Sitting) -> None:
    day.board.get_by_label("Colour by").first.select_option("entropy")
    assert day.lane("A").locator(".acs-t.acs-by-entropy").count() > 5
    assert day.lane("B").locator(".acs-t.acs-by-entropy").count() > 5
    day.board.get_by_label("Colour by").first.select_option("probability")
    day.lane("B").locator(".acs-t[tabindex='0']").first.focus()
    for _ in range(3):
        day.page.keyboard.press("ArrowRight")
    tip = day.board.locator(".acs-tip")
    tip.wait_for(state="visible")
    assert "sampled" in tip.inner_text()
    day.page.keyboard.press("Escape")
    day.button("Stop all").focus()


def one_is_stopped_and_run_again(day: Sitting) -> None:
    day.lane("D").get_by_role("button", name="Stop", exact=True).click()
    day.ended("D", "stopped")
    before = day.lane("D").locator(".acs-t").count()
    assert before > 0
    day.button("Run lane D").click()
    day.ended("D", "open")
    day.button("Stop all").click()
    day.ended("D", "stopped")
    day.board.get_by_label("round").select_option("1")  # what was run before is there as it was
    assert day.lane("D").locator(".acs-t").count() == before
    rows = day.rows()
    assert [row[:3] for row in rows if row[0] == "D"] == [["D", 1, "stopped"], ["D", 2, "stopped"]]
    assert day.board.get_by_label("round").locator("option").count() == 2
    day.board.get_by_label("round").select_option("2")


def the_prompt_is_changed_for_those_that_share_it(day: Sitting) -> None:
    box = day.board.get_by_label("Prompt")
    other = "#scripted tokens=30 alternatives=3\nIn the beginning"
    box.fill(other)
    day.button("Run lane B").click()
    day.page.wait_for_function("document.querySelectorAll('.acs-compare-label option').length >= 10")
    day.ended("B", "done")
    last = day.rows()[-1]
    assert (last[0], last[1], last[4]) == ("B", 3, other)


def a_lane_is_edited_in_place(day: Sitting) -> None:
    lane = day.lane("B")
    lane.locator("summary", has_text="Settings of lane B").click()
    assert day.board.locator(".acs-lane-form[open]").count() == 1
    form = lane.locator(".acs-lane-form")
    field = form.get_by_label("temperature", exact=True)
    assert field.input_value() == "1.2"
    assert form.get_by_label("max_tokens", exact=True).get_attribute("placeholder") == "all lanes: 60"
    field.fill("hot")
    lane.get_by_text("temperature: a number is needed").wait_for()
    day.button("Run lane B").click()
    assert field.evaluate("e => e === document.activeElement")
    field.fill("0.4")
    lane.get_by_text("changed for the next run").wait_for()
    assert lane.locator(".acs-lane-name").inner_text() == "temperature 1.2"
    shoot(day.page, "compare-edit-light")
    field.press("Control+Enter")
    lane.locator(".acs-lane-name", has_text="temperature 0.4").wait_for()
    day.ended("B", "done")
    assert day.board.get_by_role("region", name="Lane B: temperature 0.4").count() == 1
    assert lane.get_by_text("changed for the next run").count() == 0
    day.board.get_by_label("round").select_option("3")
    lane.get_by_text("This text: temperature 1.2").wait_for()
    day.board.get_by_label("round").select_option("4")
    lane.get_by_text("This text:").wait_for(state="hidden")


def a_reload_and_the_saved_file_have_it(day: Sitting, saved: Path) -> None:
    texts = [day.lane(letter).locator(".acs-text").first.evaluate("e => e.textContent") for letter in "ABD"]
    day.nb.save()
    day.nb.open(reset=False)
    day.ended("B", "done")
    assert [
        day.lane(letter).locator(".acs-text").first.evaluate("e => e.textContent") for letter in "ABD"
    ] == texts
    assert day.board.get_by_label("round").locator("option").count() == 4
    assert {one.lane.name for one in load(saved) if one.lane and one.lane.letter == "B"} == {
        "temperature 1.2", "temperature 0.4"
    }  # fmt: skip
    assert len(load(saved)) == len({(row[0], row[1]) for row in day.rows()})
    day.nb.save()
    day.nb.end_kernels()
    day.page.goto("about:blank")
    day.nb.open(kernel=False)
    copy = day.nb.output(1).locator(".acs-static")
    copy.wait_for(state="visible")
    assert "B · temperature 0.4" in copy.inner_text()
    assert "top_p=3" in copy.inner_text()
    assert "slow <b>one</b>" in copy.inner_text()
    assert day.nb.output(1).locator("img, script").count() == 0


def test_a_sitting_at_the_board(notebook: Open, page: Page, scripted_server: Running, root: Path) -> None:
    nb = notebook(setup(scripted_server), *CELLS, height=1250)
    nb.run(0)
    nb.run(1)
    day = Sitting(nb)
    day.board.wait_for()
    lanes_stream_and_bad_ones_harm_no_other(day)
    assert violations(day.board) == []
    shoot(page, "compare-running-light")
    differences_are_told_and_marked(day)
    it_is_coloured_and_read_by_keys(day)
    one_is_stopped_and_run_again(day)
    the_prompt_is_changed_for_those_that_share_it(day)
    a_lane_is_edited_in_place(day)
    assert violations(day.board) == []
    shoot(page, "compare-light")
    nb.theme("dark")
    assert violations(day.board) == []
    shoot(page, "compare-dark")
    a_reload_and_the_saved_file_have_it(day, root / nb.name)
    shoot(page, "compare-saved-dark")
