"""A deterministic engine for tests: text from prompt and seed at any speed, or word for word as told.

Owns the invented tokenizer and its probabilities. It must not know HTTP.
Tokens are words with their leading space; characters beyond U+FFFF become one token a byte, so that
incomplete characters occur as they do in byte-level tokenizers. A start token is added to texts; its name, ``<s>``,
in a text is read as that token, as real tokenizers read theirs.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from ..wire import Capabilities, Model
from .engine import Entry, Position, Refused, Step, Task, Token
from .pieces import Pieces
from .script import Script, script_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_WORDS = (
    "the of and a to in is was that it for on as with his her at by from they we say this have or one "
    "had not but what all were when your can said there use an each which she do how their if will up "
    "other about out many then them these so some would make like him into time has look two more "
    "write go see number no way could people my than first water been call who oil its now find long "
    "down day did get come made may part over new sound take only little work know place year live me "
    "back give most very after thing our just name good sentence man think great where help through "
    "much before line right too mean old any same tell boy follow came want show also around form "
    "three small set put end does another well large must big even such because turn here why ask "
    "went men read need land different home us move try kind hand picture again "
)
WORDS = [f" {word}" for word in _WORDS.split()] + [".", ",", "\n"]
_BOS, _FIRST_BYTE, _FIRST_WORD = 0, 1, 1000
_BOS_NAME = "<s>"
_SPLIT = re.compile(
    r"<s>|[\U00010000-\U0010FFFF]| ?[^\W\d_]+| ?\d{1,3}|\s| ?[^\w\s\U00010000-\U0010FFFF]|.", re.DOTALL
)
_BURST = 64
_RANKS = (1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 9)


def _logprob(rank: int) -> float:
    # A fixed falling curve; its sum over all ranks stays below one.
    return round(math.log(0.5) - 1.1 * math.log(rank) - 0.05 * rank, 6) if rank > 1 else -0.4


_LOGPROBS = [_logprob(rank) for rank in range(1, 300)]


class ScriptedEngine:
    """See the module; ``rate`` is the pace in tokens a second when a request does not say."""

    fingerprint = "scripted"
    vocab_size = 2**21

    def __init__(self, *, name: str | None = None, rate: float = 0.0, context: int = 65_536) -> None:
        self._rate = rate
        self.longest_token: int | None = None  # a word is a token, however long
        self._busy = 0
        self._ids: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._memo: dict[tuple[int, int, int], Token] = {}
        self._word_ids = [self._id(word) for word in WORDS]
        self.model = Model(
            id=name or "scripted",
            owned_by="local",
            served_model_name="scripted/deterministic",
            gpu_shape="none",
            status="live",
            default=True,
            capabilities=_capabilities(context),
        )

    @property
    def busy(self) -> int:
        """Choices being generated right now."""
        return self._busy

    def close(self) -> None:
        """Nothing is held."""

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids, after the start token unless told otherwise."""
        ids = [_BOS] if special else []
        for part in _SPLIT.findall(text):
            if part == _BOS_NAME:
                ids.append(_BOS)
            elif ord(part[0]) > 0xFFFF:
                ids += [_FIRST_BYTE + byte for byte in part.encode("utf-8")]
            else:
                ids.append(self._id(part))
        if not ids:
            raise Refused(
                "The prompt is empty and add_special_tokens is false: there is nothing to continue."
            )
        return ids

    def detokenize(self, ids: list[int]) -> str:
        """The text of token ids; an id that was never a token here reads as some word."""
        return b"".join(map(self._piece, ids)).decode("utf-8", "replace")

    async def score(self, ids: list[int], top: int) -> list[Position | None]:
        """Invented but fixed probabilities for every position."""
        top = len(WORDS) if top < 0 else top
        pieces = self._pieces()
        pieces.add(ids[0])
        result: list[Position | None] = [None]
        for before, token in pairwise(ids):
            mark = _mix(before * 31 + token)
            rank = 1 + mark % 7 if mark % 3 else 1 + mark % 250
            text = _BOS_NAME if token == _BOS else pieces.add(token)
            own = Entry(token, text, _LOGPROBS[rank - 1], rank)
            others = [
                own if place == rank else self._entry(mark + 7 * place, place) for place in range(1, top + 1)
            ]
            result.append(Position(own, tuple(others)))
        return result

    async def generate(self, task: Task) -> AsyncIterator[list[Step]]:
        """Steps of all choices in turn; several tokens a step when the script says ``chunk``."""
        script = script_of(task)
        count = task.request.choice_count
        self._busy += count
        try:
            if script.ttft:
                await asyncio.sleep(script.ttft)
            lines = {i: self._line(task, script, i) for i in range(count)}
            rate = self._rate if script.rate is None else script.rate
            async for size in _paced(rate):
                burst: list[Step] = []
                for _ in range(size):
                    for choice in [i for i in lines if i not in task.stopped]:
                        step = next(lines[choice])
                        burst.append(step)
                        if step.finish is not None:
                            del lines[choice]
                if burst:
                    yield burst
                if not any(i not in task.stopped for i in lines):
                    return
        finally:
            self._busy -= count

    def _line(self, task: Task, script: Script, choice: int) -> Iterator[Step]:
        tokens = self._said(script.say) if script.say is not None else self._invented(task, script, choice)
        whole = len(self._said(script.say)) if script.say is not None else script.tokens
        limit = task.max_tokens if whole is None else min(task.max_tokens, whole)
        reason = "length" if whole is None or whole > task.max_tokens else "stop"
        made = 0
        if limit == 0:
            yield Step(choice, finish=reason, stop_reason=script.stop_reason)
        source = iter(tokens)
        while made < limit:
            batch = [next(source) for _ in range(min(script.chunk, limit - made))]
            if script.blank:
                batch = [
                    t._replace(text="") if (made + i + 1) % script.blank == 0 else t
                    for i, t in enumerate(batch)
                ]
            made += len(batch)
            step = Step(choice, "".join(t.text for t in batch), batch)
            if made >= limit:
                step.finish = reason
                step.stop_reason = script.stop_reason if reason == "stop" else None
            yield step

    def _invented(self, task: Task, script: Script, choice: int) -> Iterator[Token]:
        request = task.request
        greedy = request.temperature == 0
        seed: object = "greedy" if greedy else request.seed
        if not greedy and not isinstance(request.seed, int):
            seed = time.time_ns()
        text = f"{seed}/{choice % request.fan_out}/{task.prompt_of(choice)}"
        state = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        asked = request.logprobs if isinstance(request.logprobs, int) else 0
        top = min(asked, script.alternatives) if script.alternatives is not None else asked
        while True:
            state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
            rank = 1 if greedy else _RANKS[(state >> 60) & 15]
            yield self._token((state >> 33) % len(WORDS), rank, top)

    def _token(self, word: int, rank: int, top: int) -> Token:
        key = (word, rank, top)
        token = self._memo.get(key)
        if token is None:
            row = tuple(
                (WORDS[word if place == rank else (word + 7 * place) % len(WORDS)], _LOGPROBS[place - 1])
                for place in range(1, top + 1)
            )
            token = self._memo[key] = Token(self._word_ids[word], WORDS[word], _LOGPROBS[rank - 1], row)
        return token

    def _said(self, text: str) -> list[Token]:
        pieces = self._pieces()
        tokens = []
        for part in _SPLIT.findall(text):
            raw = [_FIRST_BYTE + b for b in part.encode()] if ord(part[0]) > 0xFFFF else [self._id(part)]
            for token in raw:
                alternative = (pieces.alone(token), -0.2), (" else", -2.5)
                tokens.append(Token(token, pieces.add(token), -0.2, alternative))
        return tokens

    def _entry(self, mark: int, place: int) -> Entry:
        word = mark % len(WORDS)
        return Entry(self._word_ids[word], WORDS[word], _LOGPROBS[place - 1], place)

    def _pieces(self) -> Pieces:
        return Pieces(_Table(self), frozenset())  # type: ignore[arg-type]

    def _id(self, text: str) -> int:
        known = self._ids.get(text)
        if known is not None:
            return known
        token = (
            _FIRST_WORD + _mix(int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")) % 2_000_000
        )
        while token in self._texts:
            token = _FIRST_WORD + (token - _FIRST_WORD + 1) % 2_000_000
        self._ids[text], self._texts[token] = token, text
        return token

    def _piece(self, token: int) -> bytes:
        if token == _BOS:
            return b""
        if token < _FIRST_BYTE + 256:
            return bytes([token - _FIRST_BYTE])
        return self._texts.get(token, WORDS[token % len(WORDS)]).encode()


class _Table:
    # Looks like the list of pieces that Pieces reads.
    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine

    def __getitem__(self, token: int) -> bytes:
        return self._engine._piece(token)


async def _paced(rate: float) -> AsyncIterator[int]:
    """How many tokens are due, again and again, by a schedule that does not drift."""
    if rate <= 0:
        while True:
            yield _BURST
            await asyncio.sleep(0)
    start = time.perf_counter()
    done = 0
    while True:
        due = int((time.perf_counter() - start) * rate) + 1 - done
        if due > 0:
            done += due
            yield due
        await asyncio.sleep(max(0.0, min(start + done / rate - time.perf_counter(), 1.0)))


def _mix(value: int) -> int:
    return (value * 2654435761 ^ (value >> 7) * 40503) & 0x7FFFFFFF


def _capabilities(context: int) -> Capabilities:
    return Capabilities(
        max_model_len=context,
        max_logprobs=100,
        max_output_work_tokens=32_000,
        max_inflight_per_key=16,
        max_queued_per_key=64,
        rate_limit_per_minute=600,
        logprobs=True,
        prompt_logprobs=True,
        prompt_logprobs_full_vocab=True,
        full_vocab_max_prompt_tokens=1024,
    )
