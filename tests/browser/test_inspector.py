"""The inspector on a page, in both themes: keys, search, whole distributions, copy, hostile text, the saved view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook, shoot

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.support.servers import Running

Open = Callable[..., Notebook]
TEXT = "The capital of France is Paris.\\nThe capital of 日本 is Tokyo <img src=x onerror=alert(1)> 🦊."
CELLS = (
    f"from acs_jupyter import Inspector\nview = Inspector({TEXT!r}.replace('\\\\n', chr(10)))\nview",
    "print(view.score.tokens[5].text, len(view._inspected.known))",
    """from acs_jupyter import Surgery, difference, score
same, other = score(["The capital of France is Paris, a city.", "The capital of Italy is Rome, a city."])
difference(same, other)""",
    """Surgery("Paris is in France. It <b>rains</b>. The capital of France is", " Paris").run()""",
    """%matplotlib inline
_ = same.plot()""",
)


def test_a_text_is_inspected(notebook: Open, page: Page, smollm_server: Running) -> None:
    nb = notebook(setup(smollm_server), *CELLS, height=1150)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    nb.run(0)
    nb.run(1, timeout=60_000)
    view = nb.output(1).locator(".acs-inspector")
    view.wait_for()
    assert "bits per byte" in view.locator(".acs-status").inner_text()
    assert "<img src=x" in view.locator(".acs-text").evaluate("e => e.textContent")
    assert view.locator("img").count() == 0
    by_keys(view, page)
    looks(nb, view, "returned")
    whole(view, page)
    search(view)
    looks(nb, view, "whole")
    beside_and_copy(view, page)
    nb.run(2)
    assert nb.printed(2).split() == ["Paris", "5"]
    drawn_under_the_text(nb)
    saved(nb)


def looks(nb: Notebook, part: Locator, name: str) -> None:
    """Pictures, and what axe finds, in both themes."""
    for theme in nb.in_both_themes():
        shoot(nb.page, f"inspector-{name}-{theme}")
        assert violations(part) == [], theme


def by_keys(view: Locator, page: Page) -> None:
    """One tab stop; arrows move and choose; the name says what is on the token's face."""
    stops = view.locator(".acs-t[tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    panel = view.get_by_role("region", name="Distribution at the chosen token")
    page.keyboard.press("ArrowRight")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    token = view.locator(".acs-t:focus")
    assert token.inner_text().strip() == "Paris"
    assert token.get_attribute("aria-label", timeout=1000).startswith("Paris, ")  # type: ignore[union-attr]
    assert token.get_attribute("aria-pressed") == "true"
    assert "is not covered" in panel.inner_text()
    assert "rank 1" in panel.inner_text()
    assert panel.locator("tbody tr").count() == 10
    top_p = panel.get_by_label("top_p")
    top_p.fill("0.5")
    assert "nucleus of top_p 0.5" in panel.locator(".acs-nucleus").inner_text()
    panel.get_by_label("temperature").fill("0.5")
    assert "over these alone" in panel.inner_text()


def whole(view: Locator, page: Page) -> None:
    panel = view.get_by_role("region", name="Distribution at the chosen token")
    button = panel.get_by_role("button", name="Whole distribution: one request, about 7 tokens")
    button.click()
    page.wait_for_function(
        "document.querySelector('.acs-spread-about').textContent.startsWith('Whole distribution over 49,152')",
        timeout=60_000,
    )
    assert "over these alone" not in panel.inner_text()  # a temperature on the whole is exact
    assert "of what was returned" not in panel.inner_text()
    panel.get_by_role("button", name="Show all 100").click()
    assert panel.locator("tbody tr:not(.acs-nucleus)").count() == 100
    panel.get_by_role("button", name="Show 20").click()
    # Its prefix has told all positions before it: they cost nothing more.
    view.locator(".acs-t").nth(3).click()
    page.wait_for_function(
        "document.querySelector('.acs-spread-about').textContent.startsWith('Whole distribution over 49,152')"
    )
    view.locator(".acs-t").nth(5).click()


def search(view: Locator) -> None:
    box = view.get_by_label("rank of")
    box.fill(" the")
    box.press("Enter")
    result = view.locator(".acs-search-result")
    result.filter(has_text="whole distributions").wait_for()
    assert "Rank of “·the”" in result.inner_text()
    ranks = view.locator(".acs-t").evaluate_all("all => all.slice(1, 6).map(e => e.dataset.rank)")
    assert all(one.isdigit() for one in ranks)


def beside_and_copy(view: Locator, page: Page) -> None:
    view.get_by_role("button", name="Clear").click()
    view.get_by_label("Show beside the tokens").select_option("bytes")
    marks = view.locator(".acs-t[data-n]").evaluate_all("all => all.map(e => e.dataset.n)")
    assert "20 50 61 72 69 73" in marks
    view.get_by_label("Show beside the tokens").select_option("id")
    view.get_by_label("Colour by").select_option("entropy")
    assert view.locator(".acs-t.acs-by-entropy").count() > 5
    view.get_by_role("button", name="Copy as table").click()
    view.get_by_text("copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    rows = copied.split("\n")
    assert rows[0] == "position\tid\ttext\tstart\tlogprob\tsurprisal\trank"
    assert rows[6].startswith("5\t")
    assert '" Paris"' in rows[6]
    view.get_by_label("Colour by").select_option("probability")
    view.get_by_label("Show beside the tokens").select_option("nothing")


def drawn_under_the_text(nb: Notebook) -> None:
    """Lines under stretches, thicker and of another kind by what they say; each reads in both themes."""
    for cell in (3, 4, 5):
        nb.run(cell, timeout=60_000)
    seen = set()
    drawn = [nb.output(cell).locator(".acs-diff") for cell in (3, 4)]
    for one in drawn:
        one.wait_for()
        lines = one.locator("[title]").evaluate_all(
            "all => all.map(e => [getComputedStyle(e).borderBottomStyle, getComputedStyle(e).borderBottomWidth])"
        )
        marked = {(style, width) for style, width in lines if style in ("solid", "dashed")}
        assert marked
        seen |= marked
        assert one.locator("b").count() == 0
    assert len(seen) > 1
    assert nb.output(4).get_by_text("<b>rains</b>").count() == 1
    assert "largest" in nb.output(3).inner_text()
    nb.output(5).locator("img").wait_for()
    nb.output(5).scroll_into_view_if_needed()
    looks(nb, drawn[0], "difference")
    looks(nb, drawn[1], "surgery")


def saved(nb: Notebook) -> None:
    """Without a kernel and without widgets the static view stands there alone."""
    nb.save()
    nb.end_kernels()
    nb.page.goto("about:blank")
    nb.open()
    static = nb.output(1).locator(".acs-static")
    static.wait_for(state="visible")
    assert "bits per byte" in static.inner_text()
    assert "<img src=x onerror=alert(1)>" in static.inner_text()
    assert static.locator("img").count() == 0
    looks(nb, static, "saved")
