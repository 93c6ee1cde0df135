"""The database of basemode-loom, read only: its rows are the nodes that its JSON lists.

Owns the opening of a stranger's SQLite file, the two tables and their columns. It must not know what a node becomes
(``basemode.py`` reads it). Nothing is written, also no file beside it. The file is not trusted: views and virtual
tables are not read, its schema calls no functions, and a query that does not come to an end is given up.

Version 5 (``PRAGMA user_version``): ``trees`` and ``nodes``; others are read when they have the columns that are
needed.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...errors import InvalidRequest
from . import basemode
from . import values as v
from .draft import Draft

MAGIC = b"SQLite format 3\x00"
VERSION = 5
_NEEDED = ("id", "parent_id", "text")
_NODE = (
    *_NEEDED, "tree_id", "kind", "context_id", "model", "strategy", "max_tokens", "temperature", "checked_out",
    "created_at", "metadata_json",
)  # fmt: skip
_TREE = ("id", "name", "current_node_id", "archived")
_STEPS, _MOST_STEPS = 100_000, 10_000
"""Instructions of SQLite between two looks at how many there were, and how often it is looked."""


def read(path: Path, *, tree: str | None = None) -> Draft:
    """The trees in a file, or the one of that id or name. Raises ``InvalidRequest`` with one line."""
    try:
        with _opened(path) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            nodes = _rows(db, "nodes", _NODE, _NEEDED)
            trees = _rows(db, "trees", _TREE, ("id",))
    except sqlite3.Error as error:
        words = " ".join(str(error).split())[:120]
        raise InvalidRequest(f"{path} is no database of basemode-loom that can be read ({words}).") from None
    if tree is not None:
        trees = [one for one in trees if tree in (one.get("id"), one.get("name"))]
        if len(trees) != 1:
            raise InvalidRequest(f"The file has {len(trees)} trees of the id or name {tree[:40]!r}.")
        nodes = [node for node in nodes if node.get("tree_id") == trees[0]["id"]]
    draft = basemode.read({"nodes": [_node(node) for node in nodes]})
    if version != VERSION:
        draft.notes.append(
            f"The file is of version {version}; version {VERSION} is known, and was read for it."
        )
    _whole(draft, trees)
    return draft


def _node(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the JSON has it."""
    about = row.pop("metadata_json", None)
    row["metadata"] = {}
    if isinstance(about, str):
        with contextlib.suppress(ValueError, InvalidRequest):
            row["metadata"] = v.maybe_table(v.parsed(about.encode()))
    row["checked_out"] = row.get("checked_out") == 1
    return row


def _whole(draft: Draft, trees: list[dict[str, Any]]) -> None:
    names = [one["name"] for one in trees if isinstance(one.get("name"), str)]
    if len(trees) == 1:
        draft.title = names[0] if names else None
        current = trees[0].get("current_node_id")
        draft.current = current if isinstance(current, str) else None
    elif trees:
        draft.notes.append(f"{len(trees)} trees were read as roots of one loom; tree= reads one of them.")
    kept = [{name: one.get(name) for name in _TREE if one.get(name) is not None} for one in trees]
    if kept:
        scrubbed = v.scrubbed(kept, draft.notes)
        draft.meta["basemode"] = {**draft.extra(None, "basemode"), "trees": scrubbed}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    # While its program has it open, what was not moved into the file yet is beside it, and is read with it. Else
    # nothing changes the file, and SQLite need not lock it nor make files of its own.
    beside = path.with_name(f"{path.name}-wal")
    busy = beside.exists() and beside.stat().st_size > 0
    where = f"file:{quote(str(path.resolve()))}?mode=ro{'' if busy else '&immutable=1'}"
    db = sqlite3.connect(where, uri=True, timeout=5)
    looks = 0

    def enough() -> bool:
        nonlocal looks
        looks += 1
        return looks > _MOST_STEPS

    try:
        db.set_progress_handler(enough, _STEPS)
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, v.MOST_BYTES)
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA query_only = ON")
        yield db
    finally:
        db.close()


def _rows(
    db: sqlite3.Connection, table: str, columns: tuple[str, ...], needed: tuple[str, ...]
) -> list[dict[str, Any]]:
    found = db.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if found is None or found[0] != "table" or "virtual" in str(found[1]).lower().split():
        raise InvalidRequest(f"The database has no table {table}; give a database of basemode-loom.")
    there = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    lacking = [name for name in needed if name not in there]
    if lacking:
        raise InvalidRequest(
            f"The table {table} has no column {', '.join(lacking)}; give a database of basemode-loom."
        )
    names = [name for name in columns if name in there]
    query = f"SELECT {', '.join(names)} FROM {table}"  # names are ours
    return [dict(zip(names, row, strict=True)) for row in db.execute(query)]
