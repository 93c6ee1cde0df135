"""The rank of a sampled token, as far as the alternatives that came with it tell it.

Owns that one rule. It must not know who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .events import Top
    from .session import Node, Session


def rank_of(token: str, logprob: float | None, top: Top | None, asked: int | None) -> int | None:
    """1 = most likely; ``None`` where it is not known: nothing was returned, or the token is not among the likeliest.

    A server lists the ``asked`` likeliest tokens and, when it is not among them, the sampled one: one entry more than
    asked, below all others, has a rank of ``asked`` + 1 at the least. Where it is not known how many were asked for,
    the last of a list counts as such.
    """
    if top is None or logprob is None:
        return None
    others = [value for text, value in top.items() if text != token]
    before = sum(value > logprob for value in others)
    last = before == len(others)
    return None if last and (asked is None or len(others) >= asked) else before + 1


def asked_of(session: Session, node: Node, index: int) -> int | None:
    """How many alternatives the request of a node's token asked for; ``None`` where that is not known."""
    # What a branch took over was asked for by another run, maybe with other figures.
    asked = None if index < node.kept else session.runs[node.run].request.get("logprobs")
    return asked if isinstance(asked, int) and not isinstance(asked, bool) else None
