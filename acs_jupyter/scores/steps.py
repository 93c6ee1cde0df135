"""How texts are scored: which requests to send, and what their answers mean.

Owns batches and the walk over a text that is too long, as steps: each yields the requests it needs and is sent their
completions (or errors). It must not know clients or sockets; drivers are in ``scoring.py``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from typing import Any, TypeVar

from ..completion import MINUS_INFINITY, Alternative, Completion
from ..errors import AcsError, ContextLengthExceeded, EngineContextLength, InvalidRequest, NoPromptLogprobs
from ..log.events import Scored
from ..wire import Usage
from .fitting import all_told, fitted, own_by_ids
from .values import Score, ScoredToken
from .windows import Placed, cut_over, joined, next_begin, placed, shared_edge

Prompt = str | list[int]
Fields = dict[str, Any]
Result = Completion | AcsError
T = TypeVar("T")
Steps = Generator[list[Fields], Iterable[Result], T]
"""Asks for requests and is sent their results in order, which may come one by one while the next is under way."""

BATCH = 64
"""Texts a request."""
TOO_LONG = (ContextLengthExceeded, EngineContextLength)
"""What a server or its engine says of a text above the model's context."""
CHARS_A_TOKEN = 3
SMALLEST = 64


def score_steps(
    texts: Sequence[Prompt], *, top: int = 0, batch: int = BATCH, limit: int | None = None,
    context: int | None = None, **fields: Any,
) -> Steps[list[Score]]:  # fmt: skip
    """Scores of texts, in their order. ``limit``: tokens that a prompt may have, when it is known."""
    check(texts, top, batch)
    if context is not None and (isinstance(context, bool) or not isinstance(context, int) or context < 0):
        raise InvalidRequest(f"context={context!r} must be a whole number of tokens from 0 on.")
    scores: dict[int, Score] = {}
    short = [i for i, text in enumerate(texts) if not _is_long(text, limit)]
    groups = _groups(texts, short, batch, limit)
    asked = [_fields([texts[i] for i in group], top, fields) for group in groups]
    results: Iterable[Result] = (yield asked) if asked else []
    apart: list[int] = [i for i in range(len(texts)) if _is_long(texts[i], limit)]
    for group, result in zip(groups, results, strict=True):
        if isinstance(result, TOO_LONG):
            apart += group
            continue
        scores.update(zip(group, scores_of(result, [texts[i] for i in group], top), strict=True))
    for i in sorted(apart):
        scores[i] = yield from _walk(texts[i], top, limit, context, fields)
    return [scores[i] for i in range(len(texts))]


def _groups(texts: Sequence[Prompt], chosen: list[int], batch: int, limit: int | None) -> list[list[int]]:
    """Which texts share a request. A service may count the prompts of a batch together against the length of one: where
    that is known, no more are put together than surely fit."""
    groups: list[list[int]] = []
    room, size = limit or math.inf, math.inf
    for i in chosen:
        text = texts[i]
        most = 1 + (len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else len(text))
        if not groups or len(groups[-1]) == batch or size + most > room:
            groups.append([])
            size = 0
        groups[-1].append(i)
        size += most
    return groups


def check(texts: Sequence[Prompt], top: int, batch: int) -> None:
    """Refuse what cannot be scored, before anything is sent."""
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidRequest(f"batch={batch!r} must be a whole number from 1 on.")
    if isinstance(top, bool) or not isinstance(top, int) or top < 0:
        raise InvalidRequest(f"top={top!r} must be a whole number from 0 on; distributions() gives all.")
    if len({isinstance(text, str) for text in texts}) > 1:
        raise InvalidRequest("Texts and token ids cannot be scored in one batch: score them apart.")
    for index, text in enumerate(texts):
        if not isinstance(text, str) and not _is_ids(text):
            raise InvalidRequest(f"Text {index} must be a text or a list of token ids.")
        if not len(text):
            raise InvalidRequest(f"Text {index} is empty: it has nothing to score.")


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) for item in value
    )


def _is_long(text: Prompt, limit: int | None) -> bool:
    """Whether it is known beforehand that a text does not fit: ids are counted, a text is tried."""
    return limit is not None and isinstance(text, list) and len(text) > limit


def _fields(prompts: list[Prompt], top: int, fields: Fields) -> Fields:
    prompt = prompts[0] if len(prompts) == 1 else prompts
    return {
        "prompt": prompt,
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": top,
        "stream": False,
        **fields,
    }


def scores_of(result: Result, texts: Sequence[Prompt], top: int) -> list[Score]:
    """The scores of the texts of one request; raises its error if it has one."""
    if isinstance(result, AcsError):
        raise result
    session, request_id = result.session, result.request_id
    if len(result.choices) != len(texts):
        raise NoPromptLogprobs(
            f"The server answered {len(result.choices)} of {len(texts)} texts: its scores cannot be used."
        )
    return [
        score_of(text, session.nodes[choice._node.parent or ""].scores, result.model or "", request_id, top)
        for text, choice in zip(texts, result.choices, strict=True)
    ]


def can_score(positions: Any) -> bool | None:
    """Whether an answer has scores of its prompt; ``None`` for a prompt of one token, which need not have any."""
    if positions and len(positions) == 1:
        return any(positions) or None
    return bool(positions) and any(positions[1:])


def score_of(text: Prompt, positions: Any, model: str, request_id: str | None, top: int) -> Score:
    """The score of a text by what a server told of its positions. Raises :class:`NoPromptLogprobs` without any."""
    if can_score(positions) is False:
        raise NoPromptLogprobs(
            f"{model or 'The server'} returned no prompt log-probabilities: it cannot score texts."
        )
    tokens, start_token = _tokens(text, positions, top)
    ids = () if request_id is None else (request_id,)
    whole = "".join(token.text for token in tokens)
    return Score(whole, tokens, model, start_token, Usage(len(positions), 1, len(positions) + 1), ids)


def _tokens(
    text: Prompt, positions: Sequence[list[Scored] | None], top: int
) -> tuple[list[ScoredToken], bool]:
    rest = all_told(positions)
    if isinstance(text, str):
        owns = [entries[0] for entries in rest]
        texts = fitted(text, rest)
    else:
        owns = [entry for entry in own_by_ids(text, positions) if entry is not None]
        texts = [entry[1] for entry in owns]
    joined = "".join(texts)
    head = text[: len(text) - len(joined)] if isinstance(text, str) else ""
    start_token = isinstance(text, str) and not head and len(rest) < len(positions)
    tokens: list[ScoredToken] = []
    if len(rest) < len(positions) and not start_token:
        first = text[0] if isinstance(text, list) else None
        tokens.append(ScoredToken(0, head, 0, first))
    place = len(head)
    for (token, _, logprob, rank), entries, piece in zip(owns, rest, texts, strict=True):
        likeliest = _likeliest(entries, top) if top else ()
        tokens.append(
            ScoredToken(len(tokens), piece, place, token, _minus_infinity(logprob), rank, likeliest)
        )
        place += len(piece)
    return tokens, start_token


def _likeliest(entries: list[Scored], top: int) -> tuple[Alternative, ...]:
    told = [Alternative(e[1], _minus_infinity(e[2])) for e in entries if e[3] is None or e[3] <= top]
    return tuple(sorted(told, key=lambda each: -each.logprob)[:top])


def _minus_infinity(logprob: float) -> float:
    return float("-inf") if logprob <= MINUS_INFINITY else logprob


def _walk(text: Prompt, top: int, limit: int | None, context: int | None, fields: Fields) -> Steps[Score]:
    """One long text, window by window. Places are characters of a text, or tokens of a list of ids."""
    known = limit or 2048
    shared = known // 4 if context is None else context
    if not shared < known:
        raise InvalidRequest(f"context={shared} must be below the {known} tokens that fit.")
    size = known if isinstance(text, list) else known * CHARS_A_TOKEN
    so_far: Placed = []
    parts: list[Score] = []
    edges: list[int] = []
    begin = 0
    while True:
        piece = text[begin : begin + size]
        [result] = yield [_fields([piece], top, fields)]
        if isinstance(result, TOO_LONG) and size > SMALLEST:
            size = size * 3 // 4
            continue
        [part] = scores_of(result, [piece], top)
        fresh = placed(part, begin, by_token=isinstance(text, list))
        if parts:
            cut = shared_edge(so_far, fresh, shared)
            edges.append(cut)
            so_far = cut_over(so_far, fresh, cut)
        else:
            so_far = fresh
        parts.append(part)
        if begin + size >= len(text):
            break
        begin = next_begin(so_far, begin, shared)
    return joined(parts, [token for _, token in so_far], edges)
