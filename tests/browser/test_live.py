"""The live cell in JupyterLab with its default settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from acs_jupyter.widgets.base import STATIC
from acs_jupyter.widgets.feed import Feed
from tests.browser.cells import SETUP
from tests.browser.labkit import Notebook, painted, point_at, shoot
from tests.support.texts import session_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Notebook]

SHORT = """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a", seed=7)); session.apply([head("a")])
for made in tokens(90): session.apply([arrived("a.0", made)])
session.apply([ev.Finished("a.0", "length"), ev.Spent("a", 3, 90), ev.RunClosed("a", "done")])
"""
TEXT = "document.querySelector('.acs-text').textContent"


def test_twenty_thousand_tokens_at_full_speed_none_lost(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP + "made = list(tokens(20_000)); expected = ''.join(t for t, _, _ in made)",
        """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a"))
begin = time.monotonic()
for one in made: session.apply([arrived("a.0", one)])
print("fed in", round(time.monotonic() - begin, 2))
session.apply([ev.RunClosed("a", "done")])
""",
        "import hashlib; print(hashlib.sha256(expected.encode()).hexdigest())",
    )
    nb.run(0)
    nb.run(1)
    page.wait_for_function("document.querySelector('.acs-run')?.dataset.outcome === 'done'")
    assert page.locator(".acs-t").count() == 20_000
    digest = page.evaluate(
        f"""async () => {{
          const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode({TEXT}));
          return Array.from(new Uint8Array(hash), b => b.toString(16).padStart(2, "0")).join("");
        }}"""
    )
    nb.run(2)
    assert nb.printed(2).strip() == digest


OPENED = """async ({ source, snapshot }) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: make } = await import(url);
  const model = { get: name => (name === "snapshot" ? snapshot : undefined), on() {}, off() {}, send() {} };
  const widget = make();
  widget.initialize({ model });
  widget.render({ model, el: document.querySelector("#here") });
  return [document.querySelectorAll(".acs-t").length, document.querySelector(".acs-run").dataset.outcome];
}"""


def test_a_long_text_shows_its_beginning_at_once_and_then_all_of_it(page: Page) -> None:
    session = session_of(9_000)
    snapshot = Feed(session, ["r"], lambda message: None).packed()
    page.set_content("<!doctype html><div id=here></div>")
    page.add_style_tag(content=(STATIC / "live.css").read_text())
    shown, outcome = page.evaluate(OPENED, {"source": (STATIC / "live.js").read_text(), "snapshot": snapshot})
    assert (shown, outcome) == (2_000, "open")  # what else is on the page waits for no more than that
    page.wait_for_function("document.querySelector('.acs-run').dataset.outcome !== 'open'")
    assert page.locator(".acs-run").get_attribute("data-outcome") == "done"
    assert page.evaluate(TEXT) == session.nodes["r.0"].text
    assert page.locator(".acs-t").count() == 9_000
    assert page.locator(".acs-text").evaluate("e => e.scrollTop") == 0  # at its beginning, as it was opened


def test_tooltip_on_hover_is_really_on_top_and_inside_the_window(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT)
    nb.run(0)
    nb.run(1)
    tokens = nb.output(1).locator(".acs-t")
    tokens.nth(89).wait_for()
    tip = nb.output(1).locator(".acs-tip")
    for index in (3, 14, 88):
        point_at(tokens.nth(index))
        tip.wait_for(state="visible")
        box = tip.bounding_box()
        token = tokens.nth(index).evaluate("e => e.getClientRects()[0].bottom")
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1200
        assert box["y"] + box["height"] <= 900
        assert 0 <= box["y"] - token <= 60 or box["y"] + box["height"] <= token
        assert tip.locator("tr").first.evaluate(
            "e => { const b = e.getBoundingClientRect(); e.closest('.acs-tip').style.pointerEvents = 'auto';"
            "  const top = document.elementFromPoint(b.left + b.width / 2, b.top + b.height / 2);"
            "  e.closest('.acs-tip').style.pointerEvents = ''; return e.contains(top); }"
        )
        assert tip.locator(".acs-tip-sampled").count() == 1
        shares = [
            float(t.rstrip(" %").lstrip("<"))
            for t in tip.locator("tr .acs-tip-figure:not(.acs-tip-log)").all_inner_texts()
        ]
        assert sum(shares) == pytest.approx(100, abs=0.5)
    page.mouse.move(5, 5)
    tip.wait_for(state="hidden")


def test_one_tab_stop_arrows_walk_and_no_key_leaks(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT)
    nb.run(0)
    nb.run(1)
    tokens = nb.output(1).locator(".acs-t")
    tokens.nth(89).wait_for()
    assert nb.output(1).locator(".acs-t[tabindex='0']").count() == 1
    page.evaluate("document.querySelector('.acs-id').focus()")
    page.keyboard.press("Tab")
    focused = "(() => [...document.querySelectorAll('.acs-t')].indexOf(document.activeElement))()"
    assert page.evaluate(focused) == 0
    tip = nb.output(1).locator(".acs-tip")
    tip.wait_for(state="visible")
    walked = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
        walked.append(page.evaluate(focused))
    assert walked[:5] == [1, 2, 1, 89, 0]
    assert walked[5] > 3
    assert walked[6] <= 1
    assert nb.output(1).locator(".acs-t[tabindex='0']").count() == 1
    described = page.evaluate(
        "(() => { const e = document.activeElement; return [e.getAttribute('aria-label'), e.getAttribute('role'),"
        " document.getElementById(e.getAttribute('aria-describedby'))?.getAttribute('role')]; })()"
    )
    assert "%" in described[0]
    assert described[1:] == ["button", "tooltip"]
    page.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    assert page.evaluate("document.activeElement.className").startswith("acs-t")
    for key in ("a", "b", "d", "d", "x", "j", "k", "m", "Enter", "0", "0"):
        page.keyboard.press(key)  # in command mode: insert above and below, delete, cut, ...
    cells = page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.map(c => c.model.type)")
    assert cells == ["code", "code"]
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.mode") == "command"


def test_stop_while_a_thread_feeds_is_acknowledged(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        """
stop = threading.Event()
window = LiveCell(session, ["a"], on_intent=lambda intent: stop.set()); display(window)
def feed():
    session.apply(open_run("a"))
    for made in tokens(100_000):
        if stop.wait(0.005): break
        session.apply([arrived("a.0", made)])
    session.apply([ev.RunClosed("a", "stopped")])
threading.Thread(target=feed, daemon=True).start()
""",
        "print(session.runs['a'].outcome, stop.is_set())",
    )
    nb.run(0)
    nb.run(1)
    nb.output(1).locator(".acs-t").nth(20).wait_for()
    page.evaluate(
        """() => { const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
          const interrupt = kernel.interrupt.bind(kernel);
          window.interrupts = 0;
          kernel.interrupt = () => { window.interrupts++; return interrupt(); }; }"""
    )
    nb.output(1).get_by_role("button", name="Stop").click()
    nb.output(1).locator(".acs-state", has_text="stopped").wait_for(timeout=2000)
    page.wait_for_timeout(500)
    assert page.evaluate("window.interrupts") == 0
    nb.run(2)
    assert nb.printed(2).strip() == "stopped True"


def test_stop_in_a_blocking_cell_interrupts_and_keeps_what_came(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a"))
try:
    for made in tokens(100_000):
        session.apply([arrived("a.0", made)]); time.sleep(0.005)
except KeyboardInterrupt:
    session.apply([ev.RunClosed("a", "stopped")])
    raise
""",
        "print(session.runs['a'].outcome, len(session.nodes['a.0'].tokens))",
    )
    nb.run(0)
    nb.start(1)
    nb.output(1).locator(".acs-t").nth(20).wait_for()
    nb.output(1).get_by_role("button", name="Stop").click()
    nb.output(1).locator(".acs-state", has_text="stopped").wait_for(timeout=5000)
    nb.wait(1)
    page.wait_for_timeout(300)
    assert nb.outputs(1)[-1]["ename"] == "KeyboardInterrupt"
    nb.run(2)
    outcome, count = nb.printed(2).split()
    assert outcome == "stopped"
    assert int(count) == nb.output(1).locator(".acs-t").count() > 20


def test_reload_with_the_kernel_alive_shows_it_again_running_or_done(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        SHORT,
        """
window = LiveCell(session, ["b"]); display(window)
go_on = threading.Event()
def feed():
    session.apply(open_run("b"))
    for i, made in enumerate(tokens(120, seed=3)):
        if i == 60: go_on.wait(60)
        session.apply([arrived("b.0", made)]); time.sleep(0.002)
    session.apply([ev.RunClosed("b", "done")])
threading.Thread(target=feed, daemon=True).start()
""",
        "go_on.set()",
        "print(repr(session.nodes['b.0'].text))",
    )
    nb.run(0)
    nb.run(1)
    nb.run(2)
    nb.output(2).locator(".acs-t").nth(59).wait_for()
    before = nb.output(1).locator(".acs-text").text_content()
    nb.save()
    nb.open(reset=False)
    nb.output(1).locator(".acs-t").nth(89).wait_for()
    assert nb.output(1).locator(".acs-text").text_content() == before
    point_at(nb.output(1).locator(".acs-t").nth(5))
    nb.output(1).locator(".acs-tip").wait_for(state="visible")
    nb.output(2).locator(".acs-t").nth(59).wait_for()
    assert nb.output(2).locator(".acs-t").count() == 60
    nb.run(3)
    nb.output(2).locator(".acs-t").nth(119).wait_for()
    page.wait_for_function("[...document.querySelectorAll('.acs-run')].at(-1).dataset.outcome === 'done'")
    nb.run(4)
    assert nb.printed(4).strip() == repr(nb.output(2).locator(".acs-text").text_content())


def test_two_views_of_one_window(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT, "display(window)", "window.close()")
    nb.run(0)
    nb.run(1)
    nb.run(2)
    nb.output(2).locator(".acs-t").nth(89).wait_for()
    assert page.locator(".acs-t").count() == 180
    for index in (1, 2):
        point_at(nb.output(index).locator(".acs-t").nth(4))
        nb.output(index).locator(".acs-tip").wait_for()
        assert page.locator(".acs-tip:popover-open").count() == 1


def test_lost_messages_are_noticed_and_asked_for(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        """
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a"))
for made in tokens(30): session.apply([arrived("a.0", made)])
window._feed.flush()
""",
        """
post, window._feed._send = window._feed._send, lambda message: None   # as if the server had dropped it
for made in tokens(30, seed=2): session.apply([arrived("a.0", made)])
window._feed.flush()
window._feed._send = post
for made in tokens(30, seed=3): session.apply([arrived("a.0", made)])
window._feed.flush()
""",
        "print(repr(session.nodes['a.0'].text))",
    )
    nb.run(0)
    nb.run(1)
    nb.output(1).locator(".acs-t").nth(29).wait_for()
    nb.run(2)
    nb.output(1).locator(".acs-t").nth(89).wait_for()
    nb.run(3)
    assert nb.printed(3).strip() == repr(nb.output(1).locator(".acs-text").text_content())


def test_copied_text_is_the_model_s(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        r"""
window = LiveCell(session, ["a"]); display(window)
session.apply(open_run("a"))
for t in [" One", ".", "\n\n", "\tTwo", "   ", "\u200b", "three", "\n", "\u202e", "four\nfive", "!"]:
    session.apply([arrived("a.0", (t, -2.0, {t: -2.0}))])
session.apply([ev.RunClosed("a", "done")])
""",
    )
    nb.run(0)
    nb.run(1)
    nb.output(1).locator(".acs-t").nth(10).wait_for()
    copied = page.evaluate(
        """() => {
          const text = document.querySelector(".acs-text");
          const range = document.createRange();
          range.selectNodeContents(text);
          getSelection().removeAllRanges();
          getSelection().addRange(range);
          const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), bubbles: true, cancelable: true });
          text.querySelector(".acs-t").dispatchEvent(event);
          return event.clipboardData.getData("text/plain");
        }"""
    )
    assert copied == " One.\n\n\tTwo   \u200bthree\n\u202efour\nfive!"


def test_an_error_is_one_line_with_code_and_request(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP,
        """
window = LiveCell(session, ["d"]); display(window)
session.apply(open_run("d"))
session.apply([ev.Failed("d", "queue_full", "Too many <b>requests</b>\\nare waiting.", 429, "req-99aa", True), ev.RunClosed("d", "failed")])
""",
    )
    nb.run(0)
    nb.run(1)
    error = nb.output(1).locator(".acs-error")
    error.scroll_into_view_if_needed()
    assert error.inner_text() == "queue_full (429): Too many <b>requests</b> are waiting."
    assert error.locator("b").count() == 0
    assert nb.output(1).locator(".acs-state").inner_text() == "failed: queue_full"
    assert nb.output(1).locator(".acs-id").inner_text() == "req-99aa"
    assert nb.output(1).get_by_role("button", name="Stop").count() == 0
    assert painted(error)
    assert json.dumps(nb.outputs(1)).count("queue_full") == 0
    shoot(page, "error")


def test_a_click_pins_the_tooltip_and_escape_lets_go(notebook: Open, page: Page) -> None:
    nb = notebook(SETUP, SHORT)
    nb.run(0)
    nb.run(1)
    tokens = nb.output(1).locator(".acs-t")
    tokens.nth(89).wait_for()
    tip = nb.output(1).locator(".acs-tip")
    tokens.nth(3).click()
    tip.wait_for(state="visible")
    pinned = tip.locator(".acs-tip-quote").inner_text()
    point_at(tokens.nth(40))
    assert tip.locator(".acs-tip-quote").inner_text() == pinned
    assert painted(tip.locator("tr").first)
    tip.locator("tr").nth(1).click()
    tip.wait_for()
    page.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    point_at(tokens.nth(41))
    tip.wait_for(state="visible")
    assert tip.locator(".acs-tip-quote").inner_text() != pinned
