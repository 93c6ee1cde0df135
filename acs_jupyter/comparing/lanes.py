"""Lanes of a comparison as they are given: a model's name or request fields each, or the axes of a grid.

Owns their letters and names, and the checks that need no request. It must not know sessions or runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from string import ascii_uppercase
from typing import Any

import msgspec

from ..errors import InvalidRequest

MOST_LANES = 6
MOST_IN_A_GRID = 16
"""Requests that a key may have active at once on the service."""


@dataclass(frozen=True)
class Lane:
    """``prompt`` is its own, or ``None`` for the shared one; ``fields`` are the request's; ``named``: somebody gave it
    its name; ``client``: what speaks to its own server, ``server`` its address."""

    letter: str
    name: str
    prompt: str | None
    fields: dict[str, Any]
    named: bool = False
    client: Any = field(default=None, compare=False)
    server: str | None = None


def grid(
    prompts: str | Sequence[str],
    models: Iterable[str] | None = None,
    temperatures: Iterable[float] | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """The lanes of a grid, models first, then temperatures, then prompts; and the prompt they share, if they do."""
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    axes: list[list[dict[str, Any]]] = [
        [{"model": model} for model in ([models] if isinstance(models, str) else models or ())] or [{}],
        [{"temperature": value} for value in temperatures or ()] or [{}],
        [{"prompt": text} for text in texts] if len(texts) > 1 else [{}],
    ]
    lanes = [{**model, **temperature, **prompt} for model, temperature, prompt in product(*axes)]
    if not texts or len(lanes) > MOST_IN_A_GRID:
        raise InvalidRequest(
            f"The grid has {len(lanes) if texts else 0} lanes; it may have from 1 to {MOST_IN_A_GRID}. "
            "rollout() takes thousands of requests."
        )
    return (texts[0] if len(texts) == 1 else ""), lanes


def read_lanes(given: Sequence[str | Mapping[str, Any]], most: int) -> list[Lane]:
    """Lanes as they were given, with letters and names; a name tells what a lane has that others have not."""
    if isinstance(given, (str, Mapping)) or not 1 <= len(given) <= most:
        count = 1 if isinstance(given, (str, Mapping)) else len(given)
        raise InvalidRequest(
            f"lanes has {count}; give a list of 1 to {most}, each a model or a mapping of fields."
        )
    tables: list[dict[str, Any]] = []
    for number, lane in enumerate(given):
        if not isinstance(lane, (str, Mapping)) or not all(isinstance(name, str) for name in lane):
            raise InvalidRequest(f"lanes[{number}] must be a model's name or a mapping of request fields.")
        tables.append({"model": lane} if isinstance(lane, str) else dict(lane))
    named = [table.pop("name", None) for table in tables]
    own = [table.pop("prompt", None) for table in tables]
    clients = [table.pop("client", None) for table in tables]
    words = different(tables, own)
    return [
        Lane(
            letter, str(name or told), None if prompt is None else checked(prompt), table, bool(name), client,
            server_of(client),
        )
        for letter, name, told, prompt, table, client in zip(
            ascii_uppercase, named, words, own, tables, clients, strict=False
        )
    ]  # fmt: skip


def server_of(client: Any) -> str | None:
    """The address that a client speaks to; ``None`` without one."""
    if client is None:
        return None
    base = getattr(client, "base_url", None)
    if not isinstance(base, str) or not hasattr(client, "same"):
        raise InvalidRequest("client must be a Client or an AsyncClient.")
    return base


def with_clients(lanes: Sequence[Lane], clients: Mapping[str, Any]) -> list[Lane]:
    """The lanes, each with the client that stands under its letter."""
    unknown = sorted(set(clients) - {lane.letter for lane in lanes})
    if unknown:
        raise InvalidRequest(
            f"clients has {unknown[0]!r}; the lanes are {', '.join(one.letter for one in lanes)}: name one of them."
        )
    return [
        replace(lane, client=clients[lane.letter], server=server_of(clients[lane.letter]))
        if lane.letter in clients
        else lane
        for lane in lanes
    ]


def different(tables: Sequence[Mapping[str, Any]], prompts: Sequence[Any]) -> list[str]:
    """For each lane its settings that not all lanes have alike, in words."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    varied = [name for name in names if len({repr(table.get(name)) for table in tables}) > 1]
    texts = list(dict.fromkeys(repr(prompt) for prompt in prompts if prompt is not None))
    words = []
    for table, prompt in zip(tables, prompts, strict=True):
        told = [setting(name, table[name]) for name in varied if name in table]
        if prompt is not None and len(tables) > 1:
            told.append(f"prompt {texts.index(repr(prompt)) + 1}" if len(texts) > 1 else "its own prompt")
        words.append(" · ".join(told) or "as given")
    return words


def setting(name: str, value: Any) -> str:
    """A field in words; a model speaks for itself."""
    return str(value) if name == "model" else f"{name} {value}"


def checked(prompt: Any) -> str:
    """A text that can be shown and sent, as it is."""
    if not isinstance(prompt, str):
        raise InvalidRequest(f"prompt={prompt!r:.60} must be a text; rollout() takes lists and token ids.")
    with suppress(UnicodeEncodeError):
        prompt.encode()
        return prompt
    raise InvalidRequest(
        "The prompt has a lone surrogate, which is no character and cannot be sent: take it out."
    )


def as_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as a log can hold them; what it cannot is told by its ``repr``."""
    found = {}
    for name, value in fields.items():
        try:
            found[name] = msgspec.json.decode(msgspec.json.encode(value))
        except (TypeError, ValueError, OverflowError):
            found[name] = f"{value!r:.60}"
    return found
