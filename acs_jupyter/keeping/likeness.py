"""A branch's request in a record, told by what it shares with what stands before it there.

Owns that form and the way back. It must not know how records are packed. A branch of a long text sends that text once
more; told whole, ten branches near its end would be ten such texts. So a request names a run that came before it
(``like``), the fields that differ from that one's (``with``), those it lacks (``less``), and of its prompt what is new:
``[node, n, rest]`` after the first ``n`` characters of the text up to a node, ``[run, n, rest]`` after the first ``n``
ids of another run's prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..log.session import Session

_NONE = object()


def shortened(session: Session, run: str, before: list[str]) -> dict[str, Any]:
    """What to say of the request of a branch, behind the runs ``before`` it in a record, the original first."""
    request = session.runs[run].request
    like = before[0]
    other = session.runs[like].request
    differ = {name: value for name, value in request.items() if other.get(name, _NONE) != value}
    prompt = differ.pop("prompt", None)
    told: dict[str, Any] = {"like": like, "with": differ}
    if less := [name for name in other if name not in request]:
        told["less"] = less
    if prompt is not None:
        told["prompt"] = _shared(session, run, prompt, before)
    return told


def whole(session: Session, told: dict[str, Any]) -> dict[str, Any]:
    """The request again; ``session`` holds what stands before it. Raises ``LookupError`` or ``TypeError``."""
    other = session.runs[told["like"]].request
    request = {name: value for name, value in other.items() if name not in told.get("less", ())}
    request.update(told["with"])
    if "prompt" in told:
        place, count, rest = told["prompt"]
        if isinstance(rest, str):
            request["prompt"] = session.text_to(place)[:count] + rest if place else rest
        else:
            request["prompt"] = [*(session.runs[place].request["prompt"][:count] if place else ()), *rest]
    return request


def _shared(session: Session, run: str, prompt: Any, before: list[str]) -> list[Any]:
    found = (0, "")
    if isinstance(prompt, str):
        for node in session.runs[run].nodes:
            origin = session.nodes[node].origin
            if origin is not None:
                found = max(found, (_common(session.text_to(origin.node), prompt), origin.node))
    else:
        for one in before:
            other = session.runs[one].request.get("prompt")
            if _is_ids(other) and _is_ids(prompt):
                found = max(found, (_common(other, prompt), one))
    count, place = found
    return [place, count, prompt[count:]]


def _is_ids(prompt: Any) -> bool:
    return isinstance(prompt, list) and all(isinstance(one, int) for one in prompt)


def _common(one: Any, other: Any) -> int:
    """How far two texts or two lists are equal."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
