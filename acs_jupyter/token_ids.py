"""Token ids of a text that a model wrote, found by asking how the server reads it.

Owns the one scoring request that tells ids, and the reading of its answer. It must not know who sends it.

The service tells ids in one place only: ``prompt_logprobs`` keys the positions of a prompt by token id, from the
second position on. So the request carries, as a batch with ``prompt_logprobs: 0`` and ``max_tokens: 1``, the text, and
short probes for what the text's own answer leaves out: the first position (a start token, or the first token), and the
token that is to follow. What the probes cannot show is said, never guessed.

The ids are those of the server's reading of the text. A model can write a text in other tokens than a tokenizer
would read it in; :attr:`Found.differs` says where, if it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from .log.events import Scored
from .notebook.boundary import BOS_TEXTS

LEADS = ("\n", ".", "a")
"""What stands before a probed token: one of them keeps it from joining what precedes it, in most tokenizers."""
HEAD = 32
"""Characters of the text's beginning in a probe: enough to hold its first two tokens."""

Positions = Sequence[Sequence[Scored] | None]
"""One prompt's scores: ``None`` for the first position, then entries, the real token's first."""


class Unknown(ValueError):
    """An id that the server's answers do not tell; the message is one line."""


@dataclass(frozen=True)
class Found:
    """Ids of a text (the start token included, if the server puts one), and of the token after it.

    ``differs``: the first of the model's own tokens that the server reads otherwise; ``None`` when it reads them as
    they were written, or nothing was given to compare.
    """

    ids: list[int]
    after: list[int]
    differs: int | None


def probes(text: str, after: str = "") -> list[str]:
    """The prompts of the scoring request, in the order in which :func:`found` reads their scores."""
    if not text:
        raise Unknown("There is no text before this place whose ids could be asked for.")
    follow = [lead + after for lead in LEADS] if after else []
    return [text, *(lead + text[:HEAD] for lead in LEADS), *BOS_TEXTS, *follow]


def scoring_fields(prompts: list[str], like: dict[str, Any]) -> dict[str, Any]:
    """The fields of the scoring request; model and start token are ``like`` those of the request it is about.

    One token a prompt is made, since none cannot be.
    """
    same: dict[str, Any] = {name: like[name] for name in ("model", "add_special_tokens") if name in like}
    return {"prompt": prompts, "prompt_logprobs": 0, "max_tokens": 1, "temperature": 0.0, **same}


def found(text: str, after: str, scores: Sequence[Positions], written: Sequence[str] = ()) -> Found:
    """Read the answer to :func:`probes`. ``written``: the tokens in which a model wrote the end of the text.

    Raises :class:`Unknown` naming what the server did not tell.
    """
    whole, heads = scores[0], scores[1 : 1 + len(LEADS)]
    starts = scores[1 + len(LEADS) : 1 + len(LEADS) + len(BOS_TEXTS)]
    rest = [entries[0] for entries in whole[1:] if entries]
    if len(rest) != len(whole) - 1:
        raise Unknown("The server's scores of the text have gaps.")
    first = _first_of(text, heads, starts, rest)
    ids = [first, *(entry[0] for entry in rest)]
    return Found(
        ids, _after(after, scores) if after else [], differing([entry[1] for entry in rest], written)
    )


def by_itself(text: str) -> list[str]:
    """Probes for the ids of a text that is read by itself, without a start token; :func:`read_alone` reads them."""
    return [lead + text for lead in LEADS]


def read_alone(text: str, scores: Sequence[Positions]) -> list[int]:
    """The ids of a text by itself. Raises :class:`Unknown` when it joins whatever stands before it."""
    for lead, positions in zip(LEADS, scores, strict=True):
        read = [entries[0] for entries in positions[1:] if entries]
        if read and read[0][1] == lead and len(read) > 1:  # a start token stood before the lead
            read = read[1:]
        if read and "".join(entry[1] for entry in read) == text:
            return [entry[0] for entry in read]
    raise Unknown(f"The server does not tell the ids of {text[:40]!r} by itself.")


def differing(read: Sequence[str], written: Sequence[str]) -> int | None:
    """The first of the ``written`` tokens whose edges are not edges of the tokens that were ``read``.

    Both end where the text ends. Pieces of a character have no text of their own, and are compared by where the
    character ends.
    """
    edges = {0}
    place = 0
    for token in reversed(read):
        if "\ufffd" in token:
            break  # bytes that are no character: from here on places are not known
        place += len(token)
        edges.add(place)
    place, first = 0, None
    for index in range(len(written) - 1, -1, -1):
        length = len(written[index])
        if place + length > max(edges):
            break
        if length and (place not in edges or place + length not in edges):
            first = index
        place += length
    return first


def _first_of(text: str, heads: Sequence[Positions], starts: Sequence[Positions], rest: list[Scored]) -> int:
    """The id of the first position, which scores leave out: a start token, or the text's own first token."""
    for lead, head in zip(LEADS, heads, strict=True):
        read = [entries[0] for entries in head[1:] if entries]
        joined = "".join(entry[1] for entry in takewhile(_is_text, read))
        if text.startswith(lead) or not joined:
            continue
        if (lead + text).startswith(
            joined
        ):  # even the lead has a score: something without text stood before it
            return _start(starts)
        if text.startswith(joined) and _agree(read[1:], rest, cut=len(text) > HEAD):
            return read[0][0]
    raise Unknown("The server does not tell the id of the text's first token.")


def _agree(read: list[Scored], rest: list[Scored], *, cut: bool) -> bool:
    """Whether a probe was read as the text was; the probe's last token may be ``cut`` short."""
    seen = [entry[0] for entry in (read[:-1] if cut else read)]
    return seen == [entry[0] for entry in rest[: len(seen)]] and bool(seen or not rest)


def _is_text(entry: Scored) -> bool:
    return entry[1] != "" and "\ufffd" not in entry[1]


def _start(starts: Sequence[Positions]) -> int:
    for text, positions in zip(BOS_TEXTS, starts, strict=True):
        entries = positions[1] if len(positions) == 2 else None
        if entries and entries[0][1] == text:
            return entries[0][0]
    raise Unknown("The server puts a start token before texts, and does not tell its id.")


def _after(after: str, scores: Sequence[Positions]) -> list[int]:
    probed = zip(LEADS, scores[-len(LEADS) :], strict=True)
    known = [one for lead, positions in probed if (one := _follower(lead, after, positions)) is not None]
    if not known:
        raise Unknown(f"The server reads {after!r} as no single token; its id is not known.")
    return known[:1]


def _follower(lead: str, after: str, positions: Positions) -> int | None:
    read = [entries[0] for entries in positions[1:] if entries]
    if not read or read[-1][1] != after:
        return None
    before = "".join(entry[1] for entry in read[:-1])
    return read[-1][0] if before in ("", lead) else None
