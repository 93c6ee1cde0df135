"""An IPython shell with the extension, and the client that it uses."""

from __future__ import annotations

import atexit
import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.support.player import DONE, Player, Step, frames, stream, whole

KEY = "acs-bm-testtest-do-not-show-me"
MODELS = whole({"data": [{"id": "m-first"}, {"id": "m-default", "default": True}]})


@dataclass
class Ran:
    ok: bool
    out: str
    error: BaseException | None
    result: Any


class Shell:
    """A shell that runs cells as a front end would, and tells what was shown."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, cell: str) -> Ran:
        shown = io.StringIO()
        with redirect_stdout(shown), redirect_stderr(shown):
            done = self.shell.run_cell(cell, store_history=False)
        return Ran(
            bool(done.success), shown.getvalue(), done.error_before_exec or done.error_in_exec, done.result
        )

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.delenv("ACS_API_BASE", raising=False)
    monkeypatch.delenv("ACS_API_KEY", raising=False)
    made = InteractiveShell()
    made.run_line_magic("load_ext", "acs_jupyter")
    yield Shell(made)
    dispose(made)


def dispose(made: InteractiveShell) -> None:
    made.run_line_magic("unload_ext", "acs_jupyter")
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    players: list[Player] = []

    def go(*answers: list[Step]) -> Player:
        players.append(Player(list(answers), {"/models": MODELS}).__enter__())
        monkeypatch.setenv("ACS_API_BASE", players[-1].base)
        monkeypatch.setenv("ACS_API_KEY", KEY)
        return players[-1]

    yield go
    for player in players:
        player.__exit__()


PARIS = stream(*frames([" Par", "is"]), DONE)
