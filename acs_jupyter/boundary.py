"""Where a prompt's end or beginning trips a tokenizer: pointed out, never repaired.

Owns the patterns and the words. It must not know servers; what a boundary costs is measured by whoever can send.
Base models split text before a word's leading space, so a prompt that ends in a space asks for a word without one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BOS_TEXTS = ("<|begin_of_text|>", "<|endoftext|>", "<s>", "<bos>", "<|startoftext|>")
"""Beginning-of-sequence tokens as text, in the vocabularies of common base models."""


@dataclass(frozen=True)
class Note:
    """Something at a boundary, and the prompt without it."""

    what: str
    without: str

    def __str__(self) -> str:
        return self.what


def notes(prompt: str, *, add_special_tokens: bool = True) -> list[Note]:
    """What stands out at the prompt's boundaries, the most likely mistake first; often nothing."""
    found = []
    end = re.search(r"[ \t\u00a0\u3000]+\Z", prompt)
    if end:
        kind = "a space" if end.group() == " " else f"{len(end.group())} blank characters"
        found.append(
            Note(f"the prompt ends in {kind}; the next word usually brings its own", prompt[: end.start()])
        )
    if "\r\n" in prompt:
        count = prompt.count("\r\n")
        found.append(Note(f"the prompt has \\r\\n line ends ({count})", prompt.replace("\r\n", "\n")))
    bos = next((text for text in BOS_TEXTS if prompt.startswith(text)), None)
    if bos and add_special_tokens:
        found.append(
            Note(
                f"the prompt begins with {bos} and the server adds its own; --add-special-tokens false keeps one",
                prompt[len(bos) :],
            )
        )
    return found
