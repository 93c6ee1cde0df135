"""What the server asks of an engine, and the values that pass between them.

Owns the four nouns of generation: a *token*, a prompt *position*, a *step* of a choice, and the *task*.
It must not know HTTP, JSON or any particular engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ..wire import CompletionRequest, Model

Top = tuple[tuple[str, float], ...]
"""Alternatives of one position in order of rank: decoded text and natural-log probability."""


class Token(NamedTuple):
    """One generated token; ``text`` is ``""`` while its character is incomplete."""

    id: int
    text: str
    logprob: float
    top: Top = ()


class Entry(NamedTuple):
    """One token a prompt position could have held."""

    id: int
    text: str
    logprob: float
    rank: int


class Position(NamedTuple):
    """One scored prompt position: the token that stands there, and the ranks 1..k."""

    own: Entry
    top: tuple[Entry, ...] = ()


@dataclass(slots=True)
class Step:
    """What one choice gained at once: no token, one, or several, and the end when it has come."""

    choice: int
    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    finish: str | None = None
    stop_reason: str | int | None = None


@dataclass(slots=True)
class Task:
    """A checked request with its prompts as token ids; ``stopped`` names choices nobody wants more of."""

    request: CompletionRequest
    prompts: list[list[int]]
    texts: list[str]
    max_tokens: int
    headers: Mapping[str, str] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)

    def prompt_of(self, choice: int) -> list[int]:
        """The token ids behind a choice (choices are prompt-major)."""
        return self.prompts[choice // self.request.fan_out]


class Engine(Protocol):
    """Turns token ids into steps. Closing the iterator of :meth:`generate` ends the work behind it."""

    model: Model
    fingerprint: str
    vocab_size: int
    longest_token: int | None
    """Most bytes of text that one token can stand for; ``None`` when there is no such bound."""

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text; with ``special`` the tokenizer's own start token comes first."""
        ...

    def detokenize(self, ids: list[int]) -> str:
        """The text of token ids."""
        ...

    async def score(self, ids: list[int], top: int) -> list[Position | None]:
        """Every position of a prompt with its ``top`` likeliest tokens (-1: all); the first is ``None``."""
        ...

    def generate(self, task: Task) -> AsyncIterator[list[Step]]:
        """Steps of all choices as they come, several at once when they come together."""
        ...

    @property
    def busy(self) -> int:
        """Choices being generated right now."""
        ...

    def close(self) -> None:
        """Free the engine; it is not used afterwards."""
        ...


class Refused(Exception):
    """The engine does not take what the schema allows."""
