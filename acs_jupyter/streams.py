"""A running answer as an iterator of tokens, in a sync and an async form.

Owns the turning of event batches into tokens and the closing of a run that is left early. It must not know where
the batches come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator

from .completion import Completion, Token
from .errors import InvalidRequest
from .exchange import Exchange
from .log.events import AnyEvent, TokensArrived
from .log.ranking import asked_of
from .log.session import Session


def result_of(exchange: Exchange, session: Session) -> Completion:
    """The completion of a run that has ended; raises its error, with the completion attached."""
    completion = Completion(session, exchange.run)
    if exchange.error is not None:
        exchange.error.completion = completion
        raise exchange.error
    return completion


class _Tokens:
    """Counts tokens per choice and makes :class:`Token` values of events."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._count: dict[str, int] = {}

    def of(self, batch: list[AnyEvent]) -> Iterator[Token]:
        for event in batch:
            if isinstance(event, TokensArrived):
                yield from self._tokens(event)

    def _tokens(self, event: TokensArrived) -> Iterator[Token]:
        index = self._count.get(event.node, 0)
        choice = self._session.nodes[event.node].choice or 0
        if not event.tokens:
            self._count[event.node] = index + 1
            yield Token(index, event.text, choice=choice)
            return
        self._count[event.node] = index + len(event.tokens)
        asked = asked_of(self._session, self._session.nodes[event.node], index)
        rows = zip(event.tokens, event.logprobs, event.top, strict=True)
        for offset, (text, logprob, top) in enumerate(rows):
            yield Token(index + offset, text, logprob, top, choice, asked)


class _Running:
    """What both streams share: the run, and the record of what has come."""

    def __init__(self, exchange: Exchange, session: Session) -> None:
        self._exchange = exchange
        self._session = session
        self._tokens = _Tokens(session)
        self._process = os.getpid()

    def _own(self) -> None:
        """Two processes that read one socket have each a part of the text."""
        if self._process != os.getpid():
            raise InvalidRequest(
                "This stream is read by the process that opened it; a forked child sends a request of its own."
            )

    @property
    def completion(self) -> Completion:
        """What has come so far; complete once the stream has ended."""
        return Completion(self._session, self._exchange.run)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.completion!r}; iterate over it for its tokens)"


class Stream(_Running):
    """Iterate to receive :class:`Token` values; without ``logprobs`` each is a piece of text.

    Leaving the loop, ``close()``, or the end of a ``with`` block ends the run; the server is asked for a moment what it
    has cost, and the socket closed. ``completion`` keeps what came. An error is raised after what came before it.
    """

    def __init__(
        self, batches: Generator[list[AnyEvent], None, None], exchange: Exchange, session: Session
    ) -> None:
        super().__init__(exchange, session)
        self._batches = batches
        next(self._batches)  # opens the run (and reserves its budget); the socket opens with the first token

    def __iter__(self) -> Iterator[Token]:
        try:
            self._own()
            for batch in self._batches:
                yield from self._tokens.of(batch)
                self._own()
            result_of(self._exchange, self._session)
        finally:
            self.close()

    def close(self) -> None:
        """End the run and close the socket; harmless when it has ended. Only the thread that iterates can."""
        self._batches.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(_Running):
    """The asynchronous twin of :class:`Stream`: ``async for``, ``async with``, ``await close()``."""

    def __init__(
        self, batches: AsyncGenerator[list[AnyEvent], None], exchange: Exchange, session: Session
    ) -> None:
        super().__init__(exchange, session)
        self._batches = batches
        self._closing = asyncio.Lock()

    async def __aiter__(self) -> AsyncIterator[Token]:
        async with contextlib.aclosing(self):
            self._own()
            async for batch in self._batches:
                for token in self._tokens.of(batch):
                    yield token
                self._own()
            result_of(self._exchange, self._session)

    async def close(self) -> None:
        """End the run and close the socket; harmless when it has ended."""
        async with self._closing:  # a loop that was left is closed by whoever collects it, too
            await self._batches.aclose()

    aclose = close

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
