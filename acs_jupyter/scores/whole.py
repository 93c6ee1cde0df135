"""Whole distributions of a text: ``distribution``, ``distributions``, ``next_token``.

Owns the request for the whole vocabulary and what is refused before it is sent. It must not know how an answer is read
(``matrix_reader.py``) nor what can be asked of it (``distribution.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ..errors import InvalidRequest, NoPromptLogprobs
from ..log.session import Session
from ..streams import result_of
from .distribution import Distribution, Distributions
from .matrix_reader import Matrix, MatrixReader
from .scoring import client_of, limits_of

if TYPE_CHECKING:
    from ..client import Client
    from ..completion import Completion

_TAILS = ("\n", "\n\n", " the", ".")


def distributions(
    prompt: str | list[int], *, client: Client | None = None, model: str | None = None, **fields: Any
) -> Distributions:
    """The model's whole distribution at every scored position of a text, read while it arrives.

    Costs the prompt's tokens and one. For each position and token of the vocabulary the answer takes about 70 bytes on
    the wire and 4 here. Raises :class:`InvalidRequest` when the model's own cap (``full_vocab_max_prompt_tokens``) is
    known and the prompt, as ids, is longer.
    """
    with client_of(client) as used:
        request = used.request(prompt, **_full(used, prompt, model, fields))
        session = Session()
        exchange = used.exchange(request, strain=MatrixReader)
        for _ in used.drive(exchange, session.apply):
            pass
        completion = result_of(exchange, session)
    return _distributions(cast("MatrixReader", exchange.strainer).matrices, completion)


def distribution(prompt: str | list[int], position: int | None = None, **options: Any) -> Distribution:
    """The model's whole distribution at one position of a prompt, or (``None``) of what follows it.

    ``position`` counts tokens from 0, as in :func:`score`; below 0 from the end. The first token has nothing in front
    of it. Of token ids no more is sent than up to there; of a text all positions are told, which :func:`distributions`
    gives at the same cost. Options as there.
    """
    if position is None:
        return next_token(prompt, **options)
    if isinstance(position, bool) or not isinstance(position, int):
        raise InvalidRequest(f"position={position!r} must be a whole number.")
    if isinstance(prompt, list) and prompt:
        place = position + len(prompt) if position < 0 else position
        if not 0 < place < len(prompt):
            raise InvalidRequest(f"position={position} must be from 1 to {len(prompt) - 1}.")
        return distributions(prompt[: place + 1], **options)[place]
    found = distributions(prompt, **options)
    try:
        return found[position]
    except IndexError as problem:
        raise InvalidRequest(str(problem)) from None


def next_token(prompt: str | list[int], **options: Any) -> Distribution:
    """The model's whole distribution of the token that follows a text; options as for :func:`distributions`.

    A service scores the tokens of a prompt, not what comes after it, so one more token is put behind the text: a
    newline, or whatever does not join the text's last token. It does not change what stands in front of it.
    """
    if isinstance(prompt, list):
        return distributions([*prompt, prompt[-1] if prompt else 0], **options)[-1]
    for tail in _TAILS:
        found = distributions(prompt + tail, **options)
        places, place = [], len(prompt) + len(tail)
        for text in reversed(found.texts):
            place -= len(text)
            places.append(place)
        if len(prompt) in places:
            return found[-1 - places.index(len(prompt))]
    raise InvalidRequest("The text's last token joins whatever follows it: score token ids instead.")


def _full(client: Any, prompt: Any, model: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    limits = limits_of(client, model)
    cap = limits.full_vocab_max_prompt_tokens if limits else None
    if cap is not None and isinstance(prompt, list) and len(prompt) > cap:
        raise InvalidRequest(
            f"prompt has {len(prompt)} tokens; whole distributions are given for at most {cap}. Ask for a part."
        )
    if limits and limits.prompt_logprobs_full_vocab is False:
        raise InvalidRequest(
            "This model gives no whole distributions (prompt_logprobs_full_vocab is false); use "
            "score(text, top=20), or another model."
        )
    return {
        "model": model,
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": -1,
        "stream": False,
        **fields,
    }


def _distributions(matrices: list[Matrix], completion: Completion) -> Distributions:
    if not matrices or not len(matrices[0].logprobs):
        raise NoPromptLogprobs(
            f"{completion.model} returned no distributions (a text of one token has none)."
        )
    found = matrices[0]
    return Distributions(
        found.logprobs,
        found.ids,
        first=found.first,
        vocabulary=found.vocabulary,
        model=completion.model or "",
    )
