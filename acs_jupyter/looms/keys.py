"""Keys of a loom's window that are not as usual, looked at before anything is shown.

Owns which commands there are and what a key is called. It must not know windows. ``js/src/parts/loomkeys.ts`` has the
same commands with what each does, and a test keeps both equal.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from ..errors import InvalidRequest

USUAL: dict[str, tuple[str, ...]] = {
    "up": ("ArrowUp", "k"), "down": ("ArrowDown", "j"), "parent": ("ArrowLeft", "h"), "child": ("ArrowRight", "l"),
    "before": ("[",), "after": ("]",), "first": ("Home",), "last": ("End",), "page up": ("PageUp",),
    "page down": ("PageDown",), "text": ("Enter",), "unread": ("z",),
    **{f"grow {n}": (f"{n}",) for n in range(1, 10)},
    "grow": ("g",), "stop": (".",), "stop all": (">",), "edit": ("e",), "sibling": ("i",), "write": ("c",),
    "root": ("w",), "split": ("s",), "merge": ("m",), "delete": ("Delete",), "undo": ("u", "Ctrl+z"),
    "redo": ("r", "Ctrl+Shift+z"), "move up": ("K", "Shift+ArrowUp"), "move down": ("J", "Shift+ArrowDown"),
    "take": ("x",), "put": ("v",), "put root": ("V",), "fold": ("f",), "hoist": ("o",), "unhoist": ("O",),
    "bookmark": ("b",), "tag": ("t",), "note": ("n",), "rate up": ("+",), "rate down": ("-",),
    "mark unread": ("!",), "light": (" ",), "search": ("/",), "next found": ("}",), "previous found": ("{",),
    "trie": ("T",), "diff": ("D",), "map": ("M",), "graph": ("G",), "copy": ("y",), "store": ("S",), "help": ("?",),
}  # fmt: skip
GRAPH: dict[str, tuple[str, ...]] = {
    "graph up": ("ArrowUp", "k"), "graph down": ("ArrowDown", "j"), "zoom in": ("+", "="), "zoom out": ("-",),
    "zoom fit": ("0",),
}  # fmt: skip
"""Those that come first while the graph has the focus."""
_KEY = re.compile(r"(Ctrl\+)?(Shift\+)?(\S| |[A-Z][A-Za-z0-9]+)")
_NEVER = ("Tab", "Escape", "Shift", "Ctrl", "Control", "Meta", "Alt")


def checked_keys(keys: Any) -> dict[str, str]:
    """The keys as given. Raises :class:`InvalidRequest` for a command or a key that is none, or a key given twice."""
    if keys is None:
        return {}
    if not isinstance(keys, dict):
        raise InvalidRequest(f'keys={keys!r} must be command to key: keys={{"delete": "d"}}.')
    for name, text in keys.items():
        if name not in USUAL and name not in GRAPH:
            close = difflib.get_close_matches(str(name), [*USUAL, *GRAPH], 1)
            hint = f"did you mean {close[0]}?" if close else "? in the window lists them."
            raise InvalidRequest(f"{name!r} is no command of a loom; {hint}")
        if not isinstance(text, str):
            raise InvalidRequest(
                f'The key of {name} is {text!r}; it must be a text, as in {{"{name}": "d"}}.'
            )
        for key in read_keys(text):
            _check_key(name, key)
    for group in (USUAL, GRAPH):
        _check_apart({name: read_keys(keys[name]) for name in group if name in keys})
    return dict(keys)


def read_keys(text: str) -> list[str]:
    """The keys of one command: several have a blank between, the blank itself is ``Space`` or ``" "``."""
    return [" "] if text == " " else [" " if key == "Space" else key for key in text.split(" ") if key]


def _check_key(name: str, key: str) -> None:
    if re.match(r"(?i)(.*\+)?alt\+", key):
        raise InvalidRequest(
            f"{key} for {name} is with Alt, which belongs to the system; choose another key."
        )
    found = _KEY.fullmatch(key)
    if found is None or found[3] in _NEVER:
        raise InvalidRequest(
            f"{key!r} for {name} is no key; write one like d, D, Delete, ArrowUp, Ctrl+d or Space."
        )
    ctrl, shift, letter = found.groups()
    if len(letter) == 1 and (shift and not ctrl):
        raise InvalidRequest(f"{key} for {name}: with Shift a key is what it types; write {letter.upper()}.")
    if ctrl and len(letter) == 1 and letter != letter.lower():
        raise InvalidRequest(
            f"{key} for {name}: with Ctrl a letter is small; write Ctrl+Shift+{letter.lower()}."
        )


def _check_apart(given: dict[str, list[str]]) -> None:
    """No key may be given to two commands. A usual key of another command is taken from it: that is what was asked."""
    owner: dict[str, str] = {}
    for name, keys in given.items():
        for key in keys:
            if owner.setdefault(key, name) != name:
                shown = "Space" if key == " " else key
                raise InvalidRequest(
                    f"{shown} is given to {owner[key]} and to {name}; choose another for one."
                )
