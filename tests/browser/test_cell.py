"""``%%acs`` in JupyterLab with its default settings, from the cell to the server and back."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from acs_jupyter import load
from tests.browser.cell_page import ENDED, SCRIPT, setup, text_of
from tests.browser.conftest import VIEW
from tests.browser.labkit import PANEL, READY, Notebook, point_at, shoot
from tests.support.servers import Running

Open = Callable[..., Notebook]


def test_paris(notebook: Open, page: Page, smollm_server: Running) -> None:
    nb = notebook(
        setup(smollm_server),
        "%%acs --temperature 0 --max-tokens 12 -o paris\nThe capital of France is",
        "first = paris.tokens[0]; print([first.text, first.logprob, first.alternatives[1].text])",
    )
    nb.run(0)
    nb.run(1, timeout=60_000)
    page.wait_for_function(f"{ENDED} === 'done'")
    token = nb.output(1).locator(".acs-t").first
    assert token.evaluate("e => e.textContent").strip() == "Paris"
    point_at(token)
    tip = nb.output(1).locator(".acs-tip")
    tip.wait_for(state="visible")
    rows = tip.locator("tr").all_inner_texts()
    assert "Paris" in rows[0]
    assert "sampled" in rows[0]
    assert "−0.2" in rows[0]
    assert "the" in rows[1]
    shoot(page, "paris-light")
    wide = nb.output(1).evaluate(
        """e => [...e.querySelectorAll('.jp-OutputArea-output, .jp-OutputArea-output *')]
          .filter(o => o.scrollWidth > o.clientWidth && ['auto', 'scroll'].includes(getComputedStyle(o).overflowX))
          .map(o => `${o.className}: ${o.scrollWidth} in ${o.clientWidth}`)"""
    )
    assert wide == []
    nb.run(2)
    text, logprob, second = json.loads(nb.printed(2).replace("'", '"'))
    assert (text, second) == (" Paris", " the")
    assert logprob == pytest.approx(-0.26, abs=0.02)


def test_the_notebook_of_the_demo(page: Page, base: str, root: Path, smollm_server: Running) -> None:
    """The first notebook, all cells, in the dark theme; its saved copy reads without a kernel."""
    source = Path(__file__).parents[2] / "notebooks" / "01-first-completion.ipynb"
    (root / source.name).write_bytes(source.read_bytes())
    page.set_viewport_size({"width": 1200, "height": 1400})
    nb = Notebook(page, base, source.name).open()
    try:
        nb.theme("dark")
        page.evaluate(
            """async code => {
              const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
              await kernel.requestExecute({code}).done;
            }""",
            setup(smollm_server).splitlines()[0] + "\n" + setup(smollm_server).splitlines()[1],
        )
        nb.command("notebook:run-all-cells")
        errors = [o for i in (1, 3, 5, 6, 8, 10) for o in nb.outputs(i) if o["output_type"] == "error"]
        assert errors == []
        page.wait_for_function("document.querySelectorAll('.acs-run[data-outcome=done]').length === 2")
        shoot(page, "demo-dark")
        nb.save()
    finally:
        nb.end_kernels()
    saved = json.loads((root / source.name).read_text())
    copies = [
        output["data"]
        for cell in saved["cells"]
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
        and "text/plain" in output["data"]
        and "-n 3" not in cell["source"]
    ]
    assert "".join(copies[0]["text/plain"]).startswith(" Paris")
    assert smollm_server.key not in json.dumps(saved)


def test_twenty_thousand_tokens_from_socket_to_screen(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb = notebook(
        setup(scripted_server),
        f"%%acs --max-tokens 20000 -o long\n{SCRIPT}tokens=20000 alternatives=5",
        "import hashlib\nprint(len(long.tokens), hashlib.sha256(long.text.encode()).hexdigest(), long.outcome)",
    )
    nb.run(0)
    nb.run(1, timeout=60_000)
    page.wait_for_function(f"{ENDED} === 'done'", timeout=30_000)
    digest = (
        nb.output(1)
        .locator(".acs-text")
        .evaluate(
            """async e => {
          const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(e.textContent));
          return Array.from(new Uint8Array(hash), b => b.toString(16).padStart(2, "0")).join("");
        }"""
        )
    )
    assert nb.output(1).locator(".acs-t").count() == 20_000
    nb.run(2)
    assert nb.printed(2).split() == ["20000", digest, "done"]


ENDLESS = f"%%acs --max-tokens 30000 -o partial\n{SCRIPT}tokens=30000 rate=100 alternatives=3"
KEPT = "print(partial.outcome, len(partial.tokens), partial.usage.completion_tokens, repr(partial.text[:10]))"


def idle(server: Running) -> bool:
    """Whether the server works on nothing."""
    with urllib.request.urlopen(f"{server.root}/health") as answer:
        health: dict[str, Any] = json.load(answer)
    return not health.get("active", 0)


def test_stop_in_a_blocking_cell_keeps_what_came(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb = notebook(setup(scripted_server), ENDLESS, KEPT)
    nb.run(0)
    nb.start(1)
    nb.output(1).locator(".acs-t").nth(40).wait_for()
    began = time.monotonic()
    nb.output(1).locator("button:has-text('Stop')").click()
    page.wait_for_function(f"{ENDED} === 'stopped'", timeout=5_000)
    assert time.monotonic() - began < 5
    nb.wait(1)
    shown = text_of(nb, 1)
    nb.run(2)
    outcome, tokens, spent, *_ = nb.printed(2).split()
    assert outcome == "stopped"
    assert int(tokens) >= 40
    assert abs(int(spent) - int(tokens)) <= 1
    assert nb.output(1).locator(".acs-t").count() == int(tokens)
    nb.save()
    assert any(shown in "".join(o.get("data", {}).get("text/plain", "")) for o in nb.outputs(1))


def test_an_interrupt_keeps_what_came_and_stops_run_all(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb = notebook(setup(scripted_server), ENDLESS, "print('never')", KEPT)
    nb.run(0)
    page.evaluate(
        """() => { const panel = window.jupyterapp.shell.currentWidget; panel.content.activeCellIndex = 1;
          void window.jupyterapp.commands.execute("notebook:run-all-below"); }"""
    )
    nb.output(1).locator(".acs-t").nth(30).wait_for()
    nb.command("notebook:interrupt-kernel")
    nb.wait(1)
    page.wait_for_timeout(300)
    (error,) = [o for o in nb.outputs(1) if o["output_type"] == "error"]
    assert error["ename"] == "KeyboardInterrupt"
    assert len(error["traceback"]) == 1
    assert nb.printed(2) == ""
    nb.run(3)
    assert nb.printed(3).split()[0] == "stopped"
    assert int(nb.printed(3).split()[1]) >= 30


def test_a_reload_shows_it_again_and_without_a_kernel_it_reads(
    notebook: Open, page: Page, root: Path, smollm_server: Running
) -> None:
    nb = notebook(setup(smollm_server), "%%acs -t 0 --max-tokens 12 -n 1\nThe capital of France is")
    nb.run(0)
    nb.run(1, timeout=60_000)
    page.wait_for_function(f"{ENDED} === 'done'")
    text = text_of(nb, 1)
    nb.save()
    (kept,) = load(root / nb.name)
    assert (kept.text, kept.tokens[0].text, kept.outcome) == (text, " Paris", "done")
    assert kept.tokens[0].alternatives[1].text == " the"
    nb.open(reset=False)
    page.wait_for_function(f"{ENDED} === 'done'")
    assert text_of(nb, 1) == text
    point_at(nb.output(1).locator(".acs-t").first)
    nb.output(1).locator(".acs-tip").wait_for(state="visible")
    nb.end_kernels()
    page.goto("about:blank")
    nb.open(kernel=False)
    copy = nb.output(1).locator("[title*='Paris']").first
    copy.wait_for()
    assert copy.is_visible()
    assert text in nb.output(1).evaluate("e => e.textContent")
    shoot(page, "reopened-cell")


def test_after_a_restart_an_old_cell_interrupts_nothing(
    notebook: Open, page: Page, scripted_server: Running
) -> None:
    nb = notebook(
        setup(scripted_server), ENDLESS, "import time\nfor _ in range(30): time.sleep(0.1)\nprint('whole')"
    )
    nb.run(0)
    nb.start(1)
    nb.output(1).locator(".acs-t").nth(20).wait_for()
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => null)"
    )
    page.wait_for_function(f"{ENDED} === 'interrupted'")
    assert (
        nb.output(1).locator("button:has-text('Stop')").count() == 0
        or not nb.output(1).locator("button:has-text('Stop')").first.is_visible()
    )
    nb.run(2)
    assert nb.printed(2) == "whole\n"
    assert nb.output(1).locator(".acs-t").count() >= 20


def test_a_reload_in_mid_run_loses_nothing_and_says_what_the_file_lacks(
    notebook: Open, page: Page, root: Path, scripted_server: Running
) -> None:
    # In the background: a kernel that a cell blocks cannot tell a new page about its widgets until the cell ends.
    brief = f"%%acs --bg --max-tokens 600 -o r\n{SCRIPT}tokens=600 rate=40 alternatives=3"
    nb = notebook(
        setup(scripted_server), brief, "%acs last", "print(len(r.tokens), r.outcome)", "%acs recover"
    )
    nb.run(0)
    nb.run(1)
    nb.output(1).locator(".acs-t").nth(30).wait_for()
    nb.save()
    nb.open(reset=False)
    page.wait_for_function(f"{ENDED} === 'done'", timeout=60_000)
    assert nb.output(1).locator(".acs-t").count() == 600
    notice = nb.output(1).locator(".acs-notice")
    notice.wait_for(state="visible")
    assert "%acs last" in notice.inner_text()
    page.wait_for_timeout(500)
    nb.run(3)
    assert nb.printed(3) == "600 done\n"
    nb.run(2)
    nb.save()
    (kept,) = load(root / nb.name)
    assert len(kept.tokens) == 600
    # This page shows that copy: the next kernel has nothing to offer.
    page.evaluate(f"() => {PANEL}.sessionContext.session.kernel.restart().then(() => null)")
    page.wait_for_function(READY)
    nb.run(0)
    nb.run(4)
    assert nb.name not in nb.printed(4)


LINES = """pre => {
  const text = document.createRange();
  text.selectNodeContents(pre);
  return new Set([...text.getClientRects()].map(box => Math.round(box.bottom))).size;
}"""


def test_errors_are_one_line(notebook: Open, page: Page, scripted_server: Running) -> None:
    nb = notebook(
        setup(scripted_server),
        "%%acs\n#scripted fault=budget_exceeded",
        "%%acs --max-tokens 50 -o r\n#scripted tokens=30 fault=error after=5",
        "%%acs --temprature 1\nHi",
        "print(r.outcome, len(r.tokens))",
        "%acs budget --reset",
    )
    nb.run(0)
    for index, words in ((1, "budget_exceeded"), (2, "request acsj-"), (3, "Did you mean --temperature?")):
        nb.run(index)
        if index == 1:
            nb.run(5)  # what a server says is used up would stay so for every cell of this key
        (error,) = [o for o in nb.outputs(index) if o["output_type"] == "error"]
        assert len(error["traceback"]) == 1
        pieces = error["traceback"][0].split(
            "\n"
        )  # of that line, broken at spaces, so that the page breaks none
        assert max(map(len, pieces)) <= 80
        assert words in " ".join(pieces)
        told = nb.output(index).locator('[data-mime-type="application/vnd.jupyter.stderr"] pre').last
        assert told.evaluate(LINES) == len(pieces)
        assert scripted_server.key not in json.dumps(nb.outputs(index))
    nb.run(4)
    assert nb.printed(4).split() == ["interrupted", "5"]
    page.set_viewport_size({"width": 700, "height": 900})
    # In the cell's own box, and in its copy, a word is broken only where it is longer than a line.
    for box in (nb.output(2).locator(".acs-live .acs-error"), nb.output(2).locator(".acs-static .acs-error")):
        style = "e => [getComputedStyle(e).wordBreak, getComputedStyle(e).overflowWrap]"
        assert box.first.evaluate(style) in (["normal", "anywhere"], ["normal", "break-word"]), box
    page.set_viewport_size(VIEW)
    shoot(page, "errors-light")


def test_hostile_text_is_inert(notebook: Open, page: Page, scripted_server: Running) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    nb = notebook(
        setup(scripted_server), "%%acs --max-tokens 60 -o r\n#scripted say=hostile", "print(ascii(r.text))"
    )
    nb.run(0)
    nb.run(1)
    page.wait_for_function(f"{ENDED} === 'done'")
    assert nb.output(1).locator("img, script").count() == 0
    nb.run(2)
    assert ascii(text_of(nb, 1)) == nb.printed(2).strip()
    assert not [url for url in asked if url.endswith("/x")]
