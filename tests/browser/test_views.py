"""What a reader does with a text: colour it, look it over, compare columns, ask what if."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.browser.cells import SETUP
from tests.browser.labkit import Notebook, painted, point_at, shoot

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Notebook]

SHORT = """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a", seed=7, top_p=0.95)); session.apply([head("a")])
for made in tokens(90): session.apply([arrived("a.0", made)])
session.apply([ev.Finished("a.0", "length"), ev.Spent("a", 3, 90), ev.RunClosed("a", "done")])
"""
COLUMNS = """
window = LiveCell(session, ["b"]); display(window)
session.apply(open_run("b", n=3)); session.apply([head("b")])
for i in range(3):
    for made in [*tokens(9, seed=9), *tokens(200 + 60 * i, seed=i)]: session.apply([arrived(f"b.{i}", made)])
session.apply([*(ev.Finished(f"b.{i}", "stop") for i in range(3)), ev.RunClosed("b", "done")])
"""
LONG = """
session.apply(open_run("c", seed=7)); session.apply([head("c")])
for made in tokens(3000): session.apply([arrived("c.0", made)])
session.apply([ev.Finished("c.0", "length"), ev.Spent("c", 3, 3000), ev.RunClosed("c", "done")])
window = LiveCell(session, ["c"]); display(window)
"""
KNOWN = r"""
window = LiveCell(session, ["k"]); display(window)
session.apply(open_run("k"))
P = lambda **top: {k.replace("_", " "): math.log(v) for k, v in top.items()}
def put(token, top): session.apply([ev.TokensArrived("k.0", token, (token,), (top[token],), (top,))])
put("é", P(é=0.5, a=0.25, b=0.125, c=0.0625, d=0.0625))
put(" far", P(_far=0.05, _a=0.5, _b=0.25, _c=0.2))
put(" out", P(_out=0.002, _v=0.5, _w=0.2, _x=0.1, _y=0.05, _z=0.04))
put("\n", {"\n": math.log(0.9), " ": math.log(0.1)})
session.apply([ev.Finished("k.0", "stop"), ev.RunClosed("k", "done")])
"""


def _shown(nb: Notebook, *cells: int, tokens: int) -> Locator:
    for cell in cells:
        nb.run(cell)
    output = nb.output(cells[-1])
    output.locator(".acs-t").nth(tokens - 1).wait_for(state="attached")
    output.scroll_into_view_if_needed()
    output.page.wait_for_timeout(200)
    return output


def _colour_by(output: Locator, view: str) -> None:
    output.get_by_label("Colour by").select_option(view)
    output.locator(f".acs-legend[data-view={view}]").wait_for()


def _classes(output: Locator) -> list[str]:
    found: list[str] = output.locator(".acs-t").evaluate_all("all => all.map(e => e.className)")
    return found


def test_colour_by_each_measure_with_a_legend_and_numbers(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, KNOWN, SHORT)
    known = _shown(nb, 0, 1, tokens=4)
    legend = known.locator(".acs-legend")
    expected = {
        "probability": ("acs-p0 acs-p3 acs-p6 acs-p0", ["50%", "5%", "<1%", "90%"], "likelyunlikely"),
        # Four decimals of a logprob cross, so one bit comes as 0.9999.
        "surprisal": ("acs-p0 acs-p3 acs-p5 acs-p0", ["1.0", "4.3", "9.0", "0.2"], "0 bits13"),
        "rank": ("acs-p0 acs-p3 acs-p7 acs-p0", ["1", "4", ">5", "1"], "1stnot listed"),
        "entropy": ("acs-p4 acs-p4 acs-p4 acs-p1", ["1.9", "1.7", "1.8", "0.5"], "0 bits3"),
    }
    text = known.locator(".acs-text")
    before, selected = text.text_content(), _selected(text)
    for view, (levels, figures, ends) in expected.items():
        _colour_by(known, view)
        shown = _classes(known)
        assert [next(c for c in one.split() if c.startswith("acs-p")) for one in shown] == levels.split()
        assert legend.text_content() == ends
        assert known.locator("[data-n]").count() == 0
        known.get_by_role("button", name="Numbers beside the tokens").click()
        numbers = known.locator("[data-n]").evaluate_all("all => all.map(e => e.dataset.n)")
        assert numbers == figures
        assert _selected(text) == selected
        drawn = known.locator("[data-n]").first.evaluate("e => getComputedStyle(e, '::after').content")
        assert figures[0] in drawn
        assert text.text_content() == before
        known.get_by_role("button", name="Numbers beside the tokens").click()
    _colour_by(known, "entropy")
    assert "returned" in str(legend.get_attribute("aria-label"))
    short = _shown(nb, 2, tokens=90)  # a later window takes up the choice
    assert short.get_by_label("Colour by").input_value() == "entropy"
    short.get_by_role("button", name="Numbers beside the tokens").click()
    for theme in nb.in_both_themes():
        shoot(page, f"views-entropy-numbers-{theme}")
    short.get_by_role("button", name="Numbers beside the tokens").click()
    _colour_by(short, "surprisal")
    # Not by colour alone: the least likely are underlined twice.
    strongest = short.locator(".acs-t.acs-p5").first
    for theme in nb.in_both_themes():
        shoot(page, f"views-surprisal-{theme}")
        assert strongest.evaluate("e => parseFloat(getComputedStyle(e).borderBottomWidth)") >= 1


def _selected(text: Locator) -> str:
    """What a selection of the whole text reads as."""
    found: str = text.evaluate(
        "e => { getSelection().selectAllChildren(e); const t = getSelection().toString();"
        "  getSelection().removeAllRanges(); return t; }"
    )
    return found


def test_the_choice_is_by_keyboard_and_outlives_a_reload(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT)
    output = _shown(nb, 0, 1, tokens=90)
    output.get_by_label("Colour by").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert output.get_by_label("Colour by").input_value() == "rank"
    assert all("acs-by-rank" in one for one in _classes(output))
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert output.locator("[data-n]").count() == 90
    cells = page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length")
    assert cells == 2  # no key reached the notebook
    nb.save()
    nb.open(reset=False)
    output.locator(".acs-t").nth(89).wait_for()
    assert output.get_by_label("Colour by").input_value() == "rank"
    assert output.locator("[data-n]").count() == 90
    assert all("acs-by-rank" in one for one in _classes(output))


def test_forbidden_storage_is_no_trouble(notebook: Open, page: Page) -> None:
    page.add_init_script(
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    nb = notebook(SETUP, SHORT, again=True)
    output = _shown(nb, 0, 1, tokens=90)
    _colour_by(output, "rank")
    assert all("acs-by-rank" in one for one in _classes(output))
    nb.end_kernels()
    page.close()


def test_recolouring_twenty_thousand_tokens_reaches_them_all(notebook: Open, page: Page) -> None:
    """How long its tasks are is measured in ``tests/benchmarks/bench_render.py``."""
    nb = notebook(SETUP, LONG.replace("3000", "20_000"))
    output = _shown(nb, 0, 1, tokens=20_000)
    for view in ("rank", "entropy", "surprisal"):
        _colour_by(output, view)
        page.wait_for_function(
            "name => document.querySelectorAll(`.acs-t.${name}`).length === 20000",
            arg=f"acs-by-{view}",
            polling=200,
        )
        assert output.locator(f".acs-t.acs-by-{view}").count() == 20_000


def test_a_strip_shows_the_whole_of_a_long_text_and_leads_through_it(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT, LONG)
    short = _shown(nb, 0, 1, tokens=90)
    assert not short.locator(".acs-strip").is_visible()
    output = _shown(nb, 2, tokens=3000)
    strip = output.locator(".acs-strip")
    assert strip.is_visible()
    assert strip.get_attribute("role") == "slider"
    assert "Surprisal" in str(strip.get_attribute("aria-label"))
    inked = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)"
    assert strip.locator("canvas").evaluate(inked)
    tokens = output.locator(".acs-t")
    assert _in_box(output, tokens.nth(0))
    for theme in nb.in_both_themes():
        shoot(page, f"strip-{theme}")
    box = strip.bounding_box()
    assert box is not None
    strip.click(position={"x": box["width"] * 0.8, "y": 6})
    page.wait_for_timeout(150)
    assert _in_box(output, tokens.nth(2400))
    assert not _in_box(output, tokens.nth(0))
    assert 2100 < int(str(strip.get_attribute("aria-valuenow"))) < 2400
    seen = output.locator(".acs-strip-seen").bounding_box()
    assert seen is not None
    assert seen["x"] < box["x"] + box["width"] * 0.8 < seen["x"] + seen["width"]
    places = []
    for key in ("Home", "ArrowRight", "PageDown", "ArrowLeft", "End"):
        strip.press(key)
        page.wait_for_timeout(150)
        places.append(int(str(strip.get_attribute("aria-valuenow"))))
    assert places[0] == 1
    assert places[0] < places[1] < places[2] > places[3] < places[4]
    assert _in_box(output, tokens.nth(2999))
    assert str(strip.get_attribute("aria-valuetext")).endswith("to 3000 of 3000")
    output.get_by_role("button", name="Show texts in their full length").click()
    assert output.locator(".acs-text").evaluate("e => e.scrollHeight <= e.clientHeight + 1")
    strip.press("PageDown")
    page.wait_for_timeout(150)
    assert page.evaluate("getComputedStyle(document.querySelectorAll('.acs-boxed')[0]).maxHeight") == "none"


def test_each_long_continuation_has_its_strip(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        """
session.apply(open_run("s", n=3))
for i in range(3):
    for made in tokens([450, 500, 90][i], seed=i): session.apply([arrived(f"s.{i}", made)])
session.apply([ev.RunClosed("s", "done")])
window = LiveCell(session, ["s"]); display(window)
""",
    )
    output = _shown(nb, 0, 1, tokens=1040)
    strips = output.locator(".acs-strip:visible")
    labels = strips.evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert labels == [f"Surprisal of the whole text, continuation {i} of 3" for i in (1, 2)]
    strips.nth(1).press("End")
    page.wait_for_timeout(150)
    assert _in_box(output, output.locator(".acs-text").nth(1).locator(".acs-t").last)


def _in_box(output: Locator, token: Locator) -> bool:
    inside: bool = token.evaluate(
        """e => { const t = e.getBoundingClientRect(), b = e.closest(".acs-text").getBoundingClientRect();
          return t.top >= b.top - 1 && t.bottom <= b.bottom + 1; }"""
    )
    return inside


def test_a_text_that_comes_is_followed_unless_the_reader_went_back(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a")); go = [threading.Event() for _ in range(2)]
def feed():
    for i, made in enumerate(tokens(1800)):
        if i in (900, 1400): go[i // 1000].wait(30)
        session.apply([arrived("a.0", made)]); time.sleep(0.0005)
    session.apply([ev.RunClosed("a", "done")])
threading.Thread(target=feed, daemon=True).start()
""",
        "go[0].set()",
        "go[1].set()",
    )
    output = _shown(nb, 0, 1, tokens=900)
    page.wait_for_timeout(300)
    assert _in_box(output, output.locator(".acs-t").nth(899))
    nb.run(2)
    output.locator(".acs-t").nth(1399).wait_for(state="attached")
    page.wait_for_timeout(300)
    assert _in_box(output, output.locator(".acs-t").nth(1399))
    output.locator(".acs-text").evaluate("e => e.scrollTop = 0")
    nb.run(3)
    output.locator(".acs-t").nth(1799).wait_for(state="attached")
    page.wait_for_timeout(300)
    assert output.locator(".acs-text").evaluate("e => e.scrollTop") == 0


def test_columns_scroll_together_and_mark_where_they_part(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, COLUMNS)
    output = _shown(nb, 0, 1, tokens=3 * 209)
    boxes = output.locator(".acs-text")
    tops = "all => all.map(e => Math.round(e.scrollTop))"
    together = output.get_by_role("button", name="Scroll the continuations together")
    assert together.get_attribute("aria-pressed") == "true"
    boxes.evaluate_all("all => all.forEach(e => e.scrollTop = 0)")
    page.wait_for_timeout(150)
    boxes.nth(0).evaluate("e => e.scrollTop = 60")
    page.wait_for_timeout(150)
    assert boxes.evaluate_all(tops) == [60, 60, 60]
    boxes.nth(2).evaluate("e => e.scrollTop = e.scrollHeight")  # the longest: the others stop at their ends
    page.wait_for_timeout(150)
    ends = boxes.evaluate_all("all => all.map(e => Math.round(e.scrollHeight - e.clientHeight))")
    assert ends[0] < ends[2]
    assert boxes.evaluate_all(tops) == pytest.approx(ends, abs=1)
    together.click()
    boxes.nth(1).evaluate("e => e.scrollTop = 10")
    page.wait_for_timeout(150)
    assert boxes.evaluate_all(tops) == pytest.approx([ends[0], 10, ends[2]], abs=1)
    together.click()

    texts = boxes.evaluate_all("all => all.map(e => e.textContent)")
    shared = next(i for i, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)
    assert shared > 0
    marked = output.locator(".acs-parts")
    assert marked.count() == 3
    for column in range(3):
        before = marked.nth(column).evaluate(
            """e => { const range = document.createRange(); range.setStart(e.closest(".acs-text"), 0);
              range.setEndBefore(e); return [range.toString().length, e.textContent.length]; }"""
        )
        assert before[0] <= shared < before[0] + before[1]
    boxes.evaluate_all("all => all.forEach(e => e.scrollTop = 0)")
    page.wait_for_timeout(150)
    point_at(marked.nth(1))
    tip = output.locator(".acs-tip")
    assert "part here" in tip.inner_text()
    for theme in nb.in_both_themes():
        shoot(page, f"columns-{theme}")
    point_at(output.locator(".acs-t").nth(2))
    assert "part here" not in tip.inner_text()


def test_the_tooltip_says_it_all(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, KNOWN)
    output = _shown(nb, 0, 1, tokens=4)
    tokens, tip = output.locator(".acs-t"), output.locator(".acs-tip")
    point_at(tokens.nth(1))
    said = tip.inner_text()
    assert "token 2 of 4 · character 2" in said
    assert "surprisal 4.32 bits · rank 4 · entropy 1.68 bits of what was returned" in said
    assert "4 of 5 returned: some share one spelling" in said
    rows = tip.locator("tr").all_inner_texts()
    assert [row.split()[:2] for row in rows] == [
        ["1", "“·a”"],
        ["2", "“·b”"],
        ["3", "“·c”"],
        ["4", "“·far”"],
    ]
    assert "5.00 %" in rows[3]
    assert "−3.00" in rows[3]
    assert "sampled" in rows[3]
    for theme in nb.in_both_themes():
        shoot(page, f"tooltip-{theme}")
    point_at(tokens.nth(2))
    said = tip.inner_text()
    assert "not among the 5 likeliest" in said
    assert "returned:" not in said
    assert tip.locator("tr").last.inner_text().split() == ["other", "10.8", "%"]
    point_at(tokens.nth(3))
    assert "U+000A" in tip.inner_text()


def test_the_tooltip_by_keyboard(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, KNOWN)
    output = _shown(nb, 0, 1, tokens=4)
    tip = output.locator(".acs-tip")
    output.locator(".acs-t").first.focus()
    page.keyboard.press("ArrowRight")
    tip.wait_for(state="visible")
    focused = "(n => document.activeElement.getAttribute(n))"
    assert page.evaluate(f"{focused}('aria-describedby')") == tip.get_attribute("id")
    assert tip.get_attribute("role") == "tooltip"
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focused}('aria-pressed')") == "true"
    assert tip.get_attribute("role") == "dialog"
    assert tip.get_attribute("aria-label") == "Alternatives of far, 5.00 %"
    page.keyboard.press("Tab")  # into it, to read it cell by cell
    assert tip.evaluate("e => e === document.activeElement")
    assert tip.is_visible()
    page.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    assert page.evaluate("document.activeElement.textContent") == " far"
    assert page.evaluate(f"{focused}('aria-pressed')") is None
    page.keyboard.press("Enter")
    tip.wait_for(state="visible")
    page.keyboard.press("Enter")
    tip.wait_for(state="hidden")
    output.locator(".acs-t").nth(1).click()
    assert painted(tip.locator("tr").first)
    output.locator(".acs-t").nth(1).click()
    tip.wait_for(state="hidden")


def test_what_if(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, KNOWN, SHORT)
    output = _shown(nb, 0, 1, tokens=4)
    panel = output.locator(".acs-whatif")
    assert panel.get_attribute("open") is None
    assert output.locator(".acs-cut").count() == 0
    panel.locator("summary").focus()
    page.keyboard.press("Enter")
    whole, rows = panel.locator(".acs-whatif-whole"), panel.locator("table > tr")
    whole.filter(has_text="0 of 4 sampled tokens would have been cut (0.0 %)").wait_for()
    assert "not covered" in panel.locator(".acs-whatif-note").last.inner_text()
    output.locator(".acs-t").nth(0).click()
    page.keyboard.press("Escape")
    box = panel.get_by_label("top_k", exact=True)
    box.fill("2")
    assert whole.inner_text().startswith("2 of 4 sampled")  # far and out rank lower
    assert _classes(output)[1].endswith("acs-cut")
    cut = output.locator(".acs-cut").first.evaluate("e => getComputedStyle(e).textDecorationLine")
    assert cut == "line-through"
    assert [row.split() for row in rows.all_inner_texts()][:3] == [
        ["“é”", "50.0", "%", "→", "66.7", "%", "sampled"],
        ["“a”", "25.0", "%", "→", "33.3", "%"],
        ["“b”", "12.5", "%", "→", "–", "cut", "by", "top_k"],
    ]
    assert panel.get_by_label("top_k, slider").input_value() == "2"
    box.fill("50")
    assert "Of 1 more it cannot be said" in whole.inner_text()
    panel.get_by_role("button", name="nothing cut").click()
    panel.get_by_label("top_p", exact=True).fill("0.8")
    assert [row.split()[4] for row in rows.all_inner_texts()] == ["57.1", "28.6", "14.3", "–", "–"]
    panel.get_by_label("temperature, slider").focus()
    page.keyboard.press("Home")
    assert panel.get_by_label("temperature", exact=True).input_value() == "0"
    assert rows.first.inner_text().split()[4] == "100.0"
    assert rows.nth(1).inner_text().endswith("not the likeliest")
    assert whole.inner_text().startswith("2 of 4")
    box.fill("-3")  # nonsense changes nothing
    assert whole.inner_text().startswith("2 of 4")
    panel.locator("summary").click()
    expect(output.locator(".acs-cut")).to_have_count(0)  # tokens are painted anew frame by frame

    short = _shown(nb, 2, tokens=90)
    short.locator("summary").click()
    assert short.get_by_label("top_p", exact=True).input_value() == "0.95"  # as it was sampled
    short.locator(".acs-t").nth(13).click()
    page.keyboard.press("Escape")
    short.get_by_label("min_p", exact=True).fill("0.1")
    short.locator(".acs-whatif-note").last.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    for theme in nb.in_both_themes():
        shoot(page, f"whatif-{theme}")


def test_no_accessibility_violation(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT, COLUMNS, LONG)
    for cell in range(4):
        nb.run(cell)
    nb.output(3).locator(".acs-t").nth(2999).wait_for(state="attached")
    for cell in (1, 2, 3):
        output = nb.output(cell)
        output.locator("summary").click()
        output.get_by_label("top_k", exact=True).fill("2")
        output.locator(".acs-t").nth(3).click()
        output.locator(".acs-tip").wait_for(state="visible")
        for theme in nb.in_both_themes():
            for view in ("probability", "surprisal", "rank", "entropy"):
                _colour_by(output, view)
                assert violations(output.locator(".acs-live")) == [], (cell, view, theme)
        output.locator(".acs-t").nth(3).focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert output.locator(".acs-tip").get_attribute("role") == "dialog"
        assert violations(output.locator(".acs-live")) == []
        page.keyboard.press("Escape")
