"""Which nodes of a loom are lit up, and where its reader is: shared by code and all windows.

Owns both and who is told of a change. It must not know windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Listener = Callable[[], None]


class Selection:
    """Lit nodes in the order in which they were given, and the node under the cursor that moved last."""

    def __init__(self) -> None:
        self.lit: list[str] = []
        self.current: str | None = None
        self._listeners: list[Listener] = []

    def light(self, nodes: Iterable[str]) -> None:
        """Light these nodes and no others."""
        lit = list(dict.fromkeys(nodes))
        if lit != self.lit:
            self.lit = lit
            for listener in list(self._listeners):
                listener()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after each change of what is lit; returns the function that ends it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end


def ids_of(nodes: Any) -> list[str]:
    """Node ids from one id, several, or a frame's ``node`` column."""
    if nodes is None:
        return []
    if isinstance(nodes, str):
        return [nodes]
    if hasattr(nodes, "columns"):
        nodes = nodes["node"]
    return [str(node) for node in nodes]
