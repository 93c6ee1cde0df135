"""A number of tokens as it is written: ``50000``, ``50_000``, ``50k``, ``1.5m``.

Owns that, for options and for ``budget=`` alike. It must not know what is counted.
"""

from __future__ import annotations

import re

from .errors import InvalidRequest

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}


def tokens(text: str) -> int:
    """A number of tokens, such as ``50000``, ``50_000``, ``50k`` or ``1.5m``. Raises ``ValueError``."""
    found = re.fullmatch(r"([0-9][0-9_,]*)(\.[0-9]+)?([kmb]?)", text.strip().lower())
    if found and found[2] and not found[3]:
        raise ValueError(f"a whole number of tokens is needed, such as {found[0]}k or {found[0]}m")
    count = round(float(re.sub("[_,]", "", found[1]) + (found[2] or "")) * _UNITS[found[3]]) if found else 0
    if not 0 < count < 10**15:
        raise ValueError("a number of tokens above 0 is needed, such as 50000, 50k or 1.5m")
    return count


def budget_of(given: int | str | None) -> int | None:
    """A ``budget``: of a text its number, else what was given, unread. Raises :class:`InvalidRequest`."""
    if not isinstance(given, str):
        return given
    try:
        return tokens(given)
    except ValueError as error:
        raise InvalidRequest(f"budget={given[:40]!r}: {error}.") from None
