"""Writes ``tests/data/golden``: for every recorded answer the events read from it and the state they make.

Run it after a change of events or session: ``python tests/make_golden.py``. Both test suites read the files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from acs_jupyter import sse, wire
from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Node, Session
from acs_jupyter.reader import Reader
from acs_jupyter.widgets import roads, words
from acs_jupyter.widgets.outline import Outline
from acs_jupyter.widgets.packing import pack
from acs_jupyter.widgets.reading import align, level_of

DATA = Path(__file__).parent / "data"
WIRE = DATA / "wire"
GOLDEN = DATA / "golden"
RUN = "g"


def names() -> list[str]:
    """Every recorded case."""
    return sorted(path.name.removesuffix(".request.json") for path in WIRE.glob("*.request.json"))


def recorded(name: str) -> tuple[wire.CompletionRequest, int, list[wire.Answer]]:
    """A case: what was asked, the status, and what came, chunk by chunk."""
    asked = json.loads((WIRE / f"{name}.request.json").read_bytes())
    request = msgspec.convert(asked["body"], wire.CompletionRequest)
    stream = WIRE / f"{name}.response.sse"
    if not stream.exists():
        return request, asked["status"], [wire.decode_answer((WIRE / f"{name}.response.json").read_bytes())]
    payloads = sse.Decoder().feed(stream.read_bytes())
    chunks = [wire.decode_answer(p) for p in payloads if isinstance(p, bytes) and p != sse.DONE]
    return request, asked["status"], chunks


def events_of(name: str) -> list[ev.AnyEvent]:
    """A case as the events of run ``g``."""
    request, status, answers = recorded(name)
    events = ev.opening(RUN, request)
    reader = Reader(RUN, request)
    outcome: wire.Outcome = "done"
    for answer in answers:
        if answer.error is not None:
            events.append(_failed(answer.error, status))
            outcome = "failed"
        else:
            (reader.read if request.streamed else reader.read_body)(answer, events)
    return [*events, ev.RunClosed(RUN, outcome)]


BRANCHES = {"branch_of_tokens": "stream_continuous_logprobs_5", "branch_of_text": "stream_plain"}
"""Runs that leave a recorded one after its second token, or go on from its end when only text is known."""


LOOMS = {
    "loom_of_tokens": ("stream_continuous_logprobs_5", 1),
    "loom_of_text": ("stream_plain", 2),
    "loom_of_echo": ("echo_logprobs_2", 3),
    "loom_of_batch": ("batch_2_n_2", 4),
}
"""Sequences of changes to the tree of a recorded run, each with the seed that makes it."""


def all_names() -> list[str]:
    """Every golden file: the recorded answers, branches of two of them, and changed trees."""
    return sorted([*names(), *BRANCHES, *LOOMS])


def loom_events(base: str, seed: int) -> list[ev.AnyEvent]:
    """A recorded run and fifty-five changes to its tree."""
    from tests.support.moves import Player

    session = session_of(events_of(base))
    player = Player(session, seed)
    player.play(55)
    player.settle()
    return [event for _, event in session.log]


def all_events(name: str) -> list[ev.AnyEvent]:
    """The events of any golden file."""
    if name in LOOMS:
        return loom_events(*LOOMS[name])
    return branch_events(BRANCHES[name]) if name in BRANCHES else events_of(name)


def branch_events(base: str) -> list[ev.AnyEvent]:
    """A recorded run and a branch of it, run ``b``."""
    session = session_of(events_of(base))
    node = session.runs[RUN].nodes[0]
    known = bool(session.nodes[node].tokens)
    fork = session.fork(node, token=2, replacement=" final") if known else session.fork(node)
    came = (
        ev.TokensArrived("b.0", " word", (" word",), (-1.5,), ({" word": -1.5, " day": -0.75},))
        if known
        else ev.TokensArrived("b.0", " word")
    )
    opened = ev.opening("b", fork.request, parents=fork.parents, origin=fork.origin)
    spent = ev.Spent("b", 9, 1)
    sought = [ev.SeamSought("b.0", 1, 12)] if known else []
    return [
        *events_of(base),
        *opened,
        came,
        ev.Finished("b.0", "length"),
        spent,
        ev.RunClosed("b", "done"),
        *sought,
    ]


def session_of(events: list[ev.AnyEvent]) -> Session:
    """The session those events make, with the clock at 0."""
    session = Session(clock=lambda: 0.0)
    session.apply(events)
    return session


def golden(name: str) -> dict[str, Any]:
    """The content of one golden file."""
    events = all_events(name)
    session = session_of(events)
    outline = Outline(room=0)
    return {
        "outline": outline.pack(session, 0, 0.0) if name in LOOMS else "",
        "contents": outline.contents(session, session.nodes) if name in LOOMS else "",
        "events": msgspec.to_builtins(events),
        "state": msgspec.to_builtins(session.state()),
        "packed": pack(session.state(), 0, 0.0),
        "words": _words(session),
        "roads": {run: _road(session, run) for run in session.runs},
        "pieces": {node.id: _pieces(node) for node in session.nodes.values() if node.choice is not None},
    }


def render(content: dict[str, Any]) -> str:
    """One line an event, one a part of the state: short, and still readable in a diff."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    events = ",\n".join(line(event) for event in content["events"])
    return (
        f'{{"events":[\n{events}\n],\n"state":{line(content["state"])},\n'
        f'"packed":{line(content["packed"])},\n'
        f'"outline":{line(content["outline"])},\n"contents":{line(content["contents"])},\n'
        f'"words":{line(content["words"])},\n"roads":{line(content["roads"])},\n"pieces":{line(content["pieces"])}}}\n'
    )


def _words(session: Session) -> dict[str, Any]:
    run = session.runs[RUN]
    return {
        "outcome": words.outcome_words(run),
        "model": words.model_name(run),
        "figures": words.figures(session, run, 0.0),
        "error": words.error_words(run),
        "clamp": words.clamp_words(run),
        "finish": [words.finish_words(session.nodes[node], run) for node in run.nodes],
    }


def _road(session: Session, run: str) -> list[str]:
    say = (roads.branch_name, roads.source_name, roads.leaving_words, roads.seam_words)
    return [words(session, run) for words in say]


def _pieces(node: Node) -> list[list[Any]]:
    return [
        [piece.first, piece.last, level_of(node, piece), piece.text]
        for piece in align(node.text, node.tokens)
    ]


def _failed(error: wire.ErrorInfo | str, status: int) -> ev.Failed:
    if isinstance(error, str):
        return ev.Failed(RUN, "error", error, status)
    return ev.Failed(RUN, str(error.code), error.message, status, retryable=error.retryable is True)


def main() -> None:
    """Write them all."""
    GOLDEN.mkdir(exist_ok=True)
    for name in all_names():
        (GOLDEN / f"{name}.json").write_text(render(golden(name)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main()
