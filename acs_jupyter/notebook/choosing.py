"""``%acs set`` and ``%acs settings``: settings changed, and shown with where each came from.

Owns the words. It must not know which place wins (`defaults.py`), nor show a key.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ..errors import AcsError, InvalidRequest
from .defaults import DEFAULT, ORDER, OTHERS, names
from .options import SHORT, nearest, split

if TYPE_CHECKING:
    from .defaults import Defaults
    from .root import Notebook


def set_one(settings: Defaults, rest: str) -> None:
    """``NAME VALUE``; ``NAME`` shows it, nothing shows all. Raises :class:`InvalidRequest`."""
    name, _, text = rest.partition(" ")
    if not name:
        print("\n".join(f"{key} = {_told(value)}" for key, value in sorted(settings.fields().items())))
        return
    name = name.replace("-", "_").lstrip("_")
    name = {short[1:]: long for long, short in SHORT.items()}.get(name, name)
    if name not in names():
        known = nearest(name, names()) or f" There are: {', '.join(names())}."
        raise InvalidRequest(f"'{name}' is not a setting.{known}")
    if text.strip():
        settings.set(name, " ".join(split(text)))
    value = settings[name]
    print(f"{name} is not sent" if value is None and name not in OTHERS else f"{name} = {_told(value)}")


def page(notebook: Notebook) -> str:
    """Every setting that has a value, with where it came from; then those that have none, and the order."""
    rows = [*_server(notebook)]
    silent = []
    for name in names():
        try:
            value, source = notebook.settings.look(name)
        except AcsError as problem:
            rows.append((name, "not understood", f"{problem.message} {problem.hint}"))
            continue
        if value is None and source == DEFAULT:
            silent.append(name)
        else:
            rows.append((name, "not sent" if value is None else _told(value), source))
    rows += _files()
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    lines = [f"{name.ljust(widths[0])}  {value.ljust(widths[1])}  {source}" for name, value, source in rows]
    return "\n".join([*lines, "", f"Not set: {', '.join(silent)}.", ORDER])


def _server(notebook: Notebook) -> list[tuple[str, str, str]]:
    base, key = notebook.where()
    own = "%acs local" if notebook.is_local else "code"
    shown = f"{key.prefix}-…" if key.prefix else "set"
    return [
        ("server", base or "none", _from(notebook.base_url, "ACS_API_BASE", own)),
        ("key", shown if key else "none", _from(notebook.api_key, "ACS_API_KEY", own)),
    ]


def _from(given: Any, variable: str, own: str) -> str:
    if given:
        return own
    return f"environment ({variable})" if os.environ.get(variable) else f"not set ({variable})"


def _files() -> list[tuple[str, str, str]]:
    from ..doctor.kept import kept  # noqa: PLC0415  # only when all is shown

    return [
        (
            one.name,
            "off" if one.path is None else str(one.path),
            _from(None, one.variable, "").replace("not set", "default"),
        )
        for one in kept()
        if one.variable in ("ACS_LEDGER", "ACS_JOURNAL", "ACS_UNSAVED")
    ]


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return json.dumps(value)
