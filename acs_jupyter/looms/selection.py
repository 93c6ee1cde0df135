"""Which nodes of a loom are lit up, and where its reader is: shared by code and all windows.

Owns both and who is told of a change. It must not know windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import InvalidRequest

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
    """Node ids from one id, several, or a frame's ``node`` column. Raises :class:`InvalidRequest` for anything else."""
    if nodes is None:
        return []
    if isinstance(nodes, str):
        return [nodes]
    if hasattr(nodes, "columns"):
        if "node" not in nodes.columns:
            raise InvalidRequest("This frame has no column node; give one that loom.frame() made, or ids.")
        nodes = nodes["node"]
    try:
        found = list(nodes)
    except TypeError:
        raise InvalidRequest(
            f"{str(nodes)[:40]} is no node; give an id, several, or a frame with a column node."
        ) from None
    wrong = [one for one in found if not isinstance(one, str)]
    if wrong:
        raise InvalidRequest(f"{str(wrong[0])[:40]} is no node; give an id, a text as in loom.nodes.")
    return found
