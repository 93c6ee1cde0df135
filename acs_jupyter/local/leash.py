"""Runs a command that must not outlive whoever started it: ``python -m acs_jupyter.local.leash COMMAND...``.

Owns the watch on standard input, a pipe that closes when its other end is gone, and the passing on of signals.
It must not know what it runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the command of the arguments; end it with the pipe or with this process; its exit code."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: child.terminate())
    threading.Thread(target=_watch, args=(child,), daemon=True).start()
    return child.wait()


def _watch(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 4096):
        pass
    child.terminate()


if __name__ == "__main__":
    raise SystemExit(main())
