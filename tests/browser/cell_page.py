"""A cell in a page: how its notebook begins, and what its text is."""

from __future__ import annotations

from tests.browser.labkit import Notebook
from tests.support.servers import Running

ENDED = "document.querySelector('.acs-run')?.dataset.outcome"
SCRIPT = "#scripted "


def setup(server: Running) -> str:
    return (
        "import os\n"
        f"os.environ |= {{'ACS_API_BASE': {server.base!r}, 'ACS_API_KEY': {server.key!r}}}\n"
        "%load_ext acs_jupyter"
    )


def text_of(nb: Notebook, index: int) -> str:
    """The text of a cell's live view, as a reader would copy it."""
    found: str = nb.output(index).locator(".acs-text").first.evaluate("e => e.textContent")
    return found
