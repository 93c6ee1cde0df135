"""The live cell: a completion as it arrives, token by token.

Owns nothing but its bundle and its switches; what it draws is in ``js/src/widgets/live.ts``.
It must not know where the tokens come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import traitlets

from ..log import events as ev
from .base import STATIC, Window

if TYPE_CHECKING:
    from ..log.events import AnyEvent


class LiveCell(Window):
    """A column a choice; alternatives on hover and on keyboard focus; Stop.

    The reader colours the text by probability, surprisal (bits), rank or entropy (bits, over the alternatives
    returned, renormalised), and can ask what other sampling settings would have cut. That is worked out in the
    browser on the alternatives returned, in the order of vLLM's V1 sampler (``vllm/v1/sample/sampler.py``):
    temperature, min_p, top_k, top_p. Nothing of it comes back to Python.

    Branches of the runs it follows stand beside them, whoever began them. ``can_branch=True`` lets the reader ask for
    more (``on_intent`` gets ``Fork``, ``Resample`` and ``Edit``). ``show_prompt=True`` puts the end of the prompt,
    faintly, before each continuation.
    """

    _esm = STATIC / "live.js"
    _css = STATIC / "live.css"

    skip: ClassVar[tuple[type[AnyEvent], ...]] = (ev.PromptScored,)

    grows: ClassVar[bool] = True

    can_branch = traitlets.Bool(False).tag(sync=True)
    show_prompt = traitlets.Bool(False).tag(sync=True)
