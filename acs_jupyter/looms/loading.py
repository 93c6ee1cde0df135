"""A loom from bytes: a copy of our own file, what can be read of a damaged one, or a file of another program.

Owns which of them it is, and what is said of our own. It must not know other formats (``formats/``) nor who may write.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import InvalidRequest
from ..log import events as ev
from ..log.events import AnyEvent
from ..log.session import Session
from . import file
from .formats import choosing
from .formats import values as v

_HEADER = b'{"format": "acs-session"'
_BOM = b"\xef\xbb\xbf"
_TEXTS = frozenset({"prompt", "suffix", "stop"})
"""Fields of a request that are data, and stay as they are."""
_MOST_TOLD = 8

_entries = msgspec.json.Decoder(tuple[float, AnyEvent])
_T = TypeVar("_T")


def read(data: bytes, path: Path, form: str | None, options: dict[str, Any]) -> tuple[Session, list[str]]:
    """The session in a file, and what is to be said of it. Raises ``InvalidRequest`` with one line."""
    if form == "ours":
        return _cleaned(*_salvaged(data.removeprefix(_BOM)))
    if form is None and data.removeprefix(_BOM).startswith(_HEADER):
        return _cleaned(or_hint(file.read, path), [])
    return choosing.read(data, form=form, path=path, **options)


def or_hint(reader: Callable[[Any], _T], path: Any) -> _T:
    """What the reader gives; when a line of the file is broken, the error says how to get at the others."""
    try:
        return reader(path)
    except InvalidRequest as error:
        if "not a session event" not in error.message:
            raise
        raise InvalidRequest(f'{error.message} Loom.load(path, form="ours") reads the rest.') from None


def keys_in(session: Session) -> list[str]:
    """What is to be said of a file that is written on: the credentials that stand in its requests and marks."""
    notes = _cleaned(session, [])[1]
    return [
        line.replace("was dropped", "stands in the file: do not share it")
        for line in notes
        if line.startswith("A credential")
    ]


def _salvaged(data: bytes) -> tuple[Session, list[str]]:
    """All events that can be read and still have what they speak of."""
    session, broken = Session(), []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip() or line.startswith(_HEADER):
            continue
        try:
            at, event = _entries.decode(line)
            session.apply([event], at=at)
        except (ValueError, KeyError):
            broken.append(number)
    if not len(session):
        raise InvalidRequest("No line of the file can be read as one of a loom of ours; leave form= out.")
    session.interrupt_open()
    if not broken:
        return session, []
    told = ", ".join(map(str, broken[:_MOST_TOLD])) + (", ..." if len(broken) > _MOST_TOLD else "")
    what = "1 line" if len(broken) == 1 else f"{len(broken)} lines"
    return session, [f"{what} could not be read or hung on one that could not; left out: line {told}."]


def _cleaned(session: Session, notes: list[str]) -> tuple[Session, list[str]]:
    """The session without credentials in its requests, sampling and kept settings; texts stay to the byte."""
    found: list[str] = []
    clean = [(at, _clean(event, found)) for at, event in session.log]
    if not found:
        return session, notes
    same = Session()
    for at, event in clean:
        same.apply([event], at=at)
    return same, [*notes, *found]


def _clean(event: AnyEvent, notes: list[str]) -> AnyEvent:
    if isinstance(event, ev.RunOpened):
        kept = {key: value for key, value in event.request.items() if key in _TEXTS}
        rest = {key: value for key, value in event.request.items() if key not in _TEXTS}
        return msgspec.structs.replace(event, request={**v.scrubbed(rest, notes), **kept})
    if isinstance(event, ev.Revised) and any(one.field in ("meta", "sampling") for one in event.changes):
        changes = tuple(
            msgspec.structs.replace(one, value=v.scrubbed(one.value, notes))
            if one.field in ("meta", "sampling")
            else one
            for one in event.changes
        )
        return msgspec.structs.replace(event, changes=changes)
    return event
