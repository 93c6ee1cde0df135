"""Lanes as their forms show them: fields as text, and what a person changed there.

Owns the way from a lane to its form and back. What was not touched stays as it was given, also what no form shows. It
must not know sessions, requests or windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import InvalidRequest
from ..log.intents import LaneDraft
from ..notebook.form import SHOWN, read, written
from .lanes import Lane, as_json, checked, different


def form_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Fields as a form shows them; one that cannot be told as text stands in none."""
    found: dict[str, str] = {}
    for name, value in as_json(fields).items():
        try:
            found |= written({name: value})
        except (TypeError, AttributeError):
            continue
    return found


def draft_of(lane: Lane) -> dict[str, Any]:
    """What a lane's form shows when nobody has written in it."""
    return {"fields": form_of(lane.fields), "prompt": lane.prompt}


def edited(lanes: Sequence[Lane], drafts: Sequence[LaneDraft], only: int | None = None) -> list[Lane]:
    """The lanes, all or one (by its number), as their forms say.

    Raises :class:`InvalidRequest` naming the lane and what cannot be read.
    """
    if len(drafts) != len(lanes):
        return list(lanes)  # of a page that was not told of these yet
    changed = [
        _changed(lane, draft) if only in (None, place) else lane
        for place, (lane, draft) in enumerate(zip(lanes, drafts, strict=True))
    ]
    if changed == list(lanes):
        return changed
    words = different([lane.fields for lane in changed], [lane.prompt for lane in changed])
    return [
        lane if lane.named else replace(lane, name=name) for lane, name in zip(changed, words, strict=True)
    ]


def _changed(lane: Lane, draft: LaneDraft) -> Lane:
    before, now = form_of(lane.fields), draft.fields
    prompt = draft.prompt if lane.prompt is not None else None
    names = [name for name in (*SHOWN, *now) if now.get(name, "") != before.get(name, "")]
    if not names and prompt in (None, lane.prompt):
        return lane
    try:
        given = read({name: now.get(name, "") for name in names})
        own = lane.prompt if prompt is None else checked(prompt)
    except InvalidRequest as error:
        raise InvalidRequest(f"Lane {lane.letter}: {error.message}") from None
    kept = {name: value for name, value in lane.fields.items() if name not in names}
    return replace(lane, prompt=own, fields={**kept, **given})
