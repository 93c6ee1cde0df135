"""Any sequence of changes gives the same tree in Python, in the browser's code, and after loading the file.

The browser's side runs in Node: once from the first event, once as a window does that opens in the middle, from an
outline whose contents come later.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from acs_jupyter.log.session import Session
from acs_jupyter.widgets.outline import Outline
from acs_jupyter.widgets.packing import thousandths
from tests import make_golden as golden
from tests.log.test_revising import BASES, as_json, reloaded
from tests.support.moves import MOVES, Player

JS = Path(__file__).parent.parent.parent / "js"
NODE = shutil.which("node")
CASES = 60
MOVES_EACH = 60

assert NODE is not None, "Node is needed: bash tests/run installs it"
assert (JS / "node_modules" / "esbuild").is_dir(), "js/node_modules is needed: bash tests/run installs it"


def played(case: int, folder: Path, made: set[str]) -> tuple[Session, int]:
    """A sequence with a reload in between, and a place in its log where a window opens."""
    player = Player(golden.session_of(golden.events_of(BASES[case % len(BASES)])), 1000 + case)
    opened = 0
    for step in range(MOVES_EACH):
        if step == case % MOVES_EACH:
            player.session = reloaded(player.session, folder)
        if step == (7 * case) % MOVES_EACH:
            opened = len(player.session)
        before = len(player.session)
        name = player.move()
        if len(player.session) > before:
            made.add(name)
    player.settle()
    return player.session, opened


def as_a_window_gets_it(session: Session, opened: int) -> dict[str, Any]:
    """What the page is sent: the outline after ``opened`` events, then each event and what must be there before."""
    mirror = Session(clock=lambda: 0.0)
    for _, event in session.log[:opened]:
        mirror.apply([event], at=0.0)
    outline = Outline(room=0)
    first = outline.pack(mirror, 1, 0.0)
    steps = []
    for _, event in session.log[opened:]:
        mirror.apply([event], at=0.0)
        steps.append({"contents": outline.needed(mirror, [event]), "event": msgspec.to_builtins(event)})
    rest = []
    while (some := outline.some(mirror)) is not None:
        rest.append(some)
    events = msgspec.to_builtins([event for _, event in session.log])
    return {"events": events, "outline": first, "steps": steps, "rest": rest}


def timeless(state: dict[str, Any], exact: bool) -> Any:
    """Without times; logprobs as a packed state keeps them unless ``exact``."""
    for run in state["runs"].values():
        run.update(opened_at=0, first_token_at=run["first_token_at"] and 0, closed_at=run["closed_at"] and 0)
    for node in state["nodes"].values() if not exact else ():
        node["logprobs"] = [x if x is None else thousandths(x) for x in node["logprobs"]]
        node["top"] = [
            top and {text: thousandths(value) for text, value in top.items()} for top in node["top"]
        ]
    return state


def test_any_sequence_gives_the_same_tree_on_both_sides(tmp_path: Path) -> None:
    made: set[str] = set()
    sessions = [played(case, tmp_path, made) for case in range(CASES)]
    assert made == set(MOVES)  # every kind of change was made, none only refused
    asked = [as_a_window_gets_it(session, opened) for session, opened in sessions]
    assert sum(step["contents"] is not None for case in asked for step in case["steps"]) > CASES
    answer = subprocess.run(
        [str(NODE), "test/folding.mjs"],
        cwd=JS,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    for (session, _), (whole, window) in zip(sessions, json.loads(answer.stdout), strict=True):
        mine = as_json(session.state())
        assert as_json(reloaded(session, tmp_path).state()) == mine
        assert timeless(whole, True) == timeless(as_json(session.state()), True)
        assert timeless(window, False) == timeless(mine, False)
