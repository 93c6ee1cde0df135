"""The embedded engine's own language: what it is asked and what it answers.

Owns llama.cpp's field names and the mapping of sampling parameters. It must not know threads or HTTP.
Source of the names: llama.cpp's server documentation; log-probabilities are taken before sampling.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from ..wire import CompletionRequest

FLOOR = -9999.0
"""What vLLM writes for a log-probability of minus infinity."""


PENALTY_WINDOW = 131_072
"""Tokens the penalties look back; more than any context here."""


class Candidate(Struct, gc=False):
    """A token id and its log-probability."""

    id: int
    logprob: float | None = None


class Sampled(Struct, gc=False):
    """The sampled token and the likeliest ones, best first."""

    id: int
    logprob: float | None = None
    top_logprobs: list[Candidate] = []


class _Content(Struct, gc=False):
    content: list[Sampled] = []


class _Choice(Struct, gc=False):
    text: str = ""
    logprobs: _Content | None = None
    finish_reason: str | None = None


class _Timings(Struct, gc=False):
    predicted_n: int = 0


class _Usage(Struct, gc=False):
    completion_tokens: int = 0


class Chunk(Struct, gc=False):
    """One streamed answer of the engine; ``timings.predicted_n`` counts tokens, shown or not."""

    choices: list[_Choice] = []
    timings: _Timings | None = None
    usage: _Usage | None = None
    error: Any = None

    @property
    def sampled(self) -> list[Sampled]:
        """Tokens in this chunk (none while a character is incomplete, and none in the last chunk)."""
        return self.choices[0].logprobs.content if self.choices and self.choices[0].logprobs else []

    @property
    def count(self) -> int:
        """Tokens generated so far, whether they were shown or not."""
        if self.usage is not None:
            return self.usage.completion_tokens
        return self.timings.predicted_n if self.timings else 0


decode_chunk = msgspec.json.Decoder(Chunk).decode


def clamp(logprob: float | None) -> float:
    """A finite log-probability."""
    return FLOOR if logprob is None or not logprob > FLOOR else logprob


def choice_seed(request: CompletionRequest, choice: int) -> int:
    """A 31-bit seed: the engine's are 32 bits wide, the service's 63. Equal seeds and choices stay equal.

    The place of a prompt in a batch does not enter, so a batch samples like its members alone.
    """
    if not isinstance(request.seed, int):
        return secrets.randbits(31)
    text = f"{request.seed}/{choice % request.fan_out}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def sampling(request: CompletionRequest, choice: int, vocab_size: int) -> dict[str, Any]:
    """The engine's sampling fields for one choice of a request, in vLLM's order of samplers."""

    def given(name: str, default: Any) -> Any:
        value = getattr(request, name)
        return value if isinstance(value, (int, float)) else default

    temperature = given("temperature", 1.0)
    top_k = given("top_k", -1)
    fields: dict[str, Any] = {
        "temperature": temperature,
        "top_k": min(top_k, vocab_size) if top_k > 0 else 0,
        "top_p": given("top_p", 1.0),
        "min_p": given("min_p", 0.0),
        "presence_penalty": given("presence_penalty", 0.0),
        "frequency_penalty": given("frequency_penalty", 0.0),
        "repeat_penalty": given("repetition_penalty", 1.0),
        "repeat_last_n": PENALTY_WINDOW,
        "seed": choice_seed(request, choice),
        "samplers": ["penalties", "temperature", "min_p", "top_k", "top_p"],
    }
    if temperature < 1e-5:  # as in vLLM: so small a temperature is greedy, and needs no seed
        fields |= {"temperature": 0.0, "top_k": 1, "seed": 1, "samplers": ["penalties", "top_k"]}
    return fields


def ask(ids: list[int], count: int, probs: int, **more: Any) -> str:
    """A streamed request for ``count`` tokens after ``ids`` with ``probs`` alternatives each."""
    body = {
        "prompt": ids,
        "max_tokens": count,
        "n_predict": count,
        "n_probs": probs,
        "stream": True,
        "timings_per_token": True,
        "return_progress": True,
        "cache_prompt": True,
        **more,
    }
    return msgspec.json.encode(body).decode()


def forced(ids: list[int]) -> str:
    """A grammar that lets exactly these tokens through."""
    return "root ::= " + " ".join(f"<[{token}]>" for token in ids)


NEUTRAL: dict[str, Any] = {"temperature": 1.0, "seed": 1, "samplers": ["temperature"]}
"""Sampling that changes nothing, for scoring."""
