"""The client that a loom asks: its own, the same one for another event loop, or one of the environment.

Owns that choice, and closes what it has made. It must not know what is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from ..client import AsyncClient, Client


@contextmanager
def sync_client(given: Client | AsyncClient | None) -> Iterator[Client]:
    """For one call. Raises ``InvalidRequest`` when there is none and the environment names no server."""
    if isinstance(given, Client):
        yield given
        return
    with Client() if given is None else given.same(Client) as own:
        yield own


@asynccontextmanager
async def async_client(given: Client | AsyncClient | None) -> AsyncIterator[AsyncClient]:
    """See :func:`sync_client`."""
    if isinstance(given, AsyncClient):
        yield given
        return
    async with AsyncClient() if given is None else given.same(AsyncClient) as own:
        yield own
