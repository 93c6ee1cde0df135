"""``%acs recover``: the texts that killed kernels left, shown in a notebook and kept there.

Owns which of them are shown where, and the words. It must not know how they were kept (``unsaved.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..completion import Completion
from ..errors import InvalidRequest
from ..ledger.place import SESSION, notebook
from ..notebook.display import show_copy
from .record import load
from .unsaved import Left, left

WAYS = ("", "all", "forget", "forget all")
UNKNOWN = "an unknown notebook"


def hint() -> str:
    """One line when a killed kernel left something of this notebook, else ``""``.

    Where it is not known which notebook this is, what is of an unknown one counts, and is called so.
    """
    count = len(_here(_waiting()))
    if not count:
        return ""
    whose = "a kernel that ended early" if notebook() else f"{UNKNOWN}, whose kernel ended early,"
    return f"note: {_texts(count)} of {whose} {_is(count)} kept: %acs recover puts {_it(count)} here."


def command(shell: Any, rest: str, keep: Callable[[Completion], None]) -> None:
    """Show what was left of this notebook (``all``: of any), and remove its files; ``forget`` removes them unseen."""
    rest = " ".join(rest.split())
    if rest not in WAYS:
        raise InvalidRequest(f"%acs recover takes nothing, all, forget or forget all; not {rest}.")
    found = _waiting()
    mine = found if rest.endswith("all") else _here(found)
    others = [one for one in found if one not in mine]
    if rest.startswith("forget"):
        _remove(mine)
    else:
        for one in mine:
            _show(shell, one, keep)
    if others:
        it = _it(len(others))
        how = f"forget all removes {it}" if rest else f"all shows {it} here"
        print(f"{_texts(len(others))} of {', '.join(_names(others))}: %acs recover {how}.")
    elif not mine and not rest.startswith("forget"):
        print("Nothing was left behind: every text that came is in its notebook.")


def _remove(found: list[Left]) -> None:
    for one in found:
        one.forget()
    print(f"Removed: {_texts(len(found))}." if found else "There is nothing to remove.")


def _show(shell: Any, one: Left, keep: Callable[[Completion], None]) -> None:
    place = " ".join(filter(None, (_name(one), one.about.get("cell"))))
    try:
        completion = one.completion()
        print(f"from {place}:")
        show_copy(shell, completion)
    except Exception as error:  # noqa: BLE001 - a file can hold anything, and the ones after it are waited for
        why = (error.strerror if isinstance(error, OSError) else None) or "it is damaged"
        print(f"{one.path} cannot be shown: {why}. It is left where it is.")
        return
    keep(completion)
    one.forget()


def _waiting() -> list[Left]:
    """What was left and is not in its notebook's file; what is there is removed: no page had said that it arrived."""
    books: dict[str, dict[str, Completion]] = {}
    waiting = []
    for one in left():
        path = one.about.get("path", "")
        if path not in books:
            books[path] = _saved(Path(path))
        if _is_in(one, books[path]):
            one.forget()
        else:
            waiting.append(one)
    return waiting


def _saved(path: Path) -> dict[str, Completion]:
    try:
        return {one.run: one for one in load(path)} if path.is_file() else {}
    except (ValueError, OSError):
        return {}


def _is_in(one: Left, kept: dict[str, Completion]) -> bool:
    if not kept:
        return False
    try:
        left_behind = one.completion()
    except Exception:  # noqa: BLE001 - a file can hold anything; whoever shows it says so
        return False
    saved = kept.get(left_behind.run)
    return saved is not None and all(
        node in saved.session.nodes and saved.session.nodes[node].text.startswith(state.text)
        for node, state in left_behind.session.nodes.items()
        if state.choice is not None
    )


def _here(found: list[Left]) -> list[Left]:
    """Those of this notebook: of its file as far as both files are known, else of its name."""
    path = os.environ.get(SESSION, "")
    return [
        one
        for one in found
        if one.about.get("notebook", "") == notebook() and one.about.get("path", "") in ("", path)
    ]


def _names(found: list[Left]) -> list[str]:
    """The notebooks they are of; where several are called alike, or like this one, with their places."""
    places = {(_name(one), one.about.get("path", "")) for one in found}
    names = [name for name, _ in places] + [notebook()]
    return sorted({path if path and names.count(name) > 1 else name for name, path in places})


def _name(one: Left) -> str:
    return one.about.get("notebook") or UNKNOWN


def _texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count} texts"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _it(count: int) -> str:
    return "it" if count == 1 else "them"
