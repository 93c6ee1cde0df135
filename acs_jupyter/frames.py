"""Results as pandas frames.

Owns the columns and their units. It must not know where a completion came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from .widgets.reading import visible

if TYPE_CHECKING:
    from .completion import Choice, Completion
    from .notebook.boundary import Note
    from .wire import Model

TOKEN_COLUMNS = ["choice", "index", "token", "logprob", "probability", "surprisal", "rank", "other", "top"]
CHOICE_COLUMNS = ["choice", "prompt", "text", "finish_reason", "stop_reason", "logprob"]


class WholeFrame(pd.DataFrame):  # type: ignore[misc]  # pandas tells no types
    """A frame whose texts are shown whole; pandas would cut a sentence at 50 characters."""

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_colwidth", None):
            shown: str | None = super()._repr_html_()
            return shown

    def __repr__(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return str(super().__repr__())


def completion_frame(completion: Completion) -> pd.DataFrame:
    """One row a token when the tokens are known, else one row a choice.

    Token rows: ``choice``, ``index`` (from 0), ``token`` (decoded text), ``logprob`` (natural), ``probability``,
    ``surprisal`` (bits), ``rank`` (1 = most likely; ``<NA>`` for a token that is not among the returned likeliest: with
    ``logprobs=5`` its rank is 6 or more), ``other`` (mass not returned), ``top`` (dict of decoded text to logprob);
    of several prompts also ``prompt``.
    Choice rows: ``choice``, ``prompt``, ``text``, ``finish_reason``,
    ``stop_reason``, ``logprob`` (sum). ``frame.attrs`` holds model, request id and usage.
    """
    if any(choice.tokens for choice in completion.choices):
        several = not isinstance(completion.prompt, str) and len({c.prompt for c in completion.choices}) > 1
        rows = [
            [choice.index, *([choice.prompt] if several else []), *row]
            for choice in completion.choices
            for row in _token_rows(choice)
        ]
        first, *others = TOKEN_COLUMNS
        frame = pd.DataFrame(rows, columns=[first, *(["prompt"] if several else []), *others])
        frame = frame.astype({"rank": "Int64"})
    else:
        frame = pd.DataFrame([_choice_row(choice) for choice in completion.choices], columns=CHOICE_COLUMNS)
    usage = completion.usage
    frame.attrs.update(
        model=completion.model,
        request_id=completion.request_id,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
    )
    return frame


def _token_rows(choice: Choice) -> list[list[Any]]:
    return [
        [t.index, t.text, t.logprob, t.probability, t.surprisal, t.rank, t.other, t.top]
        for t in choice.tokens
    ]


def _choice_row(choice: Choice) -> list[Any]:
    return [
        choice.index,
        choice.prompt,
        choice.text,
        choice.finish_reason,
        choice.stop_reason,
        choice.logprob,
    ]


def models_frame(models: list[Model]) -> pd.DataFrame:
    """One row a model: ``id`` (what a request sends), ``checkpoint``, ``default``, ``gpu``, limits in tokens."""
    columns = ["id", "checkpoint", "default", "gpu", "max_model_len", "max_logprobs"]
    rows = [
        [
            model.id,
            model.served_model_name,
            model.default,
            model.gpu_shape,
            model.capabilities.max_model_len,
            model.capabilities.max_logprobs,
        ]
        for model in models
    ]
    return pd.DataFrame(rows, columns=columns)


def boundary_frame(measured: list[tuple[Note, Completion, Completion]]) -> pd.DataFrame:
    """The next token with a prompt as it is and without what a note names, side by side, most likely first.

    Blanks in tokens are shown, ``·the``, as tooltips do. A note stands in the first of its rows.

    Columns: ``note``, ``rank``, ``as_is`` and ``probability_as_is``, ``without`` and ``probability_without``.
    """
    rows = []
    for note, as_is, without in measured:
        pairs = zip(as_is.tokens[0].alternatives, without.tokens[0].alternatives, strict=False)
        for rank, (mine, other) in enumerate(pairs, start=1):
            told = note.what if rank == 1 else ""
            rows.append(
                [told, rank, visible(mine.text), mine.probability, visible(other.text), other.probability]
            )
    columns = ["note", "rank", "as_is", "probability_as_is", "without", "probability_without"]
    return WholeFrame(rows, columns=columns)
