"""A completion sent again, and where the two part.

Owns the comparison. It must not know how a completion was shown or kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .client import AsyncClient, Client
from .completion import Choice, Completion, Token
from .errors import InvalidRequest


@dataclass(frozen=True)
class Difference:
    """The first place where a choice of the replay is not what it was.

    ``position`` counts tokens of what was generated, or characters when tokens are not known. ``was`` and ``now`` are
    the tokens there (``None`` past the end), with their logprobs: a near tie tells of arithmetic, a wide gap of a
    change.
    """

    choice: int
    position: int
    was: Token | None
    now: Token | None

    def __str__(self) -> str:
        return f"choice {self.choice}, position {self.position}: {_told(self.was)} became {_told(self.now)}"


@dataclass(frozen=True)
class Replay:
    """A completion, the same request's new completion, and where they part (``difference`` is ``None``: nowhere)."""

    was: Completion
    now: Completion
    difference: Difference | None

    @property
    def equal(self) -> bool:
        """Whether every choice is the same."""
        return self.difference is None

    @property
    def same_checkpoint(self) -> bool:
        """Whether the same checkpoint answered."""
        return self.was.model == self.now.model

    def __str__(self) -> str:
        model = (
            "" if self.same_checkpoint else f" (the checkpoint is {self.now.model}, it was {self.was.model})"
        )
        return ("equal" if self.equal else f"not equal: {self.difference}") + model


def replay(completion: Completion, client: Client | None = None) -> Replay:
    """Send a completion's request again, as it was, and compare. It costs what the request costs.

    Equal text can be expected at temperature 0 or with a seed, on the same checkpoint. Without a ``client`` one is
    made from the environment. Raises :class:`AcsError` when the request fails now.
    """
    if client is not None and not isinstance(client, Client):
        other = "await completion.replay_async(client)" if isinstance(client, AsyncClient) else "a Client"
        raise InvalidRequest(f"client={client!r} cannot replay here: use {other}.")
    own = client or Client()
    try:
        prompt, fields = _fields(completion)
        now = own.complete(prompt, **fields)
    finally:
        if client is None:
            own.close()
    return _compared(completion, now)


async def replay_async(completion: Completion, client: AsyncClient | None = None) -> Replay:
    """See :func:`replay`."""
    if client is not None and not isinstance(client, AsyncClient):
        raise InvalidRequest(f"client={client!r} cannot be awaited: use an AsyncClient.")
    own = client or AsyncClient()
    try:
        prompt, fields = _fields(completion)
        now = await own.complete(prompt, **fields)
    finally:
        if client is None:
            await own.close()
    return _compared(completion, now)


def _fields(completion: Completion) -> tuple[Any, dict[str, Any]]:
    fields: dict[str, Any] = dict(completion.request)
    return fields.pop("prompt"), fields


def _compared(was: Completion, now: Completion) -> Replay:
    pairs = zip(was.choices, now.choices, strict=True)
    parted = (_difference(one, new) for one, new in pairs)
    return Replay(was, now, next((found for found in parted if found), None))


def _difference(was: Choice, now: Choice) -> Difference | None:
    if _generated(was) == _generated(now) and was.finish_reason == now.finish_reason:
        return None
    mine, theirs = was.tokens[was.kept :] or _characters(was), now.tokens or _characters(now)
    for position in range(max(len(mine), len(theirs))):
        a = mine[position] if position < len(mine) else None
        b = theirs[position] if position < len(theirs) else None
        if a is None or b is None or a.text != b.text:
            return Difference(was.index, position, a, b)
    return Difference(was.index, len(mine), None, None)


def _generated(choice: Choice) -> str:
    """The text that the model wrote in this run: what a branch began with was sent, not written."""
    return choice.text[len(choice.kept_text) :]


def _characters(choice: Choice) -> list[Token]:
    return [Token(index, text, choice=choice.index) for index, text in enumerate(_generated(choice))]


def _told(token: Token | None) -> str:
    if token is None:
        return "the end"
    return repr(token.text) if token.logprob is None else f"{token.text!r} ({token.logprob:.3f})"
