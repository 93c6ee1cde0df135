"""The live cell: a completion as it arrives, token by token.

Owns nothing but its bundle and its switches; what it draws is in ``js/src/widgets/live.ts``.
It must not know where the tokens come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import traitlets

from .. import events as ev
from .base import STATIC, Window

if TYPE_CHECKING:
    from ..events import AnyEvent


class LiveCell(Window):
    """A column a choice, coloured by probability; alternatives on hover and on keyboard focus; Stop.

    ``show_prompt=True`` puts the end of the prompt, faintly, before each continuation.
    """

    _esm = STATIC / "live.js"
    _css = STATIC / "live.css"

    skip: ClassVar[tuple[type[AnyEvent], ...]] = (ev.PromptScored,)

    show_prompt = traitlets.Bool(False).tag(sync=True)
