"""A continuation as static markup: its tokens with tints and titles, in no more bytes than there is room for.

Owns the markup of tokens and how it grows leaner. It must not know pages, runs or notebooks. From the start of a
text as many tokens as have room are told in full: an element each, the alternatives in its title. After them,
neighbours of one level share an element, likely ones have none, and nothing has a title. The text is all there.

An unlikely token is a ``<u>``: where style sheets are taken away it is still underlined. A line break is written
``&#10;``, since a notebook file spends 14 bytes on each line of a string. A title tells the most likely first, the
sampled one among them: ``'·a' 20%, this 14.2%, '·his' 3%``; under one in a hundred only the sampled one is named. The
blank within an entry does not break, so that a style sheet can set one a line. The sampled one is not repeated where
it can be read.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from .reading import INVISIBLE, Piece, align, code_point, level_of, percent, ranked, visible

if TYPE_CHECKING:
    import re

    from ..log.session import Node

UNLIKELY = 3
"""From this level on a token is underlined, as in the live view."""

LEAST = 0.01
"""Alternatives below this probability are left out of titles."""

_MARK = len("<u class=k0></u>")
_LINE = 14
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_TITLE_ESCAPES = {**_ESCAPES, ord('"'): "&quot;", ord(" "): "\u00a0"}


def tinted(node: Node, room: float = math.inf) -> str:
    """The text of a node as markup of at most ``room`` bytes on file, if its text with a few tints fits in that.

    Below 0 it is the text alone.
    """
    if room < 0:
        return _body(node.text)
    pieces = align(node.text, node.tokens)
    levels = [level_of(node, piece) or 0 for piece in pieces]
    texts = [_body(piece.text) for piece in pieces]
    if room == math.inf:
        return "".join(map(_full, [node] * len(pieces), pieces, levels, texts))
    lean = [on_file(t) + (_MARK if k >= UNLIKELY else 0) for t, k in zip(texts, levels, strict=True)]
    rest = [*accumulate(reversed(lean), initial=0)][::-1]
    found: list[str] = []
    for place, piece in enumerate(pieces):
        full = _full(node, piece, levels[place], texts[place])
        room -= on_file(full)
        if room < rest[place + 1]:
            break
        found.append(full)
    done = len(found)
    return "".join([*found, *_lean(texts[done:], levels[done:])])


def text_of(text: str) -> str:
    """Escaped text; what cannot be seen or would steer the view is named, joiners inside words stay."""
    return INVISIBLE.sub(_named, text.translate(_ESCAPES))


def on_file(text: str) -> int:
    """Bytes of a string in a notebook file."""
    return (
        len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass"))
        - 2
        + _LINE * text.count("\n")
    )


def _body(text: str) -> str:
    return text_of(text).replace("\n", "<i></i>&#10;")


def _full(node: Node, piece: Piece, level: int, text: str) -> str:
    title = "" if piece.first < 0 else _title(node, piece)
    if not title:
        return text
    tag = "u" if level >= UNLIKELY else "span"
    name = f" class=k{level}" if level else ""
    return f'<{tag}{name} title="{title}">{text}</{tag}>'


def _lean(texts: list[str], levels: list[int]) -> list[str]:
    found = []
    marks = (level if level >= UNLIKELY else 0 for level in levels)
    for level, group in groupby(zip(marks, texts, strict=True), key=lambda one: one[0]):
        joined = "".join(text for _, text in group)
        found.append(f"<u class=k{level}>{joined}</u>" if level else joined)
    return found


def _title(node: Node, piece: Piece) -> str:
    told = [_token(node, index) for index in range(piece.first, piece.last + 1)]
    if len(told) > 1:
        return f"{len(told)}\u00a0tokens: {' / '.join(one or '?' for one in told)}"
    return told[0]


def _token(node: Node, index: int) -> str:
    token, logprob = node.tokens[index], node.logprobs[index]
    if logprob is None:
        return ""
    found, _ = ranked(token, logprob, node.top[index])
    return ", ".join(
        _entry(one.token, one.logprob, one.sampled)
        for one in found
        if one.sampled or math.exp(min(one.logprob, 0.0)) >= LEAST
    )


@lru_cache(maxsize=65_536)
def _entry(token: str, logprob: float, sampled: bool) -> str:
    share = percent(logprob) if sampled else f"{math.exp(min(logprob, 0.0)) * 100:.0f}%"
    shown = visible(token)
    name = f"'{shown}'".translate(_TITLE_ESCAPES) if token else "(no\u00a0text)"
    if sampled:  # a token that can be read is what the title stands at
        name = "this" if shown in {token, f"·{token[1:]}"} and token else f"this\u00a0{name}"
    return f"{name}\u00a0{share}"


def _named(found: re.Match[str]) -> str:
    character = found[0]
    return character if character in "\u200c\u200d" else f"⟨{code_point(character)}⟩"
