"""Prompt log-probabilities: the prompt is generated once more, with every token prescribed.

Owns the two ways to do so: runs of ordinary tokens through a grammar of token literals, single positions
by a look at the distribution. Log-probabilities are taken before the prescription, so they are exact.
What stands before a place decides what is told of it, so of prompts that begin alike the beginning is read once.
It must not know HTTP.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from .engine import Entry, Position
from .llama_wire import NEUTRAL, Candidate, Sampled, ask, clamp, decode_chunk, forced
from .pieces import Pieces

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from .gguf import Head

_FIRST_LOOK = 256
_LOOKS = (2048, 16_384)
_REMEMBERED = 32
"""Prompts whose rows are kept for others that begin like them."""
_ENTRIES = 20_000
"""Prompts with more entries than this are not kept: of those of the whole vocabulary each row has 50,000."""


class Cancelled(Exception):
    """Nobody waits for the scores any more."""


class Scorer:
    """Scores prompts with ``stream(body, on_chunk)`` of the engine."""

    def __init__(self, head: Head, stream: Callable[[str, Callable[[str], bool | None]], None]) -> None:
        self._head, self._stream = head, stream
        self._clean = [_is_text(piece) and i not in head.special for i, piece in enumerate(head.pieces)]
        self._plain = head.pieces.index(b"\n") if b"\n" in head.pieces else self._clean.index(True)
        self._last: deque[tuple[int, list[int], list[Position]]] = deque(maxlen=_REMEMBERED)

    def score(self, ids: list[int], top: int, cancelled: threading.Event) -> list[Position | None]:
        """All positions of a prompt; the first has none. ``top`` is the number of ranks wanted."""
        known = self._known(ids, top)
        seen: list[Sampled] = []
        while len(known) + len(seen) < len(ids) - 1:
            start = end = len(known) + len(seen) + 1
            while end < len(ids) and self._clean[ids[end]]:
                end += 1
            found = self._run(ids, start, end, max(top, _FIRST_LOOK), cancelled) if end > start else []
            seen += found or [self.look(ids[:start], ids[start], max(top, _FIRST_LOOK))]
            self._check(cancelled)
        ranks = self._ranks(ids, seen, cancelled)
        pieces = Pieces(self._head.pieces, self._head.special)
        for token in ids[: len(known) + 1]:
            pieces.add(token)
        rows = [self._position(sampled, rank, top, pieces) for sampled, rank in zip(seen, ranks, strict=True)]
        rows = [*known, *rows]
        if len(rows) * (top + 1) <= _ENTRIES:
            self._last.append((top, ids, rows))
        return [None, *rows]

    def _known(self, ids: list[int], top: int) -> list[Position]:
        """Rows of the beginning that a prompt shares with one of the last."""
        best: list[Position] = []
        for kept, other, rows in tuple(self._last):
            if kept != top:
                continue
            shared = next((i for i, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), None)
            same = min(len(ids), len(other)) if shared is None else shared
            if same - 1 > len(best):
                best = rows[: same - 1]
        return best

    def _ranks(self, ids: list[int], seen: list[Sampled], cancelled: threading.Event) -> list[int]:
        # From the end: each look shortens what the engine keeps of the prompt, and nothing is read twice.
        ranks = []
        before = len(ids) - len(seen)
        for place in range(len(seen) - 1, -1, -1):
            self._check(cancelled)
            sampled = seen[place]
            rank = _rank(sampled)
            if rank is None:
                # Of r tokens as likely as this one or likelier, each has at most 1/r: so r <= 1/p.
                bound = int(math.exp(min(-clamp(sampled.logprob), 20.0))) + 1
                rank = _rank(self.look(ids[: before + place], sampled.id, 0, bound)) or len(self._head.pieces)
            ranks.append(rank)
        return ranks[::-1]

    def look(self, ids: list[int], token: int, top: int, bound: int | None = None) -> Sampled:
        """A token's log-probability after ``ids`` with the likeliest ones, at least ``top`` of them.

        ``bound`` is the lowest rank the token can have, when that is known.
        """
        size = len(self._head.pieces)
        most = size if bound is None else min(size, max(bound + 16, top))
        for probs in sorted({min(max(top, tier), most) for tier in _LOOKS} | {most, size}):
            seen = self._distribution(ids, probs)
            for item in seen:
                if item.id == token:
                    return Sampled(token, item.logprob, seen)
        raise RuntimeError("The engine shows no such token.")

    def _run(
        self, ids: list[int], start: int, end: int, probs: int, cancelled: threading.Event
    ) -> list[Sampled]:
        found: list[Sampled] = []

        def on_chunk(raw: str) -> bool:
            chunk = decode_chunk(raw)
            for sampled in chunk.sampled:
                if start + len(found) < end and sampled.id == ids[start + len(found)]:
                    found.append(sampled)
                else:
                    return True
            return cancelled.is_set() or chunk.error is not None

        body = ask(ids[:start], end - start, probs, **NEUTRAL, grammar=forced(ids[start:end]))
        self._stream(body, on_chunk)
        self._check(cancelled)
        return found

    def _distribution(self, ids: list[int], probs: int) -> list[Candidate]:
        # A plain token is prescribed because the engine reports nothing while a character is incomplete.
        seen: list[Candidate] = []

        def on_chunk(raw: str) -> bool:
            for sampled in decode_chunk(raw).sampled:
                seen.extend(sampled.top_logprobs)
            return bool(seen)

        self._stream(ask(ids, 1, probs, **NEUTRAL, logit_bias=[[self._plain, 1000.0]]), on_chunk)
        return seen

    def _position(self, sampled: Sampled, rank: int, top: int, pieces: Pieces) -> Position:
        if len(sampled.top_logprobs) == len(self._head.pieces):
            sampled = _normal(sampled)
        entries = tuple(
            Entry(item.id, self._name(item.id, pieces.alone(item.id)), clamp(item.logprob), place)
            for place, item in enumerate(sampled.top_logprobs[:top], 1)
        )
        own = Entry(sampled.id, self._name(sampled.id, pieces.add(sampled.id)), clamp(sampled.logprob), rank)
        return Position(own, entries)

    def _name(self, token: int, text: str) -> str:
        return self._head.texts[token] if token in self._head.special else text

    @staticmethod
    def _check(cancelled: threading.Event) -> None:
        if cancelled.is_set():
            raise Cancelled


def _normal(sampled: Sampled) -> Sampled:
    """A whole distribution that sums to 1: the engine adds up its own sum in single precision, which is off by 1e-4."""
    offset = math.log(
        math.fsum(math.exp(item.logprob) for item in sampled.top_logprobs if item.logprob is not None)
    )
    moved = [
        Candidate(item.id, None if item.logprob is None else item.logprob - offset)
        for item in sampled.top_logprobs
    ]
    own = sampled.logprob
    return Sampled(sampled.id, None if own is None else own - offset, moved)


def _rank(sampled: Sampled) -> int | None:
    for place, item in enumerate(sampled.top_logprobs, 1):
        if item.id == sampled.id:
            return place
    return None


def _is_text(piece: bytes) -> bool:
    try:
        return bool(piece.decode("utf-8"))
    except UnicodeDecodeError:
        return False
