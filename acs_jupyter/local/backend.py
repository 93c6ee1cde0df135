"""What stands behind the routes: an engine of this process, or upstreams.

Owns the few questions the routes ask of either. It must not know how they are answered, nor paths and keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from ..wire import CompletionRequest, Model
    from .desk import Ticket
    from .jobs import Done


class Answer(Protocol):
    """An ASGI answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""


class Backend(Protocol):
    """Whatever can complete prompts. Errors of the contract are raised."""

    @property
    def models(self) -> list[Model]:
        """The model list."""

    def health(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The backends of ``GET /health``, and the ids of those that rest after failures."""

    async def status(self, name: str) -> dict[str, Any]:
        """The body of ``GET /v1/models/{id}/status``."""

    async def check(self, parsed: CompletionRequest) -> object:
        """Refuse a request that cannot run here."""

    async def answer(
        self, request: Request, body: bytes, parsed: CompletionRequest, ticket: Ticket
    ) -> Answer:
        """Answer a request whose turn has come. ``body`` is what ``parsed`` was read from."""

    async def job(self, parsed: CompletionRequest, ticket: Ticket, request_id: str) -> Done:
        """A JSON completion for nobody who waits, without a request window."""
