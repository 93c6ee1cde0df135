"""A loom's tree as one changes it: write, edit, split, merge, move, mark, delete, undo, redo.

Owns the names of the changes and the lock under which each is made. It must not know files, windows or clients; what a
change does to the tree is ``log/revising.py``'s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..checks import build_request
from ..errors import InvalidRequest
from ..log import events as ev
from ..log import revising
from ..log.arrangement import finite
from ..log.session import Session
from .reading import Reading


class Changing(Reading):
    """The changes of :class:`~acs_jupyter.Loom`. They return the id of the node to look at, or raise and do nothing."""

    read_only: bool = False
    closed: str = ""
    """The file that kept the loom until it was closed, ``""`` while it was not."""
    _lock: threading.RLock

    def new_root(self, text: str) -> str:
        """Another root, with a text."""
        return self._do(lambda: revising.added(self.session, text, None, self._home()))

    def new_child(self, node: str, text: str) -> str:
        """A text below a node."""
        return self._do(lambda: revising.added(self.session, text, node, self.node(node).run))

    def new_sibling(self, node: str, text: str) -> str:
        """A text beside a node."""
        return self._do(lambda: revising.beside(self.session, node, text))

    def edit(self, node: str, text: str) -> str:
        """The node with another text, as a sibling; the node stays as it is."""
        return self._do(lambda: revising.edited(self.session, node, text))

    def split(self, node: str, *, token: int | None = None, at: int | None = None) -> str:
        """Two nodes in place of one, before a token, or a character where tokens are not known. The first one's id."""
        return self._do(lambda: revising.split(self.session, node, token=token, at=at))

    def merge(self, node: str) -> str:
        """The node and its parent as one."""
        return self._do(lambda: revising.merged(self.session, node))

    def move(self, node: str, parent: str | None, before: str | None = None) -> str:
        """The node, with all below it, under another parent (``None``: as a root)."""
        self._do(lambda: revising.moved(self.session, node, parent, before))
        return node

    def shift(self, node: str, by: int) -> str:
        """The node ``by`` places down among its siblings, up when negative."""
        if isinstance(by, bool) or not isinstance(by, int):
            raise InvalidRequest(f"by={by!r} must be a whole number of places.")
        self._do(lambda: revising.shifted(self.session, node, by))
        return node

    def delete(self, *nodes: str) -> None:
        """Tombstones: nothing is destroyed, and undo brings it back."""
        self._do(lambda: revising.deleted(self.session, list(nodes)))

    def mark(self, node: str, **fields: Any) -> None:
        """Set tags, note, bookmark, rating, unread, folded or sampling; ``None`` takes one away."""
        self._do(lambda: _marked(self.session, node, fields))

    def visit(self, node: str) -> None:
        """Somebody reads the node: it is read, and each one above remembers the way. No step, so undo passes it by."""
        self._do(lambda: revising.visited(self.session, node))

    def fold(self, node: str, folded: bool = True) -> None:
        """Fold a node's children away in every window, or show them. No step."""
        self._do(lambda: revising.folded(self.session, node, folded))

    def hoist(self, node: str | None) -> None:
        """Show a node as the root; ``None`` goes back one."""
        self._do(lambda: revising.hoisted(self.session, node))

    def undo(self) -> str:
        """Take the last step back; its name."""
        return self._step(revising.undone)

    def redo(self) -> str:
        """Do the last step that was taken back once more; its name."""
        return self._step(revising.redone)

    def _step(self, make: Callable[[Session], ev.Revised]) -> str:
        self._check_writable()
        with self._lock:
            event = make(self.session)
            self.session.apply([event])
        return event.what

    def _do(self, make: Callable[[], ev.Revised | None]) -> str:
        self._check_writable()
        with self._lock:
            event = make()
            if event is not None:
                self.session.apply([event])
        return event.written[0].node if event is not None and event.written else ""

    @property
    def writable(self) -> bool:
        """Whether it can be changed: not when it was opened to look at, nor when it was kept and is closed."""
        return not self.read_only and not self.closed

    def _check_writable(self) -> None:
        if self.closed:
            raise InvalidRequest(
                f"This loom is closed: {self.closed} would not keep the change. Go on with "
                f"Loom.open({self.closed!r}), or keep this one in another file first: loom.keep(NAME)."
            )
        if self.read_only:
            raise InvalidRequest(
                "This loom was opened to look at; open its file without read_only to change it."
            )

    def _home(self) -> str:
        raise NotImplementedError


_FIT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tags": (
        lambda v: isinstance(v, (list, tuple)) and all(isinstance(w, str) for w in v), 'a list of texts: tags=["good"]',
    ),
    "note": (lambda v: isinstance(v, str), "a text"),
    "rating": (finite, "a finite number"),
    "sampling": (lambda v: isinstance(v, dict), 'a table of fields: sampling={"temperature": 0.7}'),
    **dict.fromkeys(("bookmark", "unread", "folded"), (lambda v: isinstance(v, bool), "True or False")),
}  # fmt: skip


_NONE: dict[str, Any] = {"tags": [], "bookmark": False, "unread": False, "folded": False}
"""What is not there, of marks that are not ``None`` then."""


def _marked(session: Session, node: str, fields: dict[str, Any]) -> ev.Revised | None:
    for name, value in fields.items():
        if name not in _FIT:
            raise InvalidRequest(f"{name} is no mark; choose from {', '.join(_FIT)}.")
        fits, words = _FIT[name]
        if value is not None and not fits(value):
            shown = repr(value)
            raise InvalidRequest(
                f"{name}={shown if len(shown) < 40 else shown[:36] + '...'} must be {words}."
            )
    if fields.get("sampling"):
        _check_sampling(fields["sampling"])
    return revising.marked(
        session, node, **{name: _NONE.get(name) if v is None else v for name, v in fields.items()}
    )


def _check_sampling(fields: dict[str, Any]) -> None:
    own = [name for name in ("prompt", "stream", "stream_options") if name in fields]
    if own:
        raise InvalidRequest(f"{own[0]} is no sampling of a node; leave it out.")
    build_request({"prompt": "", **fields})
