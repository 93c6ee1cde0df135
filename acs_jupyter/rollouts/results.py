"""A journal read back: rows, completions, frames, Parquet; at any time, also while a rollout writes.

Owns the columns and their units. Everything is read a page at a time, so memory stays flat unless a frame of all is
asked for. It must not know how the journal came to be written.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..errors import InvalidRequest
from .filling import compared
from .items import Item
from .journal import Counts, counts, failures, stored_plan
from .opening import check, connect_to_read
from .packed import Packed, RolloutCompletion, from_bytes, restore
from .parquet import kind_of
from .plan import Plan

if TYPE_CHECKING:
    import pandas as pd

_PAGE = 200
STATES = ("pending", "sent", "done", "failed")
OWN_COLUMNS = (
    "item", "prompt", "model", "choice", "state", "text", "finish_reason", "stop_reason", "logprob", "prompt_tokens",
    "completion_tokens", "cached", "error", "message", "seconds", "attempts", "request_id", "number",
)  # fmt: skip
TOKEN_COLUMNS = ("index", "token", "logprob", "probability", "surprisal", "rank", "other", "top")


_JSON_KINDS = {
    "integer": "int64", "real": "float64", "integer,real": "float64", "true": "bool", "false": "bool",
    "false,true": "bool",
}  # fmt: skip


class Entry(NamedTuple):
    """One request as the journal has it; ``result`` is ``None`` while there is none."""

    number: int
    item: int
    state: str
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    code: str | None
    cached: bool
    prompt: Any
    meta: dict[str, Any]
    result: Packed | None


class Results:
    """The reading side of a journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.absolute()  # whatever folder is changed to later
        with self._reading() as db:
            self.plan: Plan = stored_plan(db)

    def counts(self) -> Counts:
        """How it stands."""
        with self._reading() as db:
            return counts(db)

    def failures(self) -> dict[str, int]:
        """Failed requests by code."""
        with self._reading() as db:
            return failures(db)

    def judge(self, plan: Plan, items: Iterable[Item]) -> None:
        """Raise :class:`InvalidRequest` unless the journal is of this plan."""
        with self._reading() as db:
            compared(db, self.plan, plan, items, self.path)

    def entries(self, *, pending: bool = False, after: int = -1) -> Iterator[Entry]:
        """The requests in the plan's order, behind number ``after``: those that have ended, or all."""
        width = len(self.plan.variants)
        states = (0, 1, 2, 3) if pending else (2, 3)
        query = (
            "SELECT r.number, item, state, attempts, prompt_tokens, completion_tokens, code, cached, prompt, meta, data"
            " FROM requests r JOIN items ON item = r.number / ? LEFT JOIN results s ON s.number = r.number"
            f" WHERE r.number > ? AND state IN ({','.join(map(str, states))}) ORDER BY r.number LIMIT ?"
        )
        while True:
            with self._reading() as db:
                rows = db.execute(query, (width, after, _PAGE)).fetchall()
            for row in rows:
                yield _entry(row)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def completions(self) -> Iterator[RolloutCompletion]:
        """The completions of all requests that have ended, failed ones too, in the plan's order."""
        for entry in self.entries():
            if entry.result is not None:
                yield self._completion(entry, entry.result)

    def choice_rows(self, *, pending: bool = False) -> Iterator[dict[str, Any]]:
        """One row a choice."""
        shown = self._shown([name for name, _ in self._meta_types()])
        for entry in self.entries(pending=pending):
            yield from self._rows(entry, shown)

    def token_rows(self) -> Iterator[dict[str, Any]]:
        """One row a token, of requests that asked for log-probabilities."""
        shown = self._shown([name for name, _ in self._meta_types()])
        for entry in self.entries():
            if entry.result is None:
                continue
            own = self._own(entry, shown)
            for choice in self._completion(entry, entry.result).choices:
                for t in choice.tokens:
                    values = (t.index, t.text, t.logprob, t.probability, t.surprisal, t.rank, t.other, t.top)
                    row = {**own, "choice": choice.index, **dict(zip(TOKEN_COLUMNS, values, strict=True))}
                    yield {**row, "number": entry.number}

    def columns(self, *, tokens: bool = False) -> list[str]:
        """The names of a frame's columns, in order."""
        own = TOKEN_COLUMNS if tokens else OWN_COLUMNS[4:]
        asked = ["item"] if tokens else ["item", "prompt"]  # a row a token would hold it too often
        names = [*asked, *self._meta_names(), "model", *self._varied(), "choice", *own]
        return names if not tokens else [*names, "number"]

    def frame(self, *, tokens: bool = False, pending: bool = False) -> pd.DataFrame:
        """All rows as a pandas frame; see :meth:`Rollout.frame`."""
        import pandas as pd  # noqa: PLC0415  # loads only when a frame is asked for

        rows = self.token_rows() if tokens else self.choice_rows(pending=pending)
        frame = pd.DataFrame(list(rows), columns=self.columns(tokens=tokens))
        return frame.astype({"rank": "Int64"}) if tokens else frame

    def _completion(self, entry: Entry, result: Packed) -> RolloutCompletion:
        variant = self.plan.variants[entry.number % len(self.plan.variants)]
        session = restore(result, variant.request(entry.prompt))
        return RolloutCompletion(
            session,
            result.run,
            number=entry.number,
            item=entry.item,
            meta=entry.meta,
            varied=dict(variant.varied),
            cached=entry.cached,
        )

    def _own(self, entry: Entry, shown: dict[str, str]) -> dict[str, Any]:
        variant = self.plan.variants[entry.number % len(self.plan.variants)]
        meta = {shown.get(k, k): v for k, v in entry.meta.items()}
        return {"item": entry.item, **meta, "model": variant.model, **variant.varied}

    def _rows(self, entry: Entry, shown: dict[str, str]) -> Iterator[dict[str, Any]]:
        own, result = self._own(entry, shown), entry.result
        error = (result.error or {}) if result is not None and entry.state == "failed" else {}
        whole = {
            "prompt": entry.prompt,
            "state": entry.state,
            "cached": entry.cached,
            "error": entry.code,
            "message": error.get("message"),
            "seconds": _seconds(result),
            "attempts": entry.attempts,
            "request_id": result.request_id if result else None,
            "number": entry.number,
        }
        choices = result.choices if result is not None and entry.state in ("done", "failed") else []
        spent = {"prompt_tokens": entry.prompt_tokens, "completion_tokens": entry.completion_tokens}
        if not choices:
            yield {**own, "choice": 0, "text": "", **whole, **spent}
        for index, choice in enumerate(choices):
            known = [value for value in choice.logprobs if value is not None]
            yield {
                **own,
                "choice": index,
                "text": choice.text,
                "finish_reason": choice.finish_reason,
                "stop_reason": choice.stop_reason,
                "logprob": sum(known) if known else None,
                **whole,
                **spent,
            }
            spent = dict.fromkeys(
                spent, 0
            )  # a request's cost stands once, so that a column's sum is what was spent

    def _varied(self) -> list[str]:
        return list(dict.fromkeys(name for variant in self.plan.variants for name in variant.varied))

    def _taken(self) -> set[str]:
        return {*OWN_COLUMNS, *TOKEN_COLUMNS, *self._varied()}

    def kinds(self) -> dict[str, str]:
        """The types of the columns that are not ours, as Parquet names them."""
        varied = {name: kind_of(v.varied.get(name) for v in self.plan.variants) for name in self._varied()}
        return self._meta_kinds() | varied

    def _meta_names(self) -> list[str]:
        return list(self._meta_kinds())

    def _meta_kinds(self) -> dict[str, str]:
        found = self._meta_types()
        shown = self._shown([name for name, _ in found])
        return {shown[name]: _JSON_KINDS.get(_solid(types), "string") for name, types in found}

    def _meta_types(self) -> list[tuple[str, str]]:
        query = (
            "SELECT key, group_concat(DISTINCT type) FROM items, json_each(items.meta)"
            " GROUP BY key ORDER BY min(items.item), min(json_each.id)"
        )
        with self._reading() as db:
            return db.execute(query).fetchall()

    def _shown(self, names: list[str]) -> dict[str, str]:
        """Under which name each of the metadata stands: one that is taken gets ``meta_``, until it is free."""
        taken, shown = self._taken(), {}
        for name in names:
            free = name
            while free in taken or (free != name and free in names):
                free = f"meta_{free}"
            shown[name] = free
        return shown

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not self._file.exists():
            raise InvalidRequest(f"{self.path} does not exist; check the name.")
        db = connect_to_read(self._file)
        try:
            if not check(db, self.path):
                raise InvalidRequest(f"{self.path} is empty: run the rollout first.")
            yield db
        finally:
            db.close()


def _solid(types: str) -> str:
    return ",".join(sorted({*types.split(",")} - {"null"}))


def _entry(row: tuple[Any, ...]) -> Entry:
    number, item, state, attempts, prompt_tokens, completion_tokens, code, cached, prompt, meta, data = row
    return Entry(
        number,
        item,
        STATES[state],
        attempts,
        prompt_tokens,
        completion_tokens,
        code,
        bool(cached),
        msgspec.json.decode(prompt),
        json.loads(meta),  # which knows infinity
        from_bytes(data) if data is not None else None,
    )


def _seconds(result: Packed | None) -> float | None:
    if result is None or result.closed_at is None:
        return None
    return result.closed_at - result.opened_at
