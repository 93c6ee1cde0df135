"""The composition root: one kernel's settings, client, pump and windows, joined.

Owns which server is talked to, the defaults of a cell, and the order in which a run is opened, shown and closed.
It must not parse lines (``options.py``) nor speak IPython (``magics.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .boundary import Note, notes
from .errors import AcsError, InvalidRequest, NotConfigured
from .intents import AnyIntent
from .local_process import LocalServer
from .options import CellOptions
from .secret import Secret
from .session import Session
from .wire import CompletionRequest, Model, request_fields

if TYPE_CHECKING:
    from .completion import Completion
    from .pump import Handle, Pump

CELL_DEFAULTS: dict[str, Any] = {"max_tokens": 128, "logprobs": 5}
"""What a cell asks for unless told otherwise: a short text, with alternatives for the tooltips."""


class Asking(Protocol):
    """Whom a view asks for what its reader wants; ``ended`` is called after a run that came of it."""

    ended: Callable[[], None]

    def obey(self, intent: AnyIntent, tell: Callable[[str], None]) -> None:
        """Do it, or ``tell`` in one line why not."""


class View(Protocol):
    """What shows a run while it goes on, and leaves something readable when it ends."""

    def open(self, session: Session, handle: Handle, asking: Asking) -> None:
        """Start to show."""

    def close(self) -> None:
        """The run has ended, in whatever way: write what stays."""


@dataclass
class Notebook:
    """One kernel's work. ``make_view`` gives a fresh view for each run."""

    make_view: Callable[[], View]
    defaults: dict[str, Any] = field(default_factory=lambda: dict(CELL_DEFAULTS))
    point_out: Callable[[str], None] = print
    show_notes: bool = True
    last: Completion | None = field(default=None, repr=False)
    last_prompt: tuple[str, CellOptions] | None = field(default=None, repr=False)
    base_url: str | None = None
    api_key: Secret | None = None
    _pump: Pump | None = field(default=None, repr=False)
    _connected_to: tuple[str, Secret] | None = field(default=None, repr=False)
    _environment: dict[str, str | None] = field(default_factory=dict, repr=False)
    _models: list[Model] | None = field(default=None, repr=False)
    _local: LocalServer | None = field(default=None, repr=False)

    def run(self, prompt: str, options: CellOptions, keep: Callable[[Completion], None]) -> Completion:
        """Send a cell and show it until it ends, or return at once and let it stream on (``options.background``).

        ``keep`` gets the completion as soon as the run is open, so that it is there however the run ends. Raises
        :class:`AcsError`, or ``KeyboardInterrupt`` after what came has been kept and shown.
        """
        pump = self._connected()
        request = self.request(prompt, options)
        self.last_prompt = (prompt, options)
        self.point_out_notes(prompt, request)
        return self._shown(pump, request, options, keep)

    def point_out_notes(self, prompt: str, request: CompletionRequest) -> None:
        """Say what a prompt's boundaries may do, unless that is switched off."""
        if self.show_notes:
            for note in notes(prompt, add_special_tokens=request.add_special_tokens is not False):
                self.point_out(f"note: {note} (%acs doctor measures it; %acs set notes off)")

    def _shown(
        self, pump: Pump, request: CompletionRequest, options: CellOptions, keep: Callable[[Completion], None]
    ) -> Completion:
        from .growing import Grower  # noqa: PLC0415  # httpx loads with the first request
        from .pump import interrupts_held  # noqa: PLC0415  # httpx loads with the first request

        view = self.make_view()
        with interrupts_held() as interrupts:
            handle = pump.start(request, session := Session())
            self.last = handle.completion
            keep(self.last)
            grower = Grower(session, self._connected)
            grower.adopt(handle)
            try:
                view.open(session, handle, grower)
                if not options.background:
                    return handle.wait(interrupts)
                handle.detach(lambda _: view.close())
                return handle.completion
            except BaseException:
                handle.abandon()
                raise
            finally:
                if not options.background:
                    view.close()

    def request(self, prompt: str, options: CellOptions) -> CompletionRequest:
        """The request a cell makes: its own options over the defaults, the model named."""
        fields = {**self.defaults, **options.fields}
        if "model" not in fields:
            fields["model"] = self._default_model()
        if fields.get("prompt_logprobs") is None and fields.get("stream") is not False:
            fields.setdefault("stream", True)
            fields.setdefault("stream_options", {"include_usage": True, "continuous_usage_stats": True})
        if fields.get("stream") is not True:
            fields.pop("stream_options", None)
        return self._connected().client.request(prompt, **fields)

    def dry(self, prompt: str, options: CellOptions) -> dict[str, Any]:
        """The fields a cell would send; nothing is sent."""
        return request_fields(self.request(prompt, options))

    def doctor(self) -> list[tuple[Note, Completion, Completion]]:
        """Measure what the boundaries of the last cell's prompt do.

        For each note: the distribution of the next token with the prompt as it is, and without what the note names.
        Each costs two requests of one token.
        """
        if self.last_prompt is None:
            raise InvalidRequest("There is no prompt yet: run a %%acs cell first.")
        prompt, options = self.last_prompt
        kept = {k: v for k, v in options.fields.items() if k in ("model", "add_special_tokens")}
        one = CellOptions({**kept, "max_tokens": 1, "logprobs": 10, "n": 1, "temperature": 0.0})
        found = notes(prompt, add_special_tokens=kept.get("add_special_tokens", True))

        def next_token(text: str) -> Completion:
            return self._connected().start(self.request(text, one), Session()).wait()

        return [(note, next_token(prompt), next_token(note.without)) for note in found]

    def models(self, *, refresh: bool = True) -> list[Model]:
        """The server's models; with ``refresh=False`` those that are known already, if any are."""
        if self._models is None or refresh:
            from .client import Client  # noqa: PLC0415  # httpx loads with the first request

            base, key = self._where()
            with Client(base, key) as client:
                self._models = client.models()
        return self._models

    def start_local(self, *arguments: str, tell: Callable[[str], None]) -> LocalServer:
        """Start the embedded server for this kernel, once, and use it from here on.

        With ``arguments`` (those of ``acs-jupyter serve``) a running one is replaced.
        """
        if self._local is not None and arguments:
            self._local.stop()
        if self._local is None or not self._local.alive:
            self._local = LocalServer.start(*arguments, tell=tell)
        self.base_url, self.api_key = self._local.base, Secret(self._local.key)
        for name, value in (("ACS_API_BASE", self._local.base), ("ACS_API_KEY", self._local.key)):
            self._environment.setdefault(name, os.environ.get(name))
            os.environ[name] = value
        return self._local

    def close(self) -> None:
        """End the pump and the embedded server."""
        if self._pump is not None:
            self._pump.close()
            self._pump = None
        if self._local is not None:
            self._local.stop()
            self._local = None
        for (
            name,
            value,
        ) in self._environment.items():  # as they were before the embedded server took their place
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._environment.clear()

    def where(self) -> tuple[str, Secret]:
        """The server that is talked to, and the key; either may be empty."""
        return self._where()

    def _where(self) -> tuple[str, Secret]:
        key = self.api_key or Secret(os.environ.get("ACS_API_KEY", ""))
        return key.redact(self.base_url or os.environ.get("ACS_API_BASE") or ""), key

    def _connected(self) -> Pump:
        base, key = self._where()
        if not base or not key:
            raise NotConfigured("No server is set.")
        from .client import AsyncClient  # noqa: PLC0415  # httpx loads with the first request
        from .pump import Pump  # noqa: PLC0415

        if self._pump is None or self._connected_to != (base, key):
            if self._pump is not None:
                self._pump.close()
            self._pump = Pump(AsyncClient(base, key))
            self._connected_to = (base, key)
            self._models = None
        return self._pump

    def _default_model(self) -> str | None:
        """The server's default, by name: a request without a model would be routed silently."""
        try:
            known = self.models(refresh=False)
        except NotConfigured:
            raise
        except AcsError:
            return None
        default = [model.id for model in known if model.default] or [model.id for model in known]
        return default[0] if default else None
