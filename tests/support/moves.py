"""Random sequences of changes to a tree: one player for the property test and for the golden files."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from acs_jupyter.errors import InvalidRequest
from acs_jupyter.log import events as ev
from acs_jupyter.log import revising as rv
from acs_jupyter.log import standing
from acs_jupyter.log.session import Session
from acs_jupyter.wire import CompletionRequest

WORDS = ["", " a", " word", "\r\n", "Z\u0301e", "\U0001f600!", "<b>&", " \u202ex", "tail  "]


class Player:
    """Plays moves on a session, the same for the same seed. A move that is refused changes nothing."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session = session
        self.random = Random(seed)
        self.count = len(session.nodes)
        self.refused = 0

    def new(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def play(self, moves: int) -> None:
        for _ in range(moves):
            self.move()

    def move(self) -> str:
        name = self.random.choice([name for name in MOVES for _ in range(3 if name in COMMON else 1)])
        try:
            event = MOVES[name](self)
        except InvalidRequest:
            self.refused += 1
            return name
        if event is not None:
            self.session.apply([event])
        return name

    def node(self) -> str:
        living = [node for node in self.session.nodes if not standing.is_deleted(self.session, node)]
        return self.random.choice(living or list(self.session.nodes))

    def text(self) -> str:
        return "".join(self.random.choices(WORDS, k=3))

    def grow(self) -> None:
        """A request from its beginning to its end."""
        run, nodes = self.begin()
        for node in nodes:
            self.arrive(node)
            self.session.apply([ev.Finished(node, "length")])
        self.session.apply([ev.RunClosed(run, "done")])

    def begin(self) -> tuple[str, list[str]]:
        """A request is sent."""
        session, node = self.session, standing.existing(self.session, self.node()).id
        run, n = self.new(), self.random.choice([1, 3])
        request = CompletionRequest(prompt=session.text_to(node), model="m", n=n, temperature=0.5)
        return run, self.open(run, request, [node], None)

    def open(
        self, run: str, request: CompletionRequest, parents: list[str] | None, origin: ev.Origin | None
    ) -> list[str]:
        opened = ev.opening(run, request, parents=parents, origin=origin)
        nodes = [
            event.node for event in opened if isinstance(event, ev.NodeOpened) and event.choice is not None
        ]
        self.session.apply([*opened, rv.grown(opened)])
        return nodes

    def arrive(self, node: str) -> None:
        """Tokens come."""
        tokens = tuple(self.random.choices(WORDS, k=4))
        tops = tuple({token: -1.5, " no": -0.25} for token in tokens)
        self.session.apply([ev.TokensArrived(node, "".join(tokens), tokens, (-1.5,) * 4, tops)])

    def fork(self) -> None:
        """An alternative in the place of a token goes on in a branch."""
        session, nodes = self.session, self.session.nodes
        left = [n for n in nodes if nodes[n].choice is not None and nodes[n].tokens and not nodes[n].echo]
        node = self.random.choice(left) if left else ""
        try:
            plan = session.fork(
                node, token=self.random.randrange(len(nodes[node].tokens)), replacement=" alt"
            )
        except (ValueError, KeyError):
            raise InvalidRequest("There is no such place.") from None
        run = self.new()
        for made in self.open(run, plan.request, plan.parents, plan.origin):
            self.arrive(made)
            session.apply([ev.Finished(made, "stop")])
        session.apply([ev.RunClosed(run, "done")])

    def coming(self) -> list[str]:
        """The nodes that are written to now."""
        return [node for node in self.session.nodes if standing.is_coming(self.session, node)]

    def stream(self) -> None:
        """What is under way goes on: tokens of one choice, the end of one, the end of all; or a request begins."""
        coming = self.coming()
        if not coming:
            self.begin()
            return
        node = self.random.choice(coming)
        what = self.random.choice(["tokens", "tokens", "stopped", "finished", "closed"])
        if what == "tokens":
            self.arrive(node)
        elif what == "closed":
            self.session.apply([ev.RunClosed(self.session.nodes[node].run, "stopped")])
        else:
            self.session.apply([ev.Finished(node, ev.STOPPED if what == "stopped" else "stop")])

    def settle(self) -> None:
        """Everything under way ends."""
        for run in [key for key, run in self.session.runs.items() if run.outcome == "open"]:
            self.session.apply([ev.RunClosed(run, "stopped")])


def _move(player: Player) -> Any:
    parent = player.random.choice([player.node(), None])
    children = standing.alive(player.session, parent)
    before = player.random.choice([*children, None])
    return rv.moved(player.session, player.node(), parent, before)


def _mark(player: Player) -> Any:
    fields = {
        "tags": ["good", "\u00e9"],
        "note": player.text(),
        "bookmark": True,
        "rating": player.random.choice([0, 0.5, -1]),
        "folded": player.random.random() < 0.5,
        "unread": True,
        "sampling": {"temperature": 0.25, "stop": ["x"]},
    }
    name = player.random.choice(list(fields))
    return rv.marked(player.session, player.node(), **{name: fields[name]})


def _split(player: Player) -> Any:
    node = player.node()
    known = len(player.session.nodes[node].tokens)
    place = {"token": player.random.randrange(max(known, 1))} if known else {"at": player.random.randrange(6)}
    return rv.split(player.session, node, **place, make=player.new)


def _edit(player: Player) -> Any:
    node = player.node()
    text = player.session.nodes[node].text
    return rv.edited(player.session, node, text[: len(text) // 2] + player.text(), player.new)


MOVES: dict[str, Callable[[Player], Any]] = {
    "grow": lambda p: p.grow(),
    "fork": lambda p: p.fork(),
    "stream": lambda p: p.stream(),
    "child": lambda p: rv.added(p.session, p.text(), p.node(), "g", p.new),
    "root": lambda p: rv.added(p.session, p.text(), None, "g", p.new),
    "sibling": lambda p: rv.beside(p.session, p.node(), p.text(), p.new),
    "edit": _edit,
    "split": _split,
    "merge": lambda p: rv.merged(p.session, p.node(), p.new),
    "move": _move,
    "shift": lambda p: rv.shifted(p.session, p.node(), p.random.choice([-2, -1, 1])),
    "delete": lambda p: rv.deleted(p.session, [p.node()]),
    "mark": _mark,
    "visit": lambda p: rv.visited(p.session, p.node()),
    "hoist": lambda p: rv.hoisted(p.session, p.random.choice([p.node(), None])),
    "undo": lambda p: rv.undone(p.session),
    "redo": lambda p: rv.redone(p.session),
}
COMMON = {"grow", "stream", "undo", "redo", "split", "merge", "edit"}
