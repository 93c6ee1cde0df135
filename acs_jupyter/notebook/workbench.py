"""``Workbench()``: the form joined to a server, a session and a copy that stays in the notebook.

Owns what the form's intents lead to. It must not know how a request travels (``notebook.py`` does), nor what is drawn.
"""

from __future__ import annotations

import threading
import time
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from ..checks import build_request
from ..errors import AcsError, InvalidRequest
from ..keeping.copies import Copies
from ..keeping.copying import Copier
from ..keeping.showing import show
from ..keeping.unsaved import Unsaved
from ..ledger import place as where
from ..log.branching import root_of
from ..log.intents import AnyIntent, Cancel, Continue, Export, Keep, Run
from ..log.session import Session
from ..widgets.workbench import Bench
from .continuing import Place
from .form import field_of, fields, read, written
from .root import Notebook

if TYPE_CHECKING:
    from ..pump import Handle


class Workbench(Bench):
    """A prompt box with parameters, Run, Continue, history, copy and export; show it as a cell's last line.

    ``prompt`` and ``fields`` (the request's own names) fill the form; what is not given is as in a cell of this
    kernel. ``session`` holds every run, each of them a snapshot; give a loaded one to go on from it
    (``Workbench(Session.load("work.jsonl"))``). ``bench.session.save(path)`` saves it, as *Save JSONL* does.
    Runs go on in the background, so the kernel stays free.
    """

    def __init__(
        self,
        session: Session | None = None,
        *,
        prompt: str = "",
        notebook: Notebook | None = None,
        **given: Any,
    ) -> None:
        if not isinstance(session, Session | None):
            raise InvalidRequest(f"session must be a Session, not {type(session).__name__}.")
        self.session = session if session is not None else Session()
        self._notebook = notebook or this_kernel_s()
        self._copy: Any = None
        self._spot = token_hex(8)
        self._drawing = threading.Lock()
        self._copier = Copier(self._write_copy, self._coming)
        self._unsaved: dict[str, Unsaved] = {}
        values = {**self._notebook.defaults, **given}
        build_request({"prompt": prompt, **values})  # what no request could carry is told here and now
        super().__init__(
            self.session,
            on_intent=self._obey,
            interrupts=False,
            form=list(fields()),
            draft={"prompt": prompt, "fields": written(values)},
        )
        self._copies = Copies(self._delivered)
        self.on_confirm = self._copies.confirm

    def _ipython_display_(self) -> None:
        self._copy = show(self, place=self._spot)
        self._write_copy()

    def close(self) -> None:
        """End the window; the session stays, and what runs goes on into it."""
        self._copy = None
        super().close()

    def _obey(self, intent: AnyIntent) -> None:
        try:
            if isinstance(intent, Run):
                self._run(intent.prompt, intent.fields)
            elif isinstance(intent, Continue):
                self._run("", intent.fields, self._place(intent.node))
            elif isinstance(intent, Keep):
                self.keep_draft(intent.prompt, intent.fields)
            elif isinstance(intent, Export):
                name = f"workbench-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
                self.hand_out(name, b"".join(self.session.lines()).decode())
            elif isinstance(intent, Cancel):
                for run, handle in list(self._notebook.running.items()):
                    if intent.run in (None, run) and handle.session is self.session:
                        handle.stop()
        except AcsError as error:
            self.refuse(str(error), field_of(error.message))

    def _run(self, prompt: str, given: dict[str, str], place: Place | None = None) -> None:
        before = "" if place is None else place.text
        request = self._notebook.asked(before + prompt, read(given))
        handle = self._notebook.start(request, self.session, place, added=prompt)
        self._notebook.running[handle.run] = handle
        about = {"notebook": where.notebook(), "cell": "workbench"}
        self._unsaved[handle.run] = Unsaved(self.session, handle.run, **about)
        handle.detach(self._ended)
        self.accept()

    def _place(self, node: str) -> Place:
        if node not in self.session.nodes:
            raise InvalidRequest(
                "What is to be continued is not in this session any more: choose another run."
            )
        if any(one.ids is not None for one in self.session.path(node)):
            raise InvalidRequest(
                "Its prompt was token ids, whose text is not known; it cannot go on as text. Begin with a text prompt."
            )
        return Place(self.session, node)

    def _ended(self, handle: Handle) -> None:
        self._notebook.running.pop(handle.run, None)
        self._copier.soon()

    def _coming(self) -> bool:
        return any(run.outcome == "open" for run in list(self.session.runs.values()))

    def _write_copy(self) -> None:
        """What is read where no kernel is: the last run, its prompt before it, and the records of all runs."""
        from ..keeping.record import KEY, pack_run  # noqa: PLC0415  # packed at the end
        from ..widgets.snapshot import bench_bundle  # noqa: PLC0415  # drawn at the end

        with self._drawing:
            if self._copy is None or not self.session.runs:
                return
            now = self.session.copy()  # runs may be coming while it is drawn
            position = len(now)
            runs = [run for run, state in now.runs.items() if state.outcome != "open"]
            if not runs:
                return
            # A record holds a run with its branches: of a family there is one.
            records = [pack_run(now, run) for run in dict.fromkeys(root_of(now, run) for run in runs)]
            name = self._copies.name(position)
            self._copy.update(bench_bundle(now, runs, name=name), raw=True, metadata={KEY: records})
            self.copy = name

    def _delivered(self, position: int) -> None:
        """A page shows what the session had come to by then."""
        for run, kept in list(self._unsaved.items()):
            state = self.session.runs.get(run)  # one that was just sent has not begun
            if state is not None and state.outcome != "open" and kept.saved(position):
                self._unsaved.pop(run).end()


def this_kernel_s() -> Notebook:
    """That of the loaded extension, with its settings and its server; else one of its own."""
    from IPython.core.getipython import get_ipython  # noqa: PLC0415  # only in a notebook

    shell = get_ipython()
    magics = None if shell is None else shell.magics_manager.registry.get("AcsMagics")
    notebook = getattr(magics, "notebook", None)
    return notebook if isinstance(notebook, Notebook) else Notebook()
