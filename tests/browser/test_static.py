"""The static view where no kernel is: reopened, untrusted, exported. And hostile text everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pypdf import PdfReader

from tests.browser.cells import SETUP
from tests.browser.labkit import Notebook, lab, lab_environment, point_at, shoot, write_notebook
from tests.support.sanitising import sanitised

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

Open = Callable[..., Notebook]

PUBLISH = """
from acs_jupyter.widgets.snapshot import mimebundle
def show(run):
    window = LiveCell(session, [run]); display(window)
    return window, display({"text/plain": ""}, raw=True, display_id=True)
"""
RUN = """
window, static = show("a")
try:
    session.apply(open_run("a", seed=7)); session.apply([head("a")])
    for made in tokens(60): session.apply([arrived("a.0", made)])
    session.apply([ev.Finished("a.0", "length"), ev.Spent("a", 3, 60), ev.RunClosed("a", "done")])
finally:
    static.update(mimebundle(session, "a"), raw=True)
"""
HOSTILE = r"""
HOSTILE = ["</script>", "<img src=x onerror=alert(1)>", "</pre></div>", "<style>*{display:none}</style>",
  "\u202e", "evil", "\x00", "\" onmouseover=\"alert(2)", "'", "&lt;b&gt;", "`${alert(3)}`", "javascript:alert(4)", "__proto__",
  "<iframe srcdoc='<script>parent.alert(5)</script>'>", "\r", "</title>", "<!--", "]]>"]
window, static = show("h")
session.apply(open_run("h", prompt="<script>alert(6)</script>"))
session.apply([ev.Served("h", "<b onclick=alert(7)>model</b>", "<i>id</i>", "\"><img src=x onerror=alert(8)>", {})])
for t in HOSTILE: session.apply([ev.TokensArrived("h.0", t, [t], [-3.0], [{t: -3.0, "<img src=x onerror=alert(9)>": -1.0, "__proto__": -4.0}])])
session.apply([ev.Finished("h.0", "stop", "</span><script>alert(10)</script>"), ev.Failed("h", "<u>code</u>", "<img src=x onerror=alert(11)>"), ev.RunClosed("h", "failed")])
static.update(mimebundle(session, "h"), raw=True)
"""
CELLS = (SETUP + PUBLISH, RUN, HOSTILE)
STRANGERS = (
    "img, iframe, script, b, u:not([class^=k]), i:not(:empty):not(.acs-mark):not(.acs-cell), "
    "[onerror], [onmouseover], [onclick]"
)


def looks_of(token: Locator) -> list[str]:
    """The tint of a token and the line under it."""
    looks: list[str] = token.evaluate(
        "e => { const s = getComputedStyle(e); return [s.backgroundColor, s.borderBottomWidth, s.borderBottomStyle]; }"
    )
    return looks


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook as a headless run leaves it: outputs, and widget state."""
    folder = tmp_path_factory.mktemp("executed")
    write_notebook(folder / "n.ipynb", CELLS)
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--output",
        "done.ipynb",
        "n.ipynb",
    ]
    subprocess.run(command, cwd=folder, env=lab_environment(folder), check=True, capture_output=True)
    return folder / "done.ipynb"


def test_live_shows_the_window_and_hides_the_static_view(notebook: Open, page: Page) -> None:
    nb = notebook(*CELLS)
    for index in range(3):
        nb.run(index)
    nb.output(1).locator(".acs-t").nth(59).wait_for()
    assert nb.output(1).locator(".acs-beside").count() == 1
    assert not nb.output(1).locator(".acs-beside").is_visible()
    plain = next(o for o in nb.outputs(1) if "text/html" in o.get("data", {}))["data"]["text/plain"]
    assert "".join(plain) == nb.output(1).locator(".acs-text").text_content()
    assert nb.output(2).locator(".acs-live").locator(STRANGERS).count() == 0
    point_at(nb.output(2).locator(".acs-t").nth(1))
    tip = nb.output(2).locator(".acs-tip")
    tip.wait_for(state="visible")
    assert tip.locator(STRANGERS).count() == 0
    assert "“__proto__”" in tip.inner_text()
    assert "onerror=alert(9)" in tip.inner_text()


def test_reopened_without_kernel_shows_the_static_view_alone(notebook: Open, page: Page) -> None:
    nb = notebook(*CELLS)
    for index in range(3):
        nb.run(index)
    nb.output(1).locator(".acs-t").nth(59).wait_for()
    text = nb.output(1).locator(".acs-text").text_content()
    live = looks_of(nb.output(1).locator(".acs-text .acs-p5").first)
    nb.save()
    nb.end_kernels()
    page.goto("about:blank")
    nb.open()
    static = nb.output(1).locator(".acs-beside")
    static.wait_for(state="visible")
    assert static.locator("pre").text_content() == text
    assert "reached max_tokens (20000)" in static.inner_text()
    page.wait_for_timeout(1500)
    assert "model not found" not in nb.output(1).inner_text()
    token = static.locator("pre > [title]").nth(4)
    token.scroll_into_view_if_needed()
    point_at(token)
    hovered = token.element_handle()
    page.wait_for_function("e => getComputedStyle(e, '::after').content.includes('this')", arg=hovered)
    # The same tint and the same line under it as in the window.
    assert looks_of(static.locator(".k5").first) == live
    assert nb.output(2).locator(".acs-static").locator(STRANGERS).count() == 0
    shoot(page, "reopened")


def test_untrusted_notebook_shows_text_titles_and_underlines(executed: Path, browser: Browser) -> None:
    """Another server with another signing key has never trusted the file."""
    with lab(executed.parent) as base:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        nb = Notebook(page, base, executed.name).open(kernel=False)
        static = nb.output(1).locator(".acs-static")
        static.wait_for(state="visible")
        saved = json.loads(executed.read_text())["cells"][1]["outputs"]
        exact = next("".join(o["data"]["text/plain"]) for o in saved if "text/html" in o.get("data", {}))
        assert static.locator("pre").text_content() == exact
        assert static.locator("style").count() == 0
        unlikely = static.locator("u").first
        assert unlikely.evaluate("e => getComputedStyle(e).textDecorationLine") == "underline"
        assert "this" in (unlikely.get_attribute("title") or "")
        assert nb.output(2).locator(STRANGERS).count() == 0
        assert "onerror=alert(1)" in nb.output(2).inner_text()
        for theme in nb.in_both_themes():
            nb.output(1).scroll_into_view_if_needed()
            shoot(page, f"untrusted-{theme}")
            nb.output(2).scroll_into_view_if_needed()
            shoot(page, f"untrusted-hostile-{theme}")
        page.close()
        assert dialogs == []


@pytest.mark.parametrize("how", ["plain", "execute"])
def test_exported_page_shows_the_static_view_and_asks_for_nothing(
    executed: Path, browser: Browser, tmp_path: Path, how: str
) -> None:
    source = executed if how == "plain" else executed.with_name("n.ipynb")
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "html",
        "--output-dir",
        str(tmp_path),
        "--output",
        "page",
    ]
    flags = ["--execute"] if how == "execute" else []
    subprocess.run(
        [*command, *flags, str(source)], env=lab_environment(tmp_path), check=True, capture_output=True
    )
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    trouble: list[str] = []
    page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: trouble.append(request.url) if "/x" in request.url[-3:] else None)
    page.route("https://**", lambda route: route.abort())
    page.goto(f"file://{tmp_path}/page.html", wait_until="domcontentloaded")
    static = page.locator(".acs-static")
    assert static.count() == 2
    assert static.nth(0).is_visible()
    saved = json.loads(executed.read_text())["cells"][1]["outputs"]
    exact = next("".join(o["data"]["text/plain"]) for o in saved if "text/html" in o.get("data", {}))
    assert static.nth(0).locator("pre").text_content() == exact
    assert static.nth(1).locator(STRANGERS).count() == 0
    assert "⟨U+202E⟩" in static.nth(1).inner_text()
    point_at(static.nth(1).locator("pre > [title]").nth(2))
    page.wait_for_timeout(200)
    shoot(page, f"exported-{how}")
    page.close()
    assert trouble == []


def test_an_exported_page_prints_to_a_pdf_with_all_of_its_text(
    executed: Path, page: Page, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "html",
        "--output-dir",
        str(tmp_path),
        "--output",
        "page",
    ]
    subprocess.run([*command, str(executed)], env=lab_environment(tmp_path), check=True, capture_output=True)
    page.route("https://**", lambda route: route.abort())
    page.goto(f"file://{tmp_path}/page.html", wait_until="domcontentloaded")
    page.pdf(path=tmp_path / "page.pdf")
    printed = "".join(part.extract_text() for part in PdfReader(tmp_path / "page.pdf").pages)
    saved = json.loads(executed.read_text())["cells"][1]["outputs"]
    exact = next("".join(o["data"]["text/plain"]) for o in saved if "text/html" in o.get("data", {}))
    assert "".join(exact.split()) in "".join(
        printed.replace("↵", "").split()
    )  # however it was broken into lines


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_that_strips_styles_and_classes_shows_the_text(executed: Path, page: Page, theme: str) -> None:
    """As GitHub does; the page's own colours are all there is."""
    saved = json.loads(executed.read_text())["cells"]
    bundles = [o["data"] for cell in saved[1:] for o in cell["outputs"] if "text/html" in o.get("data", {})]
    ground = "color:#1f2328;background:#fff" if theme == "light" else "color:#f0f6fc;background:#0d1117"
    style = f"body{{{ground};font:16px sans-serif}}pre{{white-space:pre-wrap;overflow-wrap:anywhere}}"
    parts = "<hr>".join(sanitised("".join(bundle["text/html"])) for bundle in bundles)
    page.set_content(f"<!doctype html><style>{style}</style>{parts}")
    texts = page.locator("pre")
    assert texts.nth(0).text_content() == "".join(bundles[0]["text/plain"])
    assert "reached max_tokens (20000)" in page.inner_text("body")
    assert "onerror=alert(1)" in texts.nth(1).inner_text()
    assert page.locator("script, img, iframe, u, [class], [style], [onerror]").count() == 0
    colours = texts.locator("span").evaluate_all("all => all.map(e => getComputedStyle(e).color)")
    assert set(colours) == {page.evaluate("getComputedStyle(document.body).color")}
    shoot(page, f"stripped-{theme}")


LONG = """
window, static = show("long")
session.apply(open_run("long")); session.apply([head("long")])
for made in tokens(2100): session.apply([arrived("long.0", made)])
session.apply([ev.Finished("long.0", "length"), ev.RunClosed("long", "done")])
static.update(mimebundle(session, "long", spent=270_000), raw=True)
"""


def test_saved_widget_state_shows_the_window_again_without_kernel(root: Path, browser: Browser) -> None:
    """A long text is not in the saved state: its window leaves the place to the static view."""
    settings = {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True}}
    path = "@jupyter-widgets/jupyterlab-manager/plugin"
    write_notebook(root / "saved-state.ipynb", (*CELLS[:2], LONG))
    with lab(root, {path: settings["@jupyter-widgets/jupyterlab-manager:plugin"]}) as base:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        nb = Notebook(page, base, "saved-state.ipynb").open()
        for index in range(3):
            nb.run(index)
        nb.output(1).locator(".acs-t").nth(59).wait_for()
        nb.output(2).locator(".acs-t").nth(2099).wait_for(state="attached")
        assert not nb.output(2).locator(".acs-beside").is_visible()
        text = nb.output(1).locator(".acs-text").text_content()
        long = nb.output(2).locator(".acs-text").text_content()
        nb.save()
        state = json.loads((root / "saved-state.ipynb").read_text())["metadata"]["widgets"]
        assert "snapshot" in json.dumps(state)
        nb.open(reset=False)  # a reload, with the kernel there: all of both windows is back
        nb.output(2).locator(".acs-t").nth(2099).wait_for(state="attached")
        assert nb.output(2).locator(".acs-text").text_content() == long
        nb.end_kernels()
        page.goto("about:blank")
        nb.open()
        nb.output(1).locator(".acs-t").nth(59).wait_for()
        assert nb.output(1).locator(".acs-text").text_content() == text
        assert not nb.output(1).locator(".acs-beside").is_visible()
        static = nb.output(2).locator(".acs-beside")
        static.wait_for(state="visible")
        assert static.locator("pre").text_content() == long
        assert nb.output(2).locator(".acs-t").count() == 0
        titled = static.locator("pre > [title]").count()
        assert 0 < titled < 2100
        static.locator("pre > [title]").nth(titled - 1).scroll_into_view_if_needed()
        shoot(page, "long-static")
        page.close()
