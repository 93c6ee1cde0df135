"""What a session says of a comparison: its lanes, and which run was which lane's.

Owns the mark (``meta`` of the whole tree, under ``compare``) and its reading. It must not know requests or windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..log.arrangement import WHOLE
from ..log.events import Change, Revised

if TYPE_CHECKING:
    from ..log.session import Session

KEY = "compare"
"""The mark under ``meta`` that holds the lanes and whose run is whose."""


class Place(NamedTuple):
    """Where a run stands in a comparison: its lane's number (from 0) and name at that time, and the round."""

    lane: int
    round: int
    name: str

    @property
    def letter(self) -> str:
        """``A`` for the first lane."""
        return chr(ord("A") + self.lane)


def marked(session: Session) -> dict[str, Any]:
    """What a session says of a comparison, ``{}`` when it holds none."""
    found = session.arrangement.mark(WHOLE, "meta", {}).get(KEY)
    return found if isinstance(found, dict) else {}


def places(session: Session) -> dict[str, Place]:
    """Every run of a comparison with its place, in the order in which they were begun."""
    held = marked(session)
    names = [str(lane.get("name", "")) for lane in held.get("lanes", ())]
    found = {}
    for run, (lane, number, *name) in held.get("runs", {}).items():
        found[run] = Place(lane, number, name[0] if name else names[lane] if lane < len(names) else "")
    return found


def marking(session: Session, held: Mapping[str, Any]) -> Revised:
    """The event that makes the mark; other marks of the tree stay."""
    meta = {**session.arrangement.mark(WHOLE, "meta", {}), KEY: dict(held)}
    return Revised("compare", "view", changes=(Change(WHOLE, "meta", meta),))


def mark_of_one(session: Session, run: str) -> Revised | None:
    """The mark of one run alone, for a record that holds no other; ``None`` for a run that is no lane's."""
    place = places(session).get(run)
    if place is None:
        return None
    return Revised("compare", "view", changes=(Change(WHOLE, "meta", {KEY: {"runs": {run: list(place)}}}),))
