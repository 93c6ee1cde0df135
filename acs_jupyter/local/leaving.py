"""A client that leaves in the middle of a stream by closing its side alone: "stop, and tell me what it costs".

Owns the sign between the connection, which sees that side close, and the answer, which may be listening for it.
It must not know engines, budgets or frames.

Only an answer that has begun listens. Before its first byte such a client is taken as gone, as other servers take it:
nobody can tell it from one whose request was its last word.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Scope

EXTENSION = "acs_jupyter.leaving"
PATIENCE = 5.0
"""Seconds that a client which closed its side has to read the rest; then the connection is cut."""


class Leaving:
    """The sign of one request."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._listening = False

    @property
    def seen(self) -> bool:
        """Whether the client has closed its side while somebody listened."""
        return self._event.is_set()

    def listen(self) -> None:
        """From here on the sign will be answered."""
        self._listening = True

    def give(self) -> bool:
        """The client has closed its side; whether anybody answers that."""
        if self._listening:
            self._event.set()
        return self._listening

    async def wait(self) -> None:
        """Wait for the sign."""
        await self._event.wait()


def leaving_in(scope: Scope) -> Leaving | None:
    """The sign of a request, when its connection can give one."""
    found = (scope.get("extensions") or {}).get(EXTENSION)
    return found if isinstance(found, Leaving) else None


class Hearing:
    """What uvicorn's protocols do not do: keep a connection open whose client has closed its side, for a last word."""

    _leaving: Leaving | None = None
    _end: asyncio.TimerHandle | None = None

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._answering, self.app = self.app, self._signed

    async def _signed(self, scope: Scope, receive: Any, send: Any) -> None:
        own: Any = self
        self._leaving = leaving = Leaving()
        scope["extensions"] = {**(scope.get("extensions") or {}), EXTENSION: leaving}
        try:
            await own._answering(scope, receive, send)
        finally:
            if self._leaving is leaving:
                self._leaving = None

    def eof_received(self: Any) -> bool | None:
        """The client has closed its side: close ours too, unless a stream is to end in good order."""
        if self._leaving is None or not self._leaving.give():
            return None
        if self._end is None:
            self._end = self.loop.call_later(PATIENCE, self.transport.abort)
        return True

    def on_response_complete(self: Any) -> None:
        """Nothing can follow on a connection that is closed on one side."""
        if self._end is not None:
            self.transport.close()
        super().on_response_complete()  # type: ignore[misc]

    def connection_lost(self: Any, exc: Exception | None) -> None:
        """It is over."""
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)  # type: ignore[misc]
