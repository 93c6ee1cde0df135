"""Where a client sends, as whom, and which request its arguments make.

Owns base URL, key, default model, limits already learnt, and the budget's interface. It must not open sockets.
The key stands in the headers given to httpx and nowhere else: not in a ``repr``, a message or an event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from . import wire
from ._version import __version__
from .checks import beyond_model, build_request, unchecked
from .errors import ConnectionFailed, InvalidRequest, NotConfigured
from .exchange import Exchange
from .failures import error_from_body
from .secret import HIDDEN, Secret
from .wire import CompletionRequest, Model, ModelStatus, Prompt

T = TypeVar("T")

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
        api_key: str | Secret | None = None,
        *,
        model: str | None = None,
        workload: str = "interactive",
        timeout: float = READ_TIMEOUT,
        retries: int = 3,
        meter: Meter | None = None,
    ) -> None:
        api_key = (
            api_key if isinstance(api_key, Secret) else Secret(api_key or os.environ.get("ACS_API_KEY", ""))
        )
        base = api_key.redact(base_url or os.environ.get("ACS_API_BASE") or "")
        if not base or not api_key:
            missing = [
                name for name, value in (("ACS_API_BASE", base), ("ACS_API_KEY", api_key)) if not value
            ]
            raise NotConfigured(f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set.")
        self.base_url = normal_base(base)
        self.model = model
        self.retries = retries
        self.meter = meter
        self._models: list[Model] | None = None
        self._secret = _usable(api_key)
        self._workload = workload
        self._timeout = timeout
        self._set_up()

    def _set_up(self) -> None:
        """Make the httpx client; each kind of client has its own."""
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """What an httpx client is made with; the key is added to each request on its way out."""
        address = urlsplit(self.base_url)
        loopback = address.hostname in _LOOPBACK
        return {
            "timeout": httpx.Timeout(self._timeout, connect=20.0, write=60.0, pool=None),
            "limits": httpx.Limits(max_connections=64, max_keepalive_connections=32),
            "auth": _Bearer(self._secret),
            "headers": {"user-agent": f"acs-jupyter/{__version__}", wire.WORKLOAD: self._workload},
            # A proxy from the environment cannot reach this machine's own loopback; SSL_CERT_FILE holds there too.
            "trust_env": not loopback,
            **({"verify": httpx.create_ssl_context()} if loopback and address.scheme == "https" else {}),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    def request(
        self, prompt: Prompt | None = None, *, validate: bool = True, **fields: Any
    ) -> CompletionRequest:
        """The request these arguments make, checked and not sent.

        Fields are those of the contract under their own names; ``None`` means "not sent". With ``validate=False``
        whatever is given is sent as it is, fields that the contract does not have too.
        Raises :class:`InvalidRequest` naming field, value and bound.
        """
        if fields.get("model") is None:
            fields["model"] = self.model
        if not validate:
            return unchecked({"prompt": prompt, **fields})
        request = build_request({"prompt": prompt, **fields})
        limits = self._limits_of(request.model)
        problem = beyond_model(request, limits) if limits else None
        if problem:
            raise InvalidRequest(problem)
        return request

    def exchange(self, request: CompletionRequest, **options: Any) -> Exchange:
        """A new run of ``request`` under this client's retry rule."""
        return Exchange(request, retries=self.retries, redact=self._secret.redact, **options)

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

    def _status_url(self, model: str) -> str:
        return f"{self.base_url}/models/{quote(model, safe='')}/status"

    def _read_status(self, response: httpx.Response) -> ModelStatus:
        return self._read(response, wire.decode_status, "The model's status")

    def _keep_models(self, response: httpx.Response) -> list[Model]:
        self._models = self._read(response, wire.decode_models, "The list of models").data
        return self._models

    def _read(self, response: httpx.Response, decode: Callable[[bytes], T], what: str) -> T:
        request_id = response.headers.get(wire.REQUEST_ID)
        if response.status_code != 200:
            error = error_from_body(response.status_code, response.headers, response.content, request_id)
            raise error.redacted(self._secret.redact)
        try:
            return decode(response.content)
        except (ValueError, RecursionError):
            message = f"{what} cannot be read; is ACS_API_BASE the address of the API?"
        raise ConnectionFailed(message, advice="", request_id=request_id)


class _Bearer(httpx.Auth):
    """Writes the key into each request's headers, and is all of a client that knows it."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["authorization"] = f"Bearer {self._secret.reveal()}"
        yield request


def normal_base(base: str) -> str:
    """A base URL that ends in ``/v1``, however it was written. Raises :class:`NotConfigured`."""
    text = base.strip()
    if "@" in text or HIDDEN in text:
        raise NotConfigured(
            "ACS_API_BASE holds a key, a user name or a password.",
            advice="Put the key into ACS_API_KEY instead.",
        )
    try:
        if "://" not in text:
            host = urlsplit(f"//{text}").hostname
            text = f"{'http' if host in _LOOPBACK else 'https'}://{text}"
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good:
        raise NotConfigured(
            f"ACS_API_BASE is {base.strip()!r}, which is not an http(s) address.",
            advice="It looks like https://host/v1.",
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/v1"):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def made(make: Callable[..., T], options: dict[str, Any]) -> T:
    """An httpx client; a proxy variable that is no address is told in one line."""
    try:
        return make(**options)
    except (ValueError, httpx.InvalidURL, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
    raise NotConfigured(f"No connection can be set up: {reason}.", advice="Check HTTPS_PROXY and its like.")


def stream_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a streamed request: running usage is asked for unless the caller set ``stream_options``."""
    options = fields.get("stream_options")
    if options is None:
        options = {"include_usage": True, "continuous_usage_stats": True}
    return {**fields, "stream": True, "stream_options": options}


def streamed_if_possible(fields: dict[str, Any]) -> dict[str, Any]:
    """Stream unless the caller said otherwise or wants prompt log-probabilities, which only a body carries."""
    if fields.get("stream") is True:
        return stream_fields(fields)
    if fields.get("stream") is not None or fields.get("prompt_logprobs") is not None:
        return fields
    return stream_fields(fields)


def _usable(secret: Secret) -> Secret:
    text = secret.reveal().strip()
    good = text.isascii() and text.isprintable() and " " not in text
    del text  # a verbose traceback shows a frame's names with their values
    if not good:
        raise NotConfigured("ACS_API_KEY holds characters that a key cannot have.", advice="Copy it again.")
    return Secret(secret.reveal().strip())


def reason_of(problem: Exception) -> str:
    """Why a server could not be reached, in one line without a key."""
    text = " ".join(str(problem).split())[:200] or type(problem).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted; SSL_CERT_FILE can name the file of your own authority"
    return text
