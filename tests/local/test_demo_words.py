"""What the demo says to a shell beside it: on a terminal, and nowhere that is kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from acs_jupyter.local.demo import tell_a_shell

SETTINGS = {"ACS_API_BASE": "http://127.0.0.1:9/v1", "ACS_API_KEY": "acs-bm-12345678-secret"}


def test_a_terminal_is_told_what_to_export(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        tell_a_shell(SETTINGS)
        told = os.read(ours, 1000).decode()
    os.close(ours)
    line = "export ACS_API_BASE=http://127.0.0.1:9/v1 ACS_API_KEY=acs-bm-12345678-secret"
    assert told == f"In another shell: {line}\r\n"


def test_a_log_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        tell_a_shell(SETTINGS)
    assert (tmp_path / "log").read_text() == ""
