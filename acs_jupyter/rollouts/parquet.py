"""Rows to a Parquet file, some thousand at a time.

Owns the types of the columns. Needs pyarrow, which is an extra. It must not know journals.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import InvalidRequest

_ROWS = 5000
_TYPES = {
    "item": "int64", "number": "int64", "choice": "int64", "index": "int64", "attempts": "int64", "rank": "int64",
    "prompt_tokens": "int64", "completion_tokens": "int64", "seed": "int64", "logprob": "float64",
    "probability": "float64", "surprisal": "float64", "other": "float64", "seconds": "float64", "cached": "bool",
    "top": "map",
}  # fmt: skip


def write_parquet(
    rows: Iterable[dict[str, Any]], columns: list[str], known: dict[str, str], path: Path
) -> None:
    """Write rows to ``path``, whole or not at all. ``known``: types of columns that are not ours, by name.

    Raises :class:`InvalidRequest` in one line when pyarrow is not there or the file cannot be written.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InvalidRequest(
            "Parquet needs pyarrow, which is not installed: pip install pyarrow (in a cell: %pip install pyarrow)."
        ) from None
    kinds = {name: _TYPES.get(name) or known.get(name, "string") for name in columns}
    schema = pa.schema([(name, _arrow(pa, kind)) for name, kind in kinds.items()])
    part = path.with_name(path.name + ".part")
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for page in _pages(rows):
                arrays = [[_cell(row.get(name), kinds[name]) for row in page] for name in columns]
                writer.write_table(pa.table(dict(zip(columns, arrays, strict=True)), schema=schema))
        os.replace(part, path)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)  # pyarrow's own words name the .part
        raise InvalidRequest(f"{path} cannot be written: {why}. Name another place.") from None
    finally:
        with contextlib.suppress(OSError):  # the place that cannot be written
            part.unlink(missing_ok=True)


def kind_of(values: Iterable[Any]) -> str:
    """The type that holds all values: ``int64``, ``float64``, ``bool`` or ``string``."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64"
    return "float64" if kinds and kinds <= {int, float} else "string"


def _arrow(pa: Any, kind: str) -> Any:
    if kind == "map":
        return pa.map_(pa.string(), pa.float64())
    return {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}[kind]


def _cell(value: Any, kind: str) -> Any:
    if kind == "map":
        return None if value is None else list(value.items())
    if kind == "string" and value is not None and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return float(value) if kind == "float64" and value is not None else value


def _pages(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    source = iter(rows)
    while page := list(itertools.islice(source, _ROWS)):
        yield page
