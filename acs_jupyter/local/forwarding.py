"""Upstreams as a backend: what a ticket allows is asked of them, what they used settles the ticket.

Owns the meeting of tickets and forwarded requests. It must not know how bytes reach an upstream, nor paths and keys.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from .desk import CLIENT_LEFT
from .jobs import Done
from .respond import while_connected

if TYPE_CHECKING:
    from starlette.requests import Request

    from ..wire import CompletionRequest, Model
    from .desk import Ticket
    from .fleet import Fleet, Forward
    from .relay import Relay


class Forwarding:
    """See the module."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def models(self) -> list[Model]:
        """A model for each upstream."""
        return self._fleet.models

    def health(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The upstreams, and those whose breaker is not closed."""
        return self._fleet.health(time.time())

    async def status(self, name: str) -> dict[str, Any]:
        """Whether an upstream is warm; it is asked."""
        return await self._fleet.status(name)

    async def check(self, parsed: CompletionRequest) -> Forward:
        """The request on its way, not yet sent."""
        return await self._fleet.plan(parsed)

    async def answer(
        self, request: Request, body: bytes, parsed: CompletionRequest, ticket: Ticket
    ) -> Response | Relay:
        """The upstream's answer while it comes."""
        planning = self._fleet.plan(parsed, count=ticket.limited)
        forward = await while_connected(request.receive, planning)
        if forward is None:
            return Response(status_code=CLIENT_LEFT)
        _hold(ticket, forward, hurried=not parsed.streamed)
        return forward.answer(
            body,
            request.state.request_id,
            headers=ticket.headers,
            on_usage=ticket.reported,
            on_end=ticket.ended,
            on_leave=ticket.left,
        )

    async def job(self, parsed: CompletionRequest, ticket: Ticket, request_id: str) -> Done:
        """The upstream's whole JSON answer."""
        forward = await self._fleet.plan(parsed, count=ticket.limited)
        _hold(ticket, forward, hurried=False)
        body = await forward.whole(request_id, on_usage=ticket.reported, on_end=ticket.ended)
        return Done(body, forward.headers | ticket.headers)


def _hold(ticket: Ticket, forward: Forward, *, hurried: bool) -> None:
    """Check deadline and budget, hold the tokens, and lower what the upstream is asked for."""
    request = forward.request
    forward.max_tokens = ticket.hold(
        model=forward.upstream.name or "",
        prompt=forward.known,
        choices=request.choice_count,
        asked=forward.max_tokens,
        chosen=isinstance(request.max_tokens, int),
        hurried=hurried,
    )
