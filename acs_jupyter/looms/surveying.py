"""What a loom's windows measure: a trie and a diff at once, a map in the background, told as it grows.

Owns the maps under way, one a node, and what a window is told. It must not know what a window draws, nor how anything
is measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..client import Client
from ..errors import AcsError, InvalidRequest
from ..ledger import place
from ..log.intents import Measure
from ..scores.scoring import run_steps
from ..widgets import measures
from ..widgets.loom import LoomWindow
from .multiverse import Multiverse
from .saying import line_of

if TYPE_CHECKING:
    from .loom import Loom


class Surveys:
    """Measures of one loom. ``client`` gives the asynchronous client that its windows send with."""

    def __init__(self, loom: Loom, client: Callable[[], Any]) -> None:
        self._loom, self._client = loom, client
        self._here = place.Here()  # a map belongs to the cell that showed the loom, and to its limits
        self._stops: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def measure(self, intent: Measure, window: LoomWindow) -> None:
        """Do what a window asks for, or say in its box why not."""
        try:
            self._measure(intent, window)
        except AcsError as error:
            line = line_of(error, self._loom.session)
            if intent.what == "map" and intent.node in self._loom.session.nodes:
                found = self._loom._kept_map(intent.node)
                self._show(window, found, busy=intent.node in self._stops, problem=line)
            else:
                window.say(measured={"what": intent.what, "node": intent.node, "line": line, "rows": []})

    def _measure(self, intent: Measure, window: LoomWindow) -> None:
        node = intent.node
        if intent.what == "trie":
            found = self._loom.trie(node)
            rows, line = measures.trie_rows(found), measures.trie_line(found)
            window.say(measured={"what": "trie", "node": node, "line": line, "rows": rows})
        elif intent.what == "diff":
            other = intent.other or self._neighbour(node)
            diff = self._loom.diff(node, other)
            rows, line = measures.diff_rows(diff), measures.diff_line(diff)
            told = {"what": "diff", "node": node, "other": other, "line": line, "rows": rows}
            window.say(measured=told)
        elif intent.stop:
            self._stop(node)
        elif intent.tokens:
            self._begin(intent, window)
        else:
            self._show(window, self._loom._kept_map(node), busy=node in self._stops)

    def follow(self, node: str, cell: int) -> str:
        """Make a node of a cell."""
        return self._loom.follow(self._loom._kept_map(node), cell)

    def _neighbour(self, node: str) -> str:
        """The sibling behind a node, or the one before it."""
        parent = self._loom.parent(node)
        siblings = self._loom.roots if parent is None else self._loom.children(parent)
        at = siblings.index(node)
        if len(siblings) < 2:
            raise InvalidRequest("This node has no sibling to compare; light another node up, then compare.")
        return siblings[at + 1] if at + 1 < len(siblings) else siblings[at - 1]

    def _begin(self, intent: Measure, window: LoomWindow) -> None:
        node = intent.node
        client = self._client().same(Client)
        stop = threading.Event()
        how = {"budget": intent.tokens, "depth": intent.depth, "stop": stop.is_set}
        with self._lock:
            if node in self._stops:
                raise InvalidRequest("This node is being mapped already: wait for its end.")
            work = self._loom._map(node, how, lambda found: self._show(window, found, busy=True))
            self._stops[node] = stop
        thread = threading.Thread(target=self._run, args=(node, client, work, window), daemon=True)
        thread.name = "acs-map"
        self._show(window, work[0], busy=True)
        thread.start()

    def _run(self, node: str, client: Client, work: Any, window: LoomWindow) -> None:
        found, steps, done = work
        problem = ""
        try:
            with client, self._here.again(), self._loom._kept(done, client):
                client.learn()
                run_steps(steps, client)
        except AcsError as error:
            problem = line_of(error, self._loom.session)
        finally:
            with self._lock:
                self._stops.pop(node, None)
            self._show(window, found, busy=False, problem=problem)

    def _stop(self, node: str) -> None:
        stop = self._stops.get(node)
        if stop is not None:
            stop.set()

    def _show(self, window: LoomWindow, found: Multiverse, *, busy: bool, problem: str = "") -> None:
        line = measures.map_line(found, busy=busy)
        told = {"what": "map", "node": found.node, "line": line, "cells": measures.map_cells(found)}
        window.say(measured={**told, "busy": busy, "refused": problem})
