"""A port for a server that must be told its number before it starts."""

from __future__ import annotations

import os
import random
import socket

_OURS = range(20_000, 32_000)
"""Below what systems give to a socket that asks for any (from 32,768 or 49,152 on): so no server of another test
can take the port between the question and the start, and hear the requests that wait for this one."""


def free_port() -> int:
    """One that nobody listens on."""
    choose = random.Random(os.urandom(8))
    while True:
        port = choose.choice(_OURS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
