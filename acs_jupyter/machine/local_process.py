"""The embedded server as a child process of this kernel.

Owns starting it, reading the two lines it prints, and ending it with the kernel. It must not know the server's
inside: it runs the same command a user would.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NotConfigured
from ..settings import EMBEDDED

_WHY_NOT = "acs-jupyter: "
START_SECONDS = 600.0
"""The first start fetches the model file."""


@dataclass
class LocalServer:
    """A running local server: ``base`` ends in ``/v1``; the key is not shown."""

    process: subprocess.Popen[str]
    base: str
    key: str

    def __repr__(self) -> str:
        return f"LocalServer({self.base!r})"

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End it; harmless when it has ended."""
        if self.alive:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    @classmethod
    def start(cls, *arguments: str, tell: Callable[[str], None] = lambda line: None) -> LocalServer:
        """Start ``acs-jupyter serve`` on a free port and wait until it answers.

        ``tell`` gets what it says meanwhile (fetching, loading). Raises :class:`NotConfigured` with its last line
        when it ends before it answers.
        """
        # -P: a file of the user's in the working folder must not stand in for a module of the library.
        command = [sys.executable, "-P", "-m", "acs_jupyter", "serve", "--port", "0", "--until-stdin-closes"]
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt of the kernel is not meant for the server
        )
        said: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            threading.Thread(target=_read, args=(name, pipe, said), daemon=True).start()
        try:
            found = _first_lines(said, tell)
        except BaseException:
            cls(process, "", "").stop()
            raise
        server = cls(process, found["ACS_API_BASE"], found["ACS_API_KEY"])
        EMBEDDED.add(server.base)
        atexit.register(server.stop)
        return server


def _first_lines(
    said: queue.SimpleQueue[tuple[str, str | None]], tell: Callable[[str], None]
) -> dict[str, str]:
    found: dict[str, str] = {}
    last = "it said nothing"
    while len(found) < 2:
        try:
            name, line = said.get(timeout=START_SECONDS)
        except queue.Empty:
            raise NotConfigured("The embedded server did not start in time.", advice="") from None
        if name == "out" and line is None:
            raise NotConfigured(f"The embedded server did not start: {last}", advice="")
        if line is None:
            continue
        if name == "out" and "=" in line:
            variable, value = line.split("=", 1)
            found[variable] = value
        elif line.startswith(_WHY_NOT):
            last = line.removeprefix(_WHY_NOT)  # of which the error speaks
        elif line:
            last = line
            tell(line)
    return found


def _read(name: str, pipe: object, said: queue.SimpleQueue[tuple[str, str | None]]) -> None:
    with contextlib.suppress(ValueError, OSError):  # the pipe is closed under us at the end
        for line in pipe:  # type: ignore[attr-defined]
            said.put((name, line.rstrip()))
    said.put((name, None))
