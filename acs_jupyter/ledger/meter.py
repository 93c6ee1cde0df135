"""What one client asks: the ledger for one key on one server.

Owns the tie between a connection's key and its entries. It must not know how requests travel. Nothing is opened
before the first request.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .. import wire
from ..errors import AcsError, BudgetExceeded, BudgetRefused, LedgerFailed
from ..secret import Secret
from ..wire import CompletionRequest
from . import ledger
from .terms import RUNNING_EVERY, day_of, month_of, worst_case

if TYPE_CHECKING:
    from .book import Ledger
    from .rows import Origin, Ticket
    from .scope import Scope


_THIS_MACHINE = frozenset({"localhost", "[::1]", "0.0.0.0", "[::]"})


def server_of(base_url: str) -> str:
    """Host and port of a server: the same however it is written, or it had two books."""
    parts = urlsplit(base_url if "://" in base_url else f"//{base_url}")
    place = parts.netloc.rpartition("@")[2].lower()
    place = place.removesuffix({"http": ":80", "https": ":443"}.get(parts.scheme.lower(), "\0"))
    host, colon, port = place.rpartition(":") if not place.endswith("]") and ":" in place else (place, "", "")
    host = host.removesuffix(".")
    local = host in _THIS_MACHINE or host.endswith(".localhost")
    return f"{'127.0.0.1' if local else host}{colon}{port}"


class KeyMeter:
    """A :class:`acs_jupyter.metering.Meter` on the ledger."""

    def __init__(self, secret: Secret, base_url: str, scopes: tuple[int, ...] = ()) -> None:
        self._secret, self._base = Secret(secret.reveal().strip()), base_url
        self._scopes = scopes

    def __repr__(self) -> str:
        return f"KeyMeter({self._server!r})"

    @property
    def where(self) -> tuple[str, Secret]:
        """Base URL and key, as a client takes them."""
        return self._base, self._secret

    @property
    def book(self) -> Ledger:
        """The ledger."""
        return ledger()

    @property
    def key(self) -> int:
        """The ledger's number of this key."""
        return self.book.key(self._secret, self._server)

    @property
    def _server(self) -> str:
        return server_of(self._base)

    def within(self, *scopes: Scope) -> KeyMeter:
        """The same meter, with every request counted against these scopes too."""
        return KeyMeter(self._secret, self._base, (*self._scopes, *(scope.account for scope in scopes)))

    def reserve(self, request: CompletionRequest, run: str) -> Ticket:
        """Hold the worst case; raises :class:`BudgetRefused` or :class:`LedgerFailed`."""
        return self.book.hold(self._origin(request, run), worst_case(request), self._scopes)

    def reserve_several(
        self, asked: Sequence[tuple[CompletionRequest, str]], *, all_ahead: bool = False
    ) -> list[Ticket]:
        """Hold the first of some requests and run ids, and in advance as many of the others as the ledger allows; see
        :meth:`Ledger.hold_several` for what is asked of the caller."""
        key = self.key
        held = [(self._origin(request, run, key=key), worst_case(request)) for request, run in asked]
        return self.book.hold_several(held, self._scopes, all_ahead=all_ahead)

    def settle(self, ticket: Ticket, prompt_tokens: int, completion_tokens: int, source: str) -> None:
        """Replace the hold by what was used."""
        (ticket.book or self.book).end(ticket, prompt_tokens, completion_tokens, source)

    def release(self, ticket: Ticket) -> None:
        """Give the hold back."""
        (ticket.book or self.book).end(ticket)

    def running(self, ticket: Ticket, prompt_tokens: int, completion_tokens: int) -> None:
        """What a stream has used by now."""
        ticket.seen = (prompt_tokens, completion_tokens)
        if time.monotonic() - ticket.noted >= RUNNING_EVERY:
            self.book.running(ticket, prompt_tokens, completion_tokens)

    def write(self) -> None:
        """Write what has ended and waits for others; see :meth:`reserve_several`."""
        self.book.write()

    @property
    def waits(self) -> bool:
        """Whether an end is not written yet."""
        return self.book.waits

    @property
    def identity(self) -> str:
        """A name for the ledger's file. Raises :class:`LedgerFailed`."""
        from .returning import identity  # noqa: PLC0415  # sqlite3 loads with the first request

        return identity(self.book)

    def end_known(self, ends: Iterable[tuple[int, str, int, int, str, str | None]]) -> None:
        """End holds of a process that is gone, of which is known: entry, run, prompt and completion tokens, the
        source of these (``""``: it was never sent), and the server's request id. Raises :class:`LedgerFailed`."""
        from .returning import end_known  # noqa: PLC0415
        from .rows import End  # noqa: PLC0415

        end_known(
            self.book,
            [
                (entry, run, End(prompt, completion, source, {"request_id": told}))
                for entry, run, prompt, completion, source, told in ends
            ],
        )

    def note(
        self,
        ticket: Ticket,
        *,
        request_id: str | None,
        headers: Mapping[str, str],
        error: AcsError | None,
        model: str | None = None,
    ) -> None:
        """What else the answer said: its id, a clamp, an error, and the model where the request named none.

        A server's ``budget_exceeded`` ends the month in which the request began, or that day if it says so.
        """
        ticket.facts = {
            "request_id": request_id,
            "clamp": headers.get(wire.CLAMPED),
            "error": error.code if error else None,
            "model": model,
        }
        if isinstance(error, BudgetExceeded) and not isinstance(error, BudgetRefused):
            daily = error.message.lower().startswith("daily")
            self.book.exhaust(self.key, day_of(ticket.at) if daily else month_of(ticket.at))

    # -- jobs -------------------------------------------------------------------------------------

    def reserve_job(self, request: CompletionRequest, key: str) -> Ticket:
        """The hold for a submission under an idempotency key; what the ledger knows of it already is found again."""
        return self.book.hold_job(self._origin(request, key, "job"), worst_case(request), self._scopes)

    def name_job(self, ticket: Ticket, job: str) -> None:
        """The submission has become this job."""
        self.book.name_job(ticket, job)

    def withdraw(self, ticket: Ticket) -> None:
        """The submission was refused, and has not arrived."""
        self.book.withdraw(ticket)

    def job(self, job: str) -> Ticket | None:
        """The hold of a job, whichever process submitted it."""
        try:
            return self.book.job(self.key, job)
        except LedgerFailed:
            return None

    def _origin(
        self, request: CompletionRequest, run: str, kind: str = "request", *, key: int | None = None
    ) -> Origin:
        from .rows import Origin  # noqa: PLC0415  # sqlite3 loads with the first request

        key = self.key if key is None else key
        return Origin(key, request.model if isinstance(request.model, str) else "", run, kind)
