"""The gateway in front of a scripted vLLM."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from acs_jupyter.local.desk import Desk, Limits
from acs_jupyter.local.job_store import JobStore
from acs_jupyter.local.store import Store
from tests.support.desks import until
from tests.support.gateway import KEY, Front, fronting

if TYPE_CHECKING:
    from collections.abc import Iterator
LEFT = 499


@dataclass
class Joined:
    """The server seen from outside, with one key, and from behind the counter."""

    front: Front
    desk: Desk
    client: httpx.Client

    def rows(self) -> list[tuple[int, int, int, str]]:
        """Wait until nothing is held; what was written down."""
        upstreams = self.front.fleet.upstreams
        until(lambda: (self.desk.gate.active, self.desk.budget.reserved) == (0, 0))
        until(lambda: not any(each.active for each in upstreams))
        entries = self.desk.ledger.entries()
        return [(e.prompt_tokens, e.completion_tokens, e.status, e.source) for e in entries]


@contextmanager
def joined(
    base: str, *, budget: int = 0, key: str | None = None, limits: Limits | None = None, **more: Any
) -> Iterator[Joined]:
    desk = Desk(Store(), KEY, limits=limits or Limits(starts=0))
    with fronting(f"m={base}", key=key, desk=desk, jobs=JobStore(None, 0.0), **more) as front:
        headers = {"Authorization": f"Bearer {desk.keys.create(budget=budget)}"}
        with httpx.Client(base_url=front.base + "/", headers=headers, timeout=30) as client:
            yield Joined(front, desk, client)
