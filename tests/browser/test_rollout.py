"""A rollout in JupyterLab: the bar of a running cell, one in the background that is stopped, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.labkit import Notebook, shoot
from tests.support.servers import Running


def test_a_bar_in_the_cell_and_one_in_the_background(
    notebook: Callable[..., Notebook], page: Page, scripted_server: Running
) -> None:
    nb = notebook(
        "import os, time\n"
        f"os.environ |= {{'ACS_API_BASE': {scripted_server.base!r}, 'ACS_API_KEY': {scripted_server.key!r}}}\n"
        "from acs_jupyter import rollout\n"
        "slow = [f'#scripted rate=40 tokens=12\\n{i}' for i in range(48)]",
        "run = rollout([*slow[:20], '#scripted fault=invalid_request'], max_tokens=12, into='front.acs.db')\n"
        "print(run.outcome, run.stats.done, run.stats.failed)",
        "later = rollout([p.replace('40', '10') for p in slow * 2], max_tokens=12, into='back.acs.db', bg=True)",
        "while not later.stats.done:\n    time.sleep(0.05)\nlater.stop()\nlater.wait()\n"
        "print(later.outcome, 0 < later.stats.done < 96)",
    )
    nb.run(0)
    nb.run(1, timeout=60_000)
    bar = nb.output(1).locator("div:has(> progress)")  # what a file keeps has taken the widget's place
    bar.wait_for(state="visible")
    words = bar.inner_text()
    assert "front.acs.db 100 %, 21 of 21 requests in " in " ".join(words.split())
    assert "1 failed (invalid_request 1)" in words
    assert "done 20 1" in nb.printed(1)
    nb.run(2)
    moving = nb.output(2).locator(".jupyter-widgets.widget-hbox").first
    moving.get_by_text("/96").wait_for()
    shoot(page, "rollout-moving")
    nb.run(3, timeout=60_000)
    assert "stopped True" in nb.printed(3)
    nb.output(2).get_by_text(" of 96 requests in ").wait_for()
    assert moving.count() == 0
    shoot(page, "rollout-light")
    nb.save()
    page.goto("about:blank")
    nb.end_kernels()
    nb.open(kernel=False)  # the file alone
    nb.output(1).get_by_text("21 of 21 requests").wait_for()
    nb.output(2).get_by_text(" of 96 requests in ").wait_for()
