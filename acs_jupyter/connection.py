"""Where a client sends, as whom, and which request its arguments make.

Owns base URL, key, default model, limits already learnt, and the budget's interface. It must not open sockets.
The key stands in the headers given to httpx and nowhere else: not in a ``repr``, a message or an event.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from . import wire
from ._version import __version__
from .checks import beyond_model, build_request
from .errors import InvalidRequest, NotConfigured
from .exchange import Exchange
from .failures import error_from_body
from .wire import CompletionRequest, Model, Prompt

READ_TIMEOUT = 900.0
"""Seconds without a byte: a cold boot may take most of it, and the service itself gives up at 840."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Meter(Protocol):
    """What a budget must answer before a socket is opened."""

    def reserve(self, request: CompletionRequest, run: str) -> Any:
        """Hold the worst case of ``request``; raises ``BudgetRefused`` when it does not fit. Returns a ticket."""

    def settle(self, ticket: Any, prompt_tokens: int, completion_tokens: int, source: str) -> None:
        """Replace the hold by what was spent; ``source`` is ``usage``, ``continuous`` or ``estimate``."""

    def release(self, ticket: Any) -> None:
        """Give the hold back: nothing was spent."""


class Connection:
    """What both clients share: where to send, as whom, and how a request is made."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        model: str | None = None,
        workload: str = "interactive",
        timeout: float = READ_TIMEOUT,
        retries: int = 3,
        meter: Meter | None = None,
    ) -> None:
        base = base_url or os.environ.get("ACS_API_BASE")
        key = api_key or os.environ.get("ACS_API_KEY")
        if not base or not key:
            missing = " and ".join(
                name for name, value in (("ACS_API_BASE", base), ("ACS_API_KEY", key)) if not value
            )
            raise NotConfigured(f"{missing} {'are' if 'and' in missing else 'is'} not set.")
        self.base_url = normal_base(base)
        self.model = model
        self.retries = retries
        self.meter = meter
        self._models: list[Model] | None = None
        self._options: dict[str, Any] = {
            "timeout": httpx.Timeout(timeout, connect=20.0, write=60.0, pool=None),
            "limits": httpx.Limits(max_connections=64, max_keepalive_connections=32),
            "headers": {
                "authorization": f"Bearer {_clean_key(key)}",
                "user-agent": f"acs-jupyter/{__version__}",
                wire.WORKLOAD: workload,
            },
            # A proxy from the environment cannot reach this machine's own loopback.
            "trust_env": urlsplit(self.base_url).hostname not in _LOOPBACK,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    def request(
        self, prompt: Prompt | None = None, *, validate: bool = True, **fields: Any
    ) -> CompletionRequest:
        """The request these arguments make, checked and not sent.

        Fields are those of the contract under their own names; ``None`` means "not sent".
        Raises :class:`InvalidRequest` naming field, value and bound.
        """
        if fields.get("model") is None:
            fields["model"] = self.model
        request = build_request({"prompt": prompt, **fields})
        limits = self._limits_of(request.model)
        problem = beyond_model(request, limits) if validate and limits else None
        if problem:
            raise InvalidRequest(problem)
        return request

    def exchange(self, request: CompletionRequest, **options: Any) -> Exchange:
        """A new run of ``request`` under this client's retry rule."""
        return Exchange(request, retries=self.retries, **options)

    def _limits_of(self, model: Any) -> wire.Capabilities | None:
        for known in self._models or ():
            if known.id == model or (not model and known.default):
                return known.capabilities
        return None

    def _call(self, exchange: Exchange) -> dict[str, Any]:
        return {
            "method": "POST",
            "url": f"{self.base_url}/completions",
            "content": exchange.body,
            "headers": exchange.begin(),
        }

    def _reserve(self, exchange: Exchange) -> Any:
        return self.meter.reserve(exchange.request, exchange.run) if self.meter else None

    def _settle(self, exchange: Exchange, ticket: Any) -> None:
        if self.meter is None:
            return
        if exchange.usage is None:
            self.meter.release(ticket)
        else:
            spent = exchange.usage
            self.meter.settle(ticket, spent.prompt_tokens, spent.completion_tokens, spent.source)

    def _keep_models(self, response: httpx.Response) -> list[Model]:
        if response.status_code != 200:
            raise error_from_body(
                response.status_code,
                response.headers,
                response.content,
                response.headers.get(wire.REQUEST_ID),
            )
        self._models = wire.decode_models(response.content).data
        return self._models


def normal_base(base: str) -> str:
    """A base URL that ends in ``/v1``, however it was written. Raises :class:`NotConfigured`."""
    text = base.strip()
    if "://" not in text:
        host = urlsplit(f"//{text}").hostname
        text = f"{'http' if host in _LOOPBACK else 'https'}://{text}"
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NotConfigured(
            f"ACS_API_BASE is {base.strip()!r}, which is not an http(s) address.",
            advice="It looks like https://host/v1.",
        )
    if parts.username or parts.password:
        raise NotConfigured(
            "ACS_API_BASE holds a user name or password.", advice="Put the key into ACS_API_KEY instead."
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/v1"):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def stream_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a streamed request: running usage is asked for unless the caller set ``stream_options``."""
    options = fields.get("stream_options")
    if options is None:
        options = {"include_usage": True, "continuous_usage_stats": True}
    return {**fields, "stream": True, "stream_options": options}


def streamed_if_possible(fields: dict[str, Any]) -> dict[str, Any]:
    """Stream unless the caller said otherwise or wants prompt log-probabilities, which only a body carries."""
    if fields.get("stream") is not None or fields.get("prompt_logprobs") is not None:
        return fields
    return stream_fields(fields)


def _clean_key(key: str) -> str:
    text = key.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise NotConfigured("ACS_API_KEY holds characters that a key cannot have.", advice="Copy it again.")
    return text
