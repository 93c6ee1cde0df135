"""A key that does not show itself.

Owns the one place where a key's characters are kept. ``repr()`` and ``str()`` of a secret are a placeholder; what shows
it is :meth:`Secret.reveal`, called where a header is written. It must not know what the key is for.
"""

from __future__ import annotations

import re

HIDDEN = "[key]"
_PREFIX = re.compile(r"acs-bm-[0-9A-Za-z]{8}(?=.{16})")
FRAGMENT = 8
"""So many characters of a key in a row are taken for a piece of it."""


class Secret:
    """Some characters that must not stand in a notebook, a traceback, a log or a message."""

    __slots__ = ("_fragments", "_runs", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        self._fragments = frozenset(value[i : i + FRAGMENT] for i in range(len(value) - FRAGMENT + 1))
        # A fragment stands in a run of characters that all are the key's own, of which most texts have few.
        own = "".join(map(re.escape, sorted(set(value))))
        self._runs = re.compile(f"[{own}]{{{FRAGMENT},}}") if self._fragments else None

    def reveal(self) -> str:
        """The characters."""
        return self._value

    @property
    def prefix(self) -> str:
        """The public part, ``acs-bm-`` and eight characters, or ``""``: a key that somebody chose has none."""
        found = _PREFIX.match(self._value)
        return found.group() if found else ""

    def redact(self, text: str) -> str:
        """The text without the characters."""
        return text.replace(self._value, HIDDEN) if self._value else text

    def censor(self, text: str) -> str:
        """The text without the characters, nor any :data:`FRAGMENT` of them in a row: somebody may have cut them."""
        if len(text) < FRAGMENT and self._runs is not None:
            return text
        text = self.redact(text)
        return text if self._runs is None else self._runs.sub(self._without_fragments, text)

    def _without_fragments(self, run: re.Match[str]) -> str:
        text, parts = run.group(), self._fragments
        kept: list[str] = []
        place = done = 0
        while place <= len(text) - FRAGMENT:
            if text[place : place + FRAGMENT] not in parts:
                place += 1
                continue
            kept += (text[done:place], HIDDEN)
            place += FRAGMENT
            while text[place - FRAGMENT + 1 : place + 1] in parts:
                place += 1
            done = place
        return "".join([*kept, text[done:]])

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)
