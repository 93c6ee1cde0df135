"""``%%acs`` and ``%acs``: a line and a cell in, one call into the library, one line of words when it fails.

Owns what IPython sees: the magics, the exact body of a cell, tab completion, how an error is shown. It must not know
HTTP or SQL.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from traitlets import TraitError

from ..errors import AcsError, InvalidRequest
from ..keeping.late import again
from ..ledger import place
from . import topics
from .body import BODILESS, PROMPTED, as_typed, bodiless, exact_body
from .continuing import place_of
from .defaults import names
from .display import make_view, show_copy
from .options import CellOptions, asks_for_help, nearest, option_names, parse_cell_line, split, uncommented
from .root import Notebook
from .telling import Telling, misconfigured
from .template import fill
from .traits import CellTraits

if TYPE_CHECKING:
    from ..completion import Completion

COMMANDS = [
    "budget", "debug", "doctor", "help", "jobs", "last", "local", "models", "recover", "set", "settings",
]  # fmt: skip


@magics_class
class AcsMagics(Magics, CellTraits):
    """The magics of one shell. Traits are the defaults of a cell (``c.AcsMagics.max_tokens = 200``)."""

    def __init__(self, shell: InteractiveShell, **kwargs: Any) -> None:
        super().__init__(shell, **kwargs)  # type: ignore[call-arg]  # IPython's class has no types
        self.notebook = Notebook(make_view=lambda: make_view(shell, self.notebook.settings["view"]))
        self.telling = Telling(self.notebook.redact, page=hasattr(shell, "kernel"))
        for name in names():
            self._take(name)
        self.observe(lambda change: self._take(change["name"]), names())
        self._running: list[str] = []
        self._looked_back = self._hinted = False

    # -- the magics -------------------------------------------------------------------------------

    @no_var_expand
    @cell_magic("acs")
    def cell(self, line: str, cell: str) -> None:
        """Continue the cell's body. The body is the prompt, byte for byte; ``%acs help`` lists the options."""
        with self.telling:
            if asks_for_help(uncommented(line)):
                print(topics.text("options")[0])
                return
            self._run(uncommented(line), self._prompt(line, cell))

    @no_var_expand
    @line_magic("acs")
    def line(self, line: str) -> Any:
        """``%acs COMMAND``: budget, debug, doctor, help, jobs, last, local, models, recover, set, settings."""
        with self.telling:
            command, _, rest = uncommented(line).strip().partition(" ")
            if command not in (*COMMANDS, BODILESS, PROMPTED):
                if command in ("", "-h", "--help"):
                    print(topics.text("")[0])
                    return None
                raise InvalidRequest(
                    f"'{command}' is not a command of %acs.{nearest(command, COMMANDS)} "
                    f"There are: {', '.join(COMMANDS)}. (A prompt goes below %%acs, with two percent signs.)"
                )
            return getattr(self, f"_{command}")(rest.strip())

    def _submit(self, prompt: str, options: CellOptions) -> None:
        from ..jobs.cell import run  # noqa: PLC0415  # jobs load with the first one

        run(self.notebook, self.shell, prompt, options, keep=self._keep_job(options))

    def _look_back(self) -> None:
        """Once a kernel: go on with jobs, and say what one that was killed left."""
        if not self._looked_back:
            self._looked_back = True
            from ..jobs.cell import pick_up  # noqa: PLC0415  # jobs load with the first cell

            pick_up(self.notebook)
            self.point_to_what_was_left()

    def point_to_what_was_left(self) -> None:
        """Say once what a kernel that was killed has left: when the extension loads, else before the first cell."""
        from ..keeping.unsaved import left  # noqa: PLC0415  # rarely is there anything

        if not self._hinted and left():
            from ..keeping.recovering import hint  # noqa: PLC0415  # rarely

            self._hinted = bool(line := hint())
            if line:
                print(line)

    def _recover(self, rest: str) -> None:
        from ..keeping.recovering import command  # noqa: PLC0415  # rarely

        self._looked_back = self._hinted = True
        command(self.shell, rest, self._keep_recovered)

    def _keep_recovered(self, completion: Completion) -> None:
        self.notebook.last = self.shell.user_ns["_acs"] = completion

    def _jobs(self, rest: str) -> Any:
        from ..jobs.cell import command  # noqa: PLC0415  # jobs load with the first one

        return command(self.notebook, self.shell, split(rest))

    def _run(self, line: str, prompt: str) -> None:
        options = parse_cell_line(line)
        names = self.shell.user_ns
        place = None if options.continues is None else place_of(options.continues, names)
        if options.fill:
            prompt = fill(prompt, names)
        if options.job is not None:
            if place is not None:
                options = replace(options, fields={**place.fields, **options.fields})
                prompt = place.text + prompt
            self._submit(prompt, options)
            return
        if options.dry:
            fields, lines = self.notebook.dry(prompt, options, place)
            print(json.dumps(fields, ensure_ascii=False, indent=2), *lines, sep="\n")
            return
        self._look_back()
        self.notebook.run(prompt, options, self._keeper(options), place)

    def _cell(self, rest: str) -> None:
        """A ``%%acs`` cell without a body, as :func:`bodiless` passes it on."""
        if asks_for_help(rest):
            print(topics.text("options")[0])
            return
        if parse_cell_line(rest).continues is None:
            raise InvalidRequest(
                "The cell has no body: there is no prompt. "
                "Write one below the %%acs line, or continue a text with --in NAME."
            )
        self._run(rest, "")

    def _pasted(self, rest: str) -> None:
        """A ``%%acs`` cell behind a prompt, as :func:`as_typed` passes it on."""
        raise InvalidRequest(
            f"Nothing was sent: a prompt ({rest}) stands before %%acs, and IPython takes out all that look like it. "
            "Take it off the first line; everything below that line is sent as it stands."
        )

    def _last(self, rest: str) -> None:
        found = self.shell.user_ns.get(rest) if rest else self.notebook.last
        if rest and not hasattr(found, "texts"):
            raise InvalidRequest(f"{rest} is no completion; %acs last takes the name of one, or nothing.")
        if found is None:
            raise InvalidRequest("There is no completion yet: run a %%acs cell first.")
        show_copy(self.shell, found)

    def _budget(self, rest: str) -> Any:
        from ..ledger import command as budget_command  # noqa: PLC0415  # sqlite3 loads when the budget is asked about

        return budget_command.in_notebook(split(rest), self.notebook.meter())

    def _models(self, rest: str) -> Any:
        _nothing_more("models", rest)
        from ..frames import models_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        return models_frame(self.notebook.models())

    def _doctor(self, rest: str) -> Any:
        _nothing_more("doctor", rest)
        from ..frames import boundary_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        measured = self.notebook.doctor()
        if not measured:
            print(
                "The last prompt's boundaries are clean: no blank or cut word at its end, no \\r\\n, no second BOS."
            )
            return None
        return boundary_frame(measured)

    def _take(self, name: str) -> None:
        """What the configuration says of a setting, now or later (``%config AcsMagics.max_tokens = 200``)."""
        value = getattr(self, name)
        if value is None:
            self.notebook.settings.config.pop(name, None)
        else:
            self.notebook.settings.config[name] = value

    def _set(self, rest: str) -> None:
        from .choosing import set_one  # noqa: PLC0415  # only when a setting changes

        set_one(self.notebook.settings, rest)

    def _settings(self, rest: str) -> None:
        _nothing_more("settings", rest)
        from .choosing import page  # noqa: PLC0415  # only when somebody asks

        print(page(self.notebook))

    def _debug(self, rest: str) -> None:
        self.telling.command(rest)

    def _local(self, rest: str) -> None:
        arguments = split(rest)
        if arguments and (len(arguments) != 2 or arguments[0] != "--gguf"):
            raise InvalidRequest(f"%acs local takes nothing, or --gguf FILE; not {rest}.")
        server = self.notebook.start_local(
            *arguments, tell=lambda text: print(text, file=sys.stderr, flush=True)
        )
        print(f"The embedded server answers at {server.base}; this kernel uses it from here on.")

    def _help(self, rest: str) -> None:
        text, known = topics.text(rest)
        if not known:
            hint = nearest(rest, topics.names()) or f" Topics: {', '.join(topics.names())}."
            raise InvalidRequest(f"There is no help on '{rest}'.{hint}")
        print(text)

    # -- IPython's side ---------------------------------------------------------------------------

    def _keeper(self, options: CellOptions) -> Callable[[Completion], None]:
        def keep(completion: Completion) -> None:
            self.shell.user_ns["_acs"] = completion
            if options.name:
                self.shell.user_ns[options.name] = completion

        return keep

    def _keep_job(self, options: CellOptions) -> Callable[[Any], None]:
        def keep(job: Any) -> None:
            if options.name:
                self.shell.user_ns[options.name] = job

        return keep

    def before_cell(self, info: Any) -> None:
        """Remember the cell as it was typed: IPython's own copy loses ``>>>`` and trailing spaces."""
        self._running.append(info.raw_cell or "")
        place.cell.set(f"[{self._number(info)}]")

    def _number(self, info: Any) -> int:
        """The number the cell has in the notebook. By now IPython has counted on, or not: that changed with 9. Its
        list of inputs, which begins with an empty one, does not have the cell yet in any version."""
        history = self.shell.history_manager
        if not info.store_history or history is None:
            return int(self.shell.execution_count)
        return len(history.input_hist_parsed)

    def after_cell(self, result: Any) -> None:
        """Forget it; write once more what was written meanwhile from elsewhere."""
        again()
        if self._running:
            self._running.pop()
        if not self._running:
            place.cell.set("")

    def _prompt(self, line: str, cell: str) -> str:
        """The body as it was typed; in a terminal the empty lines that end a cell are no part of it."""
        body = exact_body(self._running, line, cell, self.shell.input_transformer_manager.transform_cell)
        return body.rstrip("\n") if type(self.shell).__name__ == "TerminalInteractiveShell" else body

    def complete(self, shell: Any, event: Any) -> list[str]:
        """Options, models, commands, settings and topics for the completer."""
        words = event.line.split()
        done = words[:-1] if event.symbol and words else words  # the words before the one being typed
        if event.line.startswith("%acs"):
            after = {(): COMMANDS, ("set",): names(), ("help",): topics.names()}
            return list(after.get(tuple(done[1:]), []))
        if done and done[-1] in ("-m", "--model"):
            return self._known_models()
        return option_names()

    def _known_models(self) -> list[str]:
        try:
            return [model.id for model in self.notebook.models(refresh=False)]
        except AcsError:
            return []


def _nothing_more(command: str, rest: str) -> None:
    if rest:
        raise InvalidRequest(f"%acs {command} takes nothing more; not {rest}.")


def load(shell: InteractiveShell) -> None:
    """Register the magics with a shell; loading twice keeps the first."""
    if "acs" in shell.magics_manager.magics["cell"]:
        return
    try:
        magics = AcsMagics(shell, parent=shell)
    except TraitError as problem:
        raise misconfigured(str(problem)) from None
    shell.register_magics(magics)
    magics.telling.begin()
    shell.input_transformers_cleanup.insert(0, as_typed)
    shell.input_transformers_cleanup.append(bodiless)
    shell.events.register("pre_run_cell", magics.before_cell)
    shell.events.register("post_run_cell", magics.after_cell)
    for key in ("%%acs", "%acs"):
        shell.set_hook("complete_command", magics.complete, str_key=key)
    magics.point_to_what_was_left()


def unload(shell: InteractiveShell) -> None:
    """Take the magics out again and end what they started."""
    magics = shell.magics_manager.registry.pop("AcsMagics", None)
    if magics is None:
        return
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("acs", None)
    shell.input_transformers_cleanup.remove(as_typed)
    shell.input_transformers_cleanup.remove(bodiless)
    shell.events.unregister("pre_run_cell", magics.before_cell)
    shell.events.unregister("post_run_cell", magics.after_cell)
    magics.telling.end()
    magics.notebook.close()
    if "acs_jupyter.jobs.cell" in sys.modules:
        sys.modules["acs_jupyter.jobs.cell"].close()
