"""Something with a limit of its own, as its user holds it.

Owns what is told of it, and when it is active. It must not know how accounts are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import place
from .refusal import Account

if TYPE_CHECKING:
    from .book import Ledger


class Scope:
    """Something with a limit of its own; see :func:`acs_jupyter.ledger.ledger`. As a context manager it is active
    for the requests that begin inside."""

    def __init__(self, book: Ledger, account: int) -> None:
        self._book, self.account = book, account
        self._tokens: list[object] = []

    @property
    def state(self) -> Account:
        """Limit, spent and held of now, in tokens."""
        return self._book.account(self.account)

    @property
    def limit(self) -> int | None:
        """The limit, or ``None``."""
        return self.state.most

    @property
    def spent(self) -> int:
        """Tokens that were used."""
        return self.state.used

    @property
    def held(self) -> int:
        """Tokens held by running requests."""
        return self.state.held

    @property
    def left(self) -> int | None:
        """Tokens that a request may still take; ``None`` without a limit."""
        return self.state.left

    def __enter__(self) -> Scope:
        self._tokens.append(place.scopes.set((*place.scopes.get(), self.account)))
        return self

    def __exit__(self, *_: object) -> None:
        place.scopes.reset(self._tokens.pop())  # type: ignore[arg-type]
