"""One upstream: a completions server of the user's own, reached over HTTP, with what is known of it.

Owns the connections, the upstream's key, its limits, its breaker and the guess whether it is warm.
It must not know the client's side: no ASGI, no headers of ours, no bytes of an answer.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import msgspec

from ..errors import CircuitOpen
from ..wire import Capabilities, Model
from .breaker import Breaker, Open, Ticket
from .counts import Count, most_tokens
from .guard import log
from .spread import Spread
from .upstream_errors import detailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..wire import CompletionRequest


@dataclass(frozen=True)
class Patience:
    """Times in seconds and counts; all but the first are settings of ``serve --upstream-set NAME=VALUE``."""

    deadline: float = 840.0
    """A JSON answer begins within this, or it is a 504; also the longest silence within any answer. 0: no limit.

    When serving it is the request window, so it is no setting of its own."""
    connect: float = 10.0
    retries: int = 3
    """New attempts after network errors and 5xx, before any byte went to the client; never for streams."""
    backoff: float = 1.0
    """Before the first new attempt; doubled each time, up to a quarter more by chance."""
    cold: float = 1.0
    """Without a byte for this long, an answer of an upstream believed cold begins with keepalives."""
    warm: float = 5.0
    """The same for one believed warm."""
    silence: float = 5.0
    """Between keepalives."""
    cold_after: float = 300.0
    """An upstream not heard of for this long is believed cold."""
    breaker_failures: int = 5
    breaker_pause: float = 60.0
    max_logprobs: int = 0
    """Listed in the model's capabilities and checked here; 0: not known, the engine decides."""
    full_vocab_tokens: int = 1024
    """The longest prompt for ``prompt_logprobs=-1``."""

    @classmethod
    def of(cls, settings: Iterable[str], *, deadline: float = 840.0) -> Patience:
        """From texts ``NAME=VALUE``; raises ``ValueError`` with one line."""
        kinds = {item.name: type(item.default) for item in fields(cls) if item.name != "deadline"}
        values: dict[str, Any] = {"deadline": deadline}
        for text in settings:
            name, _, value = text.partition("=")
            name = name.strip().replace("-", "_")
            kind = kinds.get(name)
            number = re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value.strip())
            if kind is None or number is None:
                raise ValueError(f"{text!r} is not NAME=NUMBER with one of {', '.join(kinds)}.")
            values[name] = int(float(number.group())) if kind is int else float(number.group())
        return cls(**values)


class _Entry(msgspec.Struct, frozen=True):
    id: str
    max_model_len: int | None = None
    capabilities: Capabilities = Capabilities()


class _Listing(msgspec.Struct, frozen=True):
    data: list[_Entry] = []


class Counted(NamedTuple):
    """Tokens of the longest prompt and of all; without ``exact`` they are upper bounds (one a byte of text)."""

    longest: int
    total: int
    exact: bool


class _Counted(msgspec.Struct, frozen=True):
    count: Count


_decode_listing = msgspec.json.Decoder(_Listing).decode
_decode_counted = msgspec.json.Decoder(_Counted).decode


@dataclass
class Upstream:
    """See the module. ``base`` ends in ``/v1``; ``name`` is the id requests use, ``None`` until learnt."""

    base: str
    name: str | None = None
    served: str | None = None
    key: str | None = field(default=None, repr=False)
    patience: Patience = field(default_factory=Patience)
    clock: Callable[[], float] = time.monotonic
    default: bool = False

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.patience.breaker_failures, self.patience.breaker_pause, self.clock)
        self.capabilities = self._limits(None, Capabilities())
        self.active = 0
        """Requests under way."""
        self.last_answer: float | None = None
        """Wall time of the last complete answer."""
        self._known = False
        self._counts = True
        self._seen: float | None = None
        self._client: httpx.AsyncClient
        self._cold_since = self.clock()
        self.reopen()

    def reopen(self) -> Upstream:
        """New connections, for another event loop than the last."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        self._client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", "User-Agent": "acs-jupyter"} | headers,
            transport=Spread(),
            trust_env=False,
        )
        return self

    @property
    def model(self) -> Model:
        """The entry of the model list."""
        return Model(
            id=self.name or "",
            owned_by="upstream",
            served_model_name=self.served or self.name,
            gpu_shape="unknown",
            status="live",
            default=self.default,
            capabilities=self.capabilities,
        )

    @property
    def warm(self) -> bool:
        """Whether the upstream was heard of lately and has not failed since."""
        return self._seen is not None and self.clock() - self._seen < self.patience.cold_after

    @property
    def cold_for(self) -> float:
        """Seconds since it was last believed warm (or since the start)."""
        return self.clock() - (self._cold_since if self._seen is None else self._seen)

    @property
    def reached(self) -> bool:
        """Whether it answered the last time it was asked anything."""
        return self._seen is not None

    def hide(self, text: str) -> str:
        """A text without this upstream's key: whatever an upstream says may repeat what it was sent."""
        return text.replace(self.key, "[key]") if self.key else text

    def heard(self) -> None:
        """It answered."""
        self._seen = self.clock()

    def lost(self) -> None:
        """It could not be reached."""
        if self._seen is not None:
            self._cold_since = self.clock()
        self._seen = None

    def enter(self) -> Ticket:
        """A ticket of the breaker; raises the contract's ``circuit_open``."""
        try:
            return self.breaker.enter()
        except Open as still:
            error = CircuitOpen(
                f"The upstream of '{self.name}' failed {self.breaker.failures} times in a row (last: "
                f"{self.breaker.last_kind}) and rests for {still.retry_after} more seconds.",
                retry_after=still.retry_after,
            )
            raise detailed(
                error,
                model_id=self.name,
                consecutive_failures=self.breaker.failures,
                last_failure_kind=self.breaker.last_kind,
            ) from None

    async def send(self, body: bytes, *, stream: bool, window: float) -> httpx.Response:
        """The head of the upstream's answer, whose body is read as it comes; raises ``httpx`` errors.

        ``window``: seconds it may take; a little more is the longest silence. 0: no limit.
        """
        silence = window + 30 if window else None
        request = self._client.build_request(
            "POST",
            f"{self.base}/completions",
            content=body,
            headers={
                "Content-Type": "application/json",
                "Accept": "text/event-stream" if stream else "application/json",
            },
            timeout=httpx.Timeout(silence, connect=self.patience.connect, pool=None),
        )
        response = await self._client.send(request, stream=True)
        self.heard()
        return response

    async def learn(self, within: float = 2.0) -> bool:
        """Ask for the upstream's models and note name and limits; whether it answered."""
        try:
            answer = await self._client.get(f"{self.base}/models", timeout=within)
            listed = _decode_listing(answer.content).data if answer.status_code == 200 else []
            listed = [entry for entry in listed if entry.id.strip() and entry.id.isprintable()]
        except (httpx.HTTPError, msgspec.DecodeError, RecursionError) as problem:
            log.debug("an upstream's models are not known: %s", type(problem).__name__)
            self.lost()
            return False
        if answer.status_code >= 500:
            self.lost()
            return False
        self.heard()
        if listed:
            wanted = self.served or self.name
            entry = next((item for item in listed if item.id == wanted), listed[0])
            self.served, self.name = entry.id, self.name or entry.id
            self.capabilities = self._limits(entry.max_model_len, entry.capabilities)
            self._known = True
        return True

    async def ready(self) -> None:
        """Know the limits if they can be known; costs nothing once they are."""
        if not self._known:
            await self.learn(1.0)

    async def count(self, request: CompletionRequest) -> Counted:
        """Prompt tokens of a request; counting text asks the upstream, where it can count."""
        sizes, exact = [], True
        special = request.add_special_tokens is not False
        for prompt in request.prompts:
            told = len(prompt) if isinstance(prompt, list) else await self._tokenized(prompt, special=special)
            exact = exact and told is not None
            sizes.append(len(prompt.encode()) + 1 if told is None and isinstance(prompt, str) else told or 0)
        return Counted(max(sizes), sum(sizes), exact)

    async def _tokenized(self, prompt: str, *, special: bool) -> int | None:
        # vLLM's own route beside /v1; other servers lack it, which is found out once.
        if not self._counts:
            return None
        try:
            answer = await self._client.post(
                self.base.removesuffix("/v1") + "/tokenize",
                json={"model": self.served, "prompt": prompt, "add_special_tokens": special},
                timeout=10.0,
            )
            if answer.status_code == 200:
                count = _decode_counted(answer.content).count
                if (1 if prompt else 0) <= count <= most_tokens(prompt):
                    return count
                log.warning("the upstream of %r counts tokens that cannot be there", self.name)
                self._counts = False
            else:
                self._counts = answer.status_code not in (404, 405, 501)
        except httpx.HTTPError:
            return None
        except (msgspec.DecodeError, RecursionError):
            self._counts = False
        return None

    def _limits(self, length: int | None, told: Capabilities) -> Capabilities:
        wanted, top = self.patience, told.full_vocab_max_prompt_tokens
        limits: dict[str, Any] = {
            "max_model_len": _possible(length) or _possible(told.max_model_len),
            "max_logprobs": wanted.max_logprobs or _possible(told.max_logprobs),
            "max_output_work_tokens": 32_000,
            "logprobs": True,
            "prompt_logprobs": True,
            "prompt_logprobs_full_vocab": True,
            "full_vocab_max_prompt_tokens": _possible(top) or wanted.full_vocab_tokens,
        }
        return Capabilities(**limits)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


def _possible(limit: int | None) -> int | None:
    return limit if limit is not None and 0 < limit <= 10**9 else None


async def learn_all(upstreams: list[Upstream]) -> None:
    """Learn of several at once."""
    await asyncio.gather(*(each.learn() for each in upstreams))
