"""The workbench in JupyterLab: written, run, continued, gone back to, exported, reloaded; in both themes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from acs_jupyter import Session, load
from tests.browser.axe import violations
from tests.browser.cell_page import SCRIPT, setup
from tests.browser.labkit import Notebook, shoot
from tests.support.desks import until
from tests.support.servers import Running

Open = Callable[..., Notebook]
NASTY = "a\r\nb\x00\u202e{{x}} %s\t</textarea><img src=x onerror=alert(1)> 🦊 "


def bench_of(nb: Notebook, index: int = 1) -> Locator:
    return nb.output(index).locator(".acs-bench")


def ended(bench: Locator, outcome: str = "done") -> None:
    bench.locator(f".acs-run[data-outcome={outcome}]").wait_for(timeout=20_000)


def told(nb: Notebook, index: int) -> Any:
    nb.run(index)
    return json.loads(nb.printed(index))


CELLS = (
    f"from acs_jupyter import Workbench\nbench = Workbench(prompt={NASTY!r}, max_tokens=30)\nbench",
    """
import json, time
s = bench.session
def row(run):
    parent = s.nodes[s.nodes[run.nodes[0]].parent]
    return [s.text_to(parent.id), run.request["prompt"], s.text_to(run.nodes[0]), parent.choice]
print(json.dumps([row(run) for run in s.runs.values()]))
""",
    "print(json.dumps([bench.kept, bench.draft]))",
    "open('busy', 'w').close()\nwhile not os.path.exists('heard'): time.sleep(0.05)\nprint('whole')",
    "bench",
)


class Day:
    """One page over all of it: each step leaves the workbench as the next one needs it."""

    def __init__(self, nb: Notebook, page: Page) -> None:
        self.nb, self.page = nb, page
        self.bench = bench_of(nb)
        self.box = self.bench.get_by_label("Prompt")
        self.facts = self.bench.locator(".acs-box-facts")
        self.items = self.bench.locator(".acs-past-item")

    def button(self, name: str) -> Locator:
        return self.bench.get_by_role("button", name=name, exact=True)

    def field(self, name: str) -> Locator:
        return self.bench.locator(".acs-form").get_by_label(name, exact=True)

    def runs(self) -> Any:
        return told(self.nb, 2)


def what_was_given_is_sent_to_the_byte(day: Day) -> None:
    assert day.box.input_value() == NASTY.replace("\r\n", "\n")
    assert "1 carriage return (\\r), kept" in day.facts.inner_text()
    assert "U+202E" in day.facts.inner_text()
    day.button("Run").click()
    ended(day.bench)
    ((path, prompt, *_),) = day.runs()
    assert path == prompt == NASTY


def a_bad_value_says_so_at_its_field(day: Day) -> None:
    temperature = day.field("temperature")
    temperature.fill("hot")
    wrong = day.bench.locator(".acs-field-error:visible")
    assert wrong.inner_text() == "temperature: a number is needed"
    assert temperature.get_attribute("aria-invalid") == "true"
    assert violations(day.bench) == []
    shoot(day.page, "bench-wrong-light")
    day.button("Run").click()
    assert temperature.evaluate("e => e === document.activeElement")
    temperature.fill("")
    day.bench.locator(".acs-form-more summary").click()
    day.field("top_k").fill("0")  # a rule of the request's own: the kernel says it
    day.box.focus()
    day.page.keyboard.press("Control+Enter")
    wrong.filter(has_text="top_k=0: expected -1 (off)").wait_for()
    day.field("top_k").fill("")
    assert len(day.runs()) == 1


def keys_stay_here_and_tab_leaves(day: Day, script: str) -> None:
    keyboard, lab = day.page.keyboard, "window.jupyterapp.shell.currentWidget.content"
    day.box.fill(script)
    day.box.focus()
    for key in ("Control+End", "Enter", "d", "d", "0", "0", "x", "a", "b", "m", "Backspace"):
        keyboard.press(key)
    day.box.press("Tab")
    assert not day.box.evaluate("e => e === document.activeElement")
    day.button("insert tab").click()
    assert day.box.input_value() == f"{script}\ndd00xab\t"
    assert day.page.evaluate(f"{lab}.widgets.length") == 6
    assert day.page.evaluate(f"{lab}.mode") == "command"
    keyboard.press("Control+z")
    assert day.box.input_value() == f"{script}\ndd00xab"
    keyboard.press("Control+Enter")
    day.items.nth(1).wait_for()
    ended(day.bench)
    assert day.bench.locator(".acs-t").count() == 30


def it_goes_on_at_the_end(day: Day) -> None:
    day.button("Continue").click()
    day.items.nth(2).wait_for()
    ended(day.bench)
    runs = day.runs()
    assert runs[2][1] == runs[1][2] == day.box.input_value()
    assert runs[2][3] == 0  # a child of what it continues


def a_snapshot_comes_back_and_nothing_is_lost(day: Day) -> None:
    runs = day.runs()
    day.box.fill("a thought that was not sent")
    day.items.last.click()
    assert day.box.input_value() == NASTY.replace("\r\n", "\n")
    assert day.items.last.get_attribute("aria-current") == "true"
    day.page.wait_for_timeout(500)
    ((kept,), draft) = told(day.nb, 3)
    assert (kept["prompt"], draft["prompt"]) == ("a thought that was not sent", NASTY)
    assert day.runs() == runs
    day.box.focus()
    day.page.keyboard.press("Control+z")
    assert day.box.input_value() == "a thought that was not sent"
    day.page.keyboard.press("Control+Shift+z")
    assert "carriage return" in day.facts.inner_text()


def it_leaves_the_page_to_the_byte(day: Day) -> None:
    runs = day.runs()
    with day.page.expect_download() as text:
        day.button("Save text").click()
    assert Path(text.value.path()).read_bytes().decode() == runs[0][2]
    with day.page.expect_download() as log:
        day.button("Save JSONL").click()
    assert log.value.suggested_filename.endswith(".jsonl")
    session = Session.load(log.value.path())
    assert [run.request["prompt"] for run in session.runs.values()] == [run[1] for run in runs]
    day.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    day.button("Copy").click()
    day.bench.locator(".acs-notice", has_text="Copied.").wait_for()
    assert day.page.evaluate("navigator.clipboard.readText()") == runs[0][2]


def stop_leaves_a_busy_kernel_alone(day: Day, root: Path) -> None:
    day.box.fill(f"{SCRIPT}tokens=30000 rate=100 alternatives=2")
    day.field("max_tokens").fill("30000")
    day.button("Run").click()
    day.bench.locator(".acs-t").nth(40).wait_for()
    notice = day.bench.locator("> .acs-notice")
    day.button("Run").click()
    expect(notice).to_contain_text("The same is running already")
    day.nb.start(4)
    until((root / "busy").exists)
    day.button("Stop").click()
    # A kernel with subshells may hear it beside the cell; one that does not hear it yet is told to be busy.
    stopped = day.bench.locator(".acs-run[data-outcome='stopped']")
    busy = notice.filter(has_text="The kernel has not answered yet: it is busy")
    expect(stopped.or_(busy).first).to_be_visible()
    (root / "heard").touch()
    day.nb.wait(4)
    assert day.nb.printed(4) == "whole\n"
    ended(day.bench, "stopped")
    expect(notice).to_be_hidden()


def a_lone_surrogate_goes_nowhere(day: Day) -> None:
    day.box.evaluate(
        "e => { e.value = 'a\\ud800b'; e.dispatchEvent(new Event('input', { bubbles: true })); }"
    )
    assert "lone surrogate (U+D800) at character 1" in day.bench.locator(".acs-box .acs-error").inner_text()
    day.button("Run").click()
    assert len(day.runs()) == 4
    day.box.fill("fine again")
    day.page.wait_for_timeout(500)


def it_opens_twice_and_survives_a_reload(day: Day) -> None:
    day.nb.run(5)
    second = bench_of(day.nb, 5)
    second.locator(".acs-past-item").nth(4).wait_for()
    assert second.get_by_label("Prompt").input_value() == "fine again"
    day.nb.save()
    day.nb.open(reset=False)
    day.items.nth(4).wait_for()
    assert day.box.input_value() == "fine again"
    assert day.field("max_tokens").input_value() == "30000"
    day.items.filter(has_text="1 · ").last.click()
    assert day.box.input_value() == NASTY.replace("\r\n", "\n")
    ended(day.bench)
    shoot(day.page, "bench-reloaded-light")


def a_restarted_kernel_is_told_and_the_page_keeps_everything(day: Day) -> None:
    day.nb.save()
    day.box.fill("not lost")
    day.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => null)"
    )
    day.bench.locator(".acs-error", has_text="The kernel is gone or was restarted").wait_for()
    day.button("Run").click()
    day.page.wait_for_timeout(300)
    assert day.box.input_value() == "not lost"
    assert day.items.count() == 6
    assert day.bench.locator(".acs-t").count() == 30
    with day.page.expect_download() as text:
        day.button("Save text").click()
    assert Path(text.value.path()).read_bytes().decode().startswith(NASTY)


def without_a_kernel_the_copy_reads(day: Day, saved: Path, runs: Any) -> None:
    assert [one.prompt for one in load(saved)][:4] == [run[1] for run in runs]
    day.nb.save()
    day.nb.end_kernels()
    day.page.goto("about:blank")
    day.nb.open(kernel=False)
    copy = day.nb.output(1).locator(".acs-static")
    copy.wait_for()
    assert copy.is_visible()
    assert "3 earlier in this output" in copy.inner_text()
    assert day.nb.output(1).locator("img, script").count() == 0


def test_a_day_at_the_workbench(notebook: Open, page: Page, root: Path, scripted_server: Running) -> None:
    nb = notebook(setup(scripted_server), *CELLS)
    nb.run(0)
    nb.run(1)
    day = Day(nb, page)
    what_was_given_is_sent_to_the_byte(day)
    a_bad_value_says_so_at_its_field(day)
    keys_stay_here_and_tab_leaves(day, f"{SCRIPT}tokens=30 alternatives=3")
    it_goes_on_at_the_end(day)
    a_snapshot_comes_back_and_nothing_is_lost(day)
    it_leaves_the_page_to_the_byte(day)
    stop_leaves_a_busy_kernel_alone(day, root)
    a_lone_surrogate_goes_nowhere(day)
    it_opens_twice_and_survives_a_reload(day)
    saved = root / nb.name
    runs = day.runs()
    a_restarted_kernel_is_told_and_the_page_keeps_everything(day)
    without_a_kernel_the_copy_reads(day, saved, runs)


def test_the_workbench_in_the_dark(notebook: Open, page: Page, scripted_server: Running) -> None:
    script = f"{SCRIPT}tokens=60 alternatives=4"
    cells = [
        setup(scripted_server),
        f"from acs_jupyter import Workbench\nWorkbench(prompt={script!r} + '\\nOnce upon a time', max_tokens=60, n=2)",
    ]
    nb = notebook(*cells, theme="dark", height=1300)
    nb.run(0)
    nb.run(1)
    bench = bench_of(nb)
    bench.get_by_role("button", name="Run", exact=True).click()
    ended(bench)
    bench.get_by_label("Which continuation").select_option(index=1)
    bench.get_by_role("button", name="Continue").click()
    page.wait_for_function("document.querySelectorAll('.acs-past-item').length === 2")
    ended(bench)
    bench.locator(".acs-form-more summary").click()
    assert violations(bench) == []
    bench.scroll_into_view_if_needed()
    shoot(page, "bench-dark")
