"""The multiverse map of a node: what may follow it, as areas of probability.

Owns the cells and their arithmetic, how a map is kept and read, and its frame. It must not know requests
(``mapping.py`` asks) nor how it is drawn.

A cell is a token behind its parent's; its area is the probability of all tokens from the node to it, the model's own,
before temperature and truncation. Where a cell is expanded, its area is shared out among the tokens that were returned,
and what is left is its *rest*: tokens that were not returned. A cell that is not expanded has its whole area still. So
the areas of the cells that nothing was asked behind and all rests sum to 1, to 1e-9. The *unexpanded mass* is what the
map does not tell further: the rests and the open cells; the rests alone have no names.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidRequest
from ..notebook.boundary import BOS_TEXTS

if TYPE_CHECKING:
    import pandas as pd

ENDS = frozenset({*BOS_TEXTS, "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end|>"})
"""Tokens behind which a text is over, by their names in common base models."""
VERSION = 1


@dataclass
class Cell:
    """A token of the map. ``number``: its place in the order in which cells were found, 0 for the node itself.

    ``logprob`` is its own (nats), ``area`` the probability of the path, 0 to 1. ``rest``: the part of it that went to
    tokens which were not returned; ``None`` while nothing was asked behind it. ``id`` is its token id, if that is
    known. ``kind``: ``open`` (nothing was asked behind it), ``expanded``, ``end`` (the text is over there) or
    ``piece`` (of a character, which cannot be asked behind as text).
    """

    number: int
    parent: int | None
    depth: int
    token: str
    text: str
    logprob: float
    area: float
    id: int | None = None
    rest: float | None = None
    children: list[int] = field(default_factory=list)
    kind: str = "open"


class Multiverse:
    """A map. ``cells`` in the order in which they were found; ``by``: ``ids`` or ``text``, ``""`` before it began.

    ``spent``: tokens that were billed for it; ``requests``: how many were sent; ``stopped``: why the last call ended
    (``done``: nothing is left above ``least`` and within ``depth``; ``budget``; ``requests``; ``stopped``); ``notes``:
    lines about it.
    """

    def __init__(self, node: str = "", text: str = "") -> None:
        self.node = node
        self.digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        """Of the text that the map goes on from: a node that was moved goes on from another one."""
        self.cells = [Cell(0, None, 0, "", "", 0.0, 1.0)]
        self.by = ""
        self.prompt: list[int] = []
        self.spent = 0
        self.requests = 0
        self.stopped = ""
        self.notes: list[str] = []

    @property
    def root(self) -> Cell:
        """The node itself: area 1."""
        return self.cells[0]

    @property
    def open(self) -> list[Cell]:
        """Cells behind which nothing was asked yet, the largest first."""
        return sorted((cell for cell in self.cells if cell.kind == "open"), key=lambda c: (-c.area, c.number))

    @property
    def unnamed(self) -> float:
        """The mass of tokens that were not returned."""
        return math.fsum(cell.rest or 0.0 for cell in self.cells)

    @property
    def unexpanded(self) -> float:
        """The mass that the map does not tell further: open cells, pieces of characters, and what has no name."""
        return math.fsum(c.area for c in self.cells if c.kind in ("open", "piece")) + self.unnamed

    @property
    def ended(self) -> float:
        """The mass of texts that are over."""
        return math.fsum(cell.area for cell in self.cells if cell.kind == "end")

    def leaves(self) -> list[Cell]:
        """Cells without cells behind them; with their areas and :attr:`unnamed` everything is counted once."""
        return [cell for cell in self.cells if cell.kind != "expanded"]

    def path(self, cell: int) -> list[Cell]:
        """The cells from the first token to this one."""
        found: list[Cell] = []
        here = self.cell(cell)
        while here.parent is not None:
            found.append(here)
            here = self.cells[here.parent]
        return found[::-1]

    def cell(self, number: int) -> Cell:
        """A cell by its number. Raises :class:`InvalidRequest` when there is none."""
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.cells):
            raise InvalidRequest(
                f"The map has {len(self.cells)} cells; there is no cell {number!r}; take a lower number."
            )
        return self.cells[number]

    def ids(self, cell: int) -> list[int]:
        """Token ids from the beginning of the text to this cell; only ``by`` ids."""
        return [*self.prompt, *(one.id for one in self.path(cell) if one.id is not None)]

    def expand(self, number: int, found: list[tuple[str, float, int | None]]) -> None:
        """What may follow a cell: texts, logprobs and ids. Probabilities that sum to more than 1 (they are rounded on
        the way) are brought down to it."""
        cell = self.cell(number)
        whole = math.fsum(math.exp(min(logprob, 0.0)) for _, logprob, _ in found)
        scale = cell.area / max(1.0, whole)
        for text, logprob, token in sorted(found, key=lambda one: -one[1]):
            area = scale * math.exp(min(logprob, 0.0))
            child = Cell(
                len(self.cells), number, cell.depth + 1, text, cell.text + text, logprob, area, token
            )
            if text in ENDS:
                child.kind = "end"
            elif self.by == "text" and (not text or "\ufffd" in text):
                child.kind = "piece"
            cell.children.append(child.number)
            self.cells.append(child)
        cell.kind = "expanded"
        cell.rest = max(0.0, cell.area - math.fsum(self.cells[child].area for child in cell.children))

    # -- keeping ----------------------------------------------------------------------------------

    def packed(self) -> dict[str, Any]:
        """The map as plain values, for the log."""
        found = [[c.parent, c.token, c.logprob, c.id] for c in self.cells[1:]]
        barren = [c.number for c in self.cells if c.kind == "expanded" and not c.children]
        return {
            "version": VERSION, "digest": self.digest, "by": self.by, "prompt": list(self.prompt), "cells": found,
            "barren": barren, "spent": self.spent, "requests": self.requests, "notes": list(self.notes),
        }  # fmt: skip

    @classmethod
    def unpacked(cls, node: str, kept: Any, text: str = "") -> Multiverse:
        """The map that :meth:`packed` gave; an empty one of what cannot be read, or is of another text."""
        here = cls(node, text)
        try:
            here._take(kept)
        except (KeyError, TypeError, ValueError, IndexError, InvalidRequest):
            return cls(node, text)
        return here

    def _take(self, kept: Any) -> None:
        if kept["version"] != VERSION or kept["digest"] != self.digest:
            raise ValueError
        self.by, self.prompt = str(kept["by"]), [int(token) for token in kept["prompt"]]
        self.spent, self.requests = int(kept["spent"]), int(kept["requests"])
        self.notes = [str(line) for line in kept["notes"]]
        group: list[tuple[str, float, int | None]] = []
        cells = kept["cells"]
        for place, (parent, token, logprob, number) in enumerate(cells):
            group.append((str(token), float(logprob), None if number is None else int(number)))
            if place + 1 == len(cells) or cells[place + 1][0] != parent:
                self.expand(int(parent), group)
                group = []
        for cell in kept["barren"]:
            self.expand(int(cell), [])

    # -- reading ----------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One row a cell, and one, of the kind ``rest``, for what each expanded cell left to tokens without a name.

        ``cell``, ``parent``: numbers; ``depth``: tokens from the node; ``kind``: see :class:`Cell`; ``token``, ``id``;
        ``text``: from the node; ``logprob`` (nats) and ``probability`` of the token, ``path_logprob`` (nats) and
        ``area`` (0 to 1) of the path. The areas of all rows but those of the kind ``expanded`` sum to 1. ``attrs`` hold
        ``node``, ``by``, ``spent``, ``requests``, ``unexpanded``, ``stopped`` and ``notes``.
        """
        from .measure_frames import MAP_COLUMNS, frame_of  # noqa: PLC0415  # pandas loads only when a frame is asked for

        names = ("node", "by", "spent", "requests", "unexpanded", "stopped", "notes")
        return frame_of(self._rows(), MAP_COLUMNS, **{name: getattr(self, name) for name in names})

    def _rows(self) -> Iterator[list[Any]]:
        for cell in self.cells:
            path = math.fsum(one.logprob for one in self.path(cell.number))
            own = [cell.logprob, math.exp(min(cell.logprob, 0.0)), path, cell.area]
            yield [cell.number, cell.parent, cell.depth, cell.kind, cell.token, cell.id, cell.text, *own]
            if cell.rest:
                rest = [None, None, None, cell.rest]
                yield [None, cell.number, cell.depth + 1, "rest", None, None, cell.text, *rest]

    def __repr__(self) -> str:
        from ..widgets.measures import percent  # noqa: PLC0415  # as below

        if not self.by:
            return "Multiverse(nothing was asked yet)"
        named, follow = len(self.cells) - 1, max(0.0, self.unexpanded - self.unnamed)
        return (
            f"Multiverse({named} cells; {percent(self.unnamed)} lies in tokens the server did not return, "
            f"{percent(follow)} not followed yet; {self.spent} tokens in {self.requests} "
            f"requests{f', {self.stopped}' if self.stopped else ''})"
        )

    def _repr_html_(self) -> str:
        from ..widgets.measures import map_html  # noqa: PLC0415  # drawn only when shown

        return map_html(self)
