"""The request as a form: its fields in the order of their use, with kind, bounds and help.

Owns which fields a form shows. Bounds come from ``wire.CompletionRequest``, help and reading from ``options``: one
vocabulary for cells, forms and the wire. It must not know widgets.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ..errors import InvalidRequest
from ..wire import CompletionRequest
from .options import HELP, parse_value

SHOWN = (
    "model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "n", "seed", "stop", "logprobs",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "add_special_tokens",
)  # fmt: skip
"""What a form asks for. Scoring and echo have no place where a text is written on."""

MANY = "\n"
"""Between the stop strings of one field, one a line; a newline inside one is written ``\\n``."""


@cache
def fields() -> tuple[dict[str, Any], ...]:
    """Each field as plain values: ``name, kind, help`` and, as text, ``low, high, above``.

    ``kind`` is ``integer``, ``number``, ``boolean``, ``text`` or ``texts``. ``low`` and ``high`` belong to the values
    allowed, ``above`` does not. Text, because a browser's numbers end at 2^53.
    """
    import msgspec  # noqa: PLC0415  # the schema is made when a form is

    schema = msgspec.json.schema(CompletionRequest)["$defs"]["CompletionRequest"]["properties"]
    return tuple(_field(name, _typed(schema[name])) for name in SHOWN)


def read(given: dict[str, str]) -> dict[str, Any]:
    """Values of a filled form; an empty field is not sent. Raises :class:`InvalidRequest` naming the field."""
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in SHOWN:
            raise InvalidRequest(f"'{name}' is not a field of the form; use one it shows.")
        if name == "stop":
            values[name] = [parse_value(name, line) for line in text.split(MANY) if line]
        elif text.strip():
            values[name] = parse_value(name, text.strip())
    if not values.get("stop"):
        values.pop("stop", None)
    return values


def written(values: dict[str, Any]) -> dict[str, str]:
    """The other way: a request's fields as a form shows them."""
    return {name: _text(name, values[name]) for name in SHOWN if values.get(name) is not None}


def field_of(message: str) -> str | None:
    """The field that a refusal names first, if it is one of the form's."""
    head = message.partition("=")[0].partition(" ")[0].partition("[")[0].strip("'")
    return head if head in (*SHOWN, "prompt") else None


def _text(name: str, value: Any) -> str:
    if name == "stop":
        return MANY.join(map(_escaped, [value] if isinstance(value, str) else value))
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(text: str) -> str:
    for plain, name in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(plain, name)
    return text


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"
    ]
    return kinds[-1]


def _field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    kind = {"string": "text", "array": "texts"}.get(schema["type"], schema["type"])
    bounds = {"low": "minimum", "high": "maximum", "above": "exclusiveMinimum"}
    found = {key: json.dumps(schema[word]) for key, word in bounds.items() if word in schema}
    return {"name": name, "kind": kind, "help": HELP[name], **found}
