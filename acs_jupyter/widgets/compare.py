"""Lanes on a page: one prompt, several settings or models, side by side.

Owns the traits and messages of the board; what it draws is in ``js/src/widgets/compare.ts``. It must not know who
sends: what an intent leads to is the caller's. Which run is whose stands in the session itself
(``comparing/rounds.py``).

Beside the log it says ``{"refused": {"field": null, "message": line}}`` and ``{"ran": true}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import traitlets

from ..log import events as ev
from .base import STATIC, Window

if TYPE_CHECKING:
    from ..log.events import AnyEvent


class CompareWindow(Window):
    """Lanes over a session."""

    _esm = STATIC / "compare.js"
    _css = STATIC / "compare.css"

    skip: ClassVar[tuple[type[AnyEvent], ...]] = (ev.PromptScored,)

    lanes = traitlets.List(traitlets.Dict()).tag(sync=True)
    """For each lane ``letter``, ``name``, ``settings`` (in words), ``fields`` (as text), its own ``prompt`` or null."""
    prompt = traitlets.Unicode("").tag(sync=True)
    """What stands in the box; the browser writes it too."""
    form = traitlets.List(traitlets.Dict()).tag(sync=True)
    """The fields of a lane's form (``notebook/form.py``)."""
    common = traitlets.Dict().tag(sync=True)
    """What all lanes have unless they say otherwise, as text."""
    drafts = traitlets.List(traitlets.Dict()).tag(sync=True)
    """For each lane what stands in its form: ``fields`` (name to text) and ``prompt``; the browser writes it too."""
    shared = traitlets.Bool(True).tag(sync=True)
    """Whether any lane takes the prompt of the box."""

    def refuse(self, message: str) -> None:
        """Say why nothing was sent."""
        self._post({"refused": {"field": None, "message": message}})

    def accept(self) -> None:
        """Say that it was sent, or stands in its lane why not."""
        self._post({"ran": True})

    def _keep_snapshot(self) -> None:
        """A board lives long, and each run would send all others again; a reload asks for the state itself."""
