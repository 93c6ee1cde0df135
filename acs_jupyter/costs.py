"""What a request can cost at most, said before it is sent.

Owns the bounds and the words for them. It must not know servers: what cannot be known without asking one is bounded,
and said to be a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .completion import Completion
from .wire import MAX_OUTPUT_WORK, CompletionRequest, request_fields

SURE = ("usage", "continuous")
"""Sources of a count that came from the server."""
_SPECIAL = 1
"""Tokens that a tokenizer puts in front of a text (BOS)."""


@dataclass(frozen=True)
class WorstCase:
    """Tokens a request may be billed. ``counted``: the prompt's number is exact, not a bound."""

    prompt: int
    completion: int
    counted: bool
    limited: bool
    """Whether ``max_tokens`` is set; else ``completion`` is the contract's own bound."""

    @property
    def total(self) -> int:
        """Both."""
        return self.prompt + self.completion

    def lines(self) -> list[str]:
        """Two lines for people."""
        exact = "" if self.counted else "at most "
        why = "counted" if self.counted else "one a byte and one for BOS; the server alone can count"
        limit = "" if self.limited else "; max_tokens is not sent, so this is the most the service allows"
        return [
            f"prompt tokens: {exact}{self.prompt:,} ({why})",
            f"worst case: {self.total:,} tokens ({self.prompt:,} prompt + {self.completion:,} generated{limit})",
        ]


def worst_case(request: CompletionRequest, known: Iterable[Completion] = ()) -> WorstCase:
    """The most a request can be billed.

    A prompt of token ids is counted. So is one that a completion in ``known`` had, if the server reported its tokens.
    Any other text has at most a token for each byte of its UTF-8: byte-level tokenizers and those with byte fallback
    make no more. Generated: ``prompts x n x max_tokens``.
    """
    limited = isinstance(request.max_tokens, int)
    generated = (
        request.choice_count * request.max_tokens if isinstance(request.max_tokens, int) else MAX_OUTPUT_WORK
    )
    counted = _counted(request, known)
    if counted is not None:
        return WorstCase(counted, generated, counted=True, limited=limited)
    special = 0 if request.add_special_tokens is False else _SPECIAL
    bound = sum(
        len(prompt) if isinstance(prompt, list) else len(prompt.encode()) + special
        for prompt in request.prompts
    )
    return WorstCase(bound, generated, counted=False, limited=limited)


def _counted(request: CompletionRequest, known: Iterable[Completion]) -> int | None:
    if all(isinstance(prompt, list) for prompt in request.prompts):
        return sum(len(prompt) for prompt in request.prompts)
    asked = _what_counts(request_fields(request))
    for completion in known:
        if (
            completion.usage_source in SURE
            and completion.usage.prompt_tokens
            and _what_counts(completion.request) == asked
        ):
            return completion.usage.prompt_tokens
    return None


def _what_counts(fields: dict[str, Any]) -> tuple[Any, ...]:
    return fields.get("model"), fields.get("prompt"), fields.get("add_special_tokens", True)
