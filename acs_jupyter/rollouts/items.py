"""Prompts from wherever they are, one at a time, each with what is known about it.

Owns the kinds of sources: lists, generators, Series, DataFrames, JSON lines. It must not know requests or journals,
nor import pandas: a frame is recognised by what it can do.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import InvalidRequest
from ..notebook.options import nearest

ROW = "row"
"""The name under which the index of a frame is kept."""


_MISSING = frozenset({"NAType", "NaTType"})
"""The types of what pandas says for a missing value, beside NaN."""


class Item(NamedTuple):
    """A prompt (a text or a list of token ids) and its metadata as JSON."""

    prompt: str | list[int]
    meta: str


def items_of(source: Any, column: str | int = "prompt") -> Iterator[Item]:
    """The items of a source, in order. Raises :class:`InvalidRequest` naming the place of what cannot be used.

    Sources: an iterable of texts, lists of token ids, or mappings with the prompt under ``column``; a Series; a
    DataFrame (its other columns are kept, and its index as ``row``); the path of a JSON lines file.
    """
    if isinstance(source, (str, os.PathLike)):
        yield from _lines(source, column)
    elif hasattr(source, "iterrows") and hasattr(source, "columns"):
        yield from _frame(source, column)
    elif hasattr(source, "items") and hasattr(source, "to_list"):
        counted = _counted(source.index)
        for index, prompt in source.items():
            yield _item(prompt, {} if counted else {ROW: index}, f"Row {index!r}")
    elif isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise InvalidRequest(
            f"prompts: a list, a Series, a DataFrame, a JSON lines file or a generator is needed, "
            f"not {type(source).__name__}."
        )
    else:
        for number, given in enumerate(source):
            yield _one(given, column, f"Item {number}")


def _one(given: Any, column: str | int, where: str) -> Item:
    if not isinstance(given, Mapping):
        return _item(given, {}, where)
    if column not in given:
        raise InvalidRequest(f"{where} has no '{column}': name the key that holds the prompt with column=.")
    _once([str(key) for key in given], where)
    return _item(given[column], {k: v for k, v in given.items() if k != column}, where)


def _frame(frame: Any, column: str | int) -> Iterator[Item]:
    names = [str(name) for name in frame.columns]
    column = str(column)  # a frame made of lists has numbers for names
    if column not in names:
        raise InvalidRequest(
            f"The frame has no column '{column}'.{nearest(column, names)} Name it with column=; "
            f"there are: {', '.join(names[:12])}."
        )
    place, counted = names.index(column), _counted(frame.index)
    _once([*names, *([] if counted else [ROW])], "The frame")
    for index, row in zip(frame.index, frame.itertuples(index=False, name=None), strict=True):
        meta = {name: value for i, (name, value) in enumerate(zip(names, row, strict=True)) if i != place}
        yield _item(row[place], meta if counted else {ROW: index, **meta}, f"Row {index!r}")


def _once(names: list[str], where: str) -> None:
    """Refuse two columns of one name: only one of them could be kept."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is None:
        return
    if twice == ROW and where == "The frame" and names.count(ROW) == 2 and names[-1] == ROW:
        raise InvalidRequest(
            "The frame has a column 'row', and an index, which is kept under that name: rename the column, or give the"
            " frame .reset_index(drop=True)."
        )
    raise InvalidRequest(f"{where} has '{twice}' more than once: give each a name of its own.")


def _counted(index: Any) -> bool:
    """Whether an index only counts from 0, as an item's place does."""
    return (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1)


def _lines(source: str | os.PathLike[str], column: str | int) -> Iterator[Item]:
    path = Path(source)
    if isinstance(source, str) and not source.endswith(".jsonl"):
        raise InvalidRequest("prompts is one text: put it into a list, [prompt], or name a .jsonl file.")
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}.") from None
    with file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path.name}, line {number},"
            try:
                given = json.loads(line)
            except (ValueError, RecursionError):
                raise InvalidRequest(f"{where} is not JSON in UTF-8; correct that line.") from None
            yield _one(given, column, where)


def _item(prompt: Any, meta: dict[str, Any], where: str) -> Item:
    if type(prompt) is str and not meta:
        return Item(prompt, "{}")
    if hasattr(prompt, "tolist"):
        prompt = prompt.tolist()
    if isinstance(prompt, tuple):
        prompt = list(prompt)
    ids = isinstance(prompt, list) and bool(prompt) and all(type(i) is int and i >= 0 for i in prompt)
    if not (isinstance(prompt, str) or ids):
        kind = "empty" if prompt == [] else f"{type(prompt).__name__} {_short(prompt)}"
        raise InvalidRequest(f"{where} is no prompt ({kind}): a text or a list of token ids is needed.")
    try:
        return Item(prompt, msgspec.json.encode(_numbered(meta), enc_hook=_plain).decode())
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise InvalidRequest(
            f"{where} has metadata without a JSON form: {error}. Leave that column out, or make it text."
        ) from None


def _numbered(value: Any) -> Any:
    """The same with infinities as JSON can say them. What is missing (NaN, NA, NaT) is null, as in a frame."""
    if isinstance(value, float) and math.isinf(value):
        return msgspec.Raw(b"9e999" if value > 0 else b"-9e999")
    if type(value) is dict:
        return {name: _numbered(inner) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return [_numbered(inner) for inner in value]
    return None if type(value).__name__ in _MISSING else value


def _plain(value: Any) -> Any:
    if (
        getattr(value, "dtype", None) is not None
        and type(value).__name__ == "datetime64"
        and str(value) == "NaT"
    ):
        return None
    for name in ("tolist", "item", "isoformat"):  # an array of one number is a list all the same
        if hasattr(value, name):
            return _numbered(getattr(value, name)())
    return str(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
