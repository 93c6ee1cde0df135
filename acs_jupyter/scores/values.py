"""What a model thinks of a text: tokens with their log-probabilities, and sums over them.

Owns the values that scoring gives and their units. It must not know requests.

Log-probabilities are natural (nats), surprisals are -log2 p (bits), ranks begin at 1. The first token of a text has
nothing in front of it and therefore no score, unless the server puts a start token there; sums are over what is
scored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..completion import Alternative
from ..wire import Usage

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["position", "id", "text", "start", "logprob", "surprisal", "rank"]


class ScoredToken(Struct, frozen=True, gc=False):
    """One token of a text. ``start``: its place in the text, in characters.

    ``logprob`` is ``-inf`` for a token the model rules out, and ``None`` (as are ``id`` and ``rank``) at the first
    position of a text, which no server scores. ``top``: the likeliest tokens of the place, as many as were asked for
    and told.
    """

    position: int
    text: str
    start: int
    id: int | None = None
    logprob: float | None = None
    rank: int | None = None
    top: tuple[Alternative, ...] = ()

    @property
    def probability(self) -> float | None:
        """``exp(logprob)``."""
        return None if self.logprob is None else math.exp(min(self.logprob, 0.0))

    @property
    def surprisal(self) -> float | None:
        """``-log2 p``, in bits."""
        return None if self.logprob is None else -self.logprob / math.log(2) + 0.0

    @property
    def end(self) -> int:
        """The place behind it, in characters."""
        return self.start + len(self.text)


def perplexity_of(logprob: float, scored: int) -> float:
    """``exp(-logprob / scored)``; ``nan`` for no token, ``inf`` where no number can hold it."""
    if not scored:
        return math.nan
    try:
        return math.exp(-logprob / scored)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Score:
    """One text as a model reads it.

    ``tokens``: all of them, in order; their texts join to the text. ``start_token``: whether the server put a start
    token in front, so that the first token is scored too. ``windows``: places (in characters) where another window
    begins to count, empty when the text was read in one. ``usage`` is what the server counted for it, the token that
    has to be generated included.
    """

    text: str
    tokens: list[ScoredToken]
    model: str
    start_token: bool
    usage: Usage
    request_ids: tuple[str, ...] = ()
    windows: tuple[int, ...] = ()
    _known: list[ScoredToken] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", [token for token in self.tokens if token.logprob is not None])

    @property
    def ids(self) -> list[int | None]:
        """Token ids; ``None`` at a first position that was not scored."""
        return [token.id for token in self.tokens]

    @property
    def logprobs(self) -> list[float | None]:
        """Natural logarithms, one a token."""
        return [token.logprob for token in self.tokens]

    @property
    def logprob(self) -> float:
        """The sum over the scored tokens, in nats."""
        return math.fsum(token.logprob or 0.0 for token in self._known)

    @property
    def scored(self) -> int:
        """How many tokens have a score."""
        return len(self._known)

    @property
    def perplexity(self) -> float:
        """``exp(-logprob / scored)``; ``nan`` when nothing is scored, ``inf`` where no number can hold it."""
        return perplexity_of(self.logprob, self.scored)

    @property
    def bytes(self) -> int:
        """UTF-8 bytes of the scored tokens."""
        return sum(len(token.text.encode("utf-8", "surrogatepass")) for token in self._known)

    @property
    def bits_per_byte(self) -> float:
        """``-logprob / ln 2`` over the UTF-8 bytes of the scored tokens; ``nan`` when there are none."""
        return -self.logprob / math.log(2) / self.bytes if self.bytes else math.nan

    def to_frame(self) -> pd.DataFrame:
        """One row a token: ``position``, ``id``, ``text``, ``start`` (characters), ``logprob`` (nats), ``surprisal``
        (bits), ``rank``; ``attrs`` hold ``model``, ``logprob``, ``perplexity``, ``bits_per_byte``."""
        frame = tokens_frame(self.tokens)
        frame.attrs = {
            name: getattr(self, name) for name in ("model", "logprob", "perplexity", "bits_per_byte")
        }
        return frame

    def plot(self, ax: Any = None, *, smooth: int | None = None) -> Any:
        """Surprisal along the text, in bits, on matplotlib axes that are returned; see :mod:`acs_jupyter.plots`."""
        from .plots import surprisal_plot  # noqa: PLC0415  # drawn only when asked for

        return surprisal_plot(self, ax, smooth=smooth)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        from ..widgets.score_static import score_bundle  # noqa: PLC0415  # drawn only when shown

        return score_bundle(self)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        short = self.text if len(self.text) <= 40 else self.text[:37] + "..."
        return f"Score({short!r}, {len(self)} tokens, logprob {self.logprob:.3f}, perplexity {self.perplexity:.2f})"


@dataclass(frozen=True)
class Continuation:
    """The log-probability of a continuation given its context.

    ``tokens``: those that count. ``seam``: ``clean`` when a token ends exactly where the context does; else how it was
    cut (see ``seams.py``): ``ids`` when both were sent as token ids, cut there; ``nearest`` when the token that spans
    the seam was counted with the continuation; ``boundary`` when the seam was moved to the nearer edge of that token.
    ``spans`` is its text, ``moved`` how many characters the seam was moved (below 0: into the context). ``usage``
    holds all that was asked for it.
    """

    context: str
    text: str
    tokens: list[ScoredToken]
    model: str
    seam: str
    usage: Usage
    spans: str | None = None
    moved: int = 0

    @property
    def logprob(self) -> float:
        """The sum, in nats."""
        return math.fsum(token.logprob or 0.0 for token in self.tokens)

    @property
    def per_token(self) -> float:
        """Nats a token; ``nan`` for an empty continuation."""
        return self.logprob / len(self.tokens) if self.tokens else math.nan

    @property
    def per_byte(self) -> float:
        """Nats a UTF-8 byte of the text that counts: the continuation's, or what a moved seam made of it; ``nan`` for
        an empty one."""
        counted = self.context[len(self.context) + self.moved :] if self.moved < 0 else ""
        size = len((counted + self.text[max(0, self.moved) :]).encode("utf-8", "surrogatepass"))
        return self.logprob / size if size else math.nan

    def to_frame(self) -> pd.DataFrame:
        """One row a token that counts, with the columns of :meth:`Score.to_frame`; ``start`` counts from the context's
        beginning. ``attrs`` hold ``model``, ``logprob``, ``per_token``, ``per_byte``, ``seam``."""
        frame = tokens_frame(self.tokens)
        frame.attrs = {
            name: getattr(self, name) for name in ("model", "logprob", "per_token", "per_byte", "seam")
        }
        return frame

    def __repr__(self) -> str:
        return f"Continuation({self.text!r}, logprob {self.logprob:.3f}, {len(self.tokens)} tokens, seam {self.seam})"


NORMALISATIONS: dict[str, Any] = {
    "sum": lambda one: one.logprob,
    "token": lambda one: one.per_token,
    "byte": lambda one: one.per_byte,
}
"""How candidates of different lengths are compared: the sum of their logprobs, or its mean over tokens or bytes."""


class Ranking(list[Continuation]):
    """Candidates after one context, likeliest first; ``by`` says by which of :data:`NORMALISATIONS`."""

    def __init__(self, candidates: Iterable[Continuation], by: str) -> None:
        self.by = by
        super().__init__(sorted(candidates, key=NORMALISATIONS[by], reverse=True))

    def to_frame(self) -> pd.DataFrame:
        """One row a candidate, likeliest first: ``rank`` (1 = likeliest), ``text``, ``logprob`` (nats, summed),
        ``per_token`` and ``per_byte`` (nats), ``tokens`` (that count), ``share`` (of e to the value ranked by, over all
        candidates, 0 to 1; ``nan`` when every one is ruled out), ``seam``. ``attrs``: ``context``, ``model``, ``by``.
        """
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        values = [NORMALISATIONS[self.by](one) for one in self]
        most = max(values, default=-math.inf)
        weights = [math.exp(value - most) if math.isfinite(most) else math.nan for value in values]
        rows = [
            [
                rank,
                one.text,
                one.logprob,
                one.per_token,
                one.per_byte,
                len(one.tokens),
                weight / sum(weights),
                one.seam,
            ]
            for rank, (one, weight) in enumerate(zip(self, weights, strict=True), 1)
        ]
        names = ["rank", "text", "logprob", "per_token", "per_byte", "tokens", "share", "seam"]
        frame = pd.DataFrame(rows, columns=names)
        frame.attrs = {
            "by": self.by,
            **({"context": self[0].context, "model": self[0].model} if self else {}),
        }
        return frame


def tokens_frame(tokens: list[ScoredToken]) -> pd.DataFrame:
    """One row a token; see :meth:`Score.to_frame`."""
    import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

    rows = [[getattr(token, name) for name in COLUMNS] for token in tokens]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"id": "Int64", "rank": "Int64"})
