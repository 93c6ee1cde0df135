"""What is typed into a cell of JupyterLab is what arrives at the socket, byte for byte, through a real kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.browser.labkit import IPYKERNEL_6, Notebook
from tests.support.player import DONE, Player, frames, stream

Open = Callable[..., Notebook]

EVERY = (
    "brackets [ ] ( ) < > braces { } {{x}} {x!r} ${HOME} $HOME $$ @@{x} percent % %s %% %(x)s 100%\n"
    "%time x\n%%time\n%%acs\n!ls\n?x\nx?\n;x\n,x y\n/x y\n>>> p\n... q\nIn [1]: r\n   ...: s\n\t tab\n  trailing  \n"
    "NUL \x00 bell \x07 escape \x1b[31m bidi \u202e\u2066\u200f zero \u200b\ufeff lines \u2028\u2029\x85\x1c\x0b\x0c\n"
    "back\\slash \\n \\u202e '''quotes''' \"\"\" # -*- coding: latin-1 -*-\n"
    "</script><img src=x onerror=alert(1)>&amp;<!-- ]]> 🦊 é e\u0301 \u0627\u0644 \U0010ffff \ufffd\n"
    "lone \r return and \r\n pair\n\n  \n"
)
BODIES = {
    "every": EVERY,
    "spaces": "   ",
    "newline": "\n",
    "crlf": "a\r\nb\r\n",
    "megabyte": "é🦊 {x}\n\t" * 80_000,
}


@pytest.fixture
def player() -> Iterator[Player]:
    with Player([stream(*frames([" yes"]), DONE)]) as playing:
        yield playing


@pytest.mark.parametrize("kernel", ["python3", "ipykernel6"])
def test_the_body_of_a_cell_reaches_the_socket_byte_for_byte(
    notebook: Open, player: Player, kernel: str
) -> None:
    if kernel == "ipykernel6" and not IPYKERNEL_6:
        pytest.skip("IPYKERNEL_6 names no folder; bash tests/run makes one")
    nb = notebook(
        f"import os\nos.environ |= {{'ACS_API_BASE': {player.base!r}, 'ACS_API_KEY': 'acs-bm-0-x'}}\n"
        "%load_ext acs_jupyter\n%acs set notes off",
        *[f"%%acs -m m\n{body}" for body in BODIES.values()],
        "%%acs -m m",
        "%%acs -m m\n(to be made)",
        "print('still here')",
        kernel=kernel,
    )
    nb.run(0)
    for index, (name, body) in enumerate(BODIES.items(), start=1):
        nb.run(index, timeout=60_000)
        sent = json.loads(player.requests[-1].body)["prompt"]
        assert sent.encode() == body.encode(), name
    empty, broken, last = range(len(BODIES) + 1, len(BODIES) + 4)
    nb.run(empty)
    (error,) = [o for o in nb.outputs(empty) if o["output_type"] == "error"]
    assert "The cell has no body" in error["traceback"][0]
    assert len(error["traceback"]) == 1
    # The kernel's own messages cannot carry a lone surrogate: such a cell never comes to run, whatever is in it.
    nb.page.evaluate(
        "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.setSource('%%acs -m m\\na\\ud800b')",
        broken,
    )
    nb.start(broken)
    nb.run(last)
    assert nb.printed(last) == "still here\n"
    assert len(player.requests) == len(BODIES)
