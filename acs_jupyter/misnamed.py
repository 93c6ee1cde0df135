"""Names that a class does not have, told in one line with the right way.

Owns the sentence. It must not know which classes speak so.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from .errors import InvalidRequest


class NoSuchName(InvalidRequest, AttributeError):
    """An attribute that is not there; for Python an ``AttributeError`` as any."""


class Named:
    """Says of a name that it does not have what to use instead (``INSTEAD``), or which one is near."""

    INSTEAD: ClassVar[dict[str, str]] = {}

    if not TYPE_CHECKING:  # a type checker goes on to refuse such names by itself

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name.startswith("_") or hasattr(kind, name):
                return object.__getattribute__(self, name)  # raises what any object would
            public = [one for one in dir(kind) if one.islower() and not one.startswith("_")]
            hint = self.INSTEAD.get(name) or nearest(name, public)
            raise NoSuchName(f"{kind.__name__} has no '{name}'.", advice=hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the nearest of the known names, one that begins so first; or ``""``."""
    known = list(known)
    begun = sorted((one for one in known if len(name) > 1 and one.startswith(name)), key=len)
    near = begun or get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else ""
