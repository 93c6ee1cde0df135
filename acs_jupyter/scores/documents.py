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

from ..amounts import budget_of
from ..completion import MINUS_INFINITY
from ..errors import InvalidRequest, NoPromptLogprobs
from ..rollouts import rollout
from ..rollouts.results import Entry, Results
from .scoring import client_of, with_limit
from .steps import CHARS_A_TOKEN, SMALLEST, TOO_LONG, can_score, score_of
from .values import Score, perplexity_of
from .windows import pieces, together

if TYPE_CHECKING:
    import pandas as pd

    from ..client import Client

COLUMNS = ["tokens", "bytes", "logprob", "perplexity", "bits_per_byte", "windows", "billed", "error"]
_TOO_LONG = {kind.code for kind in TOO_LONG}
_LEFT = "not scored yet"
_BATCH, _BATCH_BYTES = 32, 16_000
"""Texts a request, and their bytes: scoring costs an engine memory for every token of a request."""
_UNKNOWN_LIMIT = 2048
_OVERLAP_CHARS = 5
"""Characters of overlap for each token of context: more than a token has in most texts."""


@dataclass(frozen=True)
class Sums:
    """What is left of a score when its tokens are not kept. ``scored``: tokens; ``bytes``: UTF-8, of these;
    ``logprob``: nats, summed; ``windows``: in how many the text was read."""

    scored: int
    bytes: int
    logprob: float
    windows: int = 1

    @property
    def perplexity(self) -> float:
        """As :attr:`Score.perplexity`."""
        return perplexity_of(self.logprob, self.scored)

    @property
    def bits_per_byte(self) -> float:
        """As :attr:`Score.bits_per_byte`."""
        return -self.logprob / math.log(2) / self.bytes if self.bytes else math.nan


@dataclass(frozen=True)
class Text:
    """One text of a file: its score and sums, or why there are none. ``billed``: tokens, of all that was tried."""

    sums: Sums | None
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
    rows = [_row(one) for one in scored(listed, into, client=client, keep=False, **options)]
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
    keep: bool = True,
    **options: Any,
) -> list[Text]:
    """What each text scored, in order, as far as it has; the same call goes on with the file. Without ``keep`` the
    tokens are not kept, only their sums.

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
            plan = _Plan(path, size, spared, top, keep)
            for number, one in _send(plan, [(number, texts[number]) for number in left], used, options):
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
    return [one or Text(None, None, _LEFT, 0) for one in found]


@dataclass(frozen=True)
class _Plan:
    """One file. ``size``: characters a window, ``None``: texts are whole; ``context``: tokens."""

    path: Path
    size: int | None
    context: int
    top: int
    keep: bool

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


def _send(
    plan: _Plan, texts: Sequence[tuple[int, str]], client: Client, options: Mapping[str, Any]
) -> list[tuple[int, Text]]:
    """Run the file to its end, or as far as it goes, and read it meanwhile."""
    largest = max((len(text.encode("utf-8", "surrogatepass")) for _, text in texts), default=1)
    budget = budget_of(
        options.get("budget")
    )  # of which a batch must not hold much, or the rest could not be used
    room = _BATCH_BYTES if budget is None else min(_BATCH_BYTES, budget // _BATCH)
    batch = 1 if plan.top else max(1, min(_BATCH, room // largest))
    same = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": plan.top, "batch": batch}
    shown = options.get("progress", True)
    run = rollout(
        plan.items(texts), into=plan.path, client=client, bg=True, **{**same, **options, "progress": shown}
    )
    reader = _Reader(plan)
    try:
        while not run.done:
            run.wait(0.2)
            reader.read()
    except NoPromptLogprobs:
        run.stop(drop=True)  # all others would be paid in vain
        run.wait()
        raise
    run.wait()
    return reader.read(to_the_end=True)


class _Reader:
    """Reads a file while it is written, in its order: documents from their windows, which stand there in a row."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._results = Results(plan.path)
        self._after = -1
        self._group: list[Entry] = []
        self._found: list[tuple[int, Text]] = []
        self._judged = False

    def read(self, *, to_the_end: bool = False) -> list[tuple[int, Text]]:
        """All documents so far, up to the first that has not ended; or all. Raises :class:`NoPromptLogprobs` when the
        first answer that could have scores has none."""
        for entry in self._results.entries(pending=True, after=self._after):
            if not to_the_end and entry.state not in ("done", "failed"):
                break
            if not self._judged:
                self._judge(entry)
            if self._group and entry.meta["document"] != self._group[0].meta["document"]:
                self._close()
            self._group.append(entry)
            self._after = entry.number
        if to_the_end and self._group:
            self._close()
        return self._found

    def _close(self) -> None:
        self._found.append(_document(self._group, self._plan))
        self._group = []

    def _judge(self, entry: Entry) -> None:
        if entry.state != "done" or entry.result is None:
            return
        able = can_score(entry.result.scores)
        if able is False:
            model = entry.result.checkpoint or "The server"
            raise NoPromptLogprobs(f"{model} returned no prompt log-probabilities: it cannot score texts.")
        self._judged = bool(able)


def _document(group: list[Entry], plan: _Plan) -> tuple[int, Text]:
    number = int(group[0].meta["document"])
    billed = sum(entry.prompt_tokens + entry.completion_tokens for entry in group)
    failed = next((entry for entry in group if entry.state == "failed"), None)
    if failed is not None:
        return number, Text(None, None, failed.code or "failed", billed)
    if any(entry.state != "done" for entry in group):
        return number, Text(None, None, _LEFT, billed)
    try:
        if len(group) == 1 and not plan.keep and (sums := _sums(group[0])) is not None:
            return number, Text(sums, None, None, billed)
        parts = [(entry.meta["begin"], _score(entry, plan.top)) for entry in group]
    except NoPromptLogprobs as error:
        return number, Text(None, None, error.code, billed)
    whole = parts[0][1] if len(parts) == 1 else together(parts, plan.context)
    if whole is None:
        return number, Text(None, None, "windows_differ", billed)
    sums = Sums(whole.scored, whole.bytes, whole.logprob, len(whole.windows) + 1)
    return number, Text(sums, whole if plan.keep else None, None, billed)


def _sums(entry: Entry) -> Sums | None:
    """The sums of a text whose tokens join to it, straight from the answer; ``None``: they must be looked at."""
    positions = entry.result.scores if entry.result is not None else None
    if not can_score(positions):
        return None
    told = [entries[0] for entries in positions or () if entries]
    joined = "".join([one[1] for one in told])
    if len(told) < len(positions or ()) - 1 or not entry.prompt.endswith(joined):
        return None
    logprobs = [-math.inf if one[2] <= MINUS_INFINITY else one[2] for one in told]
    return Sums(len(told), len(joined.encode("utf-8", "surrogatepass")), math.fsum(logprobs))


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
    sums = one.sums
    if sums is None:
        return [None, None, math.nan, math.nan, math.nan, None, one.billed, one.error]
    numbers = [sums.logprob, sums.perplexity, sums.bits_per_byte]
    return [sums.scored, sums.bytes, *numbers, sums.windows, one.billed, None]
