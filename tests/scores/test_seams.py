"""A continuation whose context does not end where a token does: said, and cut as asked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from acs_jupyter import Client, choose, errors, logprob, score
from acs_jupyter.scores.scoring import run_steps
from acs_jupyter.scores.steps import score_steps
from acs_jupyter.token_ids import by_itself, probes
from tests.support.scored import KEY, answer, entry, played

if TYPE_CHECKING:
    from tests.support.servers import Running

CONTEXT, REST = "The capital of France is Pa", "ris, a city"


def ids_by_hand(client: Client, text: str) -> list[int]:
    """The ids of a text where something stands before it, so that its first token is scored too."""
    tokens = score("\n" + text, client=client).tokens
    place = next(i for i, token in enumerate(tokens) if token.start == 1)
    return [token.id for token in tokens[place:] if token.id is not None]


@pytest.mark.parametrize("server", ["smollm_server", "scripted_server"])
def test_ids_cut_exactly_at_the_seam(server: str, request: pytest.FixtureRequest) -> None:
    running: Running = request.getfixturevalue(server)
    with Client(running.base, running.key) as client:
        near = logprob(REST, given=CONTEXT, client=client)
        assert (near.seam, near.spans) == ("nearest", " Paris")
        assert near.moved == -len(" Pa")
        exact = logprob(REST, given=CONTEXT, client=client, seam="ids")
        assert (exact.seam, exact.spans, exact.moved) == ("ids", " Paris", 0)
        assert "".join(token.text for token in exact.tokens) == REST
        start = [0] if server == "scripted_server" else []  # the start token that it puts before texts
        before = ids_by_hand(client, CONTEXT) if start else _context_ids(client)
        whole = [*start, *before, *ids_by_hand(client, REST)]
        [by_hand] = run_steps(score_steps([whole]), client)
        rest = by_hand.tokens[len(start) + len(before) :]
        assert [t.id for t in exact.tokens] == [t.id for t in rest]
        assert exact.logprob == pytest.approx(math.fsum(t.logprob or 0 for t in rest), abs=1e-3)
        assert exact.usage.prompt_tokens > near.usage.prompt_tokens + len(whole)
        clean = logprob(", a city", given=CONTEXT + "ris", client=client, seam="ids")
        assert (clean.seam, clean.spans) == ("clean", None)
        assert (
            clean.usage == logprob(", a city", given=CONTEXT + "ris", client=client).usage
        )  # nothing more was asked


def _context_ids(client: Client) -> list[int]:
    """Without a start token the first id is found where the text follows another."""
    return client.complete(CONTEXT, max_tokens=1, temperature=0).with_ids(client).prompt


def test_the_boundary_is_the_nearer_one() -> None:
    body = answer([None, entry(" is", -1.0), entry(" Paris", -0.5), entry(" now", -0.25)])
    with played(body) as server, Client(server.base, KEY) as client:
        left = logprob("aris now", given="It is P", client=client, seam="boundary")
        assert (left.seam, left.moved, left.logprob) == ("boundary", -2, -0.75)
        assert left.per_byte == pytest.approx(-0.75 / len(" Paris now"))
        right = logprob("s now", given="It is Pari", client=client, seam="boundary")
        assert (right.moved, right.spans, right.logprob) == (1, " Paris", -0.25)
        assert right.per_byte == pytest.approx(-0.25 / len(" now"))
        even = logprob("ris now", given="It is Pa", client=client, seam="boundary")
        assert even.moved == -3
        clean = logprob(" now", given="It is Paris", client=client, seam="boundary")
        assert (clean.seam, clean.moved) == ("clean", 0)
        [best, _] = choose("It is Pari", ["s now", "s now"], client=client, seam="boundary", batch=1)
        assert best.logprob == -0.25


def test_a_boundary_that_would_leave_nothing_is_not_taken() -> None:
    with played(answer([None, entry(" is", -1.0), entry(" Paris", -0.5)])) as server:
        client = Client(server.base, KEY)
        one = logprob("s", given="It is Pari", client=client, seam="boundary")
        assert (one.moved, one.logprob) == (-5, -0.5)
        with pytest.raises(errors.InvalidRequest, match="nearest, boundary, ids, refuse"):
            logprob("s", given="It is Pari", client=client, seam="near")
        with pytest.raises(errors.InvalidRequest, match="seam='ids' needs a context"):
            logprob("s", client=client, seam="ids")
        client.close()


def test_ids_that_are_not_told_are_not_guessed() -> None:
    whole = [None, entry(" is", -1.0), entry(" Paris", -0.5)]
    other = [None, entry("?", -1.0)]
    count = len(probes("It is Pa")) + len(by_itself("ris"))
    with (
        played(answer(whole), answer(whole, *[other] * (count - 1))) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.InvalidRequest, match=r"cannot be had: .*Say seam='nearest'"),
    ):
        logprob("ris", given="It is Pa", client=client, seam="ids")
