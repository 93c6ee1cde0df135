"""The multiverse map: areas that sum to 1, bounds that hold, a map that goes on where it was."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter import AsyncClient, Client, Loom
from acs_jupyter.errors import AcsError, InvalidRequest, RateLimited
from acs_jupyter.ledger.meter import KeyMeter
from acs_jupyter.looms.mapping import Plan, map_steps
from acs_jupyter.looms.multiverse import Multiverse
from acs_jupyter.widgets.measures import map_line, percent
from tests.support.servers import Running

FEW = "#scripted tokens=6 alternatives=3\nOnce upon"
TOLD = st.lists(st.tuples(st.sampled_from([" a", " b", "", "</s>", "<b>"]), st.floats(-30, 0)), max_size=6)


@given(st.lists(st.tuples(st.integers(0, 40), TOLD), max_size=12), st.sampled_from(["ids", "text"]))
def test_areas_and_the_unexpanded_mass_sum_to_one(told: list[tuple[int, Any]], by: str) -> None:
    found = Multiverse("n")
    found.by = by
    for number, alternatives in told:
        cells = found.open
        if cells:
            found.expand(cells[number % len(cells)].number, [(t, p, 7) for t, p in alternatives])
    whole = math.fsum(cell.area for cell in found.leaves()) + found.unnamed
    assert whole == pytest.approx(1, abs=1e-9)
    assert found.unexpanded + found.ended == pytest.approx(1, abs=1e-9)
    frame = found.to_frame()
    assert frame.loc[frame["kind"] != "expanded", "area"].sum() == pytest.approx(1, abs=1e-9)
    for cell in found.cells:
        inside = math.fsum(found.cells[child].area for child in cell.children)
        assert inside <= cell.area * (1 + 1e-12)
        assert cell.kind != "expanded" or inside + (cell.rest or 0) == pytest.approx(cell.area, abs=1e-12)
    again = Multiverse.unpacked("n", found.packed())
    assert [vars(cell) for cell in again.cells] == [vars(cell) for cell in found.cells]
    rest, follow = percent(found.unnamed), percent(max(0.0, found.unexpanded - found.unnamed))
    line = f"{rest} lies in tokens the server did not return, {follow} not followed yet"
    assert line in repr(found)
    page = found._repr_html_()
    assert "<b>" not in page
    assert "</s>" not in page


def test_a_likely_cell_is_plain_and_an_unlikely_one_is_not() -> None:
    found = Multiverse("n")
    found.by = "text"
    found.expand(0, [(",", math.log(0.94), None), (" the", math.log(0.04), None)])
    page = found._repr_html_()
    tints = re.findall(r'fill="#d66a0c" fill-opacity="([\d.]+)"[^>]*><title>“(.+?)”', page)
    assert tints == [("0.00", ","), ("0.17", " the".replace(" ", "·"))]
    assert "plain is a likely token" in page
    assert "“,” · 94 % (token 94 %)" in page


def test_it_asks_behind_the_likeliest_first_and_stops_at_its_bounds() -> None:
    """The steps alone, against invented answers: no server, every request seen."""
    told = {" a": 0.5, " b": 0.3, " c": 0.1}
    asked: list[str] = []

    def drive(found: Multiverse, plan: Plan) -> None:
        steps = map_steps(found, "P", plan, lambda: None)
        try:
            fields = next(steps)
            while True:
                [one] = fields
                prompts = [one["prompt"]] if isinstance(one["prompt"], str) else one["prompt"]
                asked.extend(prompts)
                fields = steps.send([_answer(prompts, told)])
        except StopIteration:
            pass

    found = Multiverse("n")
    drive(found, Plan(requests=4, batch=1, in_flight=1, exact=False, least=0.0))
    assert asked == ["P", "P a", "P b", "P a a"]
    assert (found.stopped, found.requests, found.by) == ("requests", 4, "text")
    assert found.unnamed == pytest.approx(0.1 * (1 + 0.5 + 0.3 + 0.25))
    drive(found, Plan(requests=100, batch=4, in_flight=1, least=0.2))
    assert found.stopped == "done"
    assert all(cell.area < 0.2 or cell.depth == 8 for cell in found.open)
    assert len(asked) == len(set(asked)), "nothing is asked twice"
    shallow = Multiverse("n")
    drive(shallow, Plan(budget=10_000, depth=1, in_flight=1, exact=False))
    assert (shallow.stopped, max(cell.depth for cell in shallow.cells)) == ("done", 1)
    small = Multiverse("n")
    drive(small, Plan(budget=7, exact=False, batch=8, in_flight=1))
    # A prompt of one byte may cost 3 tokens; each answer here is billed 2, so behind it "P a" (5) just fits.
    assert (small.stopped, small.requests, small.spent) == ("budget", 2, 4)


def test_requests_side_by_side_stay_within_their_bounds() -> None:
    """What is asked together counts at its most until its answer is there, and all of it is read when one fails."""
    told = {" a": 0.4, " b": 0.3, " c": 0.2}
    rounds: list[list[int]] = []

    def drive(found: Multiverse, plan: Plan, fails: int = -1) -> None:
        steps = map_steps(found, "P", plan, lambda: None)
        try:
            asked = next(steps)
            while True:
                listed = [
                    one["prompt"] if isinstance(one["prompt"], list) else [one["prompt"]] for one in asked
                ]
                rounds.append([len(one) for one in listed])
                broken = len(rounds) - 1 == fails
                answers = [_answer(one, told) for one in listed]
                asked = steps.send([RateLimited("no"), *answers[1:]] if broken else answers)
        except StopIteration:
            pass

    found = Multiverse("n")
    drive(found, Plan(requests=8, batch=2, in_flight=3, exact=False, least=0.0))
    assert rounds == [[1], [2, 1], [2, 2, 2], [2, 2]]
    assert (found.stopped, found.requests, found.spent) == ("requests", 8, 2 * sum(map(sum, rounds)))
    rounds.clear()
    small = Multiverse("n")
    drive(small, Plan(budget=14, batch=1, in_flight=4, exact=False, least=0.0))
    # "P a" may cost 5 and is billed 2: two of them fit into 12, one and another into what is left.
    assert rounds[:2] == [[1], [1, 1]]
    assert (small.stopped, small.spent <= 14) == ("budget", True)
    rounds.clear()
    broken = Multiverse("n")
    with pytest.raises(RateLimited):
        drive(broken, Plan(requests=9, batch=1, in_flight=4, exact=False), fails=1)
    assert [cell.kind for cell in broken.cells[1:4]] == ["open", "expanded", "expanded"]


def test_a_map_says_how_far_it_is(
    scripted_server: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("acs_jupyter.looms.progress._AFTER", 0.0)
    monkeypatch.setattr("acs_jupyter.looms.progress._EVERY", 0.0)
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(FEW, client=client, max_tokens=2)
        (root,) = loom.roots
        found = loom.multiverse(root, requests=3, width=2, progress=True)
        told = capsys.readouterr().err
        assert re.search(rf"map.*3/3.*{len(found.cells) - 1} cells, \d+% not followed yet", told)
        loom.multiverse(root, requests=2, width=2, progress=True)
        assert "2/2" in capsys.readouterr().err, "what was there before is not counted"
        loom.expand(root, lambda c: 1.0, requests=3, width=2, depth=2, max_tokens=2, progress=True)
        assert re.search(r"expand.*3/3.*3 expanded, 6 scored", capsys.readouterr().err)
        loom.multiverse(root, requests=1, width=2)  # nobody looks at a pipe
        loom.expand(root, lambda c: 1.0, requests=1, width=3, progress=False)
        assert capsys.readouterr() == ("", "")


def _answer(prompts: list[str], told: dict[str, float]) -> Any:
    from acs_jupyter.completion import Completion
    from acs_jupyter.log import events as ev
    from acs_jupyter.log.session import Session

    session = Session()
    top = {text: math.log(p) for text, p in told.items()}
    session.apply([ev.RunOpened("r", {"prompt": prompts})])
    for i in range(len(prompts)):
        session.apply([ev.NodeOpened(f"p{i}", "r"), ev.NodeOpened(f"r.{i}", "r", f"p{i}", i)])
        session.apply(
            [ev.TokensArrived(f"r.{i}", " a", (" a",), (top[" a"],), (top,)), ev.Finished(f"r.{i}", "length")]
        )
    session.apply([ev.Spent("r", len(prompts), len(prompts)), ev.RunClosed("r", "done")])
    return Completion(session, "r")


@pytest.mark.parametrize("exact", [None, False])
def test_a_map_over_http(scripted_server: Running, exact: bool | None, tmp_path: Path) -> None:
    with Client(scripted_server.base, scripted_server.key) as client:
        loom = Loom(FEW, client=client, max_tokens=6)
        loom.keep(tmp_path / "a.loom")
        (root,) = loom.roots
        before = loom.nodes
        found = loom.multiverse(root, budget=1500, width=3, depth=4, exact=exact)
        assert found.by == ("text" if exact is False else "ids")
        assert 0 < found.spent <= 1500
        assert len(found.cells) > 10
        assert isinstance(client.meter, KeyMeter)
        assert client.meter.book.scope("loom", "a.loom").spent == found.spent  # the ledger counted the same
        assert loom.nodes == before, "a map stands apart from the tree"
        assert math.fsum(c.area for c in found.leaves()) + found.unnamed == pytest.approx(1, abs=1e-9)
        kept = loom.multiverse(root)  # without a bound: as far as it is kept, and nothing is sent
        assert [vars(cell) for cell in kept.cells] == [vars(cell) for cell in found.cells]
        loom.close()
        with Loom.open(tmp_path / "a.loom", client=client) as again:
            more = again.multiverse(root, requests=2, width=3, exact=exact)
            assert (more.requests, len(more.cells) > len(found.cells)) == (found.requests + 2, True)
            assert [c.text for c in more.cells[: len(found.cells)]] == [c.text for c in found.cells]
            cell = next(c for c in more.cells if c.depth == 2 and c.kind in ("open", "expanded"))
            made = again.follow(more, cell.number)
            assert (again.own_text(made), again.parent(made)) == (cell.text, root)
            node = again.node(made)
            assert node.logprobs == [one.logprob for one in more.path(cell.number)]
            assert all(token in (top or {}) for token, top in zip(node.tokens, node.top, strict=True))
            assert again.logprob(made).total == pytest.approx(
                math.fsum(p for p in node.logprobs if p is not None)
            )
            again.undo()
            assert again.nodes == before
            with pytest.raises(InvalidRequest, match="no generated"):
                again.trie(root)  # what was followed was not sampled


def test_a_map_with_an_async_client(scripted_server: Running) -> None:
    async def mapped() -> Multiverse:
        async with AsyncClient(scripted_server.base, scripted_server.key, meter=None) as client:
            loom = Loom(FEW, client=client)
            return await loom.multiverse_async(loom.roots[0], requests=5, width=2)

    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(FEW, client=client)
        same = loom.multiverse(loom.roots[0], requests=5, width=2)
    found = asyncio.run(mapped())
    assert [vars(cell) for cell in found.cells] == [vars(cell) for cell in same.cells]


def test_what_cannot_be_is_one_line(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(FEW, client=client)
        (root,) = loom.roots
        for how, line in (
            ({}, "needs a bound"), ({"budget": 0}, "budget=0"), ({"budget": 9, "least": 2}, "least=2"),
            ({"budget": 9, "depht": 2}, "no such option"), ({"requests": 1, "width": True}, "width"),
        ):  # fmt: skip
            with pytest.raises(InvalidRequest, match=line):
                loom.multiverse(root, **how)
        with pytest.raises(InvalidRequest, match="no room"):
            loom.multiverse(root, budget=20, exact=True)
        small = loom.multiverse(root, budget=20)
        assert (small.requests, small.stopped, small.spent) == (0, "budget", 0)
        with pytest.raises(InvalidRequest, match="no cell 99"):
            loom.follow(small, 99)
        with pytest.raises(InvalidRequest, match="no text"):
            loom.follow(small, 0)
    empty = Multiverse("n").packed()
    for kept in (
        None,
        {},
        {"version": 9},
        {**empty, "cells": [[5, "a", 0, 1]]},
        "x",
        {**empty, "cells": [["a"]]},
    ):
        assert len(Multiverse.unpacked("n", kept).cells) == 1


def test_what_was_paid_is_kept_when_it_is_interrupted(scripted_server: Running, monkeypatch: Any) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(FEW, client=client)
        (root,) = loom.roots
        complete, sent = client.complete, []

        def third_time(*given: Any, **fields: Any) -> Any:
            sent.append(fields)
            if len(sent) == 3:
                raise KeyboardInterrupt
            return complete(*given, **fields)

        monkeypatch.setattr(client, "complete", third_time)
        with pytest.raises(KeyboardInterrupt):
            loom.multiverse(root, budget=4000, width=3)
        kept = loom.multiverse(root)
        assert (kept.requests, kept.by, len(kept.cells)) == (3, "ids", 4)
        more = loom.multiverse(root, requests=1, width=3)
        assert len(more.cells) > 4


def test_a_map_by_the_small_model(smollm_server: Running) -> None:
    with Client(smollm_server.base, smollm_server.key, meter=None) as client:
        loom = Loom("The capital of France is", client=client)
        (root,) = loom.roots
        exact = loom.multiverse(root, requests=4, width=5, batch=2)
        assert exact.by == "ids"
        assert exact.cells[1].text == " Paris"
        texts = loom.new_root("The capital of France is")
        text = loom.multiverse(texts, requests=3, width=5, batch=2, exact=False)
        both = [{c.text: c.area for c in one.cells if c.depth == 1} for one in (exact, text)]
        assert both[0].keys() == both[1].keys()
        for token, area in both[0].items():
            assert both[1][token] == pytest.approx(area, abs=0.01)
        # The map's areas are what the server says when the text itself is scored.
        path = next(c for c in exact.cells if c.depth == 2)
        scored = client.complete("The capital of France is" + path.text, max_tokens=1, prompt_logprobs=0)
        told = math.fsum(token.logprob for token in scored.choices[0].prompt_tokens[-2:])
        assert math.log(path.area) == pytest.approx(told, abs=0.02)


def test_a_node_that_was_moved_is_mapped_anew(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(FEW, client=client)
        child = loom.new_child(loom.roots[0], " a time")
        assert len(loom.multiverse(child, requests=2, width=2).cells) > 1
        loom.move(child, loom.new_root("#scripted tokens=3\nElsewhere"))
        again = loom.multiverse(child, requests=1, exact=False)
        assert (again.requests, again.by) == (1, "text")


def test_an_error_keeps_what_came(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        loom = Loom(FEW, client=client, model="nobody")
        with pytest.raises(AcsError):
            loom.multiverse(loom.roots[0], requests=2)


def test_a_map_that_still_grows_tells_no_end() -> None:
    found = Multiverse("n")
    assert map_line(found) == "Nothing was asked yet."
    assert map_line(found, busy=True) == "Mapping…"
    found.by, found.stopped = "m", "stopped"
    assert map_line(found).endswith("It was stopped.")
    growing = map_line(found, busy=True)
    assert growing.startswith("Mapping…")
    assert "stopped" not in growing
    assert "0.00 % lies in tokens the server did not return; 100 % in tokens not followed yet." in growing
    assert [percent(p) for p in (0.00003, 0.0, None)] == ["<0.01 %", "0.00 %", "–"]
