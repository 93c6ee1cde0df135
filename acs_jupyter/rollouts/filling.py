"""The items of a plan and their requests, written into a journal, or compared with those that are there.

Owns which row a prompt becomes and how a changed plan is told. It must not know how a journal is opened or locked.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import InvalidRequest
from ..machine.transactions import transaction
from .items import Item
from .plan import Plan, content_key, differences, prompt_digest, variant_digest

_T = TypeVar("_T")
_PAGE = 500
"""Items written at a time: what bounds the memory."""


def fill(db: sqlite3.Connection, plan: Plan, items: Iterable[Item]) -> None:
    """Write the items of a plan and a row for each of its requests, within a transaction of the caller."""
    digests = [variant_digest(variant) for variant in plan.variants]
    models = [plan.models.index(variant.model) for variant in plan.variants]
    places = list(zip(digests, models, strict=True))
    for page in _paged(enumerate(items)):
        known = [(item, prompt, meta, _checked(plan, item, prompt)) for item, (prompt, meta) in page]
        twins = _twins(db, [digest for *_, digest in known])
        requests = []
        for item, _, _, digest in known:
            first, twin = item * len(places), twins[digest]
            twins[digest] += 1
            requests += [
                (first + v, content_key(d, digest, twin), model) for v, (d, model) in enumerate(places)
            ]
        rows = [(item, msgspec.json.encode(prompt), digest, meta) for item, prompt, meta, digest in known]
        db.executemany("INSERT INTO items VALUES (?,?,?,?)", rows)
        db.executemany("INSERT INTO requests (number, key, model) VALUES (?,?,?)", requests)


def _paged(items: Iterable[_T]) -> Iterator[list[_T]]:
    source = iter(items)
    while page := list(itertools.islice(source, _PAGE)):
        yield page


def _twins(db: sqlite3.Connection, digests: list[bytes]) -> Counter[bytes]:
    """How many items of each prompt are there already."""
    marks = ",".join("?" * len(digests))
    query = f"SELECT digest, count(*) FROM items WHERE digest IN ({marks}) GROUP BY digest"
    return Counter(dict(db.execute(query, digests).fetchall()))


def _checked(plan: Plan, item: int, prompt: Any) -> bytes:
    try:
        return prompt_digest(prompt)
    except UnicodeEncodeError:
        try:
            plan.variants[0].request(prompt)  # says it in the words for a request
        except InvalidRequest as error:
            raise InvalidRequest(f"Item {item}: {error.message}") from None
        raise


def compare(db: sqlite3.Connection, before: Plan, plan: Plan, items: Iterable[Item], path: Path) -> None:
    """Refuse a plan that is not the file's, with the difference; what is noted beside the prompts may have changed."""
    notes = compared(db, before, plan, items, path)
    with transaction(db):
        db.executemany("UPDATE items SET meta=? WHERE item=?", notes)


def compared(
    db: sqlite3.Connection, before: Plan, plan: Plan, items: Iterable[Item], path: Path
) -> list[tuple[str, int]]:
    """The same, and nothing is written: what is noted otherwise now, with its item."""
    changed = differences(before, plan)
    stored = db.execute("SELECT digest, meta FROM items ORDER BY item")
    count, other, first = 0, 0, None
    notes: list[tuple[str, int]] = []
    for item, (prompt, meta) in enumerate(items):
        count += 1
        row = stored.fetchone()
        if row is None:
            _checked(plan, item, prompt)
        elif row[0] != _checked(plan, item, prompt):
            other, first = other + 1, item if first is None else first
        elif row[1] != meta:
            notes.append((meta, item))
    (there,) = db.execute("SELECT count(*) FROM items").fetchone()
    if there != count:
        changed.append(f"prompts: {there} -> {count}")
    if other:
        changed.append(
            f"{other} {'prompts differ' if other > 1 else 'prompt differs'}, the first is item {first}"
        )
    if changed:
        raise InvalidRequest(
            f"{path} belongs to another plan ({'; '.join(changed)}). Nothing was sent. "
            "Name another file for this one, or put the plan back."
        )
    stored.close()
    return notes
