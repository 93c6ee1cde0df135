"""Errors in a notebook: one line wherever they come from, the whole story for who asks, and never the key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from acs_jupyter.errors import AcsError
from tests.support.player import Player, whole
from tests.support.shells import MODELS, Shell, dispose

KEY = "acs-bm-0123abcd-SECRETSECRETSECRETSECRETSECRETSEC"
REFUSED = whole(
    {"error": {"code": "model_not_found", "message": f"no model for {KEY}"}, "request_id": "req_77"},
    "400 Bad Request",
    X_Request_Id="req_77",
)


IN_PYTHON = """from acs_jupyter import Client
with Client() as client:
    client.complete('Hi', model='m-first')"""


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    made = InteractiveShell()
    with Player([REFUSED], {"/models": MODELS}) as server:
        monkeypatch.setenv("ACS_API_BASE", server.base)
        monkeypatch.setenv("ACS_API_KEY", KEY)
        made.run_line_magic("load_ext", "acs_jupyter")
        yield Shell(made)
        dispose(made)


def test_a_mistyped_model_is_told_with_the_nearest_one(cells: Shell) -> None:
    ran = cells.run("%%acs -m m-defualt\nHi")
    assert not ran.ok
    assert "Did you mean m-default? `%acs models`" in ran.out
    assert ran.out.rstrip().endswith("[request req_77]")
    far = cells.run("%%acs -m qwertyuiop\nHi")
    assert "Did you mean" not in far.out


def test_python_in_a_cell_is_told_in_one_line_with_the_readers_own(cells: Shell) -> None:
    ran = cells.run(IN_PYTHON)
    assert not ran.ok
    own, told = ran.out.strip().splitlines()
    assert own == "line 3: client.complete('Hi', model='m-first')"
    assert told.startswith("model_not_found: ")
    assert told.endswith("[request req_77]")


def test_other_errors_are_left_alone(cells: Shell) -> None:
    assert "ZeroDivisionError" in cells.run("1 / 0").out
    assert "Traceback" in cells.run("1 / 0").out


def test_debug_tells_the_last_error_whole_and_hides_the_key(cells: Shell) -> None:
    assert "run this again behind one" in cells.run("%acs debug").out
    cells.run("%%acs -m m-first\nHi")
    shown = cells.run("%acs debug").out
    assert "Traceback (most recent call last)" in shown
    assert "magics.py" in shown
    assert shown.endswith("request id: req_77\n")
    assert KEY not in shown
    assert "SECRETSECRET" not in shown


def test_debug_on_shows_every_traceback_until_it_is_off(cells: Shell) -> None:
    assert cells.run("%acs debug on").ok
    for cell in ("%%acs -m m-first\nHi", IN_PYTHON):
        assert "Traceback (most recent call last)" in cells.run(cell).out
    cells.run("%acs debug off")
    assert "Traceback" not in cells.run("%%acs -m m-first\nHi").out
    assert "takes nothing, on or off" in cells.run("%acs debug maybe").out


def test_without_the_extension_errors_are_as_they_were(cells: Shell) -> None:
    cells.run("%unload_ext acs_jupyter")
    assert not hasattr(AcsError, "_render_traceback_")
    cells.run("%load_ext acs_jupyter")
    assert hasattr(AcsError, "_render_traceback_")


def test_a_story_is_of_the_error_that_was_shown_last(cells: Shell) -> None:
    cells.run("%%acs -m m-first\nHi")
    cells.run(
        "try:\n    get_ipython().run_line_magic('acs', 'modles')\nexcept Exception as error:\n    caught = error"
    )
    error: Any = cells["caught"]
    assert "modles" in str(error)
    assert "req_77" in cells.run("%acs debug").out  # the one that was caught was not shown
