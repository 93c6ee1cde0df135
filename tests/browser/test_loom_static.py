"""A loom's copy where no kernel is: exported by nbconvert, and on a page that strips styles, as GitHub's does."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from acs_jupyter.log import events as ev
from acs_jupyter.widgets.loom_static import bundle
from tests.browser.labkit import lab_environment, shoot, write_notebook
from tests.support.sanitising import sanitised
from tests.support.trees import grown

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from acs_jupyter.log.session import Session

HOSTILE = "<img src=x onerror=alert(1)></pre></details><script>alert(2)</script>\u202e"
CELL = "from acs_jupyter import Loom\nfrom tests.browser.test_loom_static import tree\nLoom(tree()).show()"


def tree() -> Session:
    """Forty nodes, one of hostile text with marks, one whose text a person wrote."""
    session = grown(40, 30)
    session.apply(
        [ev.Revised("note", changes=(ev.Change("n2", "note", HOSTILE), ev.Change("n1", "tags", ["fine"])))]
    )
    written = ev.Written("w", "p", "n0", (ev.Piece(text=f"By hand: {HOSTILE}"),))
    session.apply([ev.Revised("new child", written=(written,))])
    return session


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook as a headless run leaves it, with the state of its widgets, as HTML."""
    folder = tmp_path_factory.mktemp("exported")
    write_notebook(folder / "n.ipynb", [CELL])
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "n.ipynb"]
    subprocess.run(command, cwd=folder, env=lab_environment(folder), check=True, capture_output=True)
    return folder / "n.html"


def test_an_export_reads_without_a_kernel(exported: Path, page: Page) -> None:
    page.route(re.compile("^https?:"), lambda route: route.abort())  # nothing comes from elsewhere
    page.goto(exported.as_uri())
    copy = page.locator(".acs-static")
    expect(copy).to_be_visible()
    assert copy.locator("script, img, b b, details > pre > details").count() == 0
    assert copy.locator("details").count() == copy.locator("summary").count() > 30
    closed = copy.locator("details", has=page.locator("summary", has_text=re.compile(r"^1\.1\.2 "))).last
    expect(closed.locator("pre").first).to_be_hidden()
    beginning = closed.locator("summary b").first
    expect(beginning).to_be_visible()
    closed.locator("summary").first.click()
    expect(closed.locator("pre").first).to_be_visible()
    expect(beginning).to_be_hidden()  # where the text itself stands it is not told twice
    likely = copy.locator("pre [title]").first
    assert "%" in str(likely.get_attribute("title"))
    assert copy.get_by_text("By hand:").last.evaluate("e => e.textContent").count("<script>") == 1
    tinted = copy.locator("pre .k2, pre .k1, pre .k3").first
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert tinted.evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"
        shoot(page, f"loom-export-{scheme}")


def test_a_page_that_strips_styles_shows_every_text(page: Page) -> None:
    session = tree()
    left = sanitised(bundle(session)[0]["text/html"])
    assert not re.search(r"<style|class=|style=|<script|<img|acs-", left)
    page.set_content(
        f"<!doctype html><body style='font: 14px sans-serif; max-width: 60em; margin: 2em'>{left}"
    )
    page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
    texts = page.locator("pre")
    assert texts.count() == len(session.nodes)
    shown = page.locator("body").evaluate("e => e.innerText")
    for node in ("root", "n0", "n39"):
        assert session.nodes[node].text.strip() in shown
    assert "By hand: <img src=x onerror=alert(1)>" in shown
    assert "#fine" in shown
    shoot(page, "loom-stripped")
