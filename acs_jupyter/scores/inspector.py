"""``Inspector(text)``: a text, its scores and a window on both.

Owns where the scores come from and the request for a whole distribution. It must not know how either is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..completion import Completion
from ..errors import InvalidRequest
from ..keeping.showing import show_or_print
from ..widgets.inspector import InspectorWindow
from .inspected import Inspected, of_completion, of_score
from .scoring import client_of, limits_of, score
from .values import Score
from .whole import distributions

if TYPE_CHECKING:
    import pandas as pd

    from ..client import Client
    from .distribution import Distribution

TOP = 10
"""Alternatives a position that are asked for, where the model gives as many."""


class Inspector(InspectorWindow):
    """What a model thinks of a text, token by token; show it as a cell's last line.

    ``text``: a text or a list of token ids, which is scored (its tokens and one are spent), or a :class:`Score` or
    :class:`Completion` that is there already, for which nothing is asked. ``top``: alternatives at each position (10,
    or as many as the model gives). ``choice``: which of a completion's. Other options as for :func:`score`.

    ``inspector.score`` is what is shown; :meth:`distribution` and the window's button ask for a whole distribution.
    """

    def __init__(
        self,
        text: str | list[int] | Score | Completion,
        *,
        client: Client | None = None,
        top: int | None = None,
        choice: int = 0,
        **options: Any,
    ) -> None:
        self._client = client
        self._options = options
        super().__init__(_inspected(text, client, top, choice, options), self.distribution)

    @property
    def score(self) -> Score:
        """The text with its tokens."""
        return self._inspected.score

    def to_frame(self) -> pd.DataFrame:
        """The columns of :meth:`Score.to_frame`, and ``entropy`` (bits) where the whole distribution is known, else
        ``nan``. *Copy as table* in the window takes the same along, without the entropies."""
        frame = self.score.to_frame()
        known = self._inspected.known
        frame["entropy"] = [known[i].entropy if i in known else math.nan for i in range(len(frame))]
        return frame

    def distribution(self, position: int) -> Distribution:
        """The whole distribution of the token at a position, the one the text has there included.

        If it is not known yet: one request for the text up to this token, which also tells all positions before it.
        Raises :class:`InvalidRequest` when the text up to here is longer than the model's cap for whole distributions,
        or is read in other tokens when it ends here.
        """
        inspected = self._inspected
        tokens = inspected.score.tokens
        if not 0 <= position < len(tokens):
            raise InvalidRequest(f"position={position} must be from 0 to {len(tokens) - 1}.")
        if position not in inspected.known:
            if tokens[position].logprob is None:
                raise InvalidRequest(
                    "The first token has nothing in front of it: there is no distribution. Choose a later one."
                )
            self._ask(position)
        self.tell_whole(position)
        return inspected.known[position]

    def _ask(self, position: int) -> None:
        inspected = self._inspected
        asked = {k: v for k, v in self._options.items() if k not in ("batch", "context")}
        with client_of(self._client) as used:
            limits = limits_of(used, asked.get("model"))
            cap = limits.full_vocab_max_prompt_tokens if limits else None
            length = inspected.cost(position) - 1
            if cap is not None and length > cap:
                raise InvalidRequest(
                    f"The text up to here has {length:,} tokens; this model gives whole distributions for at most "
                    f"{cap:,}. Inspect a shorter part."
                )
            if model := inspected.asked_model or _id_of(used, inspected.score.model):
                asked.setdefault("model", model)
            inspected.learn(position, distributions(inspected.prefix(position), client=used, **asked))

    def _ipython_display_(self) -> None:
        show_or_print(self, self.line, self.plain())


def _id_of(client: Client, served: str) -> str | None:
    """The id that requests send for the model that answered under this name, if the server lists it."""
    names = {known.served_model_name or known.id: known.id for known in client.catalogue.models or ()}
    return names.get(served)


def _inspected(
    text: Any, client: Client | None, top: int | None, choice: int, options: dict[str, Any]
) -> Inspected:
    if isinstance(text, Completion):
        return of_completion(text, choice)
    if isinstance(text, Score):
        return of_score(text, max((len(token.top) for token in text.tokens), default=0))
    if not isinstance(text, (str, list)) or (
        isinstance(text, list) and not all(isinstance(i, int) for i in text)
    ):
        raise InvalidRequest("Inspector takes one text, a list of token ids, a Score or a Completion.")
    with client_of(client) as used:
        if top is None:
            limits = limits_of(used, options.get("model"))
            most = limits.max_logprobs if limits else None
            top = TOP if most is None or most < 0 else min(TOP, most)
        return of_score(score(text, client=used, top=top, **options), top)
