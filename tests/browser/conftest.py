"""One server and one browser for all browser tests, ended with them: a running browser holds an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.labkit import CHROMIUM, CHROMIUM_ARGS, Notebook, lab, write_notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

expect.set_options(timeout=20_000)  # a machine of two cores does other things too
VIEW = {"width": 1200, "height": 900}


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="package")
def base(root: Path) -> Iterator[str]:
    with lab(root) as address:
        yield address


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """For pages that begin with nothing: each has a profile of its own."""
    started = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
    yield started
    started.close()


@pytest.fixture(scope="package")
def profile(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """For pages of the one server: a profile on disk keeps JupyterLab's scripts compiled, a quarter of an opening."""
    folder = tmp_path_factory.mktemp("profile")
    started = playwright.chromium.launch_persistent_context(
        folder, executable_path=CHROMIUM, args=CHROMIUM_ARGS, viewport=VIEW
    )
    yield started
    started.close()


@pytest.fixture
def page(profile: BrowserContext, base: str) -> Iterator[Page]:
    """A page that fails its test when a script on it throws or asks something in a dialog; it leaves nothing behind."""
    blank, opened = profile.pages[0], profile.new_page()
    trouble: list[str] = []
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    opened.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield opened
    for one in profile.pages[1:]:
        one.close()
    profile.clear_cookies()
    profile.clear_permissions()
    stored = {"origin": base, "storageTypes": "local_storage,indexeddb,service_workers"}
    profile.new_cdp_session(blank).send("Storage.clearDataForOrigin", stored)
    assert trouble == []


@pytest.fixture
def notebook(request: pytest.FixtureRequest, root: Path, base: str, page: Page):
    """``notebook(cells)`` writes a notebook named after the test and opens it; its kernel ends with the test."""
    opened: list[Notebook] = []

    def make(*cells: str, kernel: str = "python3", theme: str = "light", height: int = 0) -> Notebook:
        name = f"{request.node.name}.ipynb".replace("[", "-").replace("]", "")
        write_notebook(root / name, cells, kernel)
        page.set_viewport_size({**VIEW, "height": height or VIEW["height"]})
        opened.append(Notebook(page, base, name).open())
        opened[-1].theme(theme)  # the lab keeps what another test chose
        return opened[-1]

    yield make
    for one in opened:
        one.end_kernels()
