"""Where a prompt's end or beginning trips a tokenizer: pointed out, never repaired.

Owns the patterns and the words. It must not know servers; what a boundary costs is measured by whoever can send.
Base models split text before a word's leading space, so a prompt that ends in a space asks for a word without one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BOS_TEXTS = ("<|begin_of_text|>", "<|endoftext|>", "<s>", "<bos>", "<|startoftext|>")
"""Beginning-of-sequence tokens as text, in the vocabularies of common base models."""

_LAST_WORD = re.compile(r"(?:\A|(?<=[^\w'-]))[A-Za-z\u00c0-\u024f]+\Z")
_WORDS = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_ENDINGS = ("s", "es", "ed", "er", "ers", "ing", "ings", "ly", "ness", "ful", "less", "able", "al")
_WHOLE = frozenset(
    {
        "about",
        "after",
        "back",
        "down",
        "ever",
        "every",
        "here",
        "into",
        "just",
        "like",
        "more",
        "most",
        "never",
    }
    | {
        "once",
        "only",
        "other",
        "over",
        "room",
        "some",
        "than",
        "that",
        "them",
        "then",
        "there",
        "these",
        "they",
    }
    | {"this", "under", "upon", "well", "what", "when", "where", "which", "with", "work"}
)
"""Short words that begin longer ones and are words all the same."""


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
    cut = _cut_word(prompt)
    if cut:
        found.append(cut)
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


def last_word(prompt: str) -> Note | None:
    """The prompt without its last word and the blank before it, if it ends in one: for whoever knows that it is cut."""
    end = _LAST_WORD.search(prompt)
    if end is None:
        return None
    before = prompt[: end.start()].removesuffix(" ")
    return Note(f"the model takes '{_short(end.group())}' for the beginning of a longer word", before)


def goes_on_inside(prompt: str, following: str) -> bool:
    """Whether the text that follows belongs to the prompt's last word."""
    return last_word(prompt) is not None and following[:1].isalpha()


def _cut_word(prompt: str) -> Note | None:
    """Without a tokenizer only a guess is possible: the last word begins a longer one that stands in the prompt."""
    whole = last_word(prompt)
    if whole is None:
        return None
    *before, last = _WORDS.findall(prompt)
    if len(last) < 4 or last.lower() in _WHOLE or last in before:
        return None
    longer = next((word for word in before if _begins(last, word)), None)
    if longer is None:
        return None
    return Note(
        f"the prompt may end inside a word: '{_short(last)}' begins '{_short(longer)}', which stands before it",
        whole.without,
    )


def _begins(part: str, word: str) -> bool:
    rest = word[len(part) :]
    return len(rest) > 1 and word.startswith(part) and rest not in _ENDINGS


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:23] + "…"
