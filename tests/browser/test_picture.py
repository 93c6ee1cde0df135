"""The README's picture: a cell in JupyterLab, with the real model, as a reader gets it.

``ACS_PICTURE=1 python -m pytest tests/browser/test_picture.py`` takes it anew; commit what it writes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.labkit import CHECKOUT, PANEL, SCREENSHOTS, Notebook, lab, point_at, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.servers import Running

PICTURE = CHECKOUT / "notebooks" / "images" / "live-cell.png"
MOST = 150_000
"""Bytes: it is loaded with the page."""
CELL = "%%acs --temperature 0.7 --seed 2 --max-tokens 48\nThe capital of France is a city that"
QUIET = ".jp-Toolbar, #jp-top-panel, #jp-top-bar, .jp-StatusBar-Widget, .jp-cell-toolbar { visibility: hidden !important }"


def test_the_picture_shows_a_cell_with_its_alternatives(
    root: Path, browser: Browser, smollm_server: Running
) -> None:
    setup = (
        f"import os\nos.environ |= {{'ACS_API_BASE': {smollm_server.base!r}, 'ACS_API_KEY': {smollm_server.key!r}}}\n"
        "%load_ext acs_jupyter"
    )
    write_notebook(root / "picture.ipynb", [setup, CELL])
    with lab(root, {"apputils-extension/themes": {"theme": "JupyterLab Light"}}) as base:
        page = browser.new_page(viewport={"width": 980, "height": 900}, device_scale_factor=1.5)
        nb = Notebook(page, base, "picture.ipynb").open()
        nb.run(0)
        nb.run(1, timeout=60_000)
        run = nb.output(1).locator(".acs-run")
        expect(run.locator("xpath=.")).to_have_attribute("data-outcome", "done")
        page.add_style_tag(content=QUIET)
        tokens = nb.output(1).locator(".acs-t")
        assert tokens.count() == 48
        page.evaluate(f"{PANEL}.content.activeCellIndex = 0")
        point_at(tokens.nth(32))
        tip = nb.output(1).locator(".acs-tip")
        tip.wait_for(state="visible")
        assert tip.locator("tr").count() >= 5
        cell = page.locator(".jp-Notebook .jp-Cell").nth(1).bounding_box()
        bottom = tip.bounding_box()
        assert cell is not None
        assert bottom is not None
        place = SCREENSHOTS / "picture.png"
        SCREENSHOTS.mkdir(exist_ok=True)
        end = max(cell["y"] + cell["height"], bottom["y"] + bottom["height"]) + 8
        page.screenshot(
            path=str(place),
            clip={"x": cell["x"], "y": cell["y"], "width": cell["width"], "height": end - cell["y"]},
        )
        nb.end_kernels()
        page.close()
    taken = place.read_bytes()
    assert len(taken) < MOST
    if os.environ.get("ACS_PICTURE"):
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(taken)
    assert PICTURE.stat().st_size < MOST
