"""The board of jobs in JupyterLab: live rows, keyboard, hostile text, reload, a kernel that is gone, both themes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.axe import violations
from tests.browser.cell_page import setup
from tests.browser.labkit import Notebook, shoot
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Notebook]
KEY = "acs-bm-testtest-key-of-the-board-of-jobs"
EVIL = "<img src=x onerror=alert(1)></td><script>alert(2)</script>"

CELLS = (
    "%%acs --job -o slow --max-tokens 600 --job-tag night\n#scripted rate=15\nThe lighthouse keeper wrote",
    f'%%acs --job -o evil --max-tokens 90\n#scripted say="{EVIL} \u202e"\n{EVIL}',
    "%%acs --job -o failing\n#scripted fault=vllm_oom\nThe sea",
    "%acs jobs",
    "from acs_jupyter import JobBoard\nboard = JobBoard(); board",
    "print(slow); print(board)",
)
SLOW, EVIL_CELL, FAILING, COMMAND, BOARD, WORDS = range(1, 7)


@pytest.fixture
def server() -> Iterator[Running]:
    with serving("--scripted", "--starts", "0", "--key", KEY) as running:
        yield running


def row(board: Locator, prompt: str) -> Locator:
    return board.locator(".acs-jobs-row").filter(has_text=prompt)


def run_all(nb: Notebook, page: Page) -> None:
    for cell in range(6):
        nb.run(cell)
    states = (("lighthouse", "running"), ("onerror", "succeeded"), ("The sea", "failed"))
    for prompt, state in states:
        row(nb.output(BOARD).locator(".acs-jobs"), prompt).locator(
            ".acs-jobs-state", has_text=state
        ).wait_for()
    page.evaluate("() => document.fonts.ready.then(() => null)")


def test_the_board_while_work_runs(notebook: Open, page: Page, server: Running) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    nb = notebook(setup(server), *CELLS)
    run_all(nb, page)
    board = nb.output(BOARD).locator(".acs-jobs")
    shoot(page, "jobs-light")
    _it_is_live_and_inert(nb, page, board)
    _results_are_opened(nb, page, board)
    for cell in (SLOW, EVIL_CELL, COMMAND, BOARD):
        assert violations(nb.output(cell).locator(".acs-jobs")) == []
    nb.save()
    nb.open(reset=False)
    _a_reloaded_page_still_cancels(nb, page)
    nb.run(WORDS)
    assert nb.printed(WORDS).count("cancelled, 409 job_cancelled") == 2
    assert KEY not in json.dumps([nb.outputs(cell) for cell in range(7)])


def _it_is_live_and_inert(nb: Notebook, page: Page, board: Locator) -> None:
    # Live: ages go on, and every window shows the same.
    slow = row(board, "lighthouse")
    age = slow.locator(".acs-jobs-time").first
    before = age.inner_text()
    page.wait_for_function("([e, before]) => e.innerText !== before", arg=[age.element_handle(), before])
    for cell in (SLOW, COMMAND):
        state = row(nb.output(cell).locator(".acs-jobs"), "lighthouse").locator(".acs-jobs-state")
        assert state.inner_text() == "running"
    assert "night" in slow.inner_text()
    assert not nb.output(BOARD).locator(".acs-jobs-static").is_visible()

    # Model text is text.
    evil = row(board, "onerror")
    assert EVIL in evil.locator(".acs-jobs-preview").inner_text()
    assert board.locator("img, script").count() == 0
    assert "vllm_oom" in row(board, "The sea").inner_text()


def _results_are_opened(nb: Notebook, page: Page, board: Locator) -> None:
    evil = row(board, "onerror")
    # The cell of a job that has ended is a completion; the board opens one on request, and closes it.
    own = nb.output(EVIL_CELL).locator(".acs-jobs .acs-live .acs-text")
    own.wait_for()
    assert own.text_content().startswith(EVIL)
    assert not nb.output(EVIL_CELL).locator(".acs-beside").is_visible()
    opening = evil.get_by_role("button", name="Open job_")
    opening.focus()
    page.keyboard.press("Enter")
    inside = evil.locator(".acs-live .acs-text")
    inside.wait_for()
    assert inside.text_content().startswith(EVIL)
    evil.get_by_role("button", name="Close job_").click()
    inside.wait_for(state="hidden")
    evil.get_by_role("button", name="Open job_").click()
    inside.wait_for()

    evil.get_by_role("button", name="Copy the ids of job_").click()
    page.wait_for_function("() => document.querySelector('.acs-jobs [role=status]') !== null")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("job job_")
    assert ", request req_" in copied


def _a_reloaded_page_still_cancels(nb: Notebook, page: Page) -> None:
    slow = row(nb.output(BOARD).locator(".acs-jobs"), "lighthouse")
    slow.locator(".acs-jobs-state", has_text="running").wait_for()
    heard = nb.output(BOARD).locator(".acs-jobs [role=status]")
    cancel = slow.get_by_role("button", name="Cancel job_")
    cancel.focus()
    page.keyboard.press("Enter")
    slow.locator(".acs-jobs-state", has_text="cancelled").wait_for()
    assert "cancelled" in heard.text_content()
    assert not cancel.is_visible()
    own_slow = row(nb.output(SLOW).locator(".acs-jobs"), "lighthouse")
    own_slow.locator(".acs-jobs-state", has_text="cancelled").wait_for()
    assert "run it after all" in own_slow.inner_text()


def test_in_the_dark_and_without_a_kernel(notebook: Open, page: Page, server: Running) -> None:
    nb = notebook(setup(server), *CELLS, theme="dark", height=1500)
    run_all(nb, page)
    nb.output(EVIL_CELL).locator(".acs-live .acs-text").wait_for()
    page.wait_for_timeout(300)
    shoot(page, "jobs-dark")
    board = nb.output(BOARD).locator(".acs-jobs")
    assert violations(board) == []
    nb.save()
    nb.end_kernels()
    board.locator(".acs-jobs-note").wait_for()
    cancel = row(board, "lighthouse").get_by_role("button", name="Cancel job_")
    assert cancel.get_attribute("aria-disabled") == "true"
    assert violations(board) == []
    shoot(page, "jobs-dark-gone")

    page.goto("about:blank")
    nb.open()
    static = nb.output(BOARD).locator(".acs-jobs-static")
    static.wait_for()
    assert "running" in static.inner_text()
    assert EVIL in static.inner_text()
    assert static.locator("img, script").count() == 0
    for cell in (
        SLOW,
        EVIL_CELL,
        BOARD,
    ):  # in the end JupyterLab gives up on the widgets, and says so out of sight
        page.wait_for_function(
            "i => !document.querySelectorAll('.jp-Notebook .jp-Cell')[i].innerText.includes('widget')",
            arg=cell,
        )
    assert nb.output(EVIL_CELL).locator(".acs-static pre").first.text_content().startswith(EVIL)
    shoot(page, "jobs-dark-saved")
