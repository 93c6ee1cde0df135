"""Going on from where a text ended: which place a name means, and the request that goes on from there.

Owns the reading of ``NAME`` and ``NAME:K`` and the words for a place that cannot be continued. It must not know
IPython (it is given a namespace), nor who sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..completion import Choice, Completion
from ..errors import InvalidRequest
from ..log.session import Session
from ..wire import SAMPLING_FIELDS

_NOT_TAKEN_OVER = frozenset({"n", "echo", "prompt_logprobs"})
"""Fields of a run that the one after it does not take over: they were about that answer, not about the text."""

_REFERENCE = re.compile(r"([^\W\d]\w*)(?::([0-9]{1,4}))?")


@dataclass(frozen=True)
class Place:
    """The end of a node in a session: where a text goes on."""

    session: Session
    node: str

    @property
    def text(self) -> str:
        """Everything from the root to this place, byte for byte."""
        return self.session.text_to(self.node)

    @property
    def fields(self) -> dict[str, Any]:
        """The model and the sampling of the run that led here; what goes on starts from them."""
        request = self.session.runs[self.session.nodes[self.node].run].request
        names = [name for name in ("model", *SAMPLING_FIELDS) if name not in _NOT_TAKEN_OVER]
        return {name: request[name] for name in names if name in request}


def place_of(reference: str, names: Mapping[str, Any]) -> Place:
    """The place that ``NAME`` or ``NAME:K`` means: a completion, a choice of one, or a session's last run.

    ``K`` counts the choices from 1, as a cell shows them. Raises :class:`InvalidRequest` when there is no such thing,
    when there are several choices and none is named, and when the run has not ended.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise InvalidRequest(
            f"--in {_short(reference)}: a variable's name is needed, or NAME:2 for its second choice."
        )
    name, number = found.group(1), found.group(2)
    if name not in names:
        fit = [key for key, value in names.items() if not key.startswith("_") and _continues(value)]
        near = get_close_matches(name, fit, n=1)
        hint = f" Did you mean --in {near[0]}?" if near else " Keep a completion with -o NAME first."
        raise InvalidRequest(f"--in {name}: there is no variable {name}.{hint}")
    return _place(name, names[name], None if number is None else int(number))


def _continues(value: Any) -> bool:
    return isinstance(value, (Choice, Completion, Session))


def _place(name: str, value: Any, number: int | None) -> Place:
    if isinstance(value, Choice):
        return _checked(name, Place(value.session, value.node))
    if isinstance(value, Session):
        if not value.runs:
            raise InvalidRequest(f"--in {name}: nothing has been run in this session yet.")
        value = Completion(value, next(reversed(value.runs)))
    if not isinstance(value, Completion):
        raise InvalidRequest(
            f"--in {name}: {name} is no completion and no session, but {_kind(value)}; name what -o kept."
        )
    nodes = [choice.node for choice in value.choices]
    if not nodes:
        raise InvalidRequest(f"--in {name}: {name} has not begun yet; wait for its end, then continue it.")
    if number is None and len(nodes) > 1:
        raise InvalidRequest(
            f"--in {name}: {name} has {len(nodes)} choices; name one, --in {name}:1 to {name}:{len(nodes)}."
        )
    place = 1 if number is None else number
    if not 1 <= place <= len(nodes):
        raise InvalidRequest(f"--in {name}:{place}: {name} has {_choices(len(nodes))}, counted from 1.")
    return _checked(name, Place(value.session, nodes[place - 1]))


def _checked(name: str, place: Place) -> Place:
    run = place.session.runs[place.session.nodes[place.node].run]
    if run.outcome == "open":
        raise InvalidRequest(
            f"--in {name}: {name} is still running; let it end, or stop it, then continue what came."
        )
    if any(node.ids is not None for node in place.session.path(place.node)):
        raise InvalidRequest(
            f"--in {name}: its prompt was token ids, whose text is not known; it cannot go on as "
            "text. Begin with a text prompt."
        )
    return place


def _choices(count: int) -> str:
    return "1 choice" if count == 1 else f"{count} choices"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
