"""What VS Code, Colab and plainer front ends show of a cell, played from a real kernel's messages.

These cannot be run here. What they can and lack is simulated (``hosts.js``): a widget manager of their own or none,
display updates or none, HTML whole or cleaned, and how their pages hold the outputs of a cell.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import start_new_kernel

from tests.browser.labkit import point_at, shoot
from tests.support.sanitising import sanitised
from tests.support.servers import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

    from tests.support.servers import Running

HOST = (Path(__file__).parent / "hosts.js").read_text()
PARIS = "%%acs -t 0 --max-tokens 12\nThe capital of France is"
SHOWN = ("comm_open", "comm_msg", "display_data", "update_display_data", "stream", "error")
COLAB = """
import sys, types
asked = []
output = types.ModuleType("google.colab.output")
output.enable_custom_widget_manager = lambda: asked.append(True)
output._widgets = types.SimpleNamespace(_installed_url=None)
sys.modules |= {"google": types.ModuleType("google"), "google.colab": types.ModuleType("google.colab"), "google.colab.output": output}
"""

Messages = list[dict[str, Any]]


class Kernel:
    """A kernel whose messages are kept as a front end gets them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str) -> Messages:
        """What a cell sends."""
        kept: Messages = []

        def keep(message: dict[str, Any]) -> None:
            if message["msg_type"] in SHOWN:
                kept.append({"type": message["msg_type"], "content": message["content"]})

        self._client.execute_interactive(code, timeout=60, output_hook=keep, allow_stdin=False)
        assert not [one for one in kept if one["type"] == "error"], kept
        return kept

    def printed(self, code: str) -> str:
        """What a cell prints."""
        return "".join(one["content"]["text"] for one in self.run(code) if one["type"] == "stream")


@pytest.fixture(scope="module")
def kernel(smollm_server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("hosts")
    known = {"ACS_API_BASE": smollm_server.base, "ACS_API_KEY": smollm_server.key, "IPYTHONDIR": str(folder)}
    manager, client = start_new_kernel(env=environment(**known))
    try:
        running = Kernel(client)
        running.run("%load_ext acs_jupyter")
        yield running
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def live(kernel: Kernel) -> Messages:
    return kernel.run(PARIS)


@pytest.fixture(scope="module")
def text(kernel: Kernel, live: Messages) -> str:
    return str(json.loads(kernel.printed("import json; print(json.dumps(_acs.text))")))


def show(page: Page, messages: Messages, **can: Any) -> None:
    """The page of a front end with these abilities after it has got the messages."""
    page.goto("about:blank")
    page.set_content("<!doctype html><body style='font:14px sans-serif'></body>")
    page.add_script_tag(content=HOST)
    pages = [one["content"].get("data", {}).get("text/html", "") for one in messages]
    clean = {html: sanitised(html) for html in pages}
    page.evaluate("([messages, can, clean]) => host.play(messages, can, clean)", [messages, can, clean])


def readable(page: Page, text: str) -> list[Locator]:
    """The places where a reader sees the text."""
    page.wait_for_timeout(100)
    places = page.locator(".acs-text, pre").all()
    return [one for one in places if one.is_visible() and text.strip() in (one.text_content() or "")]


@pytest.mark.parametrize("frame", ["vscode", "colab"])
def test_a_front_end_with_its_own_widget_manager_shows_the_live_cell_once(
    page: Page, live: Messages, text: str, frame: str
) -> None:
    """VS Code, and Colab with its custom widget manager: the copy below hides there too."""
    show(page, live, widgets=True, updates=True, html="whole", frame=frame, pause=True)
    page.locator(".acs-run[data-outcome=done]").wait_for()
    (place,) = readable(page, text)
    assert place.get_attribute("class") == "acs-text" or "acs-text" in (place.get_attribute("class") or "")
    assert page.locator(".acs-beside").count() == 1
    point_at(page.locator(".acs-t").first)
    page.locator(".acs-tip").wait_for(state="visible")
    shoot(page, f"host-{frame}")


@pytest.mark.parametrize("html", ["whole", "clean"])
@pytest.mark.parametrize("frame", ["vscode", "colab"])
def test_without_widgets_the_static_view_is_what_is_shown(
    page: Page, live: Messages, text: str, frame: str, html: str
) -> None:
    show(page, live, widgets=False, updates=True, html=html, frame=frame)
    (place,) = readable(page, text)
    assert place.locator("[title*='Paris']").count() >= 1
    assert "not supported" not in page.inner_text("body")
    shoot(page, f"host-{frame}-static-{html}")


@pytest.mark.parametrize("updates", [True, False])
def test_view_text_needs_neither_widgets_nor_updates(
    page: Page, kernel: Kernel, text: str, updates: bool
) -> None:
    """``%acs set view text``: text as it comes, then the probabilities behind a fold, and the record."""
    assert kernel.printed("%acs set view text") == 'view = "text"\n'
    messages = kernel.run(PARIS)
    assert kernel.printed("%acs set view live") == 'view = "live"\n'
    kinds = [one["type"] for one in messages]
    assert "comm_open" not in kinds
    assert "update_display_data" not in kinds
    assert kinds.index("stream") < kinds.index("display_data")
    assert "acs_jupyter" in messages[-1]["content"]["metadata"]
    show(page, messages, widgets=False, updates=updates, html="whole", frame="vscode")
    (stream,) = readable(page, text)
    assert (stream.text_content() or "") == text + "\n"
    page.locator("summary").click()
    assert len(readable(page, text)) == 2
    assert page.locator(".acs-static [title*='Paris']").first.is_visible()
    shoot(page, "host-text")


def test_colab_is_asked_for_its_custom_widget_manager(kernel: Kernel) -> None:
    """Without it Colab shows no widgets of others; anywidget asks, once, when the first window is shown."""
    kernel.run(COLAB)
    kernel.run(PARIS)
    kernel.run(PARIS)
    assert kernel.printed("print(len(asked))") == "1\n"
