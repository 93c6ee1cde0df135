"""What a loom's windows measure, without a browser: each answer is what Python's own measures say."""

from __future__ import annotations

from acs_jupyter import Client, Loom
from acs_jupyter.looms.desk import desk_of
from acs_jupyter.widgets import measures
from tests.support.hands import Hands, until
from tests.support.servers import Running

SIX = "#scripted tokens=6 alternatives=3\nOnce"


def test_a_window_measures(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(SIX, client=client, max_tokens=6, seed=5)
        hands = Hands(loom)
        (root,) = loom.roots
        hands.ask("Measure", what="trie", node=root)
        assert "no generated children" in hands.words("measured").pop()["line"]
        first, second, third = loom.grow(root, 3)
        hands.ask("Measure", what="trie", node=root)
        told = hands.words("measured").pop()
        assert (told["what"], told["node"]) == ("trie", root)
        assert told["rows"] == measures.trie_rows(loom.trie(root))
        assert sum(row["count"] for row in told["rows"] if row["depth"] == 0) == 3
        hands.ask("Measure", what="diff", node=third)
        told = hands.words("measured").pop()
        assert (told["node"], told["other"]) == (third, second)  # the one before the last
        assert "".join(token for row in told["rows"] for token, _ in row["a"]) == loom.own_text(third)
        hands.ask("Measure", what="diff", node=first, other=third)
        assert hands.words("measured")[-1]["rows"] == measures.diff_rows(loom.diff(first, third))
        hands.ask("Measure", what="diff", node=root)
        assert "no sibling" in hands.words("measured")[-1]["line"]
        hands.ask("Measure", what="map", node="nowhere")
        assert "no node" in hands.words("measured")[-1]["line"]


def test_a_window_maps_in_the_background_and_follows_a_cell(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(SIX, client=client, max_tokens=6, seed=5)
        hands = Hands(loom)
        (root,) = loom.roots
        hands.ask("Measure", what="map", node=root)
        empty = hands.words("measured")[-1]
        assert ([cell["cell"] for cell in empty["cells"]], empty["busy"]) == ([0], False)
        hands.ask("Measure", what="map", node=root, tokens=1500, depth=3)
        until(lambda: hands.words("measured")[-1]["busy"] is False and len(hands.words("measured")) > 2)
        told = hands.words("measured")[-1]
        assert (told["refused"], told["cells"]) == ("", measures.map_cells(loom.multiverse(root)))
        assert any(word["busy"] for word in hands.words("measured")), "it is told as it grows"
        assert 0 < loom.multiverse(root).spent <= 1500
        cell = next(cell for cell in told["cells"] if cell["depth"] == 2)
        hands.ask("Follow", node=root, cell=cell["cell"])
        made = hands.words("look")[-1]
        assert (loom.own_text(made), loom.node(made).choice) == (cell["text"], None)
        hands.ask("Follow", node=root, cell=10_000)
        assert "no cell" in hands.refusals()[-1]
        hands.ask("Measure", what="map", node=root, stop=True)  # nothing is under way: nothing happens
        desk_of(loom).copies.write()


def test_a_map_that_fails_says_so(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(SIX, client=client, model="nobody")
        hands = Hands(loom)
        hands.ask("Measure", what="map", node=loom.roots[0], tokens=900)
        until(lambda: any(not told["busy"] for told in hands.words("measured")))
        told = hands.words("measured")[-1]
        assert told["busy"] is False
        assert "nobody" in told["refused"]
