"""The loom on the page: its tree, the text to the cursor, and the children of where that is.

Owns the traits and messages of the window; what it draws is in ``js/src/widgets/loom.ts``. It must not know looms, nor
who sends: what an intent leads to is the caller's.

Beside the log it says ``{"loom": {...}}`` with some of ``look`` (a node to go to), ``said`` (one line about what was
done) and ``found`` (``{"text", "predicate", "nodes", "refused"}``, the answer to a Search).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from ..log import events as ev
from .base import STATIC, Window

if TYPE_CHECKING:
    from ..log.events import AnyEvent


class LoomWindow(Window):
    """A window on a whole session as a tree. Its keys count only while the focus is in it."""

    _esm = STATIC / "loom.js"
    _css = STATIC / "loom.css"

    skip: ClassVar[tuple[type[AnyEvent], ...]] = (ev.PromptScored,)

    form = traitlets.List(traitlets.Dict()).tag(sync=True)
    """The fields of the growth form, as ``form.fields`` gives them."""
    usual = traitlets.Dict().tag(sync=True)
    """What the form shows for a node that was never told otherwise, as text."""
    bindings = traitlets.Dict().tag(sync=True)
    """Command to key, for those that are not as usual."""
    lit = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Nodes that are lit up."""
    start = traitlets.Unicode("").tag(sync=True)
    """The node to begin at, ``""`` for the first root."""
    height = traitlets.Int(620).tag(sync=True)
    """Of the window, in CSS pixels."""
    frozen = traitlets.Bool(False).tag(sync=True)
    """Whether nothing can be changed: the loom was opened to look at."""
    file = traitlets.Unicode("").tag(sync=True)
    """Where the loom is kept, ``""`` while it is not."""
    trouble = traitlets.Unicode("").tag(sync=True)
    """One line while the loom's file cannot be written."""

    def say(self, **words: Any) -> None:
        """Tell the browser something beside the log: ``look``, ``said`` or ``found``."""
        self._post({"loom": words})

    def _keep_snapshot(self) -> None:
        """A loom lives long, and each run would send all others again; a reload asks for the state itself."""
