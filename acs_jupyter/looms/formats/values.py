"""Values out of files of strangers: the right type or one line, no credentials, nothing too deep to be kept.

Owns the reading of JSON and the checks of single values. It must not know any format.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import InvalidRequest
from . import credentials

MOST_BYTES = 512 * 2**20
MOST_NESTED = 40
_UNKNOWN = "A field that is not known here was left out: "
_MOST_UNKNOWN = 12
_NAMING, _VALUE = ("name", "key", "header", "field"), ("value", "val", "content")
"""Fields of a pair: what is set, and to what."""


def parsed(data: bytes) -> Any:
    """JSON as plain values. Raises ``InvalidRequest`` with one line."""
    if len(data) > MOST_BYTES:
        raise InvalidRequest(f"The file has {len(data) >> 20} MiB; {MOST_BYTES >> 20} MiB can be read.")
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        raise InvalidRequest("The file is nested too deeply to be read as JSON.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The file is no JSON that can be read ({str(error)[:120]}).") from None


def table(value: Any, what: str) -> dict[str, Any]:
    """A JSON object, or one line."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"{what} must be an object.")
    return value


def maybe_table(value: Any) -> dict[str, Any]:
    """A JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Any, what: str) -> list[Any]:
    """A JSON array (``null``: an empty one), or one line."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidRequest(f"{what} must be a list.")
    return value


def text(value: Any, what: str) -> str:
    """A string, or one line."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} must be a text.")
    return value


def name(value: Any, what: str) -> str:
    """An id: a string that is not empty, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{what} needs an id.")
    return value


def above(value: Any, what: str) -> str | None:
    """The id of a parent; ``null``, an empty text or nothing is none."""
    return None if value is None or value == "" else name(value, what)


def maybe_text(value: Any) -> str | None:
    """A string, else ``None``."""
    return value if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """A number, else ``None``."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def scrubbed(value: Any, notes: list[str]) -> Any:
    """The value without credentials, and without what is nested too deeply; both are told in ``notes``, by name."""
    return _scrubbed(value, notes, 0)


def _scrubbed(value: Any, notes: list[str], depth: int) -> Any:
    if depth > MOST_NESTED:
        note(notes, "Fields that are nested too deeply were dropped.")
        return None
    if isinstance(value, dict):
        return _table(value, notes, depth)
    if isinstance(value, list):
        pair = len(value) == 2 and isinstance(value[0], str) and _drops(value[0], value[1], notes)
        given = [value[0], credentials.DROPPED] if pair else value
        return [_scrubbed(inner, notes, depth + 1) for inner in given]
    if isinstance(value, str):
        return _words(value, notes, depth)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _table(value: dict[str, Any], notes: list[str], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, inner in value.items():
        if not _drops(key, inner, notes):
            kept[_words(key, notes, depth)] = _scrubbed(inner, notes, depth + 1)
    told = next((value[name] for name in _NAMING if isinstance(value.get(name), str)), "")
    for name in _VALUE:
        if name in kept and told and _drops(told, kept[name], notes):
            kept[name] = credentials.DROPPED
    return kept


def _drops(name: str, value: Any, notes: list[str]) -> bool:
    if value == credentials.DROPPED or not credentials.held(name, value):
        return False
    note(notes, f"A credential in {credentials.without(name)[:40]} was dropped.")
    return True


def _words(text: str, notes: list[str], depth: int) -> str:
    """A setting's text; JSON in it is looked through."""
    if text[:1] in ("{", "[", '"') and text[-1:] in ("}", "]", '"') and depth < MOST_NESTED:
        try:
            inner = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            inner = None
        clean = _scrubbed(inner, notes, depth + 1)
        if clean != inner:
            return msgspec.json.encode(clean).decode()
    clean = credentials.without(text)
    if clean != text:
        note(notes, "A credential inside a text of the settings was dropped.")
    return clean


def note(notes: list[str], line: str) -> None:
    """Say something once."""
    if line not in notes:
        notes.append(line)


def left_out(given: dict[str, Any], known: set[str], notes: list[str], where: str) -> None:
    """Say which fields of a place a reader does not read, nor keeps."""
    for key, value in given.items():
        if key not in known and value not in (None, "", [], {}):
            said = sum(line.startswith(_UNKNOWN) for line in notes)
            note(
                notes,
                f"{_UNKNOWN}{where}{key[:40]}."
                if said < _MOST_UNKNOWN
                else "More such fields were left out.",
            )


def without(given: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The fields that a reader does not read."""
    return {key: value for key, value in given.items() if key not in known}
