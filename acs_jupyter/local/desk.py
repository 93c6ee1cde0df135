"""The desk every request passes: rate, key, place, then deadline and budget; and what it used on its way out.

Owns the order of these checks and one ticket a request. It must not know a particular engine, nor JSON.
Whatever a request holds is given back when the server is done with it, by the guard's exit stack.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import ApiError, DeadlineInfeasible, Unauthorized, UpstreamDeadline
from ..wire import CLAMPED
from .budget import Budget, Purpose, Reservation
from .gate import Gate, Place, Rate
from .keys import Keys, hashed
from .ledger import Ledger
from .respond import while_connected
from .store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from starlette.requests import Request
    from starlette.types import Receive

    from .engine import Step, Task
    from .keys import Caller
    from .ledger import Source

T = TypeVar("T")
_BUCKET = 48
"""Characters of the bearer key that name its bucket; counted before the key is looked at."""
CLIENT_LEFT = 499
KEPT = 400 * 86_400.0
"""Seconds that rows of the log are kept; the sums a month stay."""


@dataclass(frozen=True)
class Limits:
    """What one key may do. 0 switches off ``starts``, ``reads`` (both a minute), and all that is measured in seconds.

    ``window``: seconds an answer without streaming may take. ``window_tokens``: tokens a choice can gain in them.
    ``refuse_infeasible``: whether an explicit ``max_tokens`` above that is refused or just tried. ``body_wait``:
    seconds without a byte after which the body of a request is given up.
    """

    active: int = 16
    waiting: int = 64
    starts: int = 600
    reads: int = 60
    window: float = 840.0
    window_tokens: int = 15_600
    refuse_infeasible: bool = True
    body_wait: float = 60.0


class Desk:
    """See the module. ``now`` gives seconds since 1970, ``ticks`` rising seconds."""

    def __init__(
        self,
        store: Store,
        own: str | None,
        *,
        own_budget: int = 0,
        limits: Limits | None = None,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self.store = store
        self.keys = Keys(store, own, own_budget)
        self.ledger = Ledger(store)
        self.ledger.forget(now() - KEPT)
        self.budget = Budget(store, self.keys, self.ledger, now)
        self.gate = Gate(self.limits.active, self.limits.waiting)
        self._starts = Rate(self.limits.starts, ticks)
        self._reads = Rate(self.limits.reads, ticks)

    @property
    def capabilities(self) -> dict[str, int | None]:
        """The limits a client can read beside a model's own."""
        limits = self.limits
        return {
            "max_inflight_per_key": limits.active,
            "max_queued_per_key": limits.waiting,
            "rate_limit_per_minute": limits.starts or None,
        }

    def reader(self, request: Request, what: str) -> Caller:
        """Who reads ``what``; rate and key are checked."""
        self._reads.start(what.encode() + _bucket(request))
        return self._caller(request)

    def starter(self, request: Request) -> Caller:
        """Who starts work, a completion or a job; rate and key are checked."""
        self._starts.start(_bucket(request))
        return self._caller(request)

    def caller(self, request: Request) -> Caller:
        """Who asks; the key alone is checked."""
        return self._caller(request)

    def admit(self, request: Request) -> Ticket:
        """A ticket for a completion: rate, key and a place at the gate. It closes itself with the request."""
        caller = self.starter(request)
        state = request.state
        ticket = Ticket(self, caller, state.request_id, place=self.gate.enter(caller.id))
        state.leaving.callback(lambda: ticket.close(getattr(state, "status", None)))
        return ticket

    def ticket(self, caller: Caller, request_id: str, endpoint: str) -> Ticket:
        """A ticket for work that takes no place at the gate, such as a job's; use it in a ``with`` block."""
        return Ticket(self, caller, request_id, endpoint=endpoint)

    @asynccontextmanager
    async def passage(self, key_id: str, request_id: str) -> AsyncGenerator[Ticket]:
        """A ticket for a job, with a place at the gate that is waited for as long as it takes."""
        caller = self.keys.caller(key_id)
        if caller is None:
            raise Unauthorized("The API key that submitted this is not known any more.")
        place = await self.gate.place(caller.id)
        with Ticket(self, caller, request_id, place=place, endpoint="completion-jobs") as ticket:
            await place.given.wait()
            yield ticket

    def _caller(self, request: Request) -> Caller:
        caller = self.keys.require(request.headers.get("authorization"))
        request.state.caller = caller
        return caller


class Ticket:
    """One request's passage: its place, what is held for it, and what the engine has made so far.

    Settled once, by the first of :meth:`done`, :meth:`failed`, :meth:`ended`, :meth:`left` and :meth:`close`.
    """

    def __init__(
        self,
        desk: Desk,
        caller: Caller,
        request_id: str,
        *,
        place: Place | None = None,
        endpoint: str = "completions",
    ) -> None:
        self._desk, self._caller, self._place = desk, caller, place
        self._request_id, self._endpoint = request_id, endpoint
        self._reservation: Reservation | None = None
        self._prompt, self._started, self._made = 0, False, 0
        self._counted_here = False
        self._bill: tuple[int, int] | None = None
        self.headers: dict[str, str] = {}

    @property
    def limited(self) -> bool:
        """Whether the key has a budget, so that its prompts must be counted before they are sent anywhere."""
        return self._desk.keys.budget_of(self._caller) > 0

    async def turn(self, receive: Receive) -> bool:
        """Wait for the place; ``False`` when the client left meanwhile. The body must have been read."""
        if self._place is None or self._place.given.is_set():
            return True
        return bool(await while_connected(receive, self._place.given.wait()))

    def reserve(self, task: Task, model: str, *, hurried: bool | None = None) -> None:
        """Check deadline and budget, lower ``task.max_tokens`` to what fits, and hold those tokens.

        ``hurried``: whether the request window counts; by default it does for answers that do not stream.
        """
        request = task.request
        task.max_tokens = self.hold(
            model=model,
            prompt=sum(map(len, task.prompts)),
            choices=request.choice_count,
            asked=task.max_tokens,
            chosen=isinstance(request.max_tokens, int),
            hurried=not request.streamed if hurried is None else hurried,
        )

    def hold(self, *, model: str, prompt: int, choices: int, asked: int, chosen: bool, hurried: bool) -> int:
        """The same for work that is no task: tokens each choice may take of the ``asked`` ones.

        ``chosen``: whether the client named that number, rather than the server's default.
        """
        source = "client" if chosen else "default"
        timely = self._timely(asked, source) if hurried else asked
        self._prompt = prompt
        purpose = Purpose(self._request_id, self._endpoint, model)
        self._reservation = self._desk.budget.reserve(
            self._caller, purpose, prompt=prompt, choices=choices, max_tokens=timely
        )
        applied = self._reservation.max_tokens
        cuts = {"deadline": timely < asked, "budget": applied < timely}
        reason = "+".join(name for name, cut in cuts.items() if cut)
        if reason:
            self.headers[CLAMPED] = f"requested={asked},applied={applied},reason={reason},source={source}"
        return applied

    def _timely(self, asked: int, source: str) -> int:
        limits = self._desk.limits
        if not limits.window_tokens or asked <= limits.window_tokens:
            return asked
        if source == "default":
            return limits.window_tokens
        if limits.refuse_infeasible:
            raise DeadlineInfeasible(
                f"max_tokens={asked} cannot finish within the request window without stream=true; "
                f"about {limits.window_tokens} can."
            )
        return asked

    async def in_time(self, work: Coroutine[None, None, T]) -> T:
        """Run work that does not stream; past the window it is ended with :class:`UpstreamDeadline`."""
        window = self._desk.limits.window
        try:
            async with asyncio.timeout(window or None):
                return await work
        except TimeoutError:
            raise UpstreamDeadline(f"The answer was not complete after {window:g} seconds.") from None

    async def counted(self, bursts: AsyncGenerator[list[Step]]) -> AsyncGenerator[list[Step]]:
        """The same bursts; the first one says that the prompt was read, each step counts its tokens."""
        try:
            async for burst in bursts:
                self._started = True
                self._made += sum(len(step.tokens) for step in burst)
                yield burst
        finally:
            await bursts.aclose()

    def scored(self) -> None:
        """The engine has read the prompt."""
        self._started = True

    def reported(self, prompt: int | None, completion: int) -> None:
        """What an engine elsewhere says it used so far; ``None``: it did not say, both are as counted here."""
        self._started, self._counted_here = True, prompt is None
        self._prompt = self._prompt if prompt is None else prompt
        self._made = completion

    def done(self) -> None:
        """The engine has ended: settle before the client can know."""
        told: Source = "cut" if self._counted_here else "usage"
        self._settle(200, told if self._started else "none")

    def failed(self, status: int, *, kept: bool = False) -> None:
        """The engine failed; what came before counts only when the client has it (``kept``)."""
        self._settle(status, "cut" if kept and self._started else "none")

    def ended(self, status: int) -> None:
        """How a forwarded answer ended, 200 or an error's status, which may stand inside an answer that had begun."""
        if status == 200:
            self.done()
        else:
            self.failed(status, kept=True)

    def left(self) -> tuple[int, int]:
        """The client leaves and waits for its bill: settle by what was made. Prompt and completion tokens it pays."""
        self.failed(CLIENT_LEFT, kept=True)
        return self._bill or (0, 0)

    def close(self, status: int | None = None) -> None:
        """Give back what is still held. ``status``: what was answered, ``None`` when nothing was.

        A request that was neither done nor failed was refused with that status, or its client left.
        """
        if status is None or status < 400 or status == CLIENT_LEFT:
            self.failed(CLIENT_LEFT, kept=True)
        else:
            self.failed(status)
        if self._place is not None:
            self._place.leave()

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, Exception):
            self.close(problem.status if isinstance(problem, ApiError) else 500)
        else:
            self.close()

    def _settle(self, status: int, source: Source) -> None:
        if self._reservation is None or self._bill is not None:
            return
        prompt, completion = self._bill = (0, 0) if source == "none" else (self._prompt, self._made)
        self._desk.budget.settle(
            self._reservation, prompt=prompt, completion=completion, status=status, source=source
        )


def _bucket(request: Request) -> bytes:
    key = request.headers.get("authorization", "").partition(" ")[2].strip()
    return hashed(key[:_BUCKET])
