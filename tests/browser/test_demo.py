"""The demo as a newcomer meets it: JupyterLab opens on the notebook, and asks nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.browser.labkit import lab_environment, shoot
from tests.support.ports import free_port
from tests.support.servers import environment

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

SETTING = "/lab/api/settings/@jupyterlab/apputils-extension:notification"


@pytest.mark.timeout(180)
def test_the_demo_asks_nothing_and_opens_an_unchanged_notebook(page: Page, tmp_path: Path) -> None:
    fresh = {
        key: value for key, value in lab_environment(tmp_path / "home").items() if key.startswith("JUPYTER")
    }
    command = [sys.executable, "-m", "acs_jupyter", "demo", "--no-browser", "--port", str(free_port())]
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**environment(), **fresh}, stdout=file, stderr=file
        )
        try:
            end = time.monotonic() + 90
            while not (found := re.search(r"The notebook: (\S+)", log.read_text())):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end
                time.sleep(0.1)
            address = found.group(1)
            told = page.request.get(address.replace("/lab/tree/01-first-completion.ipynb", SETTING)).json()
            # A fresh user: nothing is set, and whether the page asks hangs on the default.
            assert (told["schema"]["properties"]["fetchNews"]["default"], told["raw"]) == ("false", "{}")
            page.goto(address)
            page.locator(".jp-NotebookPanel .jp-CodeCell").first.wait_for(timeout=60_000)
            page.locator('.jp-NotebookPanel-toolbar [data-status="idle"]').wait_for(timeout=60_000)
            page.wait_for_timeout(1500)  # it came right after the page was restored
            assert page.get_by_text("official Jupyter news").count() == 0
            # Opening a notebook changes nothing in it: there is nothing to save.
            tab = page.locator(".lm-TabBar-tab.jp-mod-current", has_text="01-first-completion")
            assert tab.count() == 1
            assert "jp-mod-dirty" not in (tab.get_attribute("class") or "")
            # Nor does its kernel, which speaks encrypted, have anything to warn of.
            assert "WARNING" not in log.read_text()
            shoot(page, "demo-opened")
        finally:
            process.terminate()
            process.wait(30)
