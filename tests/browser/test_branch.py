"""Branches in JupyterLab: from an alternative in the pinned tooltip to columns beside each other, saved and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.labkit import CHECKOUT, Notebook, shoot
from tests.support.servers import Running

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Notebook]

AXE = CHECKOUT / "js" / "node_modules" / "axe-core" / "axe.min.js"


def setup(server: Running) -> str:
    return (
        "import os\n"
        f"os.environ |= {{'ACS_API_BASE': {server.base!r}, 'ACS_API_KEY': {server.key!r}}}\n"
        "%load_ext acs_jupyter"
    )


CELL = (
    "%%acs --max-tokens 40 --seed 3 -o r\n#scripted tokens=40 rate=200 alternatives=5\nThe lighthouse keeper"
)


def closed(output: Locator, count: int) -> None:
    expect(output.locator(".acs-run:not([data-outcome=open])")).to_have_count(count, timeout=20_000)


def theme(page: Page, name: str) -> None:
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => null)",
        f"JupyterLab {name.title()}",
    )
    page.wait_for_function("n => document.body.dataset.jpThemeLight === String(n === 'light')", arg=name)
    page.wait_for_timeout(200)


def test_look(notebook: Open, page: Page, scripted_server: Running) -> None:
    nb = notebook(setup(scripted_server), CELL)
    nb.run(0)
    nb.run(1)
    out = nb.output(1)
    closed(out, 1)
    tokens = out.locator(".acs-run").first.locator(".acs-t")
    tokens.nth(6).click()
    out.locator(".acs-tip").wait_for(state="visible")
    shoot(page, "branch-tip-light")
    out.locator(".acs-alternative").nth(1).click()
    closed(out, 2)
    page.wait_for_timeout(300)
    shoot(page, "branch-two-light")
    tokens.nth(3).click()
    out.get_by_role("button", name="resample from here").click()
    closed(out, 3)
    out.locator(".acs-run").nth(1).locator(".acs-t").nth(9).click()
    out.get_by_label("exact", exact=True).check()
    out.locator(".acs-alternative").nth(0).click()
    closed(out, 4)
    page.wait_for_timeout(300)
    out.locator(".acs-run").nth(1).locator(".acs-t").nth(12).click()
    out.get_by_role("button", name="edit and continue").click()
    page.wait_for_timeout(300)
    shoot(page, "branch-edit-light")
    theme(page, "dark")
    page.wait_for_timeout(300)
    shoot(page, "branch-edit-dark")
    theme(page, "light")
