"""Long completions made of recorded answers: real token texts and probabilities, as many as a test needs.

Strings and probability profiles are those of ``tests/data/wire``; they are drawn anew for each position, the
strings as unevenly as in any text, so that a long text is not a short one repeated.
"""

from __future__ import annotations

import json
import random
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session
from acs_jupyter.wire import CompletionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

WIRE = Path(__file__).parent.parent / "data" / "wire"
ALTERNATIVES = 5

Made = tuple[str, float, dict[str, float]]

HAN = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年"
CODE = [
    "<div",
    ">",
    "</",
    "&&",
    ' "',
    "'",
    "=>",
    "&lt;",
    '<a href="',
    "();\n",
    "    ",
    " if",
    " (x",
    " <",
    " &",
    '"\n',
]


def tokens(count: int, kind: str = "text", seed: int = 1) -> list[Made]:
    """``(token, logprob, top)`` of each position; the top holds the sampled token and five others or four.

    ``kind``: ``text`` as recorded, ``han`` with most strings of one or two Han characters or an emoji,
    ``markup`` with a third of them full of what HTML and JSON must escape.
    """
    rng = random.Random(seed)
    strings, profiles = _recorded()
    pool = list(strings)
    rng.shuffle(pool)
    weights = list(accumulate(1 / (place + 3) for place in range(len(pool))))

    def draw() -> str:
        if kind == "han" and rng.random() < 0.8:
            return "🎉" if rng.random() < 0.02 else "".join(rng.choices(HAN, k=rng.choice((1, 1, 2))))
        if kind == "markup" and rng.random() < 0.33:
            return rng.choice(CODE)
        return rng.choices(pool, cum_weights=weights)[0]

    return [_position(rng, profiles, draw) for _ in range(count)]


def run_events(
    count: int, kind: str = "text", *, n: int = 1, seed: int = 1, run: str = "r"
) -> list[list[ev.AnyEvent]]:
    """A run, ``r``, of ``n`` choices with ``count`` tokens in all: its beginning, what arrives, its end."""
    request = CompletionRequest(prompt="Once upon a time", model="m", max_tokens=count, logprobs=5, n=n)
    begun = ev.opening(run, request)
    served = ev.Served(run, "meta-llama/Llama-3.1-405B", "cmpl-7c1f0e2ab94d4d31", "req-5d0f2c9a61b34e77")
    arrivals: list[ev.AnyEvent] = []
    ends: list[ev.AnyEvent] = []
    nodes = [event.node for event in begun if isinstance(event, ev.NodeOpened) and event.choice is not None]
    for place, node in enumerate(nodes):
        words, logprobs, tops = zip(*tokens(count // n, kind, seed + place), strict=True)
        arrivals.append(ev.TokensArrived(node, "".join(words), words, logprobs, tops))
        ends.append(ev.Finished(node, "length"))
    return [begun, [served, *arrivals], [*ends, ev.Spent(run, 4, count), ev.RunClosed(run, "done")]]


def session_of(count: int, kind: str = "text", *, n: int = 1, seed: int = 1) -> Session:
    """The session of :func:`run_events`."""
    session = Session(clock=lambda: 1_700_000_000.0)
    for events in run_events(count, kind, n=n, seed=seed):
        session.apply(events)
    return session


def _position(rng: random.Random, profiles: list[tuple[int, list[float]]], draw: Any) -> Made:
    rank, logprobs = rng.choice(profiles)
    values = sorted((min(-1e-6, value * rng.uniform(0.8, 1.25)) for value in logprobs), reverse=True)
    texts: dict[str, None] = {}
    while len(texts) < len(values):
        texts[draw()] = None
    ranked = dict(zip(texts, values, strict=True))
    token = list(texts)[min(rank, len(values) - 1)]
    return token, ranked[token], {token: ranked.pop(token), **ranked}


@lru_cache
def _recorded() -> tuple[tuple[str, ...], list[tuple[int, list[float]]]]:
    strings: dict[str, None] = {}
    profiles = []
    for token, logprob, top in _positions():
        strings[token] = None
        strings.update(dict.fromkeys(top))
        if ALTERNATIVES <= len(top) <= ALTERNATIVES + 1:
            profiles.append((sum(value > logprob for value in top.values()), list(top.values())))
    return tuple(text for text in strings if text), profiles


def _positions() -> Iterator[Made]:
    for file in sorted(WIRE.glob("*.response.*")):
        text = file.read_text()
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        for body in map(json.loads, lines if file.suffix == ".sse" else [text]):
            for choice in body.get("choices", ()):
                found = choice.get("logprobs") or {}
                columns = (found.get(name) or () for name in ("tokens", "token_logprobs", "top_logprobs"))
                yield from (
                    (t, lp, top) for t, lp, top in zip(*columns, strict=False) if lp is not None and top
                )
