"""Whole distributions over a vocabulary: what can be asked of them, and how they are kept.

Owns the arithmetic (natural logarithms, float64 sums over float32 rows) and the file. It must not know how they were
obtained.

Formulas: entropy H(p) = -sum p ln p; Kullback-Leibler divergence KL(p, q) = sum p (ln p - ln q); Jensen-Shannon
divergence JS(p, q) = KL(p, m) / 2 + KL(q, m) / 2 with m = (p + q) / 2, at most ln 2 (Lin, 1991).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InvalidRequest
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_FORMAT = 1


class Likely(NamedTuple):
    """One token of a distribution; ``logprob`` is natural, ``rank`` 1 the most likely."""

    id: int
    text: str
    logprob: float
    rank: int

    @property
    def probability(self) -> float:
        """``exp(logprob)``, at most 1."""
        return math.exp(min(self.logprob, 0.0))


class Distribution:
    """The model's distribution at one position.

    ``logprobs``: float32 of shape (vocabulary,), natural logarithms. ``own``: the id of the text's own token there,
    ``None`` for a position that no text follows.
    """

    def __init__(
        self,
        logprobs: NDArray[np.float32],
        vocabulary: Vocabulary,
        *,
        position: int,
        own: int | None,
        model: str = "",
    ) -> None:
        self.logprobs, self.vocabulary = logprobs, vocabulary
        self.position, self.own, self.model = position, own, model

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """``exp(logprobs)``; they sum to 1 as far as float32 goes."""
        return np.exp(_known(self.logprobs))

    @property
    def entropy(self) -> float:
        """In bits."""
        logs = _known(self.logprobs)
        return float(-np.sum(np.exp(logs) * np.where(np.isneginf(logs), 0.0, logs)) / math.log(2))

    def top(self, count: int = 10) -> list[Likely]:
        """The most likely tokens; of equal ones the lower id first."""
        count = max(0, min(count, len(self.logprobs)))
        logs = _known(self.logprobs)
        best = np.lexsort((np.arange(len(logs)), -logs))[:count]
        return [self._likely(int(token), rank) for rank, token in enumerate(best, 1)]

    def of(self, token: int | str) -> Likely:
        """One token, by id or by text; a text that several ids decode to means the likeliest of them."""
        ids = [token] if isinstance(token, int) else self.vocabulary.ids_of(token)
        if not ids or not all(0 <= each < len(self.logprobs) for each in ids):
            raise InvalidRequest(
                f"token={token!r} is not in the vocabulary of {len(self.logprobs)} tokens; take an id below that."
            )
        best = max(ids, key=lambda each: float(_known(self.logprobs[each : each + 1])[0]))
        return self._likely(best, self.rank(best))

    def rank(self, token: int) -> int:
        """1 = most likely: one more than the number of tokens that are more likely."""
        return 1 + int(np.count_nonzero(self.logprobs > self.logprobs[token]))

    def kl(self, other: Distribution) -> float:
        """KL(self, other) in nats; ``inf`` when the other rules out what this one allows."""
        return _kl(_known(self.logprobs), self._beside(other))

    def js(self, other: Distribution) -> float:
        """The Jensen-Shannon divergence in nats, 0 to ln 2."""
        mine, theirs = _known(self.logprobs), self._beside(other)
        middle = np.logaddexp(mine, theirs) - math.log(2)
        return (_kl(mine, middle) + _kl(theirs, middle)) / 2

    def to_frame(self, count: int | None = None) -> pd.DataFrame:
        """One row a token, likeliest first: ``id``, ``text``, ``logprob`` (nats), ``probability``, ``rank``."""
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        rows = self.top(len(self.logprobs) if count is None else count)
        frame = pd.DataFrame(rows, columns=["id", "text", "logprob", "rank"])
        frame.insert(3, "probability", np.exp(frame["logprob"]))
        return frame

    def plot(self, ax: Any = None, *, count: int = 15) -> Any:
        """Bars of the likeliest tokens on matplotlib axes that are returned; see :mod:`acs_jupyter.plots`."""
        from .plots import distribution_plot  # noqa: PLC0415  # drawn only when asked for

        return distribution_plot(self, ax, count=count)

    def __len__(self) -> int:
        return len(self.logprobs)

    def __repr__(self) -> str:
        best = ", ".join(f"{each.text!r} {each.probability:.3f}" for each in self.top(3))
        return f"Distribution(position {self.position}, {len(self)} tokens: {best}, ...)"

    def _likely(self, token: int, rank: int) -> Likely:
        return Likely(token, self.vocabulary[token], float(_known(self.logprobs[token : token + 1])[0]), rank)

    def _beside(self, other: Distribution) -> NDArray[np.float64]:
        if self.vocabulary is not other.vocabulary and self.vocabulary != other.vocabulary:
            raise InvalidRequest(
                "These distributions are over different vocabularies; take both from one model."
            )
        return _known(other.logprobs)


class Distributions:
    """The distributions at the scored positions of one text: ``[i]`` is the one at position ``i``.

    ``logprobs``: float32 of shape (positions, vocabulary). ``ids``: the text's own token at each. ``first``: the
    position of the first row; those before it have no distribution, since nothing stands in front of them.
    """

    def __init__(
        self,
        logprobs: NDArray[np.float32],
        ids: list[int],
        *,
        first: int,
        vocabulary: Vocabulary,
        model: str = "",
    ) -> None:
        self.logprobs, self.ids, self.first = logprobs, ids, first
        self.vocabulary, self.model = vocabulary, model

    def __len__(self) -> int:
        return len(self.logprobs)

    def __getitem__(self, position: int) -> Distribution:
        end = self.first + len(self)
        row = (position + end if position < 0 else position) - self.first
        if not 0 <= row < len(self):
            raise IndexError(f"position={position}: there are distributions at {self.first}..{end - 1}.")
        return Distribution(
            self.logprobs[row],
            self.vocabulary,
            position=self.first + row,
            own=self.ids[row],
            model=self.model,
        )

    def __iter__(self) -> Any:
        return (self[self.first + row] for row in range(len(self)))

    @property
    def texts(self) -> list[str]:
        """The text's own token at each scored position."""
        return [self.vocabulary[token] for token in self.ids]

    def ranks(self, token: int | str) -> list[int]:
        """The rank of one token at every position."""
        ids = [token] if isinstance(token, int) else self.vocabulary.ids_of(token)
        if not ids:
            raise InvalidRequest(
                f"token={token!r} is not in the vocabulary of {len(self.vocabulary)} tokens; take an id below that."
            )
        return [min(each.rank(one) for one in ids) for each in self]

    def to_frame(self) -> pd.DataFrame:
        """One row a position: ``position``, ``id``, ``text``, ``logprob`` (nats), ``rank``, ``entropy`` (bits)."""
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        rows = [
            (each.position, each.own, self.vocabulary[each.own], float(each.logprobs[each.own]), each.rank(each.own),
             each.entropy)
            for each in self
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=["position", "id", "text", "logprob", "rank", "entropy"])

    def save(self, path: str | Path) -> Path:
        """Write a compressed ``.npz`` file: the float32 matrix as it is, ids, and the vocabulary's texts."""
        path = Path(path)
        path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
        words = self.vocabulary
        part = path.with_name(path.name + ".part")
        with part.open("wb") as file:
            np.savez_compressed(
                file, format=_FORMAT, logprobs=self.logprobs, ids=np.array(self.ids, np.int64), first=self.first,
                model=np.array(self.model), blob=np.frombuffer(words.blob, np.uint8), starts=words.starts,
                lengths=words.lengths,
            )  # fmt: skip
        part.replace(path)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Distributions:
        """Read what :meth:`save` wrote; raises ``ValueError`` for anything else."""
        try:
            with np.load(path, allow_pickle=False) as kept:
                if int(kept["format"]) != _FORMAT:
                    raise ValueError(f"{path} was written by a newer version.")
                words = Vocabulary(kept["blob"].tobytes(), kept["starts"], kept["lengths"])
                return cls(
                    kept["logprobs"], kept["ids"].tolist(), first=int(kept["first"]), vocabulary=words,
                    model=str(kept["model"]),
                )  # fmt: skip
        except FileNotFoundError:
            raise
        except (KeyError, EOFError, OSError, ValueError) as problem:
            told = str(problem) if "newer version" in str(problem) else f"{path} is no file of distributions."
            raise ValueError(told) from None

    def __repr__(self) -> str:
        return f"Distributions({len(self)} positions x {len(self.vocabulary)} tokens, {self.model!r})"


def _known(logs: NDArray[np.float32]) -> NDArray[np.float64]:
    """As float64; what was not told has no probability."""
    wide = logs.astype(np.float64)
    wide[np.isnan(wide)] = -np.inf
    return wide


def _kl(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    held = ~np.isneginf(p)
    return float(np.sum(np.exp(p[held]) * (p[held] - q[held])))
