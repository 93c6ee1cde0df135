"""Sums along paths: each node is looked at once, however deep the tree, and the sums are those of a single path."""

from __future__ import annotations

import random

import pytest

from acs_jupyter import Loom
from acs_jupyter.log import standing
from acs_jupyter.log.events import NodeOpened, Piece, Revised, RunClosed, RunOpened, TokensArrived, Written
from acs_jupyter.log.session import Session
from acs_jupyter.looms.measure import Paths, path_logprob

DEEP = 1500


def deep_tree(depth: int, seed: int = 7) -> Loom:
    """A way down with a side branch at every node, some of them texts of which nothing is known."""
    chance = random.Random(seed)
    loom = Loom("Once")
    (parent,) = loom.roots
    session = loom.session
    for number in range(depth):
        run = f"r{number}"
        names = [f"{run}.0", f"{run}.1"]
        session.apply([RunOpened(run, {"prompt": "", "model": "m"})])
        for choice, name in enumerate(names):
            tokens = ("a", "b") if chance.random() < 0.8 else ()
            values = tuple(
                chance.choice([None, -chance.random() * 10 ** chance.randint(-8, 8)]) for _ in tokens
            )
            came = TokensArrived(name, "ab", tokens, values, (None,) * len(tokens))
            session.apply([NodeOpened(name, run, parent, choice), came])
        session.apply([RunClosed(run, "done")])
        parent = names[0]
    return loom


def test_sums_carried_down_are_those_of_each_path() -> None:
    loom = deep_tree(120)
    nodes = loom.nodes
    random.Random(1).shuffle(nodes)
    paths = Paths(loom.session)
    for node in nodes:
        assert paths.logprob(node) == path_logprob(loom.session, node), "to the last bit"
        assert paths.depth(node) == len(loom.path(node)) - 1
    frame = loom.frame().set_index("node")
    for node in nodes:
        total = loom.logprob(node).total
        assert frame.path_logprob[node] == total or (total is None and frame.path_logprob.isna()[node])
    wanted = [node for node in loom.nodes if (loom.logprob(node).total or 0) < -5]
    assert loom.where("path < -5") == wanted
    assert loom.where("depth > 3") == [node for node in loom.nodes if len(loom.path(node)) > 4]


def test_nothing_climbs_from_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    loom = Loom("Once")
    run = next(iter(loom.session.runs))
    written, parent = [], loom.roots[0]
    for number in range(DEEP):
        written.append(Written(f"n{number}", run, parent, (Piece(text="x"),)))
        parent = f"n{number}"
    loom.session.apply([Revised("write", written=tuple(written))])
    climbed: list[str] = []
    whole, gone = Session.path, standing.is_deleted
    monkeypatch.setattr(Session, "path", lambda self, node: (climbed.append(node), whole(self, node))[1])
    monkeypatch.setattr(standing, "is_deleted", lambda s, node: (climbed.append(node), gone(s, node))[1])
    assert loom.find("x") == loom.nodes[1:]
    assert len(loom.where("path < 0 or depth >= 0 or tokens > 5")) == DEEP + 1
    assert len(loom.frame()) == DEEP + 1
    loom.select(loom.nodes)
    assert len(loom.selected) == DEEP + 1
    assert len(climbed) < 20, "a root at most for each question"
