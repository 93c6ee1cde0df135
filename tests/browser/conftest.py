"""One server and one browser for all browser tests, ended with them: a running browser holds an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.labkit import CHROMIUM, CHROMIUM_ARGS, INSTEAD, Notebook, in_lab, lab, write_notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Dialog, Error, Page, Playwright

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


class Tab:
    """The page of test after test, now and then a new one: JupyterLab takes longer to come than many a test."""

    MOST = 12
    """Tests for one page."""

    def __init__(self, profile: BrowserContext, base: str) -> None:
        self.profile, self.base = profile, base
        self._blank = profile.pages[0]
        self._page: Page | None = None
        self._tests = 0
        self.ending = False
        """The test is over and its kernel is ended, for which JupyterLab throws what it still waited for."""

    def take(self) -> Page:
        if self._page is None or self._page.is_closed() or self._tests >= self.MOST:
            self.close()
            self._page = self.profile.new_page()
            self._tests = 0
        self._tests += 1
        self.ending = False
        return self._page

    def tidy(self) -> None:
        """Leave nothing to the next test but a JupyterLab without documents."""
        for one in self.profile.pages[1:]:
            if one is not self._page:
                one.close()
        page = self._page
        if page is not None and not page.is_closed() and in_lab(page, self.base):
            page.evaluate(INSTEAD, "")
            page.evaluate("sessionStorage.clear()")
            if page.locator(".jp-Dialog").count():
                page.close()
        self.profile.clear_cookies()
        self.profile.clear_permissions()
        stored = {"origin": self.base, "storageTypes": "local_storage,indexeddb,service_workers"}
        self.profile.new_cdp_session(self._blank).send("Storage.clearDataForOrigin", stored)

    def close(self) -> None:
        if self._page is not None and not self._page.is_closed():
            self._page.close()


@pytest.fixture(scope="package")
def tab(profile: BrowserContext, base: str) -> Tab:
    return Tab(profile, base)


@pytest.fixture
def page(request: pytest.FixtureRequest, tab: Tab) -> Iterator[Page]:
    """A page that fails its test when a script on it throws or asks something in a dialog; it leaves nothing behind.

    A test that changes it for good (``add_init_script``) closes it.
    """
    opened, failed = tab.take(), request.session.testsfailed
    trouble: list[str] = []

    def thrown(error: Error) -> None:
        if not (tab.ending and "Canceled future for" in str(error)):
            trouble.append(str(error))

    def asked(dialog: Dialog) -> None:
        trouble.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    opened.on("pageerror", thrown)
    opened.on("dialog", asked)
    opened.set_viewport_size(VIEW)
    yield opened
    if trouble or request.session.testsfailed > failed:
        tab.close()
    if not opened.is_closed():
        opened.unroute_all()
        opened.emulate_media(color_scheme="null", reduced_motion="null", forced_colors="null")
    tab.tidy()
    opened.remove_listener("pageerror", thrown)
    opened.remove_listener("dialog", asked)
    assert trouble == []


@pytest.fixture
def notebook(request: pytest.FixtureRequest, root: Path, base: str, tab: Tab, page: Page):
    """``notebook(cells)`` writes a notebook named after the test and opens it; its kernel ends with the test.

    ``again``: JupyterLab is loaded for it, so that scripts of the page's beginning run.
    """
    opened: list[Notebook] = []

    def make(
        *cells: str, kernel: str = "python3", theme: str = "light", height: int = 0, again: bool = False
    ) -> Notebook:
        name = f"{request.node.name}.ipynb".replace("[", "-").replace("]", "")
        write_notebook(root / name, cells, kernel)
        page.set_viewport_size({**VIEW, "height": height or VIEW["height"]})
        opened.append(Notebook(page, base, name).open(within=not again))
        opened[-1].theme(theme)  # the lab keeps what another test chose
        return opened[-1]

    yield make
    tab.ending = True
    for one in opened:
        one.end_kernels()
