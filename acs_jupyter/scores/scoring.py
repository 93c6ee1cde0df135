"""Scoring texts: ``score``, ``logprob``, ``choose``, ``perplexity``, and their async twins.

Owns the drivers and the public functions. It must not know what is sent or what an answer means:
that is in ``steps.py``.

Every text costs its prompt tokens and one generated token, since a request cannot ask for none.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ..client import AsyncClient, Client
from ..errors import AcsError, InvalidRequest
from .seams import continuation_steps
from .steps import BATCH, TOO_LONG, Fields, Result, Steps, check, score_steps
from .values import NORMALISATIONS, Continuation, Ranking, Score

if TYPE_CHECKING:
    from ..wire import Capabilities

T = TypeVar("T")
AT_ONCE = 8
"""Requests an asynchronous call has under way."""
READERS = 4
"""Requests a synchronous call has under way: some are read while the server works on others."""


@overload
def score(text: str | list[int], **options: Any) -> Score: ...
@overload
def score(text: Sequence[str] | Sequence[list[int]], **options: Any) -> list[Score]: ...
def score(text: Any, *, client: Client | None = None, **options: Any) -> Score | list[Score]:
    """What a model thinks of a text, a list of token ids, or a list of either.

    Options: ``model``; ``top`` (0): how many of the likeliest tokens to tell at each position; ``batch`` (64): texts a
    request; ``context``: tokens in front of every scored token where a text must be read in windows, by default a
    quarter of the model's context; ``add_special_tokens``. Without ``client`` one is made from the environment.

    Raises :class:`NoPromptLogprobs` when the server cannot score, :class:`InvalidRequest`, or the request's error.
    """
    texts, many = _listed(text, options)
    with client_of(client) as used:
        scores = run_steps(score_steps(texts, **with_limit(options, used)), used) if texts else []
    return scores if many else scores[0]


async def score_async(text: Any, *, client: AsyncClient, **options: Any) -> Any:
    """The asynchronous twin of :func:`score`; batches are sent side by side."""
    texts, many = _listed(text, options)
    scores = await run_steps_async(score_steps(texts, **with_limit(options, client)), client) if texts else []
    return scores if many else scores[0]


def logprob(
    continuation: str, *, given: str = "", client: Client | None = None, seam: str = "nearest", **options: Any
) -> Continuation:
    """The log-probability of a continuation after a context.

    ``seam``: what to do when no token ends where the context ends. ``nearest`` counts the token that spans it with the
    continuation, ``boundary`` moves the seam to the nearer edge of that token, ``ids`` reads both sides by themselves
    and sends them as token ids (two more requests), ``refuse`` raises. The result's ``seam``, ``spans`` and ``moved``
    say what was done. Other options as for :func:`score`.
    """
    with client_of(client) as used:
        steps = continuation_steps([(given, continuation)], seam=seam, **with_limit(options, used))
        return run_steps(steps, used)[0]


def choose(
    context: str, candidates: Iterable[str], *, by: str = "sum", client: Client | None = None, **options: Any
) -> Ranking:
    """Candidates after a context, likeliest first: a list with ``to_frame()``.

    ``by``: ``sum`` of logprobs, or its mean per ``token`` or per ``byte``; sums favour short candidates. Options as for
    :func:`logprob`.
    """
    if isinstance(candidates, str) or not isinstance(candidates, Iterable):
        raise InvalidRequest("candidates must be a list of texts.")
    if by not in NORMALISATIONS:
        raise InvalidRequest(f"by={by!r} must be one of {', '.join(NORMALISATIONS)}.")
    texts = list(candidates)
    if not texts:
        raise InvalidRequest("There are no candidates to choose from.")
    with client_of(client) as used:
        steps = continuation_steps([(context, text) for text in texts], **with_limit(options, used))
        return Ranking(run_steps(steps, used), by)


def perplexity(
    texts: Any,
    *,
    into: str | os.PathLike[str] | None = None,
    column: str = "text",
    client: Client | None = None,
    **options: Any,
) -> Any:
    """``exp`` of the mean surprisal in nats of a text, or a frame for several: a list, a Series, or a DataFrame with
    the texts under ``column``.

    The frame has a row a text, with the texts' own index and a DataFrame's other columns: ``tokens`` (scored),
    ``logprob`` (nats), ``perplexity``, ``bits_per_byte``.

    With ``into`` (``"run.acs.db"``) the requests go through that file, sixteen at a time: what is there is not paid
    again, and the same call goes on after an interrupt, a crash or a budget (options as for :func:`rollout`:
    ``budget``, ``in_flight``, ``retry_failed``, ...). The frame then also has ``bytes`` (scored), ``windows`` (in how
    many a long text was read), ``billed`` (tokens) and ``error`` (a code, or ``not scored yet``; else none).
    """
    if into is not None:
        from .documents import perplexities  # noqa: PLC0415  # rollouts load with the first

        return perplexities(
            [texts] if isinstance(texts, str) else texts, into, column=column, client=client, **options
        )
    if isinstance(texts, str):
        return score(texts, client=client, **options).perplexity
    import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

    from .documents import source_of  # noqa: PLC0415  # as above

    listed, index, others = source_of(texts, column)
    scores = score(listed, client=client, **options)
    rows = [(one.scored, one.logprob, one.perplexity, one.bits_per_byte) for one in scores]
    names = ["tokens", "logprob", "perplexity", "bits_per_byte"]
    frame: pd.DataFrame = pd.DataFrame(rows, columns=names, index=index)
    return (
        frame if others is None else pd.concat([others.drop(columns=names, errors="ignore"), frame], axis=1)
    )


def limits_of(client: Any, model: str | None = None) -> Capabilities | None:
    """What a model's own entry in the list of models says of its limits, if it is there."""
    _learn(client)
    limits: Capabilities | None = client.catalogue.limits_of(model or client.model)
    return limits


def _listed(text: Any, options: dict[str, Any]) -> tuple[list[Any], bool]:
    """The texts to score, and whether there was a list of them; checked before anything is asked of a server."""
    many = False
    texts: list[Any]
    if isinstance(text, str):
        texts = [text]
    elif isinstance(text, Iterable):
        texts = list(text)
        many = not (texts and all(isinstance(item, int) and not isinstance(item, bool) for item in texts))
        texts = texts if many else [texts]
    else:
        raise InvalidRequest(f"text={text!r} must be a text, a list of token ids, or a list of either.")
    check(texts, options.get("top", 0), options.get("batch", BATCH))
    return texts, many


def _learn(client: Any) -> None:
    """Ask for the models' limits once; a server that does not list them is used all the same."""
    if client.catalogue.models is None and isinstance(client, Client):
        try:
            client.models()
        except AcsError:
            client.catalogue.models = []


def with_limit(options: dict[str, Any], client: Any) -> dict[str, Any]:
    """Options for the steps, with the tokens a prompt may have if the server says so."""
    _learn(client)
    limits = client.catalogue.limits_of(options.get("model") or client.model)
    length = limits.max_model_len if limits else None
    return {"limit": None if length is None else length - 1, **options}


def run_steps(steps: Steps[T], client: Client, *, windows: bool = True) -> T:
    """Send what the steps ask for. Without ``windows`` a text that is too long is an error: reading it in windows
    would cost more than was said."""

    def one(fields: dict[str, Any]) -> Result:
        try:
            return client.complete(fields["prompt"], **{k: v for k, v in fields.items() if k != "prompt"})
        except AcsError as error:
            if isinstance(error, TOO_LONG) and not windows:
                raise
            return error

    try:
        asked = next(steps)
        while True:
            asked = steps.send(_side_by_side(one, asked))
    except StopIteration as done:
        return cast("T", done.value)


def _side_by_side(one: Callable[[Fields], Result], asked: list[Fields]) -> Iterator[Result]:
    """The results of requests, in their order: while one is read the next are under way, so that the server never waits
    for the reader. An interrupt lets those under way end and sends no more."""
    if len(asked) < 2:
        yield from map(one, asked)
        return
    threads = ThreadPoolExecutor(READERS, thread_name_prefix="acs-score")
    try:
        here = [contextvars.copy_context() for _ in asked]  # scopes of a budget hold there too
        futures = deque(
            threads.submit(context.run, one, fields) for context, fields in zip(here, asked, strict=True)
        )
        while futures:
            yield futures.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)


async def run_steps_async(steps: Steps[T], client: AsyncClient) -> T:
    """The asynchronous twin of :func:`run_steps`; requests that are asked for together are sent side by side."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(fields: dict[str, Any]) -> Result:
        async with places:
            try:
                rest = {k: v for k, v in fields.items() if k != "prompt"}
                return await client.complete(fields["prompt"], **rest)
            except AcsError as error:
                return error

    try:
        asked = next(steps)
        while True:
            asked = steps.send(list(await asyncio.gather(*map(one, asked))))
    except StopIteration as done:
        return cast("T", done.value)


@contextmanager
def client_of(given: Client | None) -> Iterator[Client]:
    """The client that was given, or one of the environment that is closed at the end."""
    if given is not None:
        yield given
        return
    with Client() as own:
        yield own
