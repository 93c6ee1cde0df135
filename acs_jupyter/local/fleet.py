"""The upstreams of this server as its models: which one a request means, and what is sent there.

Owns model ids, the checks that need a model, the default of ``max_tokens`` and the changes to a request's
bytes. It must not know HTTP on either side.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from ..checks import beyond_model
from ..errors import BadRequest, ContextLengthExceeded, FullVocabPromptTooLong, ModelNotFound
from ..wire import UPSTREAM_GPU, UPSTREAM_MODEL, StreamOptions, encode_request
from .counts import ADDED, Counts, most_tokens
from .order import Order
from .relay import Relay
from .splice import splice
from .upstream import Patience, Upstream, learn_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire import CompletionRequest, Model
    from .order import OnEnd, OnLeave, OnUsage
    from .upstream import Counted

DEFAULT_MAX_TOKENS = 32_000
JOB_WINDOW = 86_400.0
"""Seconds a job's upstream may take; nobody waits, but a connection that is dead must end some day."""
_LEAST = 16


class BadUpstream(Exception):
    """An upstream cannot be used; the message is one line."""


@dataclass
class Forward:
    """A checked request on its way to an upstream. ``max_tokens`` may be lowered until it is answered.

    ``counted`` is ``None`` when nobody asked how long the prompts are.
    """

    upstream: Upstream
    request: CompletionRequest
    max_tokens: int
    counted: Counted | None = None

    def answer(
        self,
        body: bytes,
        request_id: str,
        *,
        headers: dict[str, str] | None = None,
        on_usage: OnUsage | None = None,
        on_end: OnEnd | None = None,
        on_leave: OnLeave | None = None,
        window: float | None = None,
    ) -> Relay:
        """The answer, not yet asked for; raises ``circuit_open``. ``body`` is what the client sent.

        ``window``: seconds the upstream may take, when they are not those of its patience.
        """
        changes = self._changes()
        ticket = self.upstream.enter()
        order = Order(
            body=splice(body, changes),
            request_id=request_id,
            streamed=self.request.streamed,
            headers=self.headers | (headers or {}),
            drop_usage="stream_options" in changes,
            on_usage=on_usage,
            on_end=on_end,
            on_leave=on_leave,
            tells=True in (self._given.include_usage, self._given.continuous_usage_stats),
            window=self.upstream.patience.deadline if window is None else window,
            most=self.most,
            known=self.known,
            prompts=self.request.prompt_count,
            fan_out=self.request.fan_out,
        )
        return Relay(self.upstream, order, ticket)

    @property
    def known(self) -> int:
        """Tokens of the prompts, as far as they are known here: counted, or sent as tokens."""
        if self.counted is not None:
            return self.counted.total
        return sum(len(prompt) for prompt in self.request.prompts if isinstance(prompt, list))

    @property
    def most(self) -> Counts:
        """The most that an answer can have used: the prompts as counted or by their bytes, all that was asked for."""
        prompts = self.request.prompts
        prompt = sum(map(most_tokens, prompts))
        if self.counted is not None:
            prompt = min(prompt, self.counted.total + ADDED * len(prompts))
        return Counts(prompt, self.request.choice_count * self.max_tokens)

    @property
    def headers(self) -> dict[str, str]:
        """What an answer says about where it comes from."""
        model = self.upstream.model
        shown = {
            UPSTREAM_MODEL: model.served_model_name or model.id,
            UPSTREAM_GPU: model.gpu_shape or "unknown",
        }
        return {name: value.encode("ascii", "replace").decode() for name, value in shown.items()}

    async def whole(
        self,
        request_id: str,
        *,
        on_usage: OnUsage | None = None,
        on_end: OnEnd | None = None,
        at_most: int = 2**21,
    ) -> bytes:
        """The JSON answer of at most so many bytes, for a job; raises the contract's errors."""
        body = encode_request(self.request)
        relay = self.answer(body, request_id, on_usage=on_usage, on_end=on_end, window=JOB_WINDOW)
        return await relay.collect(at_most)

    def _changes(self) -> dict[str, bytes]:
        request = self.request
        changes: dict[str, Any] = {}
        served = self.upstream.served or self.upstream.name
        if request.model != served:
            changes["model"] = served
        if request.max_tokens != self.max_tokens:
            changes["max_tokens"] = self.max_tokens
        if request.streamed and self._given.include_usage is not True:
            changes["stream_options"] = msgspec.structs.replace(self._given, include_usage=True)
        return {name: msgspec.json.encode(value) for name, value in changes.items()}

    @property
    def _given(self) -> StreamOptions:
        options = self.request.stream_options
        return options if isinstance(options, StreamOptions) else StreamOptions()


class Fleet:
    """One or more upstreams; the first is the default model."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        if not upstreams:
            raise BadUpstream("No upstream is given.")
        self.upstreams = list(upstreams)
        for number, upstream in enumerate(self.upstreams):
            upstream.default = number == 0

    @property
    def models(self) -> list[Model]:
        """The model list."""
        return [upstream.model for upstream in self.upstreams]

    def find(self, name: str) -> Upstream:
        """The upstream of a model id, ``""`` for the default; raises ``model_not_found``."""
        for upstream in self.upstreams:
            if not name or upstream.name == name:
                return upstream
        known = ", ".join(f"'{upstream.name}'" for upstream in self.upstreams)
        raise ModelNotFound(f"model={name[:80]!r} is not served here. Use {known}, or see GET /v1/models.")

    async def plan(self, request: CompletionRequest, *, count: bool = False) -> Forward:
        """Check what can be known here and fill in ``max_tokens``; the engine refuses the rest itself.

        Text is counted only with ``count``, when ``max_tokens`` is omitted, and for the full vocabulary.
        """
        upstream = self.find(request.model if isinstance(request.model, str) else "")
        await upstream.ready()
        limits = upstream.capabilities
        problem = beyond_model(request, limits)
        if problem:
            raise ContextLengthExceeded(problem) if "max_model_len" in problem else BadRequest(problem)
        counted = None
        if count or not isinstance(request.max_tokens, int) or request.prompt_logprobs == -1:
            counted = await upstream.count(request)
        if counted is not None and request.prompt_logprobs == -1:
            _check_full_vocab(counted, limits.full_vocab_max_prompt_tokens)
        return Forward(upstream, request, _max_tokens(request, counted, limits.max_model_len), counted)

    async def status(self, name: str) -> dict[str, Any]:
        """The body of ``GET /v1/models/{id}/status``; the upstream is asked, within a second."""
        upstream = self.find(name)
        await upstream.learn(1.0)
        boot = None
        if not upstream.warm:
            boot = {
                "stage": "waiting_for_gpu",
                "stage_label": "waiting for the upstream",
                "stage_age_s": round(upstream.cold_for, 3),
            }
        return {"id": name, "object": "model.status", "warm": upstream.warm, "boot": boot}

    def health(self, now: float) -> tuple[list[dict[str, Any]], list[str]]:
        """The backends of ``GET /health``, and the ids of those that do not answer or whose breaker is not closed."""
        backends = []
        for upstream in self.upstreams:
            last = upstream.last_answer
            backends.append(
                {
                    "model_id": upstream.name,
                    "status": "live" if upstream.reached else "unreachable",
                    "gpu_shape": "unknown",
                    "breaker_state": upstream.breaker.state,
                    "breaker_consecutive_failures": upstream.breaker.failures,
                    "breaker_last_failure_kind": upstream.breaker.last_kind,
                    "last_completion_at": last,
                    "last_completion_seconds_ago": None if last is None else round(now - last, 3),
                    "warm_estimate": "warm" if upstream.warm else "cold",
                    "active_choices": upstream.active,
                }
            )
        bad = [each for each in backends if each["breaker_state"] != "closed" or each["status"] != "live"]
        return backends, [str(each["model_id"]) for each in bad]

    async def aclose(self) -> None:
        """Close every connection; the fleet is not used afterwards."""
        for upstream in self.upstreams:
            await upstream.aclose()

    def close(self) -> None:
        """Nothing is held outside the event loop."""


def _check_full_vocab(counted: Counted, cap: int | None) -> None:
    if cap is not None and counted.exact and counted.total > cap:
        raise FullVocabPromptTooLong(
            f"prompt_logprobs=-1 takes at most {cap} prompt tokens; there are {counted.total}."
        )


def _max_tokens(request: CompletionRequest, counted: Counted | None, limit: int | None) -> int:
    if isinstance(request.max_tokens, int) or counted is None:
        return request.max_tokens if isinstance(request.max_tokens, int) else DEFAULT_MAX_TOKENS
    room = (limit or DEFAULT_MAX_TOKENS) - counted.longest
    if counted.exact and room <= 0 and limit is not None:
        raise ContextLengthExceeded(f"The prompt has {counted.longest} tokens; max_model_len is {limit}.")
    return min(DEFAULT_MAX_TOKENS, max(room, 1 if counted.exact else _LEAST))


def open_fleet(
    specs: Sequence[str],
    *,
    name: str | None = None,
    key: str | None = None,
    patience: Patience | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Fleet:
    """Upstreams from ``URL`` or ``ID=URL`` (``#NAME`` picks one of the server's models); learns what it can.

    Raises :class:`BadUpstream` for a bad address, for ids that clash, and when an id cannot be known.
    """
    upstreams = [_parsed(spec, key, patience or Patience()) for spec in specs]
    if name and len(upstreams) == 1:
        upstreams[0].name = upstreams[0].name or name
    asyncio.run(_learn_and_close(upstreams))
    for upstream in upstreams:
        if upstream.name is None:
            raise BadUpstream(
                f"The upstream {upstream.base} did not name its model: start it first, or give --model ID=URL."
            )
        if not (upstream.name.strip() and upstream.name.isprintable()):
            raise BadUpstream(
                f"A model id must be printable, not {upstream.name[:80]!a}: give --model ID=URL."
            )
        if not upstream.warm:
            say(f"The upstream of '{upstream.name}' does not answer yet.")
    names = [upstream.name for upstream in upstreams]
    if len(set(names)) < len(names):
        raise BadUpstream(
            f"Two upstreams have one model id ({', '.join(map(str, names))}): give --model ID=URL."
        )
    return Fleet([upstream.reopen() for upstream in upstreams])


async def _learn_and_close(upstreams: list[Upstream]) -> None:
    try:
        await learn_all(upstreams)
    finally:
        for upstream in upstreams:
            await upstream.aclose()


def _parsed(spec: str, key: str | None, patience: Patience) -> Upstream:
    name, mark, address = spec.partition("=")
    if not mark or "://" in name:
        name, address = "", spec
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadUpstream("An upstream must be URL or ID=URL with http:// or https://.")
    if "@" in parts.netloc or parts.query:
        raise BadUpstream(
            "An upstream's address must hold no key: name its variable with --upstream-key-env."
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith("/v1") else f"{path}/v1"
    return Upstream(
        f"{parts.scheme}://{parts.netloc}{path}", name or None, parts.fragment or None, key, patience
    )
