"""Runs with branches, and with many alternatives: what weighs most in a saved notebook."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from acs_jupyter.log import events as ev
from acs_jupyter.log.branching import plan
from acs_jupyter.log.intents import Fork
from acs_jupyter.wire import CompletionRequest, request_fields
from tests.support.texts import tokens

if TYPE_CHECKING:
    from acs_jupyter.log.session import Session


def add_branches(session: Session, run: str, count: int, each: int, *, exact: bool = False) -> None:
    """``count`` branches of ``each`` tokens from the last places of a run's first text; ``exact``: sent as ids."""
    node = session.nodes[session.runs[run].nodes[0]]
    for number in range(count):
        place = max(0, len(node.tokens) - 2 - number)
        text = next(text for text in node.top[place] or {} if text != node.tokens[place])
        made = plan(session, Fork(node.id, place, text))
        branch, request = f"{run}b{number:04d}{number * 7919:07x}", made.request
        if exact:
            rng = random.Random(5)
            ids = [rng.randrange(128_000) for _ in range(place)]
            request = CompletionRequest(**{**request_fields(request), "prompt": [*ids, number]})
        session.apply(ev.opening(branch, request, parents=made.parents, origin=made.origin))
        words, logprobs, tops = zip(*tokens(each, seed=100 + number), strict=True)
        own = session.runs[branch].nodes[0]
        served = ev.Served(
            branch,
            "meta-llama/Llama-3.1-405B",
            f"cmpl-7c1f0e2ab94d{number * 104729:08x}",
            f"req-5d0f2c9a{number * 15485863:012x}",
        )
        arrived = ev.TokensArrived(own, "".join(words), words, logprobs, tops)
        spent = ev.Spent(branch, 4 + place, each)
        session.apply([served, arrived, ev.Finished(own, "length"), spent, ev.RunClosed(branch, "done")])


def with_alternatives(made: list[list[ev.AnyEvent]], count: int) -> list[list[ev.AnyEvent]]:
    """A run's events with ``count`` alternatives a token: those it has, and less and less likely ones of its texts."""
    pool = sorted({text for events in made for one in events for text in _texts(one)})
    rng = random.Random(9)

    def more(top: ev.Top | None) -> ev.Top:
        found = dict(top or {})
        last = min(found.values())
        while len(found) < count:
            last -= rng.uniform(0, 0.2)
            found.setdefault(rng.choice(pool), last)
        return found

    def widened(one: ev.AnyEvent) -> ev.AnyEvent:
        if not isinstance(one, ev.TokensArrived):
            return one
        return ev.TokensArrived(one.node, one.text, one.tokens, one.logprobs, tuple(map(more, one.top)))

    return [[widened(one) for one in events] for events in made]


def _texts(one: ev.AnyEvent) -> list[str]:
    return [text for top in one.top for text in top or ()] if isinstance(one, ev.TokensArrived) else []
