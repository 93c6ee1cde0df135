"""A text that is longer than a model's context, read in windows that overlap, and put together again.

Owns where a window begins and from which token on it counts. Pure; it must not know requests.

Each window begins somewhere in the one before it, and its tokens count from the first edge on that both windows share
and that has ``context`` tokens in front. Places are characters of a text, or tokens of a list of ids.
"""

from __future__ import annotations

from ..wire import Usage
from .values import Score, ScoredToken

Placed = list[tuple[int, ScoredToken]]
"""Tokens with their places in the whole text."""

SLACK = 8
"""Tokens that a window goes further back than its context, so that an edge of both is found."""


def placed(part: Score, begin: int, *, by_token: bool) -> Placed:
    """A window's tokens with their places in the whole text."""
    return [(begin + (token.position if by_token else token.start), token) for token in part.tokens]


def cut_over(before: Placed, fresh: Placed, cut: int) -> Placed:
    """What counts of both: the first up to a place, the second from it on."""
    return [each for each in before if each[0] < cut] + [each for each in fresh if each[0] >= cut]


def shared_edge(before: Placed, fresh: Placed, context: int) -> int:
    """The first place that is an edge of both, with ``context`` (at least one) tokens of the new window in front."""
    known = {place for place, _ in before}
    candidates = [place for place, token in fresh[max(1, context) :] if token.logprob is not None]
    return next(
        (place for place in candidates if place in known), candidates[0] if candidates else fresh[-1][0]
    )


def next_begin(so_far: Placed, begin: int, context: int) -> int:
    """Where the next window begins: at a token, far enough back, and further than the last one."""
    wanted = max(0, len(so_far) - context - SLACK)
    later = [place for place, _ in so_far[wanted:] if place > begin]
    return later[0] if later else so_far[-1][0] + max(1, len(so_far[-1][1].text))


def pieces(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Windows over a text of so many characters that are known beforehand: places of equal size, each beginning
    ``overlap`` characters before the end of the one before it."""
    if length <= size:
        return [(0, length)]
    step = size - overlap
    begins = range(0, length - overlap, step)
    return [(begin, min(length, begin + size)) for begin in begins]


def together(parts: list[tuple[int, Score]], context: int) -> Score | None:
    """One score of windows known beforehand, each with the place at which it begins.

    Where the overlap holds fewer tokens than ``context``, a token has as many in front as there are. ``None`` when two
    windows share no edge: then the text was not read alike.
    """
    so_far = placed(parts[0][1], parts[0][0], by_token=False)
    edges = []
    for begin, part in parts[1:]:
        fresh = placed(part, begin, by_token=False)
        known = {place for place, _ in so_far} | {so_far[-1][0] + len(so_far[-1][1].text)}
        shared = [
            (before, place)
            for before, (place, token) in enumerate(fresh)
            if before and place in known and token.logprob is not None
        ]
        if not shared:
            return None
        cut = next((place for before, place in shared if before >= context), shared[-1][1])
        edges.append(cut)
        so_far = cut_over(so_far, fresh, cut)
    return joined([part for _, part in parts], [token for _, token in so_far], edges)


def joined(parts: list[Score], tokens: list[ScoredToken], edges: list[int]) -> Score:
    """One score of the tokens that count and of what all windows cost."""
    numbered: list[ScoredToken] = []
    place = 0
    for position, token in enumerate(tokens):
        numbered.append(
            ScoredToken(position, token.text, place, token.id, token.logprob, token.rank, token.top)
        )
        place += len(token.text)
    prompt = sum(part.usage.prompt_tokens for part in parts)
    usage = Usage(prompt, len(parts), prompt + len(parts))
    ids = tuple(one for part in parts for one in part.request_ids)
    whole = "".join(token.text for token in numbered)
    return Score(whole, numbered, parts[0].model, parts[0].start_token, usage, ids, tuple(edges))
