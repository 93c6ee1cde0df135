"""The terminal command as a process, and its one line."""

from __future__ import annotations

import subprocess
import sys

from tests.support.servers import environment


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acs_jupyter", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment(**env), check=False
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line
