"""A request on a kept connection that its server had closed already: known to be read by nobody, or not.

Owns that distinction. It must not know sockets or clients; it is told what happened to a connection.

A completion costs tokens each time it runs, so it may be sent again only when it certainly did not run. A connection
that was used before can be closed by its server in the moment the next request is on its way. The server's machine
then throws the request away and resets the connection at once: that is the sign, as is a write that fails. A connection
that is reset later, by whatever stands between, or merely ends without an answer, may have carried the request to
somebody who read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

AT_ONCE = 0.1
"""Seconds after a request was sent in which a reset is its refusal: a way there and back, and no time for work."""


class Sending:
    """One request on its way; ``saw`` and ``saw_async`` are told the steps (httpx's ``trace`` extension).

    ``begins`` is called when its first byte goes out: before that it has cost nothing, whatever becomes of it.
    """

    def __init__(self, begins: Callable[[], object] = lambda: None) -> None:
        self._begins = begins
        self.opened = self._refused = False
        self._sent_at: float | None = None

    def saw(self, step: str, told: Any) -> None:
        """A step of the connection."""
        self.opened = self.opened or step.startswith("connection.")
        if ".send_request" in step:
            self._sent_at = time.monotonic()
            if step.endswith("headers.started"):
                self._begins()
            if step.endswith("failed") and was_reset(told.get("exception")):
                self._refused = True  # the rest of it went nowhere; httpcore then still looks for an answer

    async def saw_async(self, step: str, told: Any) -> None:
        """The same, for an asynchronous client."""
        self.saw(step, told)

    def never_read(self, problem: BaseException) -> bool:
        """Whether a request without an answer was certainly read by nobody: refused, on a connection used before."""
        return not self.opened and (self._refused or (was_reset(problem) and at_once(self._sent_at)))


def at_once(sent_at: float | None) -> bool:
    """Whether what was sent then (by the steady clock) has only just been sent."""
    return sent_at is not None and time.monotonic() - sent_at < AT_ONCE


def was_reset(problem: BaseException | None) -> bool:
    """Whether the other side's machine refused what was sent."""
    seen = 0
    while problem is not None and seen < 10:
        if isinstance(problem, ConnectionResetError | BrokenPipeError):
            return True
        problem, seen = problem.__cause__ or problem.__context__, seen + 1
    return False
