"""The seam between a context and its continuation: where it lies in tokens, and what counts when no token ends there.

Owns the four ways to cut and the requests they need, as steps. It must not know clients or sockets.

    nearest   the token that spans the seam counts with the continuation (one request)
    boundary  the seam is moved to the nearer edge of that token, to its beginning when both are as near, or when
              nothing of the continuation would be left (one request)
    ids       context and continuation are each read by themselves and sent as token ids, cut exactly there
              (where the seam is not clean: three requests, about three times the tokens)
    refuse    an error
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import AcsError, InvalidRequest
from ..token_ids import Positions, Unknown, by_itself, found, probes, read_alone, scoring_fields
from ..wire import Usage
from .steps import Steps, score_steps
from .values import Continuation, Score, ScoredToken

SEAMS = ("nearest", "boundary", "ids", "refuse")
Pair = tuple[str, str]


def continuation_steps(
    pairs: Sequence[Pair], *, seam: str = "nearest", **options: Any
) -> Steps[list[Continuation]]:
    """Log-probabilities of continuations, given their contexts: (context, continuation) pairs."""
    _check(pairs, seam)
    scores = yield from score_steps([context + text for context, text in pairs], **options)
    told = [continuation_of(*pair, score, seam) for pair, score in zip(pairs, scores, strict=True)]
    apart = [i for i, one in enumerate(told) if one.spans is not None and seam == "ids"]
    if apart:
        exact = yield from _by_ids([told[i] for i in apart], options)
        for i, one in zip(apart, exact, strict=True):
            told[i] = one
    for one in told:
        if one.tokens and one.tokens[0].logprob is None:
            raise InvalidRequest("The continuation's first token has nothing in front of it: give a context.")
    return told


def _check(pairs: Sequence[Pair], seam: str) -> None:
    if seam not in SEAMS:
        raise InvalidRequest(f"seam={seam!r} must be one of {', '.join(SEAMS)}.")
    for context, text in pairs:
        if not text:
            raise InvalidRequest("A continuation is empty: it has nothing to score.")
        if not isinstance(context, str) or not isinstance(text, str):
            raise InvalidRequest("Context and continuation must be texts.")
        if seam == "ids" and not context:
            raise InvalidRequest("seam='ids' needs a context whose ids can be asked for.")


def continuation_of(context: str, text: str, score: Score, seam: str = "nearest") -> Continuation:
    """What the score of both together says of the continuation. ``ids`` is told as ``nearest`` until they are asked."""
    edge = len(context)
    counted = [token for token in score.tokens if token.end > edge]
    spanning = next((token for token in counted if token.start < edge), None)
    if spanning is None:
        return Continuation(context, text, counted, score.model, "clean", score.usage)
    if seam == "refuse":
        raise InvalidRequest(
            f"The token {spanning.text!r} spans the seam between context and continuation. Move the seam (a space "
            "belongs to the word behind it), or say seam='nearest', 'boundary' or 'ids'."
        )
    moved = spanning.start - edge
    if seam == "boundary" and spanning.end - edge < -moved and spanning is not counted[-1]:
        moved, counted = spanning.end - edge, _after(counted, spanning)
    told = "nearest" if seam == "ids" else seam
    return Continuation(context, text, counted, score.model, told, score.usage, spanning.text, moved)


def _after(tokens: list[ScoredToken], spanning: ScoredToken) -> list[ScoredToken]:
    return [token for token in tokens if token.position > spanning.position]


# -- by token ids ---------------------------------------------------------------------------------


def _by_ids(told: list[Continuation], options: dict[str, Any]) -> Steps[list[Continuation]]:
    """The same continuations, with both sides read apart; what was asked before is part of what they cost."""
    asked = [scoring_fields([*probes(one.context), *by_itself(one.text)], options) for one in told]
    results = yield [{**fields, "stream": False} for fields in asked]
    sides: list[tuple[list[int], list[int]]] = []
    spent: list[Usage] = []
    for one, result in zip(told, results, strict=True):
        if isinstance(result, AcsError):
            raise result
        sides.append(_sides(one, [result.session.nodes[root].scores or [] for root in result.session.roots]))
        spent.append(result.usage)
    scores = yield from score_steps([before + after for before, after in sides], **options)
    return [
        Continuation(
            one.context, one.text, score.tokens[len(before) :], score.model, "ids",
            _sum(one.usage, usage, score.usage), one.spans,
        )
        for one, (before, _), usage, score in zip(told, sides, spent, scores, strict=True)
    ]  # fmt: skip


def _sides(one: Continuation, scores: list[Positions]) -> tuple[list[int], list[int]]:
    count = len(by_itself(one.text))
    try:
        return found(one.context, "", scores[:-count]).ids, read_alone(one.text, scores[-count:])
    except Unknown as problem:
        raise InvalidRequest(
            f"seam='ids' cannot be had: {problem} Say seam='nearest' or 'boundary'."
        ) from None


def _sum(*usages: Usage) -> Usage:
    return Usage(
        sum(one.prompt_tokens for one in usages),
        sum(one.completion_tokens for one in usages),
        sum(one.total_tokens for one in usages),
    )
