"""The budget meter while tokens stream, at its limit, without a kernel; in both themes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook, shoot

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.support.servers import Running

Open = Callable[..., Notebook]
CELLS = (
    "%acs budget --limit 2000",
    "from acs_jupyter import BudgetMeter\nBudgetMeter()",
    "%%acs -m scripted --max-tokens 600\n#scripted rate=150",
    "%%acs -m scripted --max-tokens 1000\n#scripted tokens=1000",
    "%%acs -m scripted --max-tokens 600\nnever sent",
    "%%acs -m scripted --max-tokens 600 --budget 100\nnever sent either",
    "frame = %acs budget\nframe",
    "%acs budget --limit none",
    "%acs budget --limit 2000",
    "%acs budget --limit 300 --session",
)
WITHOUT, AGAIN, SESSION = 8, 9, 10


def test_the_meter_moves_warns_and_stays(
    notebook: Open, page: Page, scripted_server: Running, tmp_path: Path
) -> None:
    ledger = f"\nos.environ['ACS_LEDGER'] = {str(tmp_path / 'ledger.sqlite3')!r}"
    nb = notebook(setup(scripted_server).replace("\n%load", f"{ledger}\n%load"), *CELLS)
    nb.run(0)
    nb.run(1)
    assert "has a limit of 2,000 tokens a month" in nb.printed(1)
    nb.run(2)
    meter = nb.output(2).locator(".acs-budget")
    meter.wait_for()
    assert told(meter) == "0 tokens spent, 0 held, 2,000 tokens left of 2,000"
    without_a_limit(nb, meter)
    it_moves(nb, meter)
    it_warns(nb, meter)
    refused(nb)
    text_and_frame(nb)
    of_the_session(nb, meter)
    saved(nb)


def looks(nb: Notebook, part: Locator, name: str) -> None:
    """Pictures, and what axe finds, in both themes."""
    for theme in nb.in_both_themes():
        nb.page.evaluate("scrollTo(0, 0)")
        part.scroll_into_view_if_needed()
        shoot(nb.page, f"budget-{name}-{theme}")
        assert violations(part) == [], theme


def without_a_limit(nb: Notebook, meter: Locator) -> None:
    nb.run(WITHOUT)
    meter.locator(".acs-budget-bar").wait_for(state="hidden")
    assert "no limit" in meter.locator(".acs-budget-figures").inner_text()
    looks(nb, meter, "free")
    nb.run(AGAIN)
    meter.locator(".acs-budget-bar").wait_for(state="visible")


def it_moves(nb: Notebook, meter: Locator) -> None:
    """While the kernel's main thread is busy; and what is held goes down as what is spent goes up."""
    nb.start(3)
    seen = watch(nb.page)
    shoot(nb.page, "budget-running")
    nb.wait(3)
    assert len(seen) >= 3
    assert [spent for spent, _ in seen] == sorted(spent for spent, _ in seen)
    assert len({spent + held for spent, held in seen if held}) == 1
    assert any(0 < held < 600 for _, held in seen)
    figures = meter.locator(".acs-budget-figure").all_inner_texts()
    assert [text.split("\n")[0] for text in figures] == [
        "spent", "held", "left", "rate", "month’s end", "this session",
    ]  # fmt: skip
    assert meter.get_attribute("data-level") == "ok"


def it_warns(nb: Notebook, meter: Locator) -> None:
    nb.run(4)
    nb.page.wait_for_function("document.querySelector('.acs-budget').dataset.level === 'warn'")
    assert "% of the limit is spent or held" in meter.locator(".acs-budget-warning").inner_text()
    assert "% of the limit" in str(meter.get_by_role("status").text_content())
    meter.get_by_role("meter").focus()
    looks(nb, meter, "warn")


def of_the_session(nb: Notebook, meter: Locator) -> None:
    """More is spent than the session may have: bar, words and colour follow that limit."""
    nb.run(SESSION)
    meter.get_by_text("this session's limit is reached").first.wait_for(state="attached")
    assert meter.get_attribute("data-level") == "over"
    assert "0 tokens left of 300" in told(meter)
    assert "of this session’s 300" in str(meter.locator(".acs-budget-figures").text_content())
    assert meter.locator(".acs-budget-spent").evaluate("one => one.style.width") == "100%"
    looks(nb, meter, "session")


def refused(nb: Notebook) -> None:
    nb.run(5)
    refusal = nb.output(5).inner_text()
    assert refusal.startswith("budget_refused: The limit of ")
    assert "Nothing was sent" in refusal
    assert nb.output(5).locator(".acs-live").count() == 0
    nb.run(6)
    assert "The --budget of this cell leaves 100 of 100 tokens" in nb.output(6).inner_text()


def text_and_frame(nb: Notebook) -> None:
    nb.run(7)
    assert "tokens spent in" in nb.printed(7)
    assert nb.name in nb.output(7).locator("table").inner_text()
    assert nb.output(7).locator("table").count() == 1
    nb.output(7).scroll_into_view_if_needed()
    shoot(nb.page, "budget-text")


def saved(nb: Notebook) -> None:
    nb.save()
    nb.end_kernels()
    nb.page.goto("about:blank")
    nb.open()
    line = nb.output(2).locator(".acs-budget-beside")
    line.wait_for(state="visible")
    assert "tokens spent in" in line.inner_text()
    assert "this session's limit is reached" in line.inner_text()
    assert "as it stood at 20" in line.inner_text()
    assert "model not found" not in nb.output(2).inner_text()
    looks(nb, line, "saved")


def told(meter: Locator) -> str:
    return str(meter.get_by_role("meter").get_attribute("aria-valuetext"))


def watch(page: Page) -> list[tuple[int, int]]:
    """What the meter says, each time it says something new, until nothing is held any more."""
    seen: list[list[int]] = page.evaluate(
        """() => new Promise(done => {
          const bar = document.querySelector(".acs-budget-bar"), seen = [], began = performance.now();
          const read = () => {
            const [spent, held] = bar.getAttribute("aria-valuetext").replaceAll(",", "").match(/\\d+/g).map(Number);
            const last = seen.at(-1);
            if (!last || last[0] !== spent || last[1] !== held) seen.push([spent, held]);
            if ((seen.length > 4 && held < 300) || performance.now() - began > 20000) done(seen);
            else setTimeout(read, 30);
          };
          read();
        })"""
    )
    return [(spent, held) for spent, held in seen]
