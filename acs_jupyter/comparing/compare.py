"""``Compare(prompt, lanes=[...])``: lanes joined to a server, a session and a copy that stays in the notebook.

Owns what the board's intents lead to, and when its copy is written. It must not know how a request travels
(``notebook.py`` does), which run is whose (``rounds.py``), nor what is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import AcsError, InvalidRequest
from ..keeping.copying import Copier
from ..keeping.showing import show_or_print
from ..log.intents import AnyIntent, Cancel, LaneDraft, RunLanes
from ..log.session import Session
from ..notebook.form import fields
from ..notebook.root import Notebook
from ..notebook.workbench import this_kernel_s
from ..widgets.compare import CompareWindow
from ..widgets.lanes import Strand, bundle, plain
from .editing import draft_of, form_of
from .lanes import MOST_IN_A_GRID, MOST_LANES, Lane, as_json, checked, grid, setting
from .rounds import Comparison, shared_prompt

if TYPE_CHECKING:
    import pandas as pd

    from ..completion import Completion
    from ..pump import Handle
    from ..wire import CompletionRequest


class Compare(CompareWindow):
    """Up to six lanes that stream side by side; show it as a cell's last line and press *Run*, or call :meth:`run`.

    ``lanes``: for each the name of a model, or a mapping of request fields (``model``, ``temperature``, ``n``, ...),
    with ``prompt`` for a prompt of its own, ``name``, and ``client`` for a server of its own. ``shared`` are fields of
    all lanes, over the defaults of a cell of this kernel. On the page every lane has its settings in a form; what is
    written there holds from the next run on. Each lane is one request with a budget check of its own; one that is
    refused or breaks says so in its lane and stops no other. Every run stays in ``compare.session``:
    ``compare.session.save(path)``, and ``Compare(session=Session.load(path))`` to go on; lanes at other servers then
    need their clients again (``clients={"B": Client(...)}``), since no file holds a key. Nothing is sent before *Run*.
    """

    def __init__(
        self,
        prompt: str = "",
        lanes: Sequence[str | Mapping[str, Any]] = (),
        *,
        session: Session | None = None,
        notebook: Notebook | None = None,
        clients: Mapping[str, Any] | None = None,
        _most: int = MOST_LANES,
        **shared: Any,
    ) -> None:
        self.session = Session() if session is None else session
        self._notebook = this_kernel_s() if notebook is None else notebook
        self._copy: Any = None
        self._place = token_hex(8)
        self._copier = Copier(self._write_copy, self._coming)
        self._others: dict[int, Notebook] = {}
        values = {**self._notebook.defaults, **shared}
        self._core = Comparison(
            prompt, lanes, self.session, asked=self._asked, start=self._start, shared=values, clients=clients,
            most=_most,
        )  # fmt: skip
        self._core.changed = self._copier.soon
        self._core.prompt = prompt or shared_prompt(self.session, self._core.lanes)
        super().__init__(
            self.session,
            on_intent=self._obey,
            interrupts=False,
            lanes=list(map(_told, self._core.lanes)),
            form=list(fields()),
            common=form_of(values),
            drafts=list(map(draft_of, self._core.lanes)),
            prompt=self._core.prompt,
            shared=None in [lane.prompt for lane in self._core.lanes],
        )

    @classmethod
    def grid(
        cls,
        prompts: str | Sequence[str],
        *,
        models: Iterable[str] | None = None,
        temperatures: Iterable[float] | None = None,
        **options: Any,
    ) -> Compare:
        """Lanes for every model with every temperature and every prompt, at most 16."""
        prompt, lanes = grid(prompts, models, temperatures)
        return cls(prompt, lanes, _most=MOST_IN_A_GRID, **options)

    def run(self, lane: int | str | None = None) -> Compare:
        """Send all lanes, or one (its number from 0, letter or name) once more; returns at once."""
        self._core.prompt = checked(self.prompt)
        self._edit(self.drafts, lane)
        self._core.run(lane)
        return self

    def stop(self, lane: int | str | None = None) -> None:
        """End all lanes, or one, and keep what came."""
        self._core.stop(lane)

    def wait(self, timeout: float | None = None) -> Compare:
        """Wait until nothing runs, or for ``timeout`` seconds; an interrupt stops all lanes and keeps what came."""
        self._core.wait(timeout)
        return self

    @property
    def running(self) -> bool:
        """Whether any lane is still coming."""
        return bool(self._core.running)

    @property
    def completions(self) -> list[Completion | None]:
        """What each lane gave last; ``None`` for one that was not run."""
        return [self._core.completion(number) for number in range(len(self._core.lanes))]

    def __getitem__(self, lane: int | str) -> Completion:
        """What a lane gave last, by its number from 0, letter or name."""
        found = self._core.completion(lane)
        if found is None:
            raise InvalidRequest(f"Lane {lane!r} was not run yet.")
        return found

    def frame(self, *, every: bool = False) -> pd.DataFrame:
        """One row a choice of what each lane gave last; ``every``: of all runs. See :meth:`Comparison.frame`."""
        return self._core.frame(every=every)

    to_frame = frame

    def close(self) -> None:
        """End the window; the session stays, and what runs goes on into it."""
        self._copy = None
        if hasattr(self, "_core") and not self.running:  # one that was never made is closed too
            for other in self._others.values():
                other.close()
        super().close()

    def __repr__(self) -> str:
        return f"Compare({len(self._core.lanes)} lanes, round {self._core.round}, {len(self._core.running)} running)"

    def __str__(self) -> str:
        return plain(self.session, self._strands())

    def _obey(self, intent: AnyIntent) -> None:
        try:
            if isinstance(intent, RunLanes):
                if self.shared:
                    self._core.prompt = self.prompt = checked(intent.prompt)
                drafts = self.drafts if intent.drafts is None else msgspec.to_builtins(intent.drafts)
                self._edit(drafts, intent.lane)
                self._core.run(intent.lane)
                self.accept()
            elif isinstance(intent, Cancel):
                self._core.stop_run(intent.run)
        except AcsError as error:
            self.refuse(error.message)

    def _edit(self, drafts: Sequence[Mapping[str, Any]], lane: int | str | None) -> None:
        """Take the settings of what is to run as its form has them, and tell the page what they are now."""
        try:
            self._core.edit(msgspec.convert(drafts, list[LaneDraft]), lane)
        except msgspec.ValidationError:
            raise InvalidRequest(
                "drafts must have `fields`, names to texts, and `prompt` for each lane: give both."
            ) from None
        self.lanes = list(map(_told, self._core.lanes))
        ran = None if lane is None else self._core.place(lane)
        told = len(drafts) == len(self.lanes)  # those of a page that knows these lanes
        self.drafts = [
            dict(drafts[place]) if told and ran not in (None, place) else draft_of(one)
            for place, one in enumerate(self._core.lanes)
        ]

    def _asked(self, client: Any, prompt: str, values: dict[str, Any]) -> CompletionRequest:
        return self._at(client).asked(prompt, values)

    def _start(self, client: Any, request: CompletionRequest, session: Session) -> Handle:
        return self._at(client).start(request, session)

    def _at(self, client: Any) -> Notebook:
        """What sends to the server of a lane's client."""
        if client is None:
            return self._notebook
        return self._others.setdefault(id(client), Notebook.at(client))

    def _strands(self) -> list[Strand]:
        shown = self._core.latest()
        return [
            Strand(f"{lane.letter} · {lane.name}", lane.prompt, run)
            for lane, run in zip(self._core.lanes, shown, strict=True)
        ]

    def _ipython_display_(self) -> None:
        self._copy = show_or_print(self, str(self), place=self._place)
        self._write_copy()

    def _coming(self) -> bool:
        return any(run.outcome == "open" for run in list(self.session.runs.values()))

    def _write_copy(self) -> None:
        """What is read where no kernel is: the last run of each lane, and the records of all."""
        copy = self._copy
        if copy is None or not self.session.runs:
            return
        from ..keeping.record import KEY, pack_run  # noqa: PLC0415  # packed at the end

        now = self.session.copy()  # other lanes may be coming while it is drawn
        records = [pack_run(now, run) for run in now.runs]
        now.interrupt_open()
        tokens = sum(len(node.tokens) for node in now.nodes.values())
        shown = [one.run for one in self._strands()]
        earlier = len(now.runs) - sum(run is not None for run in shown)
        line = f"{earlier} earlier runs in this output's record: acs_jupyter.load" if earlier else ""
        prompt = self._core.prompt if self.shared else ""
        drawn = bundle(
            now, prompt, self._strands(), tokens=tokens, spent=len(json.dumps({KEY: records})) + self.weight, line=line
        )  # fmt: skip
        copy.update(drawn, raw=True, metadata={KEY: records})


def _told(lane: Lane) -> dict[str, Any]:
    """A lane as the page is told of it."""
    words = [setting(name, value) for name, value in as_json(lane.fields).items()]
    settings = " · ".join([*words, *([f"at {lane.server}"] if lane.server else [])])
    return {"letter": lane.letter, "name": lane.name, "settings": settings, **draft_of(lane)}
