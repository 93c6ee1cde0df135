"""The loom: a session's tree to read, grow, change, keep in files, and show.

Owns where it comes from and goes to, its growth and its selection; questions are ``reading.py``'s, changes
``changing.py``'s, measures ``measuring.py``'s. It must not know what windows draw. The tree is the session: whoever
else looks at it sees the same nodes.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ..checks import build_request
from ..completion import Choice, Completion
from ..errors import InvalidRequest
from ..log import events as ev
from ..log.session import Session
from ..misnamed import Named
from ..wire import Fields, request_fields
from .growing import Growth, alternative, continuation
from .keys import checked_keys
from .measuring import Measuring
from .selection import Selection, ids_of

if TYPE_CHECKING:
    from ..client import AsyncClient, Client
    from .desk import LoomDesk
    from .file import LoomFile

DEFAULTS: dict[str, Any] = {"logprobs": 5}
"""Sampling of a loom that nobody told otherwise: without log-probabilities there would be no tokens."""


class Loom(Measuring, Named):
    """A tree of texts.

    ``source`` is a prompt, a session, a completion or one of its choices; ``None`` begins with nothing. It grows with
    ``client``, or with one of the environment. ``sampling`` (and ``model``) is what a prompt's nodes grow with unless
    told otherwise; every node grows as the one it came from. What nobody names is as in a cell and in the window:
    ``max_tokens`` 128, ``logprobs`` 5 (``None``: not sent). Operations return the id of the node to look at, and raise
    :class:`InvalidRequest` with one line when they cannot be done; then nothing has changed.
    """

    INSTEAD: ClassVar[dict[str, str]] = {
        "search": "find(TEXT) looks for a text, where(PREDICATE) for what is known of nodes.",
        "complete": "grow(NODE, N) continues a node.",
    }

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
        self.selection = Selection()
        self._desk: LoomDesk | None = None
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
        from . import loading  # noqa: PLC0415  # only when a file is used
        from .file import LoomFile, read  # noqa: PLC0415

        if read_only:
            loom = cls(loading.or_hint(read, path), client=client, **sampling)
            loom.read_only = True
            loom.notes = loading.keys_in(loom.session)
            return loom
        try:
            file = loading.or_hint(LoomFile.open, path)
        except InvalidRequest as error:
            if "being written" in error.message:
                raise InvalidRequest(f"{error.message} To look at it, open it with read_only=True.") from None
            raise
        loom = cls(file.session, client=client, **sampling)
        loom._file = file
        loom.notes = loading.keys_in(loom.session)
        return loom

    def keep(self, path: str | os.PathLike[str]) -> Path:
        """Keep this loom in a new file from now on: every change is appended as it happens.

        One that is kept already goes to another file only when there is ``trouble`` with its own.
        """
        from .file import LoomFile  # noqa: PLC0415  # only when a file is used

        old = self._file
        if old is not None and not old.trouble:
            raise InvalidRequest(
                f"This loom is kept in {old.path} already; export() writes a copy elsewhere."
            )
        self._file = LoomFile.create(path, self.session)
        if old is not None:
            old.close()
        self.closed = ""
        self._tell_windows()
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
        unless given. ``ours`` reads what can be read of a damaged file of ours. Options: ``responses`` (socketteer: a
        parsed backup), ``note`` and ``unescape`` (obsidian), ``tree`` (basemode's database: an id or a name). A
        database of basemode-loom is only read.
        """
        from . import loading  # noqa: PLC0415  # only when a file is used

        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from None
        session, notes = loading.read(data, Path(path), form, options)
        loom = cls(session, client=client)
        loom.notes = notes
        return loom

    def export(
        self, path: str | os.PathLike[str], form: str | None = None, *, node: str | None = None
    ) -> list[str]:
        """Write a file, whole or not at all; gives lines about what the format cannot hold.

        ``form``: ``ours``, ``service``, ``socketteer``, ``obsidian``, ``basemode``, ``markdown``, ``jsonl``; a path
        to ``node`` alone: ``text``, ``mikupad``. ``.loom``, ``.md`` and ``.txt`` say it by themselves.
        """
        from .file import export  # noqa: PLC0415  # only when a file is used
        from .formats import choosing  # noqa: PLC0415

        data, notes = choosing.write(self.session, form or choosing.by_ending(Path(path)), node)
        export(Path(path), data)
        return notes

    @property
    def file(self) -> Path | None:
        """Where the loom is kept, if it is."""
        return self._file.path if self._file is not None else None

    @property
    def trouble(self) -> str:
        """One line while the file cannot be written, or when it was closed; else ``""``."""
        if self.closed:
            return f"closed: {self.closed} does not keep it any more."
        return self._file.trouble if self._file is not None else ""

    def close(self) -> None:
        """Let go of the file; what could not be written is said in ``notes``. The loom can still be read; it refuses
        changes, which nothing would keep, until :meth:`keep` names another file. One that was never kept goes on as
        it was."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            self.notes += [file.trouble] if file.trouble else []
            self.closed = str(file.path)
            self._tell_windows()

    def _tell_windows(self) -> None:
        if self._desk is not None:
            self._desk.tell_file()

    def __enter__(self) -> Loom:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- showing ----------------------------------------------------------------------------------

    @property
    def selected(self) -> list[str]:
        """The nodes that are lit up, in windows and by code; when none is, the one under the cursor.

        None of them is deleted; undo brings a node back lit.
        """
        lit = self._living(self.selection.lit)
        return lit or self._living([self.selection.current] if self.selection.current is not None else [])

    def _living(self, nodes: list[str]) -> list[str]:
        living = set(self.nodes) if nodes else set()
        return [node for node in nodes if node in living]

    def select(self, nodes: Any = None) -> None:
        """Light nodes up in every window: an id, several, or a frame with a ``node`` column; ``None`` none."""
        found = ids_of(nodes)
        living = set(self.nodes)
        for node in found:
            if node not in living:
                self.node(node)  # it says why
        self.selection.light(found)

    def show(self, *, keys: dict[str, str] | None = None, height: int = 620) -> None:
        """Show a window; several can show one loom. ``keys``: command to key, see ``?`` in the window.

        Several keys of a command have a blank between, ``""`` is none; a usual key of another command is taken from
        it. ``height``: of the window, in CSS pixels. It grows with the ``client``, or the extension's own settings.
        Raises :class:`InvalidRequest` for a command or a key that is none or given twice; then nothing is shown.
        """
        from .desk import shown  # noqa: PLC0415  # widgets load with the first window

        bindings = checked_keys(keys)
        if isinstance(height, bool) or not isinstance(height, int) or height < 1:
            raise InvalidRequest(f"height={height!r} must be a whole number of CSS pixels, such as 620.")
        shown(self, bindings, height)

    def _ipython_display_(self) -> None:
        self.show()

    def _display_(self) -> Any:
        """What marimo shows: a window."""
        from .desk import desk_of  # noqa: PLC0415  # widgets load with the first window

        return desk_of(self).window({}, 620)

    # -- growing ------------------------------------------------------------------------------------

    def grow(self, node: str, n: int | None = None, **sampling: Any) -> list[str]:
        """Continue a node ``n`` times by one request; its children's ids, when all have come.

        Sampling is the node's own with ``sampling`` on top, and is remembered by the new nodes; where neither says
        ``max_tokens`` it is 128, as in a cell and in the window (``None``: to the end of the model's window). What came
        before an error or an interrupt is kept. Raises :class:`AcsError`.
        """
        return self._driven(continuation(self.session, node, n, self._fields(sampling)).as_usual())

    async def grow_async(self, node: str, n: int | None = None, **sampling: Any) -> list[str]:
        """The same, to be awaited."""
        return await self._driven_async(
            continuation(self.session, node, n, self._fields(sampling)).as_usual()
        )

    def branch(self, node: str, token: int, text: str, n: int | None = None, **sampling: Any) -> list[str]:
        """Leave a node before its ``token``-th token, put ``text`` there, an alternative say, and go on from it.

        Gives siblings of the node that begin as a copy of it.
        """
        return self._driven(
            alternative(self.session, node, (token, text), n, self._fields(sampling)).as_usual()
        )

    def _fields(self, sampling: dict[str, Any]) -> dict[str, Any]:
        self._check_writable()
        return {**sampling}

    def _driven(self, growth: Growth) -> list[str]:
        from .clients import sync_client  # noqa: PLC0415  # httpx loads with the first request

        with sync_client(self.client) as client:
            if growth.unnamed:
                client.learn()
            exchange = growth.exchange(client)
            for _ in client.drive(exchange, growth.sink(self.session)):
                pass
            return growth.result(exchange)

    async def _driven_async(self, growth: Growth) -> list[str]:
        from .clients import async_client  # noqa: PLC0415  # as above

        async with async_client(self.client) as client:
            if growth.unnamed:
                await client.learn()
            exchange = growth.exchange(client)
            async for _ in client.drive(exchange, growth.sink(self.session)):
                pass
            return growth.result(exchange)

    def _home(self) -> str:
        """The run whose sampling a new root grows with: made when a loom first needs it."""
        run = "loom"
        while run in self.session.runs:
            if self.session.runs[run].request == {**self._start(), "prompt": ""}:
                return run
            run += "+"
        self.session.apply([ev.RunOpened(run, {**self._start(), "prompt": ""}), ev.RunClosed(run, "done")])
        return run

    @property
    def sampling(self) -> dict[str, Any]:
        """What a new root grows with."""
        return {name: value for name, value in self._sampling.items() if name != "validate"}

    def _start(self) -> dict[str, Any]:
        fields = self.sampling
        return {
            k: v for k, v in request_fields(build_request({"prompt": "", **fields})).items() if k != "prompt"
        }

    def __repr__(self) -> str:
        return f"Loom({len(self.nodes)} nodes, {len(self.roots)} roots)"


def _session_of(source: Session | Completion | Choice) -> Session:
    if isinstance(source, Session):
        return source
    if isinstance(source, (Completion, Choice)):
        return source.session
    raise InvalidRequest(
        f"A loom must begin with a text, a session or a completion, not with {type(source).__name__}."
    )
