"""What a cell does that says nothing: each setting from five places, the later one over the earlier.

    default < IPython config (``c.AcsMagics.NAME``) < environment (``ACS_NAME``) < ``%acs set`` < the cell's own option

Owns that order, the names, and where a value came from. It must not know IPython, nor a server's address or key: those
are of the environment and of code alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import settings
from ..checks import build_request
from ..errors import AcsError, InvalidRequest
from .options import parse_switch, parse_value, setting_names

CELL_DEFAULTS: dict[str, Any] = {"max_tokens": 128, "logprobs": 5}
"""What a cell asks for unless told otherwise: a short text, with alternatives for the tooltips."""
OTHERS: dict[str, Any] = {
    "notes": True,
    "timeout": settings.READ_TIMEOUT,
    "retries": settings.RETRIES,
    "longest_wait": None,
    "view": "live",
}
"""Settings of cells that are no field of the request."""
VIEWS = ("live", "text")
"""How a cell is shown: live, or text as it comes, for front ends without widgets."""
DEFAULT, CONFIG, ENVIRONMENT, CHOSEN = "default", "IPython config", "environment", "%acs set"
ORDER = (
    "A cell's own option goes over %acs set, that over the environment (ACS_NAME), that over IPython's configuration "
    "(c.AcsMagics.NAME), that over the default."
)


class Defaults:
    """The settings of one kernel. ``config``: what the traits hold; ``chosen``: what ``%acs set`` was told."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.config: dict[str, Any] = {}
        self.chosen: dict[str, Any] = {}
        self._environment = os.environ if environment is None else environment

    def look(self, name: str) -> tuple[Any, str]:
        """A setting's value and where it came from; ``None`` is "not sent". Raises :class:`InvalidRequest`."""
        if name in self.chosen:
            return self.chosen[name], CHOSEN
        variable = variable_of(name)
        if text := self._environment.get(variable, "").strip():
            return self._read(name, text, variable), f"{ENVIRONMENT} ({variable})"
        if name in self.config:
            return _checked(name, self.config[name], f"c.AcsMagics.{name}"), f"{CONFIG} (c.AcsMagics.{name})"
        return {**CELL_DEFAULTS, **OTHERS}.get(name), DEFAULT

    def __getitem__(self, name: str) -> Any:
        return self.look(name)[0]

    def fields(self, **instead: Any) -> dict[str, Any]:
        """The request's fields that cells send by themselves. Raises :class:`InvalidRequest`."""
        found = {name: instead[name] if name in instead else self[name] for name in setting_names()}
        return {name: value for name, value in found.items() if value is not None}

    def set(self, name: str, text: str) -> None:
        """``none``: not sent; ``default``: as without ``%acs set``; else a value. Raises :class:`InvalidRequest`."""
        if text.lower() == "default":
            self.chosen.pop(name, None)
        elif text.lower() == "none":
            if OTHERS.get(name) is not None:
                raise InvalidRequest(f"{name} needs a value; `%acs set {name} default` puts it back.")
            self.chosen[name] = None
        else:
            value = read(name, text)
            if name not in OTHERS:
                build_request({**self.fields(**{name: value}), "prompt": "x"})
            self.chosen[name] = value

    def _read(self, name: str, text: str, where: str) -> Any:
        if text.lower() == "none" and OTHERS.get(name) is None:
            return None
        try:
            return _checked(name, read(name, text), where)
        except InvalidRequest as problem:
            if problem.message.startswith(where):
                raise
            raise InvalidRequest(
                f"{where}: {problem.message}", advice="Correct it, or take it away."
            ) from None


def names() -> list[str]:
    """Everything that ``%acs set`` takes."""
    return sorted([*setting_names(), *OTHERS])


def variable_of(name: str) -> str:
    """The environment's name of a setting."""
    return f"ACS_{name.upper()}"


def read(name: str, text: str) -> Any:
    """A setting's value from text. Raises :class:`InvalidRequest`."""
    if name == "notes":
        return parse_switch(name, text)
    if name == "view":
        return _view(text)
    if name in OTHERS:
        try:
            return settings.number_of(name, text)
        except AcsError as problem:
            raise InvalidRequest(problem.message) from None
    return parse_value(name, text)


def _view(value: object) -> str:
    if value not in VIEWS:
        raise InvalidRequest(f"view={value!r}: live or text (for front ends without widgets) is needed.")
    return str(value)


def _checked(name: str, value: Any, where: str) -> Any:
    """The value; one that no request could carry is told with the place that it stands in."""
    try:
        if name not in OTHERS:
            build_request({"prompt": "x", "max_tokens": 1, name: value})
        elif name == "view":
            _view(value)
        elif name != "notes":
            settings.number_of(name, value)
    except AcsError as problem:
        if problem.message.startswith(f"{name}="):
            raise InvalidRequest(
                f"{where}: {problem.message}", advice="Correct it, or take it away."
            ) from None
    return value
