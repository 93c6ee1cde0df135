"""Pictures of every state in both themes, for eyes; and what can be asserted of looks without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.browser.cells import SETUP
from tests.browser.labkit import Notebook, point_at, shoot

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Notebook]

STATES = (
    SETUP,
    r"""
window = LiveCell(session, ["a"]); display(window)
clamp = {"x-acs-max-tokens-clamped": "requested=20000,applied=4096,reason=model_context,source=server"}
session.apply(open_run("a", seed=7)); session.apply([head("a", **clamp)])
for made in tokens(200): session.apply([arrived("a.0", made)]); time.sleep(0.004)
strange = ["", "", " 版", "\tif", "  ", "x", "\u202e", "  ", "\x00", " é", "\u200b", " مرحبا", " 🎉"]
session.apply([ev.TokensArrived("a.0", "".join(strange), strange, [-2.5] * len(strange), [{t: -2.5, " the": -1.2} for t in strange])])
session.apply([ev.Finished("a.0", "length"), ev.Spent("a", 3, 213), ev.RunClosed("a", "done")])
""",
    r"""
window = LiveCell(session, ["b"]); display(window)
session.apply(open_run("b", prompt=["Roses are red,", "A haiku about the sea:"], n=3)); session.apply([head("b")])
makers = [tokens(40, seed=s) for s in range(6)]
for k in range(40):
    session.apply([arrived(f"b.{i}", next(maker)) for i, maker in enumerate(makers)]); time.sleep(0.005)
session.apply([ev.Finished(f"b.{i}", ["length", "stop", "stop"][i % 3], [None, "\n\n", None][i % 3]) for i in range(5)])
""",
    """
waiting = LiveCell(session, ["c"]); display(waiting)
session.apply([*open_run("c"), ev.Waited("c", "Cold boot: loading weights, about 4 minutes left")])
failed = LiveCell(session, ["d"]); display(failed)
session.apply([*open_run("d"), ev.Failed("d", "queue_full", "64 requests are waiting already.", 429, "req-99aa", True), ev.RunClosed("d", "failed")])
stopped = LiveCell(session, ["e"], show_prompt=True); display(stopped)
session.apply([*open_run("e"), head("e"), *(arrived("e.0", made) for made in tokens(30)), ev.RunClosed("e", "stopped")])
""",
)


def test_every_state_in_both_themes(notebook: Open, page: Page) -> None:
    nb = notebook(*STATES)
    for index in range(4):
        nb.run(index)
    for theme in nb.in_both_themes():
        _pictures(nb, page, theme)
        contrast, *colours = nb.output(1).locator(".acs-text .acs-p7").first.evaluate(CONTRAST)
        assert contrast >= 4.5, (theme, colours)
    columns = (
        nb.output(2).locator(".acs-choice").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    )
    assert columns[0] == columns[1] == columns[2] < columns[3]
    assert nb.output(3).locator(".acs-lead").text_content() == "The lighthouse"
    assert nb.output(1).locator(".acs-joined").count() == 1


def _pictures(nb: Notebook, page: Page, theme: str) -> None:
    for index, name in ((1, "one"), (2, "several"), (3, "states")):
        nb.output(index).scroll_into_view_if_needed()
        if index == 1:
            point_at(nb.output(1).locator(".acs-t").nth(27))
        page.wait_for_timeout(250)
        shoot(page, f"{name}-{theme}")
    nb.output(1).locator(".acs-t").last.focus()
    page.keyboard.press("ArrowLeft")
    nb.output(1).locator(".acs-tip").wait_for(state="visible")
    shoot(page, f"focus-{theme}")
    page.keyboard.press("Escape")


CONTRAST = """element => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const behind = channels(getComputedStyle(element.closest(".jp-Notebook")).backgroundColor);
  const [r, g, b, a = 1] = channels(getComputedStyle(element).backgroundColor);
  const ground = [r, g, b].map((value, i) => value * a + behind[i] * (1 - a));
  const text = channels(getComputedStyle(element).color);
  const alpha = text[3] ?? 1;
  const front = ground.map((value, i) => text[i] * alpha + value * (1 - alpha));
  const light = colour => colour.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const [low, high] = [light(front), light(ground)].sort((x, y) => x - y);
  return [(high + 0.05) / (low + 0.05), behind, ground, text];
}"""
