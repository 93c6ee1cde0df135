"""Values out of files of strangers: the right type or one line, no credentials, nothing too deep to be kept.

Owns the reading of JSON and the checks of single values. It must not know any format.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...errors import InvalidRequest

MOST_BYTES = 512 * 2**20
MOST_NESTED = 40
_SECRET_NAME = re.compile(
    r"api.?key|secret|passw|authoriz|credential|bearer|(auth|access|refresh).?token", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"\b(?:sk-|acs-bm-|hf_|gh[pousr]_|xox[abp]-)[A-Za-z0-9_-]{12,}|Bearer\s+\S{12,}")


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
        _note(notes, "Fields that are nested too deeply were dropped.")
        return None
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            if _SECRET_NAME.search(key) and inner not in (None, "", False):
                _note(notes, f"A credential in {key[:40]} was dropped.")
            else:
                kept[key] = _scrubbed(inner, notes, depth + 1)
        return kept
    if isinstance(value, list):
        return [_scrubbed(inner, notes, depth + 1) for inner in value]
    if isinstance(value, str) and _SECRET_VALUE.search(value):
        _note(notes, "A credential inside a text of the settings was dropped.")
        return _SECRET_VALUE.sub("[dropped]", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def _note(notes: list[str], line: str) -> None:
    if line not in notes:
        notes.append(line)


def without(given: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The fields that a reader does not read."""
    return {key: value for key, value in given.items() if key not in known}
