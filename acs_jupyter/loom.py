"""The loom without a window: a session's tree to read, grow, change, measure and search.

Owns the names a user calls. It must not know windows; what an operation does to the tree is ``revising.py``'s, and
what a request is the client's. The tree is the session: whoever else looks at it sees the same nodes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from . import events as ev
from . import revising
from .checks import build_request
from .completion import Choice, Completion
from .errors import InvalidRequest
from .loom_growing import Growth, alternative, continuation
from .loom_measure import Measured, path_logprob
from .loom_query import parse
from .session import Node, Session
from .wire import Fields, request_fields

if TYPE_CHECKING:
    import pandas as pd

    from .client import AsyncClient, Client
    from .loom_file import LoomFile

DEFAULTS: dict[str, Any] = {"logprobs": 5}
"""Sampling of a loom that nobody told otherwise: without log-probabilities there would be no tokens."""


class Loom:
    """A tree of texts.

    ``source`` is a prompt, a session, a completion or one of its choices; ``None`` begins with nothing. ``client``
    is only needed to grow. ``sampling`` (and ``model``) is what a prompt's nodes grow with unless told otherwise;
    every node grows as the one it came from. Operations return the id of the node to look at, and raise
    :class:`InvalidRequest` with one line when they cannot be done; then nothing has changed.
    """

    def __init__(
        self,
        source: str | Session | Completion | Choice | None = None,
        *,
        client: Client | AsyncClient | None = None,
        **sampling: Unpack[Fields],
    ) -> None:
        self.client = client
        self._sampling = {**DEFAULTS, **sampling}
        self._lock = threading.RLock()
        self._file: LoomFile | None = None
        self.read_only = False
        self.notes: list[str] = []
        self.session = Session() if isinstance(source, str) or source is None else _session_of(source)
        if isinstance(source, str):
            self.new_root(source)

    # -- files ------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        client: Client | AsyncClient | None = None,
        read_only: bool = False,
        **sampling: Unpack[Fields],
    ) -> Loom:
        """A loom from its file, which goes on being written. One process writes; others may look, ``read_only``."""
        from .loom_file import LoomFile, read  # noqa: PLC0415  # only when a file is used

        if read_only:
            loom = cls(read(path), client=client, **sampling)
            loom.read_only = True
            return loom
        try:
            file = LoomFile.open(path)
        except InvalidRequest as error:
            if "being written" in error.message:
                raise InvalidRequest(f"{error.message} To look at it: read_only=True.") from None
            raise
        loom = cls(file.session, client=client, **sampling)
        loom._file = file
        return loom

    def keep(self, path: str | os.PathLike[str]) -> Path:
        """Keep this loom in a new file from now on: every change is appended as it happens."""
        from .loom_file import LoomFile  # noqa: PLC0415  # only when a file is used

        if self._file is not None:
            raise InvalidRequest(f"This loom is kept in {self._file.path} already.")
        self._file = LoomFile.create(path, self.session)
        return self._file.path

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        client: Client | AsyncClient | None = None,
        form: str | None = None,
        **options: Any,
    ) -> Loom:
        """A loom from a file of another program, or a copy of our own; ``notes`` says what was dropped or repaired.

        ``form``: ``socketteer``, ``obsidian``, ``basemode``, ``mikupad``, ``service``, ``jsonl``; told from the file
        unless given. Options: ``responses`` (socketteer: a parsed backup), ``note`` and ``unescape`` (obsidian).
        """
        from .loom_file import read  # noqa: PLC0415  # only when a file is used
        from .loom_formats import choosing  # noqa: PLC0415

        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from None
        if data.startswith(b'{"format": "acs-session"'):
            return cls(read(path), client=client)
        session, notes = choosing.read(data, form=form, **options)
        loom = cls(session, client=client)
        loom.notes = notes
        return loom

    def export(
        self, path: str | os.PathLike[str], form: str = "ours", *, node: str | None = None
    ) -> list[str]:
        """Write a file; gives lines about what the format cannot hold.

        ``form``: ``ours``, ``service``, ``socketteer``, ``obsidian``, ``basemode``, ``markdown``, ``jsonl``; a path
        to ``node`` alone: ``text``, ``mikupad``.
        """
        from .loom_formats import choosing  # noqa: PLC0415  # only when a file is used

        data, notes = choosing.write(self.session, form, node)
        try:
            Path(path).write_bytes(data)
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be written: {error.strerror}.") from None
        return notes

    @property
    def trouble(self) -> str:
        """One line while the file cannot be written, else ``""``."""
        return self._file.trouble if self._file is not None else ""

    def close(self) -> None:
        """Let go of the file; the loom stays in memory."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> Loom:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading ----------------------------------------------------------------------------------

    @property
    def roots(self) -> list[str]:
        """The roots that are not deleted, in order."""
        return revising.alive(self.session, None)

    @property
    def nodes(self) -> list[str]:
        """All nodes that are not deleted, in reading order."""
        return [node for root in self.roots for node in self.below(root)]

    def below(self, node: str) -> list[str]:
        """A node and all below it, without deleted ones, in reading order."""
        found, waiting = [], [revising.existing(self.session, node).id]
        while waiting:
            found.append(waiting.pop())
            waiting += reversed(revising.alive(self.session, found[-1]))
        return found

    def node(self, node: str) -> Node:
        """The node itself: its tokens, logprobs, alternatives, finish reason."""
        return revising.existing(self.session, node)

    def parent(self, node: str) -> str | None:
        """The node above, ``None`` for a root."""
        return self.node(node).parent

    def children(self, node: str) -> list[str]:
        """The nodes right below that are not deleted, in order."""
        self.node(node)
        return revising.alive(self.session, node)

    def path(self, node: str) -> list[str]:
        """The nodes from the root to this one."""
        self.node(node)
        return [step.id for step in self.session.path(node)]

    def text(self, node: str) -> str:
        """The whole text from the root to the end of the node, byte for byte."""
        self.node(node)
        return self.session.text_to(node)

    def own_text(self, node: str) -> str:
        """The node's own text."""
        return self.session.own_text(self.node(node))

    def logprob(self, node: str) -> Measured:
        """The path's log-probability from the prompt's end: ``total``, ``per_token``, ``tokens``, ``unknown``."""
        self.node(node)
        return path_logprob(self.session, node)

    def marks(self, node: str) -> dict[str, Any]:
        """Tags, note, bookmark, rating, unread, folded, visited, sampling: those that are set."""
        self.node(node)
        return dict(self.session.arrangement.marks.get(node, {}))

    def last_child(self, node: str) -> str | None:
        """The child that was looked at last, else the first; ``None`` for a leaf."""
        children = self.children(node)
        last = self.session.arrangement.mark(node, "visited")
        return last if last in children else next(iter(children), None)

    @property
    def hoisted(self) -> str | None:
        """The node shown as root, if one is."""
        stack = self.session.arrangement.mark("", "hoisted", [])
        living = [node for node in stack if not revising.is_deleted(self.session, node)]
        return living[-1] if living else None

    # -- searching and measuring --------------------------------------------------------------------

    def find(self, text: str, *, within: str | None = None, case: bool = False) -> list[str]:
        """Nodes whose own text, note or tags hold a text, in reading order. ``within``: only below that node."""
        fold: Callable[[str], str] = str if case else str.casefold
        wanted = fold(text)
        found = []
        for node in self.nodes if within is None else self.below(within):
            marks = self.session.arrangement.marks.get(node, {})
            places = [self.own_text(node), marks.get("note") or "", *marks.get("tags", ())]
            if any(wanted in fold(place) for place in places):
                found.append(node)
        return found

    def where(self, predicate: str, *, within: str | None = None) -> list[str]:
        """Nodes of which a predicate holds, such as ``logprob < -5`` or ``finish == "length"``; see ``loom_query``."""
        holds = parse(predicate)
        nodes = self.nodes if within is None else self.below(within)
        return [node for node in nodes if holds(self.session, self.session.nodes[node])]

    def frame(self) -> pd.DataFrame:
        """One row a node that is not deleted, in reading order; see :mod:`acs_jupyter.loom_frames`."""
        from .loom_frames import node_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        nodes = self.nodes
        return node_frame(self.session, nodes, {node: len(self.children(node)) for node in nodes})

    def tokens_frame(self) -> pd.DataFrame:
        """One row a token of every node that is not deleted."""
        from .loom_frames import token_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        return token_frame(self.session, self.nodes)

    # -- growing ------------------------------------------------------------------------------------

    def grow(self, node: str, n: int | None = None, **sampling: Any) -> list[str]:
        """Continue a node ``n`` times by one request; its children's ids, when all have come.

        Sampling is the node's own with ``sampling`` on top, and is remembered by the new nodes. What came before an
        error or an interrupt is kept. Raises :class:`AcsError`.
        """
        return self._driven(continuation(self.session, node, n, self._fields(sampling)))

    async def grow_async(self, node: str, n: int | None = None, **sampling: Any) -> list[str]:
        """The same with an ``AsyncClient``."""
        return await self._driven_async(continuation(self.session, node, n, self._fields(sampling)))

    def branch(self, node: str, token: int, text: str, n: int | None = None, **sampling: Any) -> list[str]:
        """Leave a node before its ``token``-th token, put ``text`` there, an alternative say, and go on from it.

        Gives siblings of the node that begin as a copy of it.
        """
        return self._driven(alternative(self.session, node, (token, text), n, self._fields(sampling)))

    def _fields(self, sampling: dict[str, Any]) -> dict[str, Any]:
        self._check_writable()
        return {**sampling}

    def _driven(self, growth: Growth) -> list[str]:
        client: Any = self._client("drive")
        exchange = growth.exchange(client)
        for _ in client.drive(exchange, growth.sink(self.session)):
            pass
        return growth.result(exchange)

    async def _driven_async(self, growth: Growth) -> list[str]:
        client: Any = self._client("drive")
        exchange = growth.exchange(client)
        async for _ in client.drive(exchange, growth.sink(self.session)):
            pass
        return growth.result(exchange)

    def _client(self, name: str) -> Any:
        if self.client is None or not hasattr(self.client, name):
            raise InvalidRequest("This loom has no client to grow with: Loom(..., client=Client()).")
        return self.client

    # -- changing -------------------------------------------------------------------------------------

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

    def _check_writable(self) -> None:
        if self.read_only:
            raise InvalidRequest(
                "This loom was opened to look at; open its file without read_only to change it."
            )

    def _home(self) -> str:
        """The run whose sampling a new root grows with: made when a loom first needs it."""
        run = "loom"
        while run in self.session.runs:
            if self.session.runs[run].request == {**self._start(), "prompt": ""}:
                return run
            run += "+"
        self.session.apply([ev.RunOpened(run, {**self._start(), "prompt": ""}), ev.RunClosed(run, "done")])
        return run

    def _start(self) -> dict[str, Any]:
        fields = {name: value for name, value in self._sampling.items() if name != "validate"}
        return {
            k: v for k, v in request_fields(build_request({"prompt": "", **fields})).items() if k != "prompt"
        }

    def __repr__(self) -> str:
        return f"Loom({len(self.nodes)} nodes, {len(self.roots)} roots)"


def _marked(session: Session, node: str, fields: dict[str, Any]) -> ev.Revised | None:
    allowed = ("tags", "note", "bookmark", "rating", "unread", "folded", "sampling")
    for name in fields:
        if name not in allowed:
            raise InvalidRequest(f"{name} is no mark; a node can have {', '.join(allowed)}.")
    return revising.marked(session, node, **fields)


def _session_of(source: Session | Completion | Choice) -> Session:
    if isinstance(source, Session):
        return source
    if isinstance(source, (Completion, Choice)):
        return source.session
    raise InvalidRequest(
        f"A loom begins with a text, a session or a completion, not with {type(source).__name__}."
    )
