"""Growing by a scorer: best first and beam, bounds that hold, and a search that goes on after anything."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.ledger.terms import worst_case
from acs_jupyter.looms.expanding import Candidate
from tests.support.interrupts import interrupt, interrupted
from tests.support.servers import ROOT, Running, environment

SIX = "#scripted tokens=6 alternatives=3\nOnce"


def likely(candidate: Candidate) -> float | None:
    return candidate.logprob.per_token


def client_of(server: Running) -> Client:
    return Client(server.base, server.key, meter=None)


def test_best_first_grows_the_best(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)
        (root,) = loom.roots
        found = loom.expand(root, likely, width=2, depth=3, requests=4, max_tokens=3)
        assert (found.stopped, found.sent, len(found.expanded)) == ("requests", 4, 4)
        assert len(loom.nodes) == 9
        for turn, node in enumerate(found.expanded[1:], 1):
            # Whatever stood open when it was chosen was no better.
            grown = found.expanded[:turn]
            waiting = [n for n in found.scores if loom.parent(n) in grown and n not in grown]
            assert found.scores[node] == max(found.scores[n] or 0 for n in waiting if found.depths[n] < 3)
        frame = found.to_frame()
        assert frame["score"].is_monotonic_decreasing
        assert frame.set_index("node")["score"].to_dict() == {
            n: loom.logprob(n).per_token for n in loom.nodes[1:]
        }
        assert frame.attrs["spent"] == found.spent > 0


def test_a_beam_keeps_so_many_a_level(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)
        (root,) = loom.roots
        found = loom.expand(root, likely, how="beam", width=3, keep=2, depth=3, requests=50, max_tokens=2)
        assert (found.stopped, found.sent) == ("done", 1 + 2 + 2)
        for depth in (1, 2, 3):
            level = [n for n, d in found.depths.items() if d == depth]
            ranked = sorted(level, key=lambda n: -(found.scores[n] or 0))
            assert found.kept & set(level) == set(ranked[:2])
        again = loom.expand(root, likely, how="beam", width=3, keep=2, depth=3, requests=50, max_tokens=2)
        assert (again.sent, again.scores) == (0, found.scores), "nothing is asked twice"


def test_it_stops_before_the_budget_is_exceeded(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)
        (root,) = loom.roots
        first = worst_case(client.request(loom.text(root), n=2, max_tokens=3)).total
        none = loom.expand(root, likely, width=2, budget=first - 1, max_tokens=3)
        assert (none.stopped, none.sent, loom.children(root)) == ("budget", 0, [])
        one = loom.expand(root, likely, width=2, budget=first, max_tokens=3)
        assert (one.stopped, one.sent) == ("budget", 1)
        assert (
            one.spent
            == sum(r.prompt_tokens + r.completion_tokens for r in loom.session.runs.values())
            < first
        )


def test_a_scorer_is_asked_once_a_node_and_can_refuse(scripted_server: Running, tmp_path: Path) -> None:
    asked: list[str] = []

    def short(candidate: Candidate) -> float | None:
        asked.append(candidate.id)
        return None if candidate.depth == 2 else -len(candidate.own_text)

    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)
        loom.keep(tmp_path / "a.loom")
        (root,) = loom.roots
        loom.expand(root, short, width=2, depth=5, requests=2, max_tokens=3)
        loom.close()
        with Loom.open(tmp_path / "a.loom", client=client) as again:
            found = again.expand(root, short, width=2, depth=5, requests=20, max_tokens=3)
            assert (found.stopped, len(again.nodes)) == ("done", 1 + 2 + 4)
            assert len(asked) == len(set(asked)) == 6
            assert again.marks(asked[0])["scores"] == {"short": found.scores[asked[0]]}
            # A scorer of another name asks anew; the other's scores stay.
            again.expand(root, lambda c: 0.0, width=2, depth=1, requests=1, name="flat")
            assert again.marks(asked[0])["scores"] == {"short": found.scores[asked[0]], "flat": 0.0}


@pytest.mark.parametrize(
    ("scorer", "line"),
    [
        (lambda c: 1 / 0, "ZeroDivisionError"),
        (lambda c: float("nan"), "nan"),
        (lambda c: "much", "'much'.*not a text"),
        (lambda c: "0.5", "'0.5'.*not a text"),
        (lambda c: [1], "TypeError"),
    ],
)
def test_a_scorer_that_fails_is_one_line(scripted_server: Running, scorer: Any, line: str) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client)
        with pytest.raises(InvalidRequest, match=line):
            loom.expand(loom.roots[0], scorer, width=2, requests=3, max_tokens=2)
        assert len(loom.nodes) == 3, "what was grown is kept"


def test_a_score_is_one_scorer_s(scripted_server: Running) -> None:
    def same(value: float) -> Any:
        def score(candidate: Candidate) -> float:
            return value

        return score

    class Fixed:
        def __init__(self, value: float) -> None:
            self.value = value

        def __call__(self, candidate: Candidate) -> float:
            return self.value

    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)

        def scores(scorer: Any, **how: Any) -> list[float | None]:
            found = loom.expand(loom.roots[0], scorer, width=2, depth=1, requests=1, max_tokens=2, **how)
            return list(found.scores.values())

        assert scores(lambda c: 1.0) == [1.0, 1.0]
        assert scores(lambda c: -99.0) == [-99.0, -99.0]
        one, other = Fixed(1.0), Fixed(2.0)
        assert scores(lambda c: one(c) + 0) == [1.0, 1.0]
        assert scores(lambda c: other(c) + 0) == [2.0, 2.0], "what is not known of an object is never guessed"
        assert scores(Fixed(3.0)) == [3.0, 3.0]
        assert scores(Fixed(4.0)) == [4.0, 4.0]
        assert scores(same(5.0)) == [5.0, 5.0]
        assert scores(same(6.0)) == [6.0, 6.0], "one name, another value around it"
        assert scores(Fixed(7.0), name="mine") == [7.0, 7.0]
        assert scores(Fixed(8.0), name="mine") == [7.0, 7.0], "whoever names it answers for it"
        with pytest.raises(InvalidRequest, match="name=5"):
            scores(likely, name=5)


def test_a_lambda_that_is_the_same_is_not_asked_again(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)
        for _ in range(2):
            loom.expand(loom.roots[0], lambda c: 1.5, width=2, depth=1, requests=1, max_tokens=2)
            assert [loom.marks(n)["scores"] for n in loom.children(loom.roots[0])] == [{"<lambda>": 1.5}] * 2
            steps = len(loom.session)
        before = loom.session.since(0)
        assert sum(getattr(event, "what", "") == "score" for _, event in before) == 2
        assert steps == len(loom.session)


def test_a_moved_node_is_scored_anew(scripted_server: Running) -> None:
    def length(candidate: Candidate) -> float:
        return float(len(candidate.text))

    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=1)
        (root,) = loom.roots
        loom.expand(root, length, width=1, depth=1, requests=1, max_tokens=2)
        (node,) = loom.children(root)
        deep = loom.new_child(root, "y" * 500)
        loom.move(node, deep)
        assert "scores" not in loom.marks(node), "of another text"
        found = loom.expand(deep, length, width=1, depth=1, requests=1, max_tokens=2)
        assert (found.sent, found.scores) == (0, {node: float(len(loom.text(node)))})
        assert loom.marks(node)["scores"] == {"length": found.scores[node]}


def test_what_cannot_be_is_one_line() -> None:
    loom = Loom(SIX)
    for how, line in (
        ({}, "needs a bound"), ({"requests": 0}, "requests=0"), ({"requests": 1, "how": "wide"}, "wide"),
        ({"requests": 1, "width": 17}, "at most 16"),
    ):  # fmt: skip
        with pytest.raises(InvalidRequest, match=line):
            loom.expand(loom.roots[0], likely, **how)
    with pytest.raises(InvalidRequest, match="function"):
        loom.expand(loom.roots[0], "best", requests=1)  # type: ignore[arg-type]


def test_an_async_search_finds_the_same_shape(scripted_server: Running) -> None:
    async def searched() -> list[Any]:
        async with AsyncClient(scripted_server.base, scripted_server.key, meter=None) as client:
            loom = Loom(SIX, client=client, seed=4)
            found = await loom.expand_async(loom.roots[0], likely, width=2, depth=2, requests=9, max_tokens=3)
            assert found.stopped == "done"
            return [loom.text(node) for node in loom.nodes]

    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, seed=4)
        loom.expand(loom.roots[0], likely, width=2, depth=2, requests=9, max_tokens=3)
        assert asyncio.run(searched()) == [loom.text(node) for node in loom.nodes]


def test_ctrl_c_keeps_the_partial_and_the_next_call_makes_up_for_it(scripted_server: Running) -> None:
    slow = "#scripted tokens=40 rate=40 alternatives=3\nOnce"
    with client_of(scripted_server) as client:
        loom = Loom(slow, client=client, seed=1)
        (root,) = loom.roots

        def after_some(batch: Any) -> None:
            if any(loom.session.nodes[n].tokens for n in loom.session.nodes):
                unsubscribe()
                interrupt()

        unsubscribe = loom.session.subscribe(after_some)
        with interrupted():
            loom.expand(root, likely, width=2, depth=1, requests=3, max_tokens=40)
        partial = loom.children(root)
        assert len(partial) == 2
        assert all(loom.node(node).finish_reason is None for node in partial)
        assert any(loom.own_text(node) for node in partial)
        found = loom.expand(root, likely, width=2, depth=1, requests=3, max_tokens=3)
        assert (found.stopped, len(loom.children(root)), len(found.scores)) == ("done", 4, 2)


KILLED = """
import sys
from acs_jupyter import Client, Loom
client = Client(sys.argv[1], sys.argv[2], meter=None)
loom = Loom("#scripted tokens=90 rate=60 alternatives=3\\nOnce", client=client, seed=1)
loom.keep(sys.argv[3])
print("kept", flush=True)
loom.expand(loom.roots[0], lambda c: c.logprob.per_token, name="likely", width=2, depth=9, requests=500, max_tokens=4)
"""


def test_a_killed_search_goes_on_from_the_file(scripted_server: Running, tmp_path: Path) -> None:
    path = tmp_path / "killed.loom"
    code = [sys.executable, "-c", KILLED, scripted_server.base, scripted_server.key, str(path)]
    with subprocess.Popen(code, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as work:
        try:
            assert work.stdout is not None
            assert work.stdout.readline() == "kept\n"
            end = time.monotonic() + 60
            while path.read_bytes().count(b'"scores"') < 4:
                assert time.monotonic() < end
                assert work.poll() is None
                time.sleep(0.02)
        finally:
            work.kill()
    with client_of(scripted_server) as client, Loom.open(path, client=client) as loom:
        before = {node: marks for node in loom.nodes if (marks := loom.marks(node).get("scores"))}
        assert len(before) >= 4
        found = loom.expand(loom.roots[0], likely, width=2, depth=9, requests=2, max_tokens=6)
        assert found.sent == 2
        assert before.items() <= {node: loom.marks(node).get("scores") for node in loom.nodes}.items()
