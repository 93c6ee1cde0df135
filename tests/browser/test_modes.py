"""Stop, the background and going on, in JupyterLab, on the installed ipykernel and on ipykernel 6."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from acs_jupyter import load
from tests.browser.cell_page import SCRIPT, setup
from tests.browser.labkit import IPYKERNEL_6, Notebook, shoot
from tests.support.desks import until
from tests.support.servers import Running

Open = Callable[..., Notebook]
ENDLESS = f"{SCRIPT}tokens=30000 rate=100 alternatives=3\nOnce"


# The run has ended, its copy is being drawn, and the page has not heard of the end yet: it still shows Stop.
HELD = """
import pathlib, time
from acs_jupyter.widgets import snapshot
from acs_jupyter.widgets.base import Window
place, post, draw, held = pathlib.Path(FOLDER), Window._post, snapshot.mimebundle, []

def late(window, message):
    if held or "RunClosed" in str(message):
        held.append((window, message))
    else:
        post(window, message)

def slow(*args, **options):
    (place / "drawing").touch()
    while not (place / "go").exists():
        time.sleep(0.01)
    while held:
        post(*held.pop(0))
    return draw(*args, **options)

Window._post, Window._keep_snapshot, snapshot.mimebundle = late, lambda window: None, slow
"""


@pytest.mark.parametrize("kernel", ["python3", "ipykernel6"])
def test_a_stop_while_the_copy_is_drawn_ends_the_cell_with_its_copy(
    notebook: Open, page: Page, scripted_server: Running, root: Path, kernel: str
) -> None:
    if kernel == "ipykernel6" and not IPYKERNEL_6:
        pytest.skip("IPYKERNEL_6 names no folder; bash tests/run makes one")
    folder = root / f"held-{kernel}"
    folder.mkdir()
    nb = notebook(
        setup(scripted_server) + HELD.replace("FOLDER", repr(str(folder))),
        f"%%acs --max-tokens 50 -o r\n{SCRIPT}tokens=50 rate=50 alternatives=3",
        "print('must not run')",
        "print(r.outcome, len(r.tokens))",
        kernel=kernel,
    )
    nb.run(0)
    nb.start(1)
    nb.start(2)
    until((folder / "drawing").exists, 30)
    out = nb.output(1)
    with page.expect_response(lambda answer: "/interrupt" in answer.url) as interrupted:
        out.get_by_role("button", name="Stop").click()
    assert interrupted.value.ok  # the signal has been sent
    (folder / "go").touch()
    nb.wait(1)
    (error,) = [o for o in nb.outputs(1) if o["output_type"] == "error"]
    assert (error["ename"], len(error["traceback"])) == ("KeyboardInterrupt", 1)
    out.locator(".acs-run[data-outcome=done]").wait_for()  # it had come whole before anybody stopped it
    out.locator(".acs-static").wait_for(state="attached")
    nb.run(3)
    assert nb.printed(3).split() == ["done", "50"]
    assert nb.outputs(2) == []
    nb.save()
    assert [(one.outcome, len(one.tokens)) for one in load(root / nb.name)] == [("done", 50)]


@pytest.mark.parametrize("kernel", ["python3", "ipykernel6"])
def test_stop_in_every_mode_and_going_on(
    notebook: Open, page: Page, scripted_server: Running, kernel: str
) -> None:
    if kernel == "ipykernel6" and not IPYKERNEL_6:
        pytest.skip("IPYKERNEL_6 names no folder; bash tests/run makes one")
    nb = notebook(
        setup(scripted_server) + "\nimport ipykernel; print(ipykernel.version_info[0])",
        f"%%acs --bg --max-tokens 30000 -o a\n{ENDLESS}",
        "%%acs --in a -o b\n and on",
        "%%acs --in a -o b",
        "import json\nsent = b.prompt == a.prompt + a.text\n"
        "print(json.dumps([a.outcome, b.outcome, len(a.tokens), len(b.tokens), sent, a.session is b.session]))",
        kernel=kernel,
    )

    def ended(index: int, outcome: str) -> None:
        nb.output(index).locator(f".acs-run[data-outcome={outcome}]").wait_for(timeout=10_000)

    nb.run(0)
    assert (nb.printed(0).split()[-1] == "6") == (kernel == "ipykernel6")
    nb.run(1)  # it returns at once, and streams on while the kernel is free
    tokens = nb.output(1).locator(".acs-t")
    tokens.nth(20).wait_for()
    nb.run(2)
    (error,) = [o for o in nb.outputs(2) if o["output_type"] == "error"]
    assert len(error["traceback"]) == 1
    assert "a is still running" in error["traceback"][0].replace("\n", " ")
    tokens.nth(60).wait_for()
    nb.output(1).get_by_role("button", name="Stop").click()
    ended(1, "stopped")
    nb.start(3)  # this one blocks the kernel
    nb.output(3).locator(".acs-t").nth(30).wait_for()
    nb.output(3).get_by_role("button", name="Stop").click()
    ended(3, "stopped")
    nb.wait(3)
    (error,) = [o for o in nb.outputs(3) if o["output_type"] == "error"]
    assert (error["ename"], len(error["traceback"])) == ("KeyboardInterrupt", 1)
    nb.run(4)
    a, b, first, second, sent, same = json.loads(nb.printed(4))
    assert (a, b, sent, same) == ("stopped", "stopped", True, True)
    assert (tokens.count(), nb.output(3).locator(".acs-t").count()) == (first, second)
    shoot(page, f"modes-{kernel}")
