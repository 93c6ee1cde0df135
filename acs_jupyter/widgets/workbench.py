"""The workbench on the page: a prompt, its parameters, what came of it, and everything that was run before.

Owns the traits and messages of the form; what it draws is in ``js/src/widgets/workbench.ts``. It must not know who
sends: what an intent leads to is the caller's.

Beside the log it says ``{"refused": {"field": name or null, "message": line}}``, ``{"ran": true}`` and
``{"export": {"name": file, "text": whole}}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import traitlets

from ..log import events as ev
from .base import STATIC, Window

if TYPE_CHECKING:
    from ..log.events import AnyEvent


class Bench(Window):
    """A form over a session: each of its runs is a snapshot that can be put back into the form."""

    _esm = STATIC / "workbench.js"
    _css = STATIC / "workbench.css"

    skip: ClassVar[tuple[type[AnyEvent], ...]] = (ev.PromptScored,)

    form = traitlets.List(traitlets.Dict()).tag(sync=True)
    """The fields, as ``form.fields`` gives them."""
    draft = traitlets.Dict().tag(sync=True)
    """What stands in the form now: ``{"prompt": text, "fields": {name: text}}``; the browser writes it too."""
    kept = traitlets.List(traitlets.Dict()).tag(sync=True)
    """Drafts that were not sent and gave way to another one, oldest first; only ever added to."""

    def keep_draft(self, prompt: str, fields: dict[str, str]) -> None:
        """Add a draft to those kept, unless it is there already."""
        draft = {"prompt": prompt, "fields": fields}
        if draft not in self.kept:
            self.kept = [*self.kept, draft]

    def refuse(self, message: str, field: str | None) -> None:
        """Say at a field, or under the form, why nothing was sent."""
        self._post({"refused": {"field": field, "message": message}})

    def accept(self) -> None:
        """Say that it was sent."""
        self._post({"ran": True})

    def hand_out(self, name: str, text: str) -> None:
        """Give the browser a file to save."""
        self._post({"export": {"name": name, "text": text}})

    def _keep_snapshot(self) -> None:
        """A bench lives long, and each run would send all others again; a reload asks for the state itself."""
