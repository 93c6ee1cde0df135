"""Branches in JupyterLab: from an alternative in the pinned tooltip to columns beside each other, saved and read back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from acs_jupyter import load
from tests.browser.axe import violations
from tests.browser.cells import SETUP
from tests.browser.labkit import PANEL, Notebook, painted, shoot
from tests.support.servers import Running

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Notebook]


def setup(server: Running) -> str:
    return (
        "import os\n"
        f"os.environ |= {{'ACS_API_BASE': {server.base!r}, 'ACS_API_KEY': {server.key!r}}}\n"
        "%load_ext acs_jupyter"
    )


CELL = (
    "%%acs --max-tokens 40 --seed 3 -o r\n#scripted tokens=40 rate=400 alternatives=5\nThe lighthouse keeper"
)
SLOW = (
    "%%acs --bg --max-tokens 9000 -o s\n#scripted tokens=9000 rate=60 alternatives=3\nThe lighthouse keeper"
)
SECOND = "from acs_jupyter.widgets.live import LiveCell\ndisplay(LiveCell(r.session, [r.run]))"
TELL = """
import json
def told(one):
    return [one.text, one.prompt, one.outcome, [told(b) for b in one.branches]]
print(json.dumps(told(r)))"""


def closed(output: Locator, count: int) -> None:
    """Wait until so many runs stand there and all have ended."""
    expect(output.locator(".acs-run[data-outcome=done]")).to_have_count(count, timeout=20_000)


def run_of(output: Locator, place: int) -> Locator:
    return output.locator(".acs-run").nth(place)


def text_of(run: Locator) -> str:
    found: str = run.locator(".acs-text").evaluate("e => e.textContent")
    return found


def pinned(output: Locator, place: int, token: int) -> Locator:
    """Pin the tooltip of a token of the ``place``-th column."""
    run_of(output, place).locator(".acs-t").nth(token).click()
    tip = output.locator(".acs-tip.acs-pinned")
    tip.wait_for(state="visible")
    return tip


def test_branches_stand_beside_what_they_left(
    notebook: Open, page: Page, root: Path, scripted_server: Running
) -> None:
    nb = notebook(setup(scripted_server), CELL, SECOND, TELL)
    for cell in range(3):
        nb.run(cell)
    out, second = nb.output(1), nb.output(2)
    closed(out, 1)
    before = text_of(run_of(out, 0))

    taken = _with_the_keys(page, out, before)
    closed(second, 2)  # the other window of the session
    assert text_of(run_of(second, 1)) == text_of(run_of(out, 1))
    assert second.locator(".acs-bar .acs-chip").count() == 2
    pinned(out, 0, 3)
    assert second.locator(".acs-alternative").count() == 0
    page.keyboard.press("Escape")
    _with_the_mouse(out, taken)
    _along_the_road(out)
    tokens = run_of(out, 1).locator(".acs-t").all_text_contents()
    _by_hand(page, out)
    kinds = page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.map(c => c.model.type)")
    assert kinds == ["code"] * 4
    nb.run(3)
    text, prompt, _, branches = json.loads(nb.printed(3))
    assert text == before
    whole = "".join(tokens[:8]) + TYPED
    edited = branches[0][3][1]
    assert edited[1] == prompt + whole
    assert edited[0].startswith(whole)
    assert len(edited[0]) > len(whole)
    _in_both_themes(nb, out)

    # What was saved holds them all, and reads without a kernel.
    page.wait_for_timeout(500)
    nb.save()
    kept = load(root / nb.name)
    assert [one.text for one in kept][:2] == [text, branches[0][0]]
    assert len(kept) == 6
    assert sorted(one.origin.tokens for one in kept if one.origin) == [3, 6, 8, 9, 12]
    plain = "".join(nb.outputs(1)[-1]["data"]["text/plain"])
    assert edited[0] in plain
    nb.end_kernels()
    page.goto("about:blank")
    nb.open(kernel=False)
    nb.output(1).locator(".acs-static .acs-name", has_text="branch 5, from branch 1").wait_for()
    assert nb.output(1).locator(".acs-static").is_visible()
    shoot(page, "branches-reopened")


def _with_the_keys(page: Page, out: Locator, before: str) -> str:
    """To a token, into its tooltip, onto an alternative: the words of what was taken."""
    page.evaluate("document.querySelector('.acs-id').focus()")
    page.keyboard.press("Tab")
    for key in (*["ArrowRight"] * 6, "Enter", "Tab", "ArrowDown"):
        page.keyboard.press(key)
    taken: str = page.evaluate("document.activeElement.textContent")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        f"Branch with {taken}, "
    )
    shoot(page, "branch-tooltip")
    page.keyboard.press("Enter")
    closed(out, 2)
    assert page.evaluate("document.activeElement.className").startswith("acs-t")
    old, new = run_of(out, 0), run_of(out, 1)
    boxes = [old.bounding_box(), new.bounding_box()]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["y"] == pytest.approx(boxes[0]["y"], abs=1)
    assert boxes[1]["x"] >= boxes[0]["x"] + boxes[0]["width"]
    assert text_of(old) == before
    put = new.locator(".acs-put")
    assert f"“{put.text_content()}”".replace(" ", "·") == taken
    assert new.locator(".acs-t.acs-kept").count() == 6
    assert text_of(new).startswith(before[: len("".join(old.locator(".acs-t").all_text_contents()[:6]))])
    return taken


def _with_the_mouse(out: Locator, taken: str) -> None:
    """An alternative; from the branch a branch; sampled again; by ids."""
    new, put = run_of(out, 1), run_of(out, 1).locator(".acs-put")
    tip = pinned(out, 0, 3)
    other = tip.locator(".acs-alternative").nth(1)
    words = other.text_content()
    assert painted(other)
    other.click()
    closed(out, 3)
    assert out.locator(".acs-tip").is_hidden()
    # A branch stands behind the branches of what it left; its number says when it was begun.
    assert run_of(out, 2).locator(".acs-crumb").all_text_contents() == [
        "original",
        f"branch 2: token 4 {words}",
    ]
    pinned(out, 1, 9).get_by_role("button", name="resample from here").click()
    closed(out, 4)
    nested = run_of(out, 2)
    assert nested.locator(".acs-crumb").all_text_contents() == [
        "original", f"branch 1: token 7 {taken}", "branch 3: token 10 sampled again",
    ]  # fmt: skip
    tip = pinned(out, 0, 12)
    tip.get_by_label("exact", exact=True).check()
    tip.locator(".acs-alternative").first.click()
    closed(out, 5)
    expect(out.locator(".acs-seam-note", has_text="by token ids, found for")).to_have_count(1)
    expect(out.locator(".acs-seam-note", has_text="counted the tokens that were written")).to_have_count(3)
    new.locator(".acs-t").nth(30).hover()
    assert out.locator(".acs-tip .acs-tip-sampled").count() == 1
    put.hover()
    assert "put in" in out.locator(".acs-tip").inner_text()


def _along_the_road(out: Locator) -> None:
    """Each crumb goes there; a branch is put away and brought back."""
    nested = run_of(out, 2)
    crumbs = nested.locator(".acs-crumb")
    assert nested.locator(".acs-crumb[aria-current=location]").all_text_contents() == [
        crumbs.last.text_content()
    ]
    for crumb, run, token in ((0, 0, 6), (1, 1, 9), (2, 2, 9)):
        crumbs.nth(crumb).click()
        spot = run_of(out, run).locator(".acs-t").nth(token)
        expect(spot).to_be_focused()
        assert out.locator(".acs-chip[aria-current]").count() == 1
    nested.get_by_role("button", name="put away").click()
    assert nested.is_hidden()
    chip = out.locator(".acs-chip[data-away]")
    assert chip.text_content() == "3 · token 10 sampled again"
    chip.click()
    expect(nested).to_be_visible()


TYPED = "  dd aa\n\tx00 <b>\nend"


def _by_hand(page: Page, out: Locator) -> None:
    """Text changed by hand: exact, and no key of it is JupyterLab's."""
    new = run_of(out, 1)
    pinned(out, 1, 8).get_by_role("button", name="edit and continue").click()
    box = new.locator("textarea")
    expect(box).to_be_focused()
    assert box.input_value() == text_of(new)
    page.keyboard.type("  dd aa\n\tx00 <b>")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("end")
    shoot(page, "branch-edit")
    page.keyboard.press("Control+Enter")
    closed(out, 6)
    assert new.locator("textarea").count() == 0


def _in_both_themes(nb: Notebook, out: Locator) -> None:
    for name in nb.in_both_themes():
        out.scroll_into_view_if_needed()
        pinned(out, 0, 2)
        shoot(nb.page, f"branches-{name}")
        assert violations(out.locator(".acs-live")) == []
        nb.page.keyboard.press("Escape")


def test_twelve_branches_stream_stop_alone_and_outlive_a_reload(
    notebook: Open, page: Page, root: Path, scripted_server: Running
) -> None:
    nb = notebook(setup(scripted_server), SLOW, "%acs last s", "print(len(s.branches), s.outcome)")
    nb.run(0)
    nb.run(1)
    out = nb.output(1)
    run_of(out, 0).locator(".acs-t").nth(20).wait_for(state="attached")
    for count in range(1, 13):
        pinned(out, 0, count).get_by_role("button", name="resample from here").click()
        expect(out.locator(".acs-run")).to_have_count(count + 1)
    last = run_of(out, 12)
    last.locator(".acs-t").nth(20).wait_for(state="attached")
    page.wait_for_timeout(300)
    first, newest = run_of(out, 0).bounding_box(), last.bounding_box()
    assert first is not None
    assert newest is not None
    assert newest["x"] >= first["x"] + first["width"]  # the original has stayed, the newest is beside it
    assert newest["x"] + newest["width"] <= 1200
    shoot(page, "branches-twelve")
    run_of(out, 5).get_by_role("button", name="Stop").click()
    expect(out.locator(".acs-run[data-outcome=stopped]")).to_have_count(1)
    assert run_of(out, 5).get_attribute("data-outcome") == "stopped"
    assert out.locator(".acs-run[data-outcome=open]").count() == 12
    shown = text_of(run_of(out, 5))
    # The copy is written when a branch has ended; a page with something unsaved would ask before it goes.
    page.wait_for_function(
        f"() => JSON.stringify({PANEL}.content.widgets[1].model.outputs.toJSON()).includes('branch 12, from')"
    )
    nb.save()
    nb.open(reset=False)
    expect(out.locator(".acs-run")).to_have_count(13)
    assert text_of(run_of(out, 5)) == shown
    for place in (*range(5), *range(6, 13)):
        run_of(out, place).get_by_role("button", name="Stop").click()
    expect(out.locator(".acs-run[data-outcome=stopped]")).to_have_count(13)
    notice = run_of(out, 3).locator(".acs-notice")
    assert "%acs last writes one" in notice.inner_text()
    texts = [text_of(run_of(out, place)) for place in range(13)]
    nb.run(3)
    assert nb.printed(3).split() == ["12", "stopped"]
    nb.run(2)
    nb.save()
    # The first cell may keep a copy of an earlier moment: one is written whenever a branch has ended.
    assert [one.text for one in load(root / nb.name)][-13:] == texts

    # The kernel goes: a branch cannot be begun, and says so; nothing that was there is lost.
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => null)"
    )
    page.wait_for_timeout(500)
    pinned(out, 0, 1).get_by_role("button", name="resample from here").click()
    expect(out.locator(".acs-told")).to_contain_text("run the cell again to branch")
    assert [text_of(run_of(out, place)) for place in range(13)] == texts


BY_HAND = """
from acs_jupyter.log.events import Origin
asked = []
session.apply([*open_run("a"), head("a")])
for one in tokens(12): session.apply([arrived("a.0", one)])
session.apply([ev.Spent("a", 4, 12), ev.RunClosed("a", "done")])
window = LiveCell(session, ["a"], on_intent=asked.append, can_branch=True); display(window)
def branch(run, at, words):
    fields = CompletionRequest(prompt="x", model="m", logprobs=5, stream=True)
    session.apply(ev.opening(run, fields, parents=["a.p0"], origin=Origin("a.0", at)))
    for word in words.split(): session.apply([arrived(f"{run}.0", (" " + word, -1.0, {" " + word: -1.0}))])
    session.apply([ev.RunClosed(run, "done")])
"""


def test_a_reader_stays_where_they_are(notebook: Open, page: Page) -> None:
    nb = notebook(
        SETUP + BY_HAND,
        "branch('b', 3, 'one way to go on')",
        "import threading\ngo_on = threading.Event()\ndef later():\n"  # running a cell takes the focus itself
        "    go_on.wait(); branch('c', 3, 'and yet another way')\n"
        "    window._feed._seq += 1; session.apply([ev.SeamSought('b.0', None, 3)])\n"
        "window._on_intent = lambda one: (asked.append(one), go_on.set())\n"
        "threading.Thread(target=later).start()",
        "window.tell('Asking for the token ids of the text …', 'probe')",
        "print(type(asked[-1]).__name__, asked[-1].run)",
        "from acs_jupyter.notebook.workbench import Workbench; from acs_jupyter.notebook.root import Notebook\n"
        "display(Workbench(session, notebook=Notebook(make_view=None)))",
    )
    for cell in (0, 1, 2):
        nb.run(cell)
    out = nb.output(0)
    closed(out, 2)
    pinned(out, 0, 5).get_by_role("button", name="edit and continue").click()
    box = run_of(out, 0).locator("textarea")
    page.keyboard.type(" mine")
    page.keyboard.press("Control+Enter")  # nobody obeys: it waits
    written = box.input_value()
    # A branch of somebody else opens; then messages are missing, and the whole state comes: the box keeps what it has.
    closed(out, 3)
    expect(out.locator(".acs-seam-note", has_text="by text")).to_have_count(2)
    page.wait_for_timeout(500)
    expect(box).to_be_focused()
    page.keyboard.type("!")
    assert box.input_value() == written + "!"
    out.get_by_role("button", name="Cancel").click()

    # Two that left alike are told apart by what came, by the eye and by ear.
    chips = out.locator(".acs-chip")
    assert chips.all_text_contents() == [
        "original",
        "1 · token 4 sampled again: one way to go on",
        "2 · token 4 sampled again: and yet another wa…",
    ]
    assert "branch 2 from original" in str(chips.nth(2).get_attribute("aria-label"))

    # What is asked for in the background can be stopped.
    nb.run(3)
    told = out.locator(".acs-told")
    expect(told).to_contain_text("Asking for the token ids")
    shoot(page, "asking")
    told.get_by_role("button", name="Stop").click()
    page.wait_for_timeout(300)
    nb.run(4)
    assert nb.printed(4).strip() == "Cancel probe"

    # At a workbench a branch stands alone: the road leads to what it left, and nothing is put away.
    nb.run(5)
    bench = nb.output(5)
    expect(bench.locator(".acs-past-item")).to_have_count(3)
    assert bench.get_by_role("button", name="put away").count() == 0
    expect(bench.locator(".acs-run")).to_have_attribute("class", re.compile("acs-branch"))
    bench.locator(".acs-crumb").first.click()
    expect(bench.locator(".acs-crumb")).to_have_count(0)
    expect(bench.locator(".acs-t").nth(3)).to_be_focused()
    shoot(page, "bench-branched")
