"""How texts are scored: which requests to send, and what their answers mean.

Owns batches, windows over long texts and the seam between a context and its continuation, as steps: each yields the
requests it needs and is sent their completions (or errors). It must not know clients or sockets; drivers are in
``score_steps.py``.

A text longer than the model's context is read in windows, one after the other. Each begins at a token of the one before
it, and its tokens count from the first edge on that both windows share and that has ``context`` tokens in front.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from .completion import MINUS_INFINITY, Alternative, Completion
from .errors import AcsError, ContextLengthExceeded, InvalidRequest, NoPromptLogprobs
from .events import Scored
from .score_values import Continuation, Score, ScoredToken
from .wire import Usage

Prompt = str | list[int]
Fields = dict[str, Any]
Result = Completion | AcsError
T = TypeVar("T")
Steps = Generator[list[Fields], list[Result], T]

BATCH = 64
"""Texts a request."""
_CHARS_A_TOKEN = 3
_SMALLEST = 64
_SLACK = 8
"""Tokens that a window goes further back than its context, so that an edge of both is found."""


def score_steps(
    texts: Sequence[Prompt], *, top: int = 0, batch: int = BATCH, limit: int | None = None,
    context: int | None = None, **fields: Any,
) -> Steps[list[Score]]:  # fmt: skip
    """Scores of texts, in their order. ``limit``: tokens that a prompt may have, when it is known."""
    check(texts, top, batch)
    scores: dict[int, Score] = {}
    short = [i for i, text in enumerate(texts) if not _is_long(text, limit)]
    groups = [short[start : start + batch] for start in range(0, len(short), batch)]
    asked = [_fields([texts[i] for i in group], top, fields) for group in groups]
    results = (yield asked) if asked else []
    apart: list[int] = [i for i in range(len(texts)) if _is_long(texts[i], limit)]
    for group, result in zip(groups, results, strict=True):
        if isinstance(result, ContextLengthExceeded):
            apart += group
            continue
        scores.update(zip(group, _scores(result, [texts[i] for i in group], top), strict=True))
    for i in sorted(apart):
        scores[i] = yield from _walk(texts[i], top, limit, context, fields)
    return [scores[i] for i in range(len(texts))]


def continuation_steps(
    pairs: Sequence[tuple[str, str]], *, seam: str = "nearest", **options: Any
) -> Steps[list[Continuation]]:
    """Log-probabilities of continuations, given their contexts: (context, continuation) pairs."""
    if seam not in ("nearest", "refuse"):
        raise InvalidRequest(f"seam={seam!r} must be 'nearest' or 'refuse'.")
    for context, text in pairs:
        if not text:
            raise InvalidRequest("A continuation is empty: it has nothing to score.")
        if not isinstance(context, str) or not isinstance(text, str):
            raise InvalidRequest("Context and continuation must be texts.")
    scores = yield from score_steps([context + text for context, text in pairs], **options)
    return [_continuation(*pair, score, seam) for pair, score in zip(pairs, scores, strict=True)]


def _continuation(context: str, text: str, score: Score, seam: str) -> Continuation:
    edge = len(context)
    counted = [token for token in score.tokens if token.end > edge]
    spanning = next((token for token in counted if token.start < edge), None)
    if spanning is not None and seam == "refuse":
        raise InvalidRequest(
            f"The token {spanning.text!r} spans the seam between context and continuation. "
            "Move the seam (a space belongs to the word behind it), or say seam='nearest'."
        )
    if counted and counted[0].logprob is None:
        raise InvalidRequest("The continuation's first token has nothing in front of it: give a context.")
    return Continuation(
        context, text, counted, score.model, "clean" if spanning is None else "nearest", score.usage,
        None if spanning is None else spanning.text,
    )  # fmt: skip


def check(texts: Sequence[Prompt], top: int, batch: int) -> None:
    """Refuse what cannot be scored, before anything is sent."""
    if not isinstance(batch, int) or batch < 1:
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


def _scores(result: Result, texts: list[Prompt], top: int) -> list[Score]:
    if isinstance(result, AcsError):
        raise result
    session, request_id = result.session, result.request_id
    return [
        _score(text, session.nodes[choice._node.parent or ""].scores, result.model or "", request_id, top)
        for text, choice in zip(texts, result.choices, strict=True)
    ]


def _score(text: Prompt, positions: Any, model: str, request_id: str | None, top: int) -> Score:
    if not positions or (len(positions) > 1 and not any(positions[1:])):
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
    rest = [entries for entries in positions if entries]
    texts = [entries[0][1] for entries in rest]
    joined = "".join(texts)
    if isinstance(text, str) and not text.endswith(joined):
        texts = _fitted(text, texts)
        joined = "".join(texts)
    head = text[: len(text) - len(joined)] if isinstance(text, str) else ""
    start_token = isinstance(text, str) and not head and len(rest) < len(positions)
    tokens: list[ScoredToken] = []
    if len(rest) < len(positions) and not start_token:
        first = text[0] if isinstance(text, list) else None
        tokens.append(ScoredToken(0, head, 0, first))
    place = len(head)
    for entries, own in zip(rest, texts, strict=True):
        tokens.append(_token(len(tokens), own, place, entries, top))
        place += len(own)
    return tokens, start_token


def _token(position: int, text: str, place: int, entries: list[Scored], top: int) -> ScoredToken:
    # vLLM puts the text's own token first, whatever its rank; the others follow from rank 1 on.
    token, _, logprob, rank = entries[0]
    told = [Alternative(e[1], _minus_infinity(e[2])) for e in entries if e[3] is None or e[3] <= top]
    likeliest = tuple(sorted(told, key=lambda each: -each.logprob)[:top])
    return ScoredToken(position, text, place, token, _minus_infinity(logprob), rank, likeliest)


def _minus_infinity(logprob: float) -> float:
    return float("-inf") if logprob <= MINUS_INFINITY else logprob


def _fitted(text: str, texts: list[str]) -> list[str]:
    """Token texts laid on the text from its end: what the server decoded otherwise gets the characters between."""
    fitted, end = list(texts), len(text)
    for index in range(len(texts) - 1, -1, -1):
        piece = texts[index]
        if piece and not text.endswith(piece, 0, end):
            piece = ""
        fitted[index] = piece
        end -= len(piece)
    return fitted


def _walk(text: Prompt, top: int, limit: int | None, context: int | None, fields: Fields) -> Steps[Score]:
    """One long text, window by window. Places are characters of a text, or tokens of a list of ids."""
    known = limit or 2048
    shared = known // 4 if context is None else context
    if not 0 <= shared < known:
        raise InvalidRequest(f"context={shared} must be from 0 on and below the {known} tokens that fit.")
    size = known if isinstance(text, list) else known * _CHARS_A_TOKEN
    placed: list[tuple[int, ScoredToken]] = []
    parts: list[Score] = []
    edges: list[int] = []
    begin = 0
    while True:
        piece = text[begin : begin + size]
        [result] = yield [_fields([piece], top, fields)]
        if isinstance(result, ContextLengthExceeded) and size > _SMALLEST:
            size = size * 3 // 4
            continue
        [part] = _scores(result, [piece], top)
        fresh = _placed(part, begin, by_token=isinstance(text, list))
        if parts:
            cut = _shared_edge(placed, fresh, shared)
            edges.append(cut)
            placed = [each for each in placed if each[0] < cut] + [each for each in fresh if each[0] >= cut]
        else:
            placed = fresh
        parts.append(part)
        if begin + size >= len(text):
            break
        begin = _next(placed, begin, shared)
    return _one(parts, [token for _, token in placed], edges)


def _placed(part: Score, begin: int, *, by_token: bool) -> list[tuple[int, ScoredToken]]:
    return [(begin + (token.position if by_token else token.start), token) for token in part.tokens]


def _shared_edge(
    before: list[tuple[int, ScoredToken]], fresh: list[tuple[int, ScoredToken]], context: int
) -> int:
    """The first place that is an edge of both, with ``context`` (at least one) tokens of the new window in front."""
    known = {place for place, _ in before}
    candidates = [place for place, token in fresh[max(1, context) :] if token.logprob is not None]
    return next(
        (place for place in candidates if place in known), candidates[0] if candidates else fresh[-1][0]
    )


def _next(placed: list[tuple[int, ScoredToken]], begin: int, context: int) -> int:
    """Where the next window begins: at a token, far enough back, and further than the last one."""
    wanted = max(0, len(placed) - context - _SLACK)
    later = [place for place, _ in placed[wanted:] if place > begin]
    return later[0] if later else placed[-1][0] + max(1, len(placed[-1][1].text))


def _one(parts: list[Score], tokens: list[ScoredToken], edges: list[int]) -> Score:
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
