"""Thousands of texts scored through a rollout's file: durable, resumable, a frame of documents at the end.

Owns how documents become the items of a rollout and how its rows become scores again. It must not know how requests
are sent, nor what a plan or a journal looks like inside.

A document that may be longer than the model's context is cut beforehand into windows that overlap (the plan of a file
must not depend on answers). One that was still too long is cut into windows of half the size, in a second file beside
the first (``x.acs.db``, ``x-2.acs.db``); a call again finds all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InvalidRequest, NoPromptLogprobs
from .rollouts import Rollout, rollout
from .rollouts.results import Entry, Results
from .score_steps import CHARS_A_TOKEN, SMALLEST, TOO_LONG, can_score, score_of
from .score_values import Score
from .score_windows import pieces, together
from .scoring import client_of, with_limit

if TYPE_CHECKING:
    import pandas as pd

    from .client import Client

COLUMNS = ["tokens", "bytes", "logprob", "perplexity", "bits_per_byte", "windows", "billed", "error"]
_TOO_LONG = {kind.code for kind in TOO_LONG}
_LEFT = "not scored yet"
_UNKNOWN_LIMIT = 2048
_OVERLAP_CHARS = 5
"""Characters of overlap for each token of context: more than a token has in most texts."""


@dataclass(frozen=True)
class Text:
    """One text of a file: its score, or why there is none. ``billed``: tokens, of all that was tried."""

    score: Score | None
    error: str | None
    billed: int

    @property
    def failed(self) -> bool:
        """Whether it was tried and cannot be had; false for one that was not sent yet."""
        return self.error not in (None, _LEFT)


def perplexities(
    texts: Any,
    into: str | os.PathLike[str],
    *,
    column: str = "text",
    client: Client | None = None,
    **options: Any,
) -> pd.DataFrame:
    """See :func:`acs_jupyter.perplexity`: the frame of documents that were scored through a file."""
    import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

    listed, index, others = source_of(texts, column)
    rows = [_row(one) for one in scored(listed, into, client=client, **options)]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=COLUMNS, index=index)
    frame = frame.astype({"tokens": "Int64", "bytes": "Int64", "windows": "Int64", "billed": "Int64"})
    if others is not None:
        kept = others.drop(columns=[name for name in COLUMNS if name in others.columns])
        frame = pd.concat([kept, frame], axis=1)
    left = int(frame["error"].eq(_LEFT).sum())
    frame.attrs = {"into": str(into), "billed": int(frame["billed"].sum()), "left": left}
    return frame


def source_of(texts: Any, column: str) -> tuple[list[str], Any, Any]:
    """The texts of a list, Series or frame; its index if it has one; and a frame's other columns."""
    if hasattr(texts, "columns") and hasattr(texts, "iterrows"):
        if column not in texts.columns:
            names = ", ".join(map(str, list(texts.columns)[:12]))
            raise InvalidRequest(
                f"The frame has no column '{column}'. Name it with column=; there are: {names}."
            )
        return list(texts[column]), texts.index, texts.drop(columns=[column])
    index = texts.index if hasattr(texts, "to_list") and hasattr(texts, "index") else None
    return list(texts), index, None


def scored(
    texts: Sequence[str],
    into: str | os.PathLike[str],
    *,
    top: int = 0,
    context: int | None = None,
    client: Client | None = None,
    windows: bool = True,
    **options: Any,
) -> list[Text]:
    """What each text scored, in order, as far as it has; the same call goes on with the file.

    ``context``: tokens in front of every scored one where a text is read in windows, by default a quarter of the
    model's context; without ``windows`` a text that is too long is an error. Other options as for ``rollout``.
    Raises :class:`NoPromptLogprobs`, after the first answers, when the server cannot score.
    """
    for number, text in enumerate(texts):
        if not isinstance(text, str) or not text:
            raise InvalidRequest(
                f"Text {number} is {'empty' if text == '' else 'no text'}: it has nothing to score."
            )
    found: list[Text | None] = [None] * len(texts)
    path, left = Path(into), list(range(len(texts)))
    with client_of(client) as used:
        size, tokens = _size(path, used, options) if windows else (None, None)
        spared = context if context is not None else (tokens or _UNKNOWN_LIMIT) // 4
        for attempt in range(2, 12):
            plan = _Plan(path, size, spared, top)
            _send(plan, [(number, texts[number]) for number in left], used, options)
            for number, one in _read(plan):
                before = found[number]
                found[number] = one if before is None else replace(one, billed=one.billed + before.billed)
            whole = all(
                one is None or one.error != _LEFT for one in found
            )  # else the next plan is not known yet
            left = [number for number in left if windows and whole and _too_long(found[number])]
            if not left or (size is not None and size // 2 < SMALLEST):
                break
            size = _UNKNOWN_LIMIT * CHARS_A_TOKEN if size is None else size // 2
            path = _beside(Path(into), attempt)
    return [one or Text(None, _LEFT, 0) for one in found]


@dataclass(frozen=True)
class _Plan:
    """One file. ``size``: characters a window, ``None``: texts are whole; ``context``: tokens."""

    path: Path
    size: int | None
    context: int
    top: int

    def items(self, texts: Sequence[tuple[int, str]]) -> Iterator[dict[str, Any]]:
        for number, text in texts:
            size = self.size or len(text)
            for begin, end in pieces(len(text), size, min(size // 2, self.context * _OVERLAP_CHARS)):
                yield {"prompt": text[begin:end], "document": number, "begin": begin, "window": self.size}


def _size(path: Path, client: Client, options: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Characters of a window and tokens that fit: what a file that is there was made with, else by the model's own."""
    if path.exists():
        with suppress(
            InvalidRequest, StopIteration, KeyError
        ):  # what is wrong with it is told when it is opened
            size = next(Results(path).entries(pending=True)).meta["window"]
            return size, None if size is None else size // CHARS_A_TOKEN
    limit = with_limit({"model": options.get("model")}, client)["limit"]
    return (None, None) if limit is None else (limit * CHARS_A_TOKEN, limit)


def _send(plan: _Plan, texts: Sequence[tuple[int, str]], client: Client, options: Mapping[str, Any]) -> None:
    same = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": plan.top}
    shown = options.get("progress", True)
    run = rollout(
        plan.items(texts), into=plan.path, client=client, bg=True, **{**same, **options, "progress": shown}
    )
    known = False
    while not run.done:
        run.wait(0.3)
        known = known or _can_score(run)
    run.wait()
    _can_score(run)


def _can_score(run: Rollout) -> bool:
    """Whether an answer has shown it. The first one without scores ends the run: all others would be paid in vain."""
    done = (
        one.result for one in Results(run.path).entries() if one.state == "done" and one.result is not None
    )
    for result in done:
        able = can_score(result.scores)
        if able is False:
            run.stop(drop=True)
            run.wait()
            model = result.checkpoint or "The server"
            raise NoPromptLogprobs(f"{model} returned no prompt log-probabilities: it cannot score texts.")
        if able:
            return True
    return False


def _read(plan: _Plan) -> Iterator[tuple[int, Text]]:
    """The documents of a file, each from its windows, which stand there one after the other."""
    group: list[Entry] = []
    for entry in Results(plan.path).entries(pending=True):
        if group and entry.meta["document"] != group[0].meta["document"]:
            yield _document(group, plan)
            group = []
        group.append(entry)
    if group:
        yield _document(group, plan)


def _document(group: list[Entry], plan: _Plan) -> tuple[int, Text]:
    number = int(group[0].meta["document"])
    billed = sum(entry.prompt_tokens + entry.completion_tokens for entry in group)
    failed = next((entry for entry in group if entry.state == "failed"), None)
    if failed is not None:
        return number, Text(None, failed.code or "failed", billed)
    if any(entry.state != "done" for entry in group):
        return number, Text(None, _LEFT, billed)
    try:
        parts = [(entry.meta["begin"], _score(entry, plan.top)) for entry in group]
    except NoPromptLogprobs as error:
        return number, Text(None, error.code, billed)
    whole = parts[0][1] if len(parts) == 1 else together(parts, plan.context)
    return number, Text(whole, None if whole else "windows_differ", billed)


def _score(entry: Entry, top: int) -> Score:
    result = entry.result
    if result is None:
        raise NoPromptLogprobs("The file holds no scores of this text.")
    return score_of(entry.prompt, result.scores, result.checkpoint or "", result.request_id, top)


def _too_long(one: Text | None) -> bool:
    return one is not None and one.error in _TOO_LONG


def _beside(path: Path, number: int) -> Path:
    stem, dot, rest = path.name.partition(".")
    return path.with_name(f"{stem}-{number}{dot}{rest}")


def _row(one: Text) -> list[Any]:
    score = one.score
    if score is None:
        return [None, None, math.nan, math.nan, math.nan, None, one.billed, one.error]
    windows = len(score.windows) + 1
    numbers = [score.logprob, score.perplexity, score.bits_per_byte]
    return [score.scored, score.bytes, *numbers, windows, one.billed, None]
