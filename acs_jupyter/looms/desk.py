"""The windows on one loom, and what they ask for, done.

Owns which intent leads to which operation, the runs that windows began, and the copies that stay in the notebook. It
must not know what a window draws, nor how a request travels. Growth runs in the background: the kernel stays free.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ..client import AsyncClient, Client
from ..errors import AcsError, InvalidRequest
from ..keeping.showing import in_kernel, show
from ..log import revising, standing
from ..log.events import Change, node_of
from ..log.intents import (
    AnyIntent,
    Delete,
    Fold,
    Follow,
    Fork,
    Grow,
    Hoist,
    Light,
    Mark,
    Measure,
    Merge,
    Move,
    Redo,
    Rewrite,
    Search,
    Shift,
    Split,
    Store,
    Undo,
    Visit,
    Write,
)
from ..notebook.form import fields, read, written
from ..notebook.growing import Grower
from ..notebook.workbench import this_kernel_s
from ..pump import Pump
from ..widgets.loom import LoomWindow
from .copies import Copies
from .growing import USUAL, continuation, with_step
from .saying import line_of
from .surveying import Surveys

if TYPE_CHECKING:
    from .loom import Loom


def shown(loom: Loom, keys: dict[str, str], height: int) -> None:
    """Show a window on a loom, or, where there are no windows, what it is in one line."""
    if not in_kernel():
        print(repr(loom))
        return
    desk = desk_of(loom)
    desk.copies.add(show(desk.window(keys, height)))


def desk_of(loom: Loom) -> LoomDesk:
    """The one desk of a loom, made when it is first needed."""
    if loom._desk is None:
        loom._desk = LoomDesk(loom)
    return loom._desk


class LoomDesk:
    """Serves all windows on one loom."""

    def __init__(self, loom: Loom) -> None:
        self.loom = loom
        self.copies = Copies(loom.session, self._spent)
        self._windows: weakref.WeakSet[LoomWindow] = weakref.WeakSet()
        self._own: tuple[Any, Pump] | None = None
        self._grower = Grower(loom.session, self._pump)
        self._grower.also = with_step
        self._lock = threading.Lock()
        loom.selection.listen(self._show_lit)
        surveys = Surveys(loom, lambda: self._pump().client)
        self._acts: dict[type, Callable[[Any, LoomWindow], str | None]] = {
            Grow: self._grow, Search: self._search, Mark: self._mark, Visit: self._visit, Write: self._write,
            Undo: self._undo, Redo: self._redo, Light: lambda i, _: loom.selection.light(i.nodes),
            Store: self._store,
            Rewrite: lambda i, _: loom.edit(i.node, i.text),
            Split: lambda i, _: loom.split(i.node, token=i.token, at=i.at),
            Merge: lambda i, _: loom.merge(i.node),
            Move: lambda i, _: loom.move(i.node, i.parent, i.before),
            Shift: lambda i, _: loom.shift(i.node, i.by),
            Delete: lambda i, _: loom.delete(*i.nodes),
            Fold: lambda i, _: loom.fold(i.node, i.folded) if loom.writable else None,
            Hoist: lambda i, _: loom.hoist(i.node),
            Measure: surveys.measure,
            Follow: lambda i, _: surveys.follow(i.node, i.cell),
        }  # fmt: skip

    def window(self, keys: dict[str, str], height: int) -> LoomWindow:
        """Another window."""
        loom = self.loom
        started = {name: value for name, value in loom.sampling.items() if value is not None}
        window: LoomWindow = LoomWindow(
            loom.session,
            interrupts=False,
            form=[field for field in fields() if field["name"] != "n"],
            usual=written({**USUAL, **started}),
            bindings=keys,
            height=height,
            lit=loom.selection.lit,
            start=loom.selection.current or "",
            frozen=loom.read_only,
            file=str(loom.file or ""),
            trouble=loom.trouble,
            on_intent=lambda intent: self.obey(intent, window),
        )
        self._windows.add(window)
        return window

    def obey(self, intent: AnyIntent, window: LoomWindow) -> None:
        """Do what a window asks for, or tell it in one line why not."""
        act = self._acts.get(type(intent))
        try:
            if act is not None:
                look = act(intent, window)
                if look:
                    window.say(look=look)
                self.tell_file()
            else:
                self._branch(intent, window)
        except (AcsError, ValueError, LookupError) as error:
            line = line_of(error, self.loom.session)
            window.tell(line)
            text = _written_by(intent)
            if text:
                window.say(refused={"text": text, "line": line})

    # -- growing ------------------------------------------------------------------------------------

    def _grow(self, intent: Grow, window: LoomWindow) -> None:
        self._grow_from(intent.node, intent.n, intent.fields, window)

    def _grow_from(self, node: str, n: int, given: dict[str, str], window: LoomWindow) -> None:
        loom = self.loom
        sampling = loom._fields(read(given))
        growth = continuation(loom.session, node, n, sampling).as_usual()
        if given:
            loom._do(lambda: revising.remembered(loom.session, node, sampling))
        named = {"model": self._default()} if growth.unnamed else {}
        self._grower.send({**growth.fields, **named}, growth.parents, growth.origin, window.tell)

    def _branch(self, intent: AnyIntent, window: LoomWindow) -> None:
        """What the live cell has too: an alternative put in place, a place sampled again, stop."""
        session = self.loom.session
        node = session.nodes.get(getattr(intent, "node", ""))
        self.loom._check_writable()
        if node is not None and node.choice is None and isinstance(intent, Fork):
            # A text that a person arranged has no run to branch from: its beginning becomes a node, which grows.
            text = "".join(node.tokens[: intent.token]) + intent.text
            made = self.loom.edit(node.id, text)
            window.say(look=made)
            self._grow_from(made, 1, {}, window)
            return
        with self._lock:
            self._grower.begun = lambda run: window.say(look=node_of(run, 0))
            self._grower.obey(intent, window.tell)

    def _default(self) -> str | None:
        """The model that answers where none is named, by its id."""
        client = self._pump().client
        if client.model is None and not client.catalogue.learned:
            with client.same(Client) as asking:
                asking.learn()
                client.catalogue.adopt(asking.catalogue)
        return client.model or client.catalogue.default

    def _pump(self) -> Pump:
        client: Any = self.loom.client
        if client is None:
            return this_kernel_s().pump()
        if self._own is None or self._own[0] is not client:
            self._own = (client, Pump(client.same(AsyncClient)))
        return self._own[1]

    # -- the rest -----------------------------------------------------------------------------------

    def _write(self, intent: Write, _: LoomWindow) -> str:
        if intent.beside is not None:
            return self.loom.new_sibling(intent.beside, intent.text)
        if intent.parent is not None:
            return self.loom.new_child(intent.parent, intent.text)
        return self.loom.new_root(intent.text)

    def _mark(self, intent: Mark, _: LoomWindow) -> None:
        given = {f: getattr(intent, f) for f in ("tags", "note", "bookmark", "rating", "unread")}
        self.loom.mark(intent.node, **{f: v for f, v in given.items() if v is not msgspec.UNSET})

    def _visit(self, intent: Visit, _: LoomWindow) -> None:
        if intent.node not in self.loom.session.nodes or standing.is_deleted(self.loom.session, intent.node):
            return  # it was deleted while the reader's word was on its way: nobody asked for anything
        self.loom.selection.current = intent.node
        if self.loom.writable:
            self.loom.visit(intent.node)

    def _undo(self, _: Undo, window: LoomWindow) -> str | None:
        return self._told(window, self.loom.undo, "Undid")

    def _redo(self, _: Redo, window: LoomWindow) -> str | None:
        return self._told(window, self.loom.redo, "Did again")

    def _told(self, window: LoomWindow, step: Callable[[], str], word: str) -> str | None:
        changes: list[Change] = []
        before = len(self.loom.session)
        what = step()
        for _, event in self.loom.session.since(before):
            changes += getattr(event, "changes", ())
        window.say(said=f"{word}: {what}.")
        return self._living(changes)

    def _living(self, changes: list[Change]) -> str | None:
        session = self.loom.session
        named = [change.node for change in changes if change.node in session.nodes]
        return next((node for node in named if not standing.is_deleted(session, node)), None)

    def _store(self, intent: Store, window: LoomWindow) -> None:
        path = self.loom.keep(intent.path)
        window.say(said=f"Kept in {path} from now on.")

    def _search(self, intent: Search, window: LoomWindow) -> None:
        found: dict[str, Any] = {"text": intent.text, "predicate": intent.predicate, "nodes": []}
        try:
            search = self.loom.where if intent.predicate else self.loom.find
            found["nodes"] = search(intent.text) if intent.text else []
        except InvalidRequest as error:
            found["refused"] = error.message
        window.say(found=found)

    def _spent(self) -> int:
        return max((window.weight for window in list(self._windows)), default=0)

    def _show_lit(self) -> None:
        for window in list(self._windows):
            window.lit = self.loom.selection.lit

    def tell_file(self) -> None:
        """Where the loom is kept, and what is wrong with that, in every window."""
        for window in list(self._windows):
            window.file, window.trouble = str(self.loom.file or ""), self.loom.trouble


def _written_by(intent: AnyIntent) -> str:
    """What somebody typed and would lose when it is refused."""
    if isinstance(intent, Write | Rewrite):
        return intent.text
    if isinstance(intent, Store):
        return intent.path
    if isinstance(intent, Mark):
        typed = (
            [intent.note]
            if isinstance(intent.note, str)
            else intent.tags
            if isinstance(intent.tags, list)
            else []
        )
        return " ".join(typed)
    return ""
