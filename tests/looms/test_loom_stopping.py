"""One of several siblings of one request is stopped: what came stays, the others go on, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acs_jupyter import Client, Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.log.events import STOPPED
from acs_jupyter.looms.desk import desk_of
from tests.support.hands import Hands, quiet, until
from tests.support.servers import Running

SLOW = "#scripted tokens=4000 rate=100 alternatives=2\nOnce"


@pytest.fixture
def hands(scripted_server: Running) -> Iterator[Hands]:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(SLOW, client=client, max_tokens=4000)
        yield Hands(loom)
        desk = desk_of(loom)
        if desk._own is not None:
            desk._own[1].close()


def coming(hands: Hands, n: int) -> tuple[str, list[str]]:
    """A request of n choices, some tokens of each of which are there: its run and its nodes."""
    loom = hands.loom
    hands.ask("Grow", node=loom.roots[0], n=n)
    until(
        lambda: len(loom.nodes) == n + 1 and all(len(loom.node(node).tokens) > 5 for node in loom.nodes[1:])
    )
    nodes = loom.nodes[1:]
    return loom.node(nodes[0]).run, nodes


def test_one_is_stopped_and_the_others_go_on(hands: Hands) -> None:
    loom = hands.loom
    run, (first, second, third) = coming(hands, 3)
    hands.ask("Cancel", run=run, node=second)
    until(lambda: loom.node(second).finish_reason == STOPPED)
    kept, others = loom.own_text(second), [len(loom.node(node).tokens) for node in (first, third)]
    until(lambda: all(len(loom.node(n).tokens) > k + 30 for n, k in zip((first, third), others, strict=True)))
    assert loom.own_text(second) == kept != ""
    assert loom.session.runs[run].outcome == "open"
    assert loom.where('finish == "stopped"') == [second]
    # It is whole: it can be changed, and grown from, while the others come.
    edited = loom.edit(second, "another")
    hands.ask("Grow", node=second, fields={"max_tokens": "3"})
    until(lambda: len(loom.children(second)) == 1)
    with pytest.raises(InvalidRequest, match="still being generated"):
        loom.edit(first, "no")
    hands.ask("Cancel")
    until(lambda: quiet(loom))
    assert (loom.own_text(second), loom.own_text(edited)) == (kept, "another")
    assert [loom.node(node).finish_reason for node in (first, second, third)] == [None, STOPPED, None]
    assert loom.session.copy().nodes[second].text == kept


def test_when_none_is_left_the_request_ends(hands: Hands) -> None:
    loom = hands.loom
    run, nodes = coming(hands, 2)
    for node in nodes:
        hands.ask("Cancel", run=run, node=node)
    until(lambda: quiet(loom))
    assert loom.session.runs[run].outcome == "stopped"
    assert [loom.node(node).finish_reason for node in nodes] == [STOPPED, STOPPED]
    assert all(len(loom.node(node).tokens) < 4000 for node in nodes)
    before = len(loom.session)
    hands.ask("Cancel", run=run, node=nodes[0])  # too late: nothing
    hands.ask("Cancel", run=run, node=loom.roots[0])  # none of its choices: nothing
    assert len(loom.session) == before
