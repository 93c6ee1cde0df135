"""Where a client sends, as whom, and which request its arguments make.

Owns base URL, key, default model, the words for a wait, and the budget's interface. It must not open sockets, and of
the ledger it knows only that it is what is asked by default. The key stands in no ``repr``, message or event.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Never, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from . import wire
from .catalogue import Catalogue
from .checks import beyond_model, build_request, unchecked
from .errors import AcsError, ClientClosed, ConnectionFailed, InvalidRequest, NotConfigured
from .exchange import Exchange
from .failures import error_from_body
from .log.events import AnyEvent, Waited
from .machine import forking
from .machine.interrupts import uninterrupted
from .machine.patience import Busy, aside, hurried
from .metering import Ledgered, Meter
from .misnamed import Named, nearest
from .plain import has_utf8
from .secret import Secret
from .settings import (
    EMBEDDED,
    EMBEDDED_GONE,
    READ_TIMEOUT,
    RETRIES,
    address_of,
    names_of,
    normal_base,
    secret_of,
    told,
    usable,
    workload_of,
)
from .transport import options_of, reason_of
from .wire import CompletionRequest, Model, ModelStatus, Prompt

T = TypeVar("T")
E = TypeVar("E", bound=AcsError)
C = TypeVar("C", bound="Connection")
Reached = httpx.Response | AcsError
"""An answer, or why there is none."""
_log = logging.getLogger("acs_jupyter")

WORTH_SAYING = 5.0
"""Seconds of waiting that are told where nothing else shows them."""
SAY_EVERY = 60.0
Sink = Callable[[list[AnyEvent]], None]
"""Takes events as they happen; a session's ``apply``, usually."""


class Connection(Named):
    """What both clients share: where to send, as whom, and how a request is made."""

    INSTEAD: ClassVar[dict[str, str]] = {
        "chat": "Base models have no chat: complete(PROMPT) continues a text.",
        "completions": "complete(PROMPT, max_tokens=40) is one completion.",
        "embeddings": "The service has none.",
        "generate": "complete(PROMPT, max_tokens=40) is one completion.",
    }

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        *,
        model: str | None = None,
        workload: str = "interactive",
        timeout: float | None = None,
        retries: int | None = None,
        longest_wait: float | None = None,
        meter: Meter | Literal["ledger"] | None = "ledger",
        **unknown: Never,
    ) -> None:
        for name in unknown:
            known = ("base_url", "api_key", *(Connection.__init__.__kwdefaults__ or ()))
            raise InvalidRequest(
                f"{type(self).__name__} has no parameter '{name}'.",
                advice=nearest(name, known) or f"There are: {', '.join(known)}.",
            )
        # A verbose traceback shows the names of a frame with their values: no name here keeps a key.
        api_key = secret_of(api_key)
        base_url = address_of(base_url, api_key)
        self._names = names_of(base_url, api_key)
        self.base_url = base_url
        if not base_url or not api_key:
            raise NotConfigured.without(base_url, api_key)
        self.base_url = normal_base(base_url, self._reword("ACS_API_BASE"))
        self.model = model
        self.retries: int = told("retries", retries, RETRIES)
        self.catalogue = Catalogue(self.base_url)
        self._told_no_end = False
        self._secret = usable(api_key, self._reword("ACS_API_KEY"))
        self._workload = workload_of(workload)
        self._timeout: float = told("timeout", timeout, READ_TIMEOUT)
        self._longest_wait: float | None = told("longest_wait", longest_wait, None)
        self._said_at = -math.inf
        self.meter = _default_meter(api_key, self.base_url) if meter == "ledger" else meter
        self._inherited = False
        self._left_behind: list[Any] = []
        self._set_up()
        forking.tell(self)

    def _set_up(self) -> None:
        """Make the httpx client; each kind of client has its own."""
        raise NotImplementedError

    def forked(self) -> None:
        """See :class:`acs_jupyter.forking.Forked`: the sockets are the parent's, this child opens its own."""
        self._inherited = True

    def _own(self, inherited: Any) -> None:
        """Before a socket or a file is used: in a forked child, leave the parent's and take new ones."""
        if self._inherited:
            self._inherited = False
            self._left_behind.append(inherited)  # closing it is the parent's, too
            self._set_up()

    def same(self, kind: type[C]) -> C:
        """Another client to the same server, as the same, under the same budget: one for another event loop."""
        other = kind(
            self.base_url, self._secret, model=self.model, workload=self._workload, timeout=self._timeout,
            retries=self.retries, longest_wait=self._longest_wait, meter=self.meter,
        )  # fmt: skip
        other.catalogue.adopt(self.catalogue)
        return other

    @property
    def origin(self) -> str:
        """Scheme, host and port of the server."""
        return "{0.scheme}://{0.netloc}".format(urlsplit(self.base_url))

    def _options(self) -> dict[str, Any]:
        """What an httpx client is made with; the key is added to each request on its way out."""
        return options_of(self.base_url, self._secret, self._timeout, self._workload)

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
            fields["model"] = self.model or self.catalogue.default
        if not validate:
            return unchecked({"prompt": prompt, **fields})
        request = build_request({"prompt": prompt, **fields})
        limits = self.catalogue.limits_of(request.model)
        problem = beyond_model(request, limits) if limits else None
        if problem:
            raise InvalidRequest(problem)
        return request

    def exchange(self, request: CompletionRequest, **options: Any) -> Exchange:
        """A new run of ``request`` under this client's retry rule."""
        return Exchange(
            request,
            retries=self.retries,
            longest_wait=self._longest_wait,
            redact=self._secret.censor,
            reword=self._reword,
            **options,
        )

    def _call(self, exchange: Exchange) -> dict[str, Any]:
        return {
            "method": "POST",
            "url": f"{self.base_url}/completions",
            "content": exchange.body,
            "headers": exchange.begin(),
        }

    @property
    def meter(self) -> Meter | None:
        """What is asked before a socket opens."""
        return self._meter

    @meter.setter
    def meter(self, meter: Meter | None) -> None:
        self._meter = meter
        self.ledgered = meter if isinstance(meter, Ledgered) else None

    def reserve(self, exchange: Exchange) -> None:
        """Hold a run's worst case, once; ``drive`` does it for whoever has not. Raises ``BudgetRefused``."""
        if self.meter is not None and exchange.ticket is None:
            with uninterrupted():  # a hold that nobody knows of would stay until this process ends
                exchange.ticket = self.meter.reserve(exchange.request, exchange.run) or True

    async def reserve_aside(self, exchange: Exchange) -> None:
        """:meth:`reserve` on an event loop, which goes on while somebody else has the budget's file."""
        try:
            with hurried():
                self.reserve(exchange)
        except Busy:
            await aside(partial(self.reserve, exchange), partial(self.settle, exchange))

    def settle(self, exchange: Exchange) -> None:
        """End a run's hold, once, by what the run has used; ``drive`` does it at its end."""
        with uninterrupted():
            ticket, exchange.ticket = exchange.ticket, None
            if self.meter is None or ticket is None:
                return
            if self.ledgered is not None:
                self.ledgered.note(
                    ticket,
                    request_id=exchange.served_id,
                    headers=exchange.headers,
                    error=exchange.error,
                    model=self.catalogue.name_of(exchange.answered_by),
                )
            spent = exchange.most_spent
            if spent is None:
                self.meter.release(ticket)
            else:
                self.meter.settle(ticket, spent.prompt_tokens, spent.completion_tokens, spent.source)

    @property
    def _closed(self) -> bool:
        """Whether the client was closed; each kind of client knows."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("The client is closed.")

    def _reason(self, problem: Exception) -> str:
        """Why no answer came, with the host and port that were tried."""
        return f"{urlsplit(self.base_url).netloc}: {reason_of(problem)}"

    def _unreachable(self, problem: Exception) -> AcsError:
        return self._worded(ConnectionFailed(f"The server cannot be reached ({self._reason(problem)})."))

    def _worded(self, error: E) -> E:
        """The error without a key, speaking of the settings by the names under which they were given."""
        return error.redacted(self._secret.censor).reworded(self._reword)

    def _reword(self, text: str) -> str:
        if self.base_url in EMBEDDED:
            text = text.replace(ConnectionFailed.advice, EMBEDDED_GONE)
        for name, given in self._names.items():
            text = text.replace(name, given)
        return text

    def _telling(self, exchange: Exchange, sink: Sink) -> Sink:
        """The same sink; a wait that would be silent is logged, once a minute at most."""

        def take(events: list[AnyEvent]) -> None:
            sink(events)
            for event in events:
                if type(event) is Waited:
                    self._say(event.note, exchange.delay)

        return take

    def _say(self, note: str, seconds: float | None = None) -> None:
        now = time.monotonic()
        if (seconds is None or seconds >= WORTH_SAYING) and now - self._said_at >= SAY_EVERY:
            self._said_at = now
            _log.warning("acs-jupyter waits for %s (%s)", urlsplit(self.base_url).netloc, note)

    def _tell_no_end(self, request: CompletionRequest, given: Mapping[str, Any]) -> None:
        """Log once that a text was given no end: unless that was said (``max_tokens=None``)."""
        if self._told_no_end or "max_tokens" in given or isinstance(request.max_tokens, int):
            return
        self._told_no_end = True
        _log.warning(
            "max_tokens is not set: the text may fill the model's whole window; max_tokens=128 ends it sooner."
        )

    def _watch(self, exchange: Exchange) -> None:
        spent = exchange.usage
        if self.ledgered is not None and spent is not None:
            self.ledgered.running(exchange.ticket, spent.prompt_tokens, spent.completion_tokens)

    def _status_url(self, model: str) -> str:
        if not isinstance(model, str) or not model or not has_utf8(model):
            raise InvalidRequest(f"model={model!r} is not a model's id; models() lists them.")
        return f"{self.base_url}/models/{quote(model, safe='')}/status"

    def _read_status(self, reached: Reached) -> ModelStatus:
        return self._read(reached, wire.decode_status, "The model's status")

    def _keep_models(self, reached: Reached) -> list[Model]:
        return self.catalogue.keep(self._read(reached, wire.decode_models, "The list of models").data)

    def _refusal(self, response: httpx.Response, request_id: str | None) -> AcsError:
        return error_from_body(
            response.status_code, response.headers, response.content, request_id, self._secret.censor
        )

    def _read(self, reached: Reached, decode: Callable[[bytes], T], what: str) -> T:
        if isinstance(reached, AcsError):
            raise reached  # here, where no exception of httpx hangs on it, with the request it belongs to
        request_id = self._secret.censor(reached.headers.get(wire.REQUEST_ID) or "") or None
        if reached.status_code != 200:
            raise self._worded(self._refusal(reached, request_id))
        try:
            return decode(reached.content)
        except (ValueError, RecursionError):
            message = f"{what} cannot be read; is ACS_API_BASE the address of the API?"
        raise self._worded(ConnectionFailed(message, advice="", request_id=request_id))


def _default_meter(secret: Secret, base_url: str) -> Meter | None:
    from .ledger import meter_for  # noqa: PLC0415  # only where no other meter was given

    return meter_for(secret, base_url)


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
