"""The settings of cells as IPython's configuration knows them: ``c.AcsMagics.max_tokens = 200``.

Owns the traits, their types and their help. It must not know which setting wins: `defaults.py` has the order.
"""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Dict, Float, Int, List, TraitType, Unicode, Union
from traitlets.config import Configurable

from .options import HELP


def _trait(kind: Any, name: str, *args: Any) -> Any:
    made: TraitType[Any, Any] = kind(
        *args, default_value=None, allow_none=True, help=HELP.get(name, _MORE.get(name))
    )
    return made.tag(config=True)


_MORE = {
    "notes": "whether a cell points out a blank or a cut word at its prompt's end",
    "timeout": "seconds without a byte, until a cell gives up",
    "retries": "how often a refused request of a cell is sent again",
    "view": "how a cell is shown: live, or text for front ends without widgets",
    "longest_wait": "the longest Retry-After that a cell waits for, in seconds",
}


class CellTraits(Configurable):
    """One trait a setting; ``None`` leaves it to the default."""

    model = _trait(Unicode, "model")
    max_tokens = _trait(Int, "max_tokens")
    n = _trait(Int, "n")
    temperature = _trait(Float, "temperature")
    top_p = _trait(Float, "top_p")
    top_k = _trait(Int, "top_k")
    min_p = _trait(Float, "min_p")
    presence_penalty = _trait(Float, "presence_penalty")
    frequency_penalty = _trait(Float, "frequency_penalty")
    repetition_penalty = _trait(Float, "repetition_penalty")
    seed = _trait(Int, "seed")
    stop = _trait(Union, "stop", [Unicode(), List(Unicode())])
    logprobs = _trait(Int, "logprobs")
    prompt_logprobs = _trait(Int, "prompt_logprobs")
    echo = _trait(Bool, "echo")
    stream = _trait(Bool, "stream")
    stream_options = _trait(Dict, "stream_options")
    user = _trait(Unicode, "user")
    add_special_tokens = _trait(Bool, "add_special_tokens")
    notes = _trait(Bool, "notes")
    timeout = _trait(Float, "timeout")
    retries = _trait(Int, "retries")
    longest_wait = _trait(Float, "longest_wait")
    view = _trait(Unicode, "view")
