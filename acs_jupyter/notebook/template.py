"""Variables in a prompt, when asked for: ``@@{name}``.

Owns the delimiter and what may stand in it. It must not know IPython: it is given a namespace. The delimiter was
chosen because prose, code, JSON and LaTeX do not hold it by accident: ``{x}``, ``{{x}}``, ``${x}``, ``%(x)s``,
``@{x}`` and ``<<x>>`` all mean something somewhere and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ..errors import InvalidRequest

_PLACE = re.compile(r"@@\{([^{}\n]*)\}")
_NAME = re.compile(r"\s*[^\W\d]\w*(?:\.[^\W\d]\w*)*\s*")


def fill(text: str, names: Mapping[str, Any]) -> str:
    """The text with every ``@@{name}`` or ``@@{name.attribute}`` replaced by ``str()`` of its value.

    Raises :class:`InvalidRequest` naming the variable that is missing, with the nearest one there is.
    """

    def value(found: re.Match[str]) -> str:
        inside = found.group(1)
        if not _NAME.fullmatch(inside):
            raise InvalidRequest(f"@@{{{inside}}} does not hold a variable's name.")
        name, *attributes = inside.strip().split(".")
        if name not in names:
            near = get_close_matches(name, [key for key in names if not key.startswith("_")], n=1)
            hint = f" Did you mean @@{{{near[0]}}}?" if near else ""
            raise InvalidRequest(f"@@{{{inside}}}: there is no variable {name}.{hint}")
        result = names[name]
        for attribute in attributes:
            try:
                result = getattr(result, attribute)
            except AttributeError:
                raise InvalidRequest(
                    f"@@{{{inside}}}: {name} has no attribute {attribute}; check the name."
                ) from None
            except Exception as error:  # noqa: BLE001  # a property of the reader's own object
                raise _no_text(inside, error) from None
        try:
            return str(result)
        except Exception as error:  # noqa: BLE001  # as above
            raise _no_text(inside, error) from None

    return _PLACE.sub(value, text)


def _no_text(inside: str, error: Exception) -> InvalidRequest:
    return InvalidRequest(
        f"@@{{{inside}}} gave no text: its own code raised {type(error).__name__}. Make the text first, and name that."
    )
