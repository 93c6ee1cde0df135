"""The composition root: one kernel's settings, client, pump and windows, joined.

Owns which server is talked to, the defaults of a cell, and the order in which a run is opened, shown and closed.
It must not parse lines (``options.py``) nor speak IPython (``magics.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import AcsError, InvalidRequest, ModelNotFound, NotConfigured
from ..log.intents import AnyIntent
from ..log.session import Session
from ..machine.local_process import LocalServer
from ..secret import Secret
from ..wire import CompletionRequest, Model, request_fields
from .boundary import Note, goes_on_inside, last_word, notes
from .defaults import Defaults
from .options import CellOptions, nearest

if TYPE_CHECKING:
    from ..completion import Completion
    from ..connection import Connection
    from ..ledger.meter import KeyMeter
    from ..pump import Handle, Pump
    from .continuing import Place


class Asking(Protocol):
    """Whom a view asks for what its reader wants; ``ended`` is called after a run that came of it."""

    ended: Callable[[], None]

    def obey(self, intent: AnyIntent, tell: Any) -> None:
        """Do it, or ``tell`` in one line why not (``Window.tell``)."""


class View(Protocol):
    """What shows a run while it goes on, and leaves something readable when it ends."""

    def open(self, session: Session, handle: Handle, asking: Asking, *, background: bool = False) -> None:
        """Start to show. ``background``: the kernel is free while it runs."""

    def close(self) -> None:
        """The run has ended, in whatever way: write what stays."""

    def doubted(self) -> None:
        """The cell was interrupted: whoever looked on may not have what was written last."""


def _no_view() -> View:
    raise NotImplementedError("what sends here has a view of its own")


@dataclass
class Notebook:
    """One kernel's work. ``make_view`` gives a fresh view for each run of a cell."""

    make_view: Callable[[], View] = _no_view
    settings: Defaults = field(default_factory=Defaults, repr=False)
    point_out: Callable[[str], None] = print
    last: Completion | None = field(default=None, repr=False)
    last_prompt: tuple[str, CellOptions] | None = field(default=None, repr=False)
    running: dict[str, Handle] = field(default_factory=dict, repr=False)
    """Runs in the background that a form began, so that every window on them can stop them."""
    base_url: str | None = None
    api_key: Secret | None = None
    _pump: Pump | None = field(default=None, repr=False)
    _connected_to: tuple[Any, ...] | None = field(default=None, repr=False)
    _environment: dict[str, str | None] = field(default_factory=dict, repr=False)
    _models: list[Model] | None = field(default=None, repr=False)
    _local: LocalServer | None = field(default=None, repr=False)

    @classmethod
    def at(cls, client: Connection) -> Notebook:
        """One for the server of a client, as it: with its key, its budget and its patience."""
        from ..client import AsyncClient  # noqa: PLC0415  # httpx loads with the first request
        from ..pump import Pump  # noqa: PLC0415

        own = client.same(AsyncClient)
        made = cls(base_url=own.base_url, api_key=own._secret)
        made._pump, made._connected_to = Pump(own), made._where()
        return made

    @property
    def defaults(self) -> dict[str, Any]:
        """The request's fields of a cell that says nothing. Raises :class:`InvalidRequest` for a bad setting."""
        return self.settings.fields()

    @property
    def show_notes(self) -> bool:
        """Whether a prompt's boundaries are pointed out."""
        return bool(self.settings["notes"])

    @show_notes.setter
    def show_notes(self, on: bool) -> None:
        self.settings.chosen["notes"] = on

    def run(
        self,
        prompt: str,
        options: CellOptions,
        keep: Callable[[Completion], None],
        place: Place | None = None,
    ) -> Completion:
        """Send a cell and show it until it ends, or return at once and let it stream on (``options.background``).

        With a ``place`` the text there is continued: ``prompt`` follows it, and the run joins its session.
        ``keep`` gets the completion as soon as the run is open, so that it is there however the run ends. Raises
        :class:`AcsError`, or ``KeyboardInterrupt`` after what came has been kept and shown.
        """
        self._connected()
        request = self.request(prompt, options, place)
        whole = request.prompts[0]
        assert isinstance(whole, str)
        self.last_prompt = (
            whole,
            replace(options, fields={**(place.fields if place else {}), **options.fields}),
        )
        self.point_out_notes(whole, request)
        view = self.make_view()
        start = lambda: self.start(request, Session(), place, added=prompt)  # noqa: E731  # sent when all can see it
        try:
            return self._shown(view, start, options, keep)
        except ModelNotFound as error:
            error.hint = f"{self.nearest_model(request.model)}{error.hint}"
            raise

    def nearest_model(self, name: Any) -> str:
        """A sentence that suggests the nearest model the server has, or ``""``."""
        try:
            known = [model.id for model in self.models(refresh=False)]
        except AcsError:
            return ""
        return f"{nearest(str(name), known)} ".lstrip()

    def point_out_notes(self, prompt: str, request: CompletionRequest) -> None:
        """Say what a prompt's boundaries may do, unless that is switched off."""
        if self.show_notes:
            for note in notes(prompt, add_special_tokens=request.add_special_tokens is not False):
                self.point_out(f"note: {note} (%acs doctor measures it; %acs set notes off)")

    def start(
        self, request: CompletionRequest, session: Session, place: Place | None = None, *, added: str = ""
    ) -> Handle:
        """Send a request as a run of its own in ``session``, or as a child of a place, after ``added``."""
        if place is None:
            return self._connected().start(request, session)
        return self._connected().start(request, place.session, parents=[place.node], added=added)

    def pump(self) -> Pump:
        """What carries requests to the server in use. Raises :class:`NotConfigured` when none is set."""
        return self._connected()

    def _shown(
        self,
        view: View,
        start: Callable[[], Handle],
        options: CellOptions,
        keep: Callable[[Completion], None],
    ) -> Completion:
        from ..pump import interrupts_held  # noqa: PLC0415  # httpx loads with the first request
        from .growing import Grower  # noqa: PLC0415  # httpx loads with the first request

        with self.limited(options.budget), interrupts_held() as interrupts:
            handle = start()
            self.last = handle.completion
            keep(self.last)
            grower = Grower(handle.session, self._connected)
            grower.adopt(handle)
            try:
                view.open(handle.session, handle, grower, background=options.background)
                if options.background:
                    handle.detach(lambda _: view.close())
                else:
                    handle.wait(interrupts)
            except BaseException:
                handle.abandon()
                raise
            finally:
                if not options.background:
                    view.close()
                if interrupts:
                    view.doubted()
            if interrupts:  # it came while the copy was drawn, or before the run was on its own
                handle.stop()
                raise KeyboardInterrupt
            return handle.completion

    def meter(self) -> KeyMeter | None:
        """The ledger's view of the key in use; ``None`` when there is none."""
        from ..ledger import meter_for  # noqa: PLC0415  # only when the budget is asked about

        base, key = self._where()
        return meter_for(key, base) if base and key else None

    def limited(self, budget: int | None) -> AbstractContextManager[Any]:
        """A scope of its own for a cell with a budget."""
        if budget is None:
            return nullcontext()
        from ..ledger import ledger, place  # noqa: PLC0415  # sqlite3 loads with the first request

        name = f"{place.notebook()} {place.cell.get()} {token_hex(4)}".strip()
        return ledger().scope("cell", name, budget)

    def request(
        self, prompt: str, options: CellOptions, place: Place | None = None, *, ask: bool = True
    ) -> CompletionRequest:
        """The request a cell makes: its own options over those of the place it continues, these over the defaults.

        The model is named; with ``ask=False`` only if it is known without asking the server.
        """
        before = "" if place is None else place.text
        fields = {**self.defaults, **(place.fields if place else {}), **options.fields}
        sent = {name: value for name, value in fields.items() if value is not None}
        return self.asked(before + prompt, sent, ask=ask)

    def asked(self, text: str, fields: dict[str, Any], *, ask: bool = True) -> CompletionRequest:
        """The request of these fields and no defaults: the model named, streamed where the contract allows."""
        fields = dict(fields)
        if "model" not in fields:
            fields["model"] = self._default_model(ask=ask)
        if fields.get("prompt_logprobs") is None and fields.get("stream") is not False:
            fields.setdefault("stream", True)
            fields.setdefault("stream_options", {"include_usage": True, "continuous_usage_stats": True})
        if fields.get("stream") is not True:
            fields.pop("stream_options", None)
        if ask:
            return self._connected().client.request(text, **fields)
        from ..checks import build_request  # noqa: PLC0415  # only for --dry

        return build_request({"prompt": text, **fields})

    def dry(
        self, prompt: str, options: CellOptions, place: Place | None = None
    ) -> tuple[dict[str, Any], list[str]]:
        """The fields a cell would send, and lines about what it can cost. No socket is opened."""
        from ..costs import worst_case  # noqa: PLC0415  # only for --dry

        request = self.request(prompt, options, place, ask=False)
        lines = worst_case(request, self._known(place)).lines()
        if not isinstance(request.model, str):
            lines.append(
                "model: the server's default; it is asked for when the cell is sent (%acs models shows it)"
            )
        return request_fields(request), lines

    def _known(self, place: Place | None) -> list[Completion]:
        """Completions whose prompts the server has counted: the last one, and those of the session continued."""
        from ..completion import Completion  # noqa: PLC0415  # only for --dry

        there = [] if place is None else [Completion(place.session, run) for run in place.session.runs]
        return there if self.last is None else [self.last, *there]

    def doctor(self) -> list[tuple[Note, Completion, Completion]]:
        """Measure what the boundaries of the last cell's prompt do.

        For each note: the distribution of the next token with the prompt as it is, and without what the note names.
        Each request is of one token: one for the prompt as it is (which also tells whether its last word is cut), and
        one for each note.
        """
        if self.last_prompt is None:
            raise InvalidRequest("There is no prompt yet: run a %%acs cell first.")
        prompt, options = self.last_prompt
        kept = {
            k: v for k, v in options.fields.items() if k in ("model", "add_special_tokens") and v is not None
        }
        one = CellOptions({**kept, "max_tokens": 1, "logprobs": 10, "n": 1, "temperature": 0.0})
        found = notes(prompt, add_special_tokens=kept.get("add_special_tokens", True))

        def next_token(text: str) -> Completion:
            return self._connected().start(self.request(text, one), Session()).wait()

        as_is = next_token(prompt) if found or last_word(prompt) else None
        cut = last_word(prompt)
        if (
            as_is is not None
            and cut
            and goes_on_inside(prompt, as_is.text)
            and cut.without not in {n.without for n in found}
        ):
            found.append(cut)
        return [(note, as_is, next_token(note.without)) for note in found if as_is is not None]

    def models(self, *, refresh: bool = True) -> list[Model]:
        """The server's models; with ``refresh=False`` those that are known already, if any are."""
        if self._models is None or refresh:
            from ..client import Client  # noqa: PLC0415  # httpx loads with the first request

            base, key = self._where()
            with Client(base, key) as client:
                self._models = client.models()
        return self._models

    def start_local(self, *arguments: str, tell: Callable[[str], None]) -> LocalServer:
        """Start the embedded server for this kernel, once, and use it from here on.

        With ``arguments`` (those of ``acs-jupyter serve``) a running one is replaced, once the new one answers.
        """
        before = server = self._local
        if server is None or arguments or not server.alive:
            self._local = server = LocalServer.start(*arguments, tell=tell)
            if before is not None:
                before.stop()
        self.base_url, self.api_key = server.base, Secret(server.key)
        for name, value in (("ACS_API_BASE", server.base), ("ACS_API_KEY", server.key)):
            self._environment.setdefault(name, os.environ.get(name))
            os.environ[name] = value
        return server

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

    @property
    def is_local(self) -> bool:
        """Whether the embedded server of this kernel is what is talked to."""
        return self._local is not None and self.base_url == self._local.base

    def redact(self, text: str) -> str:
        """The text without the key in use."""
        return self._where()[1].redact(text)

    def where(self) -> tuple[str, Secret]:
        """The server that is talked to, and the key; either may be empty."""
        return self._where()

    def _where(self) -> tuple[str, Secret]:
        key = self.api_key or Secret(os.environ.get("ACS_API_KEY", ""))
        return key.redact(self.base_url or os.environ.get("ACS_API_BASE") or ""), key

    def _connected(self) -> Pump:
        base, key = self._where()
        if not base or not key:
            raise NotConfigured.without(base, key)
        from ..client import AsyncClient  # noqa: PLC0415  # httpx loads with the first request
        from ..pump import Pump  # noqa: PLC0415

        how = {name: self.settings[name] for name in ("timeout", "retries", "longest_wait")}
        wanted = (base, key, *how.values())
        if self._pump is None or self._connected_to != wanted:
            if self._pump is not None:
                self._pump.close()
            self._pump = Pump(AsyncClient(base, key, **how))
            self._connected_to = wanted
            self._models = None
        return self._pump

    def _default_model(self, *, ask: bool = True) -> str | None:
        """The server's default, by name: a request without a model would be routed silently."""
        try:
            known = self.models(refresh=False) if ask else self._models or []
        except NotConfigured:
            raise
        except AcsError:
            return None
        from ..wire import default_of  # noqa: PLC0415  # there is a list of models

        return default_of(known)
