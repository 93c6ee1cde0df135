"""Tokens as an upstream counts them, believed only as far as they can be true.

Owns what a believable count is and how the running counts of single choices add up. It must not know bodies, frames
or budgets.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


ADDED = 16
"""Tokens that a tokenizer may add to a prompt of its own."""


class Counts(NamedTuple):
    """Tokens of all prompts and of all choices."""

    prompt: int
    completion: int

    def within(self, most: Counts) -> Counts:
        """The same, at most that."""
        return Counts(min(self.prompt, most.prompt), min(self.completion, most.completion))


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0


_decode = msgspec.json.Decoder(_Usage | None).decode


def read_counts(raw: bytes) -> Counts | None:
    """The counts of a usage object; ``None`` when there are none that can be true (negative, fractions, absurd)."""
    try:
        usage = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if usage is None else Counts(usage.prompt_tokens, usage.completion_tokens)


class Running:
    """Sums running counts: each choice tells its own tokens and those of its prompt."""

    def __init__(self, prompts: int, fan_out: int) -> None:
        self._all, self._fan_out = prompts, fan_out
        self._prompts: dict[int, int] = {}
        self._choices: dict[int, int] = {}
        self._whole: Counts | None = None

    def note(self, choices: list[int], counts: Counts) -> None:
        """A frame with these choices said so; one of several choices speaks of the whole answer."""
        if len(choices) != 1:
            self._whole = counts
        elif 0 <= choices[0] < self._all * self._fan_out:
            self._prompts[choices[0] // self._fan_out] = counts.prompt
            self._choices[choices[0]] = counts.completion

    @property
    def total(self) -> Counts | None:
        """All that was told so far, ``None`` for nothing."""
        if not self._choices:
            return self._whole
        return Counts(sum(self._prompts.values()), sum(self._choices.values()))

    @property
    def is_partial(self) -> bool:
        """Whether some prompt was not counted yet."""
        return bool(self._choices) and len(self._prompts) < self._all


def most_tokens(prompt: str | list[int]) -> int:
    """More tokens than a prompt can have: one a byte of text, and a few that a tokenizer adds."""
    return (len(prompt) if isinstance(prompt, list) else len(prompt.encode())) + ADDED
