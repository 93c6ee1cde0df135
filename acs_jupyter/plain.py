"""Values as JSON knows them: subclasses of texts and numbers, numpy's own and its arrays become plain ones.

Owns that, and the refusal of what has no form in JSON, in one line with the field's name. It must not know which
fields there are.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from .errors import InvalidRequest

MOST_BITS = 14_000
"""Of a whole number: about what Python itself still writes down."""


def plain_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields in plain values. Raises :class:`InvalidRequest`."""
    try:
        return {name: plain(name, value) for name, value in fields.items()}
    except RecursionError:
        raise InvalidRequest("A field is nested too deep to be sent; give plain values.") from None


def plain(name: str, value: Any) -> Any:
    """One value; what is not known here stays as it is."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(name, str.__str__(value))
    if isinstance(value, Integral):
        return _whole(name, int(value))
    return _several(name, value)


def _several(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(name, item) for item in value]
    if isinstance(value, dict):
        return {_key(name, key): plain(f"{name}.{key}", item) for key, item in value.items()}
    if hasattr(value, "dtype") and callable(getattr(value, "tolist", None)):
        return plain(name, value.tolist())
    return float(value) if isinstance(value, float) else value


def _whole(name: str, value: int) -> int:
    if value.bit_length() <= MOST_BITS:
        return value
    raise InvalidRequest(
        f"{name}: a whole number of {value.bit_length()} bits is out of every range; give a smaller one."
    )


def _text(name: str, text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{name} holds a lone surrogate (U+{ord(text[error.start]):04X}) at character "
            f"{error.start}; it has no UTF-8 form and cannot be sent: take it out."
        ) from None
    return text


def _key(name: str, key: Any) -> str:
    if isinstance(key, str):
        return _text(f"{name}: the name {str(key)!r}", str.__str__(key))
    raise InvalidRequest(f"{name}: {key!r} is not a name; names are texts.")


def has_utf8(text: str) -> bool:
    """Whether a text can be sent: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
