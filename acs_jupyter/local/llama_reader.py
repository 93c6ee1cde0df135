"""Reads the engine's chunks of one choice into steps, one token a step.

Owns the recovery of tokens the engine swallows: while a character is incomplete it shows nothing, then the
whole character with the last token. It must not know threads or HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .engine import Step, Token
from .llama_wire import Candidate, Chunk, Sampled, clamp, decode_chunk
from .pieces import Pieces, missing_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from .gguf import Head


class ChoiceReader:
    """Turns the chunks of one choice into steps.

    ``again(count)`` generates the choice's first tokens once more and returns their ids; ``look(ids, id, k)``
    returns a token's log-probability after ``ids`` and the ``k`` likeliest. Both are asked only when tokens
    were swallowed. ``top`` is the number of alternatives, or ``None`` when nobody reads log-probabilities.
    """

    def __init__(
        self,
        head: Head,
        prompt: list[int],
        *,
        choice: int,
        limit: int,
        top: int | None,
        again: Callable[[int], list[int]],
        look: Callable[[list[int], int, int], Sampled],
    ) -> None:
        self._head, self._choice, self._limit, self._top = head, choice, limit, top
        self._again, self._look = again, look
        self._pieces = Pieces(head.pieces, head.special)
        self._by_bytes: dict[bytes, int] | None = None
        self._ids = list(prompt)
        self._start = len(prompt)
        self._held: Step | None = None
        self.ended = False

    def feed(self, raw: str) -> list[Step]:
        """The steps one chunk brings."""
        chunk = decode_chunk(raw)
        if chunk.error is not None:
            raise RuntimeError("The embedded engine reported a failure.")
        steps: list[Step] = []
        for sampled in chunk.sampled:
            swallowed = chunk.count - self._count - 1
            if swallowed > 0:
                text = chunk.choices[0].text.encode("utf-8")
                steps += self._recover(self._between(text, sampled.id, swallowed))
            steps.append(self._step(sampled))
        if chunk.choices and chunk.choices[0].finish_reason is not None:
            return self._close(chunk, steps)
        return self._hold_back(steps)

    @property
    def _count(self) -> int:
        return len(self._ids) - self._start

    def _hold_back(self, steps: list[Step]) -> list[Step]:
        # A control token may be the end of the text; then its step carries the finish reason.
        ready = [self._held, *steps] if self._held is not None else steps
        self._held = None
        if ready and self._count >= self._limit:
            ready[-1].finish = "length"
            self.ended = True
        elif ready and ready[-1].tokens and ready[-1].tokens[-1].id in self._head.special:
            self._held = ready.pop()
        return ready

    def _close(self, chunk: Chunk, steps: list[Step]) -> list[Step]:
        missing = chunk.count - self._count
        if missing > 0:
            steps += self._recover(self._again(chunk.count)[-missing:])
        ready = [self._held, *steps] if self._held is not None else steps
        self._held = None
        last = ready[-1] if ready else Step(self._choice)
        last.finish = chunk.choices[0].finish_reason
        if last.finish == "stop" and last.tokens and last.tokens[-1].id != self._head.eos:
            last.stop_reason = last.tokens[-1].id
        self.ended = True
        return ready or [last]

    def _between(self, text: bytes, last: int, number: int) -> list[int]:
        piece = self._head.pieces[last]
        if text.endswith(piece) and "\ufffd".encode() not in text:
            if self._by_bytes is None:
                self._by_bytes = {piece: token for token, piece in enumerate(self._head.pieces)}
            found = missing_between(self._by_bytes, text[: len(text) - len(piece)], number)
            if found is not None:
                return found
        count = self._count
        return self._again(count + number)[count:]

    def _recover(self, ids: list[int]) -> list[Step]:
        steps = []
        for token in ids:
            known = Sampled(token) if self._top is None else self._look(list(self._ids), token, self._top)
            steps.append(self._step(known))
        return steps

    def _step(self, sampled: Sampled) -> Step:
        token = sampled.id
        top = tuple(
            (self._alone(item), clamp(item.logprob)) for item in sampled.top_logprobs[: self._top or 0]
        )
        self._ids.append(token)
        special = self._pieces.is_special(token)
        text = "" if special else self._pieces.add(token)
        name = self._head.texts[token] if special else text
        return Step(self._choice, text, [Token(token, name, clamp(sampled.logprob), top)])

    def _alone(self, item: Candidate) -> str:
        return self._pieces.alone(item.id)
