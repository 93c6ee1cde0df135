"""A text under inspection: its tokens with what is known of each, and the whole distributions that were asked for.

Owns what a window is told, and which row of a distribution belongs to which token. It must not know requests, widgets
or markup.

Numbers for a window: log-probabilities are natural, ``-9999`` stands for ``-inf`` as on the wire, entropies are bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..completion import MINUS_INFINITY, Completion
from ..errors import InvalidRequest
from ..wire import Usage
from .values import Score, ScoredToken

if TYPE_CHECKING:
    from .distribution import Distribution, Distributions

MOST_ROWS = 100
"""Tokens of a whole distribution that a window is told, the text's own one beside them."""

TEMPERATURES = [round(step * 0.05, 2) for step in range(1, 41)]
"""For each of these a window knows the exact sum, so that it can say where a temperature moves the whole."""


@dataclass
class Inspected:
    """One text, scored or generated.

    ``before``: what stands in front of it and is not shown (a completion's prompt). ``front``: how many tokens that
    is, a start token included. ``asked``: alternatives asked for at each position. ``ranks``: ``server`` where it told
    them, ``returned`` where they are places among what was returned. ``asked_model``: the model a completion was
    asked of. ``known``: token to its whole distribution.
    """

    score: Score
    before: str | list[int] = ""
    front: int = 0
    asked: int = 0
    ranks: str = "server"
    asked_model: str | None = None
    known: dict[int, Distribution] = field(default_factory=dict)

    def prefix(self, position: int) -> str | list[int]:
        """The prompt whose last token is this one: ids where the text was given as ids."""
        tokens = self.score.tokens[: position + 1]
        ids = [token.id for token in tokens]
        if not self.before and not self.score.start_token and all(one is not None for one in ids):
            return [one for one in ids if one is not None]
        if isinstance(self.before, list):
            raise InvalidRequest(
                "The prompt was token ids and the text's own are not known: inspect completion.prompt + "
                "completion.with_ids().text instead."
            )
        return self.before + self.score.text[: tokens[-1].end]

    def cost(self, position: int) -> int:
        """Tokens of the request for a whole distribution there: the text up to it, and one generated."""
        return self.front + position + 2

    def learn(self, position: int, found: Distributions) -> None:
        """Take in the distributions of a prefix that ends with this token, as far back as both have the same tokens.

        Raises :class:`InvalidRequest` when its last token is another one: then the text up to here is read in other
        tokens than the whole.
        """
        own = self.score.tokens[position]
        if self.score.model and found.model and found.model != self.score.model:
            raise InvalidRequest(
                f"{found.model} answered, the text is scored by {self.score.model}: say which with model=..."
            )
        if not _same(own, found, len(found) - 1):
            read = found.texts[-1]
            raise InvalidRequest(
                f"Cut behind {own.text!r} the text is read in other tokens: its last one is {read!r}. "
                "Choose another position, or inspect token ids."
            )
        for row in range(len(found) - 1, -1, -1):
            place = position - (len(found) - 1 - row)
            if place < 0 or not _same(self.score.tokens[place], found, row):
                break
            self.known[place] = found[found.first + row]

    def ranks_of(self, token: str) -> list[int | None]:
        """The rank of a token at each position of which the whole distribution is known, else ``None``."""
        ranks: list[int | None] = [None] * len(self.score.tokens)
        for place, found in self.known.items():
            ids = found.vocabulary.ids_of(token)
            if not ids:
                raise InvalidRequest(
                    f"{token!r} is not one token of the vocabulary of {len(found)} tokens; try it with a "
                    "space in front, or a shorter one."
                )
            ranks[place] = min(found.rank(one) for one in ids)
        return ranks

    def to_browser(self) -> dict[str, Any]:
        """What a window shows: see ``js/src/parts/reading.ts``."""
        score = self.score
        statistics = {
            name: _told(getattr(score, name)) for name in ("logprob", "perplexity", "bits_per_byte")
        }
        return {
            "model": score.model,
            "asked": self.asked,
            "ranks": self.ranks,
            "front": self.front,
            "statistics": {"tokens": len(score), "scored": score.scored, "bytes": score.bytes, **statistics},
            "tokens": [_token(token) for token in score.tokens],
        }

    def whole_to_browser(self, told: list[int]) -> dict[str, Any]:
        """Entropies of the whole distributions, and the rows of those that were looked at."""
        size = len(self.score.tokens)
        entropies = [round(self.known[i].entropy, 4) if i in self.known else None for i in range(size)]
        return {"entropy": entropies, "rows": {str(i): whole_rows(self.known[i]) for i in told}}


def of_score(score: Score, asked: int) -> Inspected:
    """What was scored."""
    return Inspected(score, front=int(score.start_token), asked=asked)


def of_completion(completion: Completion, choice: int = 0) -> Inspected:
    """One choice of a completion, as far as its log-probabilities tell."""
    listed = completion.choices
    if not 0 <= choice < len(listed):
        raise InvalidRequest(f"choice={choice} must be from 0 to {len(listed) - 1}.")
    one = listed[choice]
    if not one.tokens:
        raise InvalidRequest("This completion has no log-probabilities: ask for them with logprobs=5.")
    tokens, place = [], 0
    for token in one.tokens:
        top = tuple(token.alternatives)
        tokens.append(
            ScoredToken(token.index, token.text, place, None, _finite(token.logprob), token.rank, top)
        )
        place += len(token.text)
    score = Score("".join(t.text for t in tokens), tokens, completion.model or "", False, Usage(0, 0, 0))
    before = one.prompt
    ids = completion.session.nodes[one._node.parent].ids if one._node.parent else None
    asked = completion.request.get("logprobs")
    front = 0 if one._node.echo else completion.usage.prompt_tokens // max(1, _prompts(completion))
    return Inspected(
        score, "" if one._node.echo else (ids if ids is not None and not before else before), front,
        asked if isinstance(asked, int) else 0, "returned", completion.request.get("model"),
    )  # fmt: skip


def whole_rows(found: Distribution) -> dict[str, Any]:
    """A whole distribution in a few thousand bytes: its likeliest tokens, the text's own, and sums for temperatures.

    ``sums``: ln of the sum of p^(1/T) over the vocabulary, for each of :data:`TEMPERATURES`.
    """
    import numpy as np  # noqa: PLC0415  # only where whole distributions are

    logs = np.where(np.isnan(found.logprobs), -np.inf, found.logprobs).astype(np.float64)
    most = float(logs.max())
    sums = [most / t + math.log(float(np.exp((logs - most) / t).sum())) for t in TEMPERATURES]
    own = None if found.own is None else found.of(found.own)
    return {
        "vocabulary": len(found),
        "entropy": round(found.entropy, 4),
        "rows": [[each.id, each.text, _told(each.logprob)] for each in found.top(MOST_ROWS)],
        "own": None if own is None else [own.id, own.text, _told(own.logprob), own.rank],
        "sums": [round(one, 5) for one in sums],
    }


def _same(token: ScoredToken, found: Distributions, row: int) -> bool:
    if token.id is not None:
        return found.ids[row] == token.id
    return found.texts[row] == token.text


def _token(token: ScoredToken) -> list[Any]:
    top = [[each.text, _told(each.logprob)] for each in token.top]
    return [token.text, token.id, _told(token.logprob), token.rank, top]


def _told(value: float | None) -> float | None:
    """As JSON can have it."""
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return MINUS_INFINITY if value < 0 else None
    return round(value, 5)


def _finite(logprob: float | None) -> float | None:
    return -math.inf if logprob is not None and logprob <= MINUS_INFINITY else logprob


def _prompts(completion: Completion) -> int:
    return len({choice._node.parent for choice in completion.choices})
