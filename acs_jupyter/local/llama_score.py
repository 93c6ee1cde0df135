"""Prompt log-probabilities: the prompt is generated once more, with every token prescribed.

Owns the two ways to do so: runs of ordinary tokens through a grammar of token literals, single positions
by a look at the distribution. Log-probabilities are taken before the prescription, so they are exact.
It must not know HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .engine import Entry, Position
from .llama_wire import NEUTRAL, Candidate, Sampled, ask, clamp, decode_chunk, forced
from .pieces import Pieces

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from .gguf import Head

_FIRST_LOOK = 64
_SECOND_LOOK = 2048


class Cancelled(Exception):
    """Nobody waits for the scores any more."""


class Scorer:
    """Scores prompts with ``stream(body, on_chunk)`` of the engine."""

    def __init__(self, head: Head, stream: Callable[[str, Callable[[str], bool | None]], None]) -> None:
        self._head, self._stream = head, stream
        self._clean = [_is_text(piece) and i not in head.special for i, piece in enumerate(head.pieces)]
        self._plain = head.pieces.index(b"\n") if b"\n" in head.pieces else self._clean.index(True)

    def score(self, ids: list[int], top: int, cancelled: threading.Event) -> list[Position | None]:
        """All positions of a prompt; the first has none. ``top`` is the number of ranks wanted."""
        pieces = Pieces(self._head.pieces, self._head.special)
        pieces.add(ids[0])
        result: list[Position | None] = [None]
        while len(result) < len(ids):
            start = len(result)
            end = start
            while end < len(ids) and self._clean[ids[end]]:
                end += 1
            found = self._run(ids, start, end, max(top, _FIRST_LOOK), cancelled) if end > start else []
            if not found:
                found = [self.look(ids[:start], ids[start], max(top, _FIRST_LOOK))]
            for sampled in found:
                self._check(cancelled)
                result.append(self._position(ids[: len(result)], sampled, top, pieces))
        return result

    def look(self, ids: list[int], token: int, top: int) -> Sampled:
        """A token's log-probability after ``ids`` with the likeliest ones, at least ``top`` of them."""
        size = len(self._head.pieces)
        for probs in (max(top, _SECOND_LOOK), size):
            seen = self._distribution(ids, min(probs, size))
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

    def _position(self, before: list[int], sampled: Sampled, top: int, pieces: Pieces) -> Position:
        rank = _rank(sampled)
        if rank is None:
            rank = _rank(self.look(before, sampled.id, 0)) or len(self._head.pieces)
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
