"""A loom's window without a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from acs_jupyter import Loom
from acs_jupyter.looms.desk import desk_of
from acs_jupyter.widgets.loom import LoomWindow


class Hands:
    """A window whose words to the browser are kept."""

    def __init__(self, loom: Loom) -> None:
        self.loom = loom
        self.said: list[dict[str, Any]] = []
        self.window: LoomWindow = desk_of(loom).window({}, 400)
        self.window.send = lambda content, buffers=None: self.said.append(content)  # type: ignore[method-assign]

    def ask(self, kind: str, **fields: Any) -> None:
        self.window._received(self.window, {"type": kind, **fields}, [])

    def words(self, kind: str) -> list[Any]:
        return [message["loom"][kind] for message in self.said if kind in message.get("loom", {})]

    def refusals(self) -> list[str]:
        return [message["told"] for message in self.said if message.get("told")]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def quiet(loom: Loom) -> bool:
    return all(run.outcome != "open" for run in list(loom.session.runs.values()))
