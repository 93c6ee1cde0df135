"""What a run takes in a saved notebook: all of it within the bound, and all of it there."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import load
from acs_jupyter.keeping.columns import pack_rows, unpack_rows
from acs_jupyter.log.session import Session
from acs_jupyter.widgets.bundle import pressed
from acs_jupyter.widgets.live import LiveCell
from acs_jupyter.widgets.snapshot import mimebundle, most_saved
from tests.support.branched import add_branches
from tests.support.sanitising import sanitised
from tests.support.saving import Saved, execute, execute_looms
from tests.support.texts import run_events, session_of, tokens

KINDS = ("text", "han", "markup")
RUNS = [
    (1, "text", 1),
    *((count, kind, 1) for count in (500, 2_000, 10_000) for kind in KINDS),
    (2_000, "text", 4),
]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Saved]]:
    path = tmp_path_factory.mktemp("saved") / "n.ipynb"
    return path, execute(path, RUNS)


def test_every_run_stays_within_the_bound(executed: tuple[Path, list[Saved]]) -> None:
    path, found = executed
    for (count, kind, n), saved in zip(RUNS, found, strict=True):
        assert saved.whole <= most_saved(count), f"{count} tokens of {kind}, {n} choices: {saved}"
    # The parts are counted as the file has them.
    assert sum(saved.whole for saved in found) == pytest.approx(path.stat().st_size, rel=0.02)


def test_every_loom_stays_within_the_bound(tmp_path: Path) -> None:
    trees = [(0, 0), (1, 1), (30, 60), (120, 100), (900, 100)]
    path = tmp_path / "l.ipynb"
    found = execute_looms(path, trees)
    for (nodes, each), saved in zip(trees, found, strict=True):
        assert saved.whole <= most_saved(nodes * each), f"{nodes} nodes of {each} tokens: {saved}"
        # Neither the script nor the session is kept with the window: a page asks the kernel for both.
        assert saved.state < 12_000
    assert sum(saved.whole for saved in found) == pytest.approx(path.stat().st_size, rel=0.02)
    assert found[2].record > 1_000


def test_the_bound() -> None:
    assert [most_saved(count) for count in (0, 1, 2_000, 2_001, 10_000)] == [
        40_000,
        40_150,
        340_000,
        340_040,
        660_000,
    ]


def test_records_hold_everything_however_long(executed: tuple[Path, list[Saved]]) -> None:
    path, _ = executed
    for (count, kind, n), completion in zip(RUNS, load(path), strict=True):
        made = [one for seed in range(n) for one in tokens(count // n, kind, 1 + seed)]
        kept = [token for choice in completion.choices for token in choice.tokens]
        assert [token.text for token in kept] == [text for text, _, _ in made]
        assert [list(token.top or ()) for token in kept] == [list(top) for _, _, top in made]
        for token, (_, logprob, _) in zip(kept[:500], made, strict=False):
            assert token.logprob == pytest.approx(logprob, abs=1e-4)


def test_up_to_two_thousand_tokens_have_titles_and_long_windows_no_state(
    executed: tuple[Path, list[Saved]],
) -> None:
    path, _ = executed
    book = json.loads(path.read_bytes())
    pages = ["".join(o["data"]["text/html"]) for o in book["cells"][0]["outputs"][1::2]]
    plain = ["".join(o["data"]["text/plain"]) for o in book["cells"][0]["outputs"][1::2]]
    states = book["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    views = [o["data"]["application/vnd.jupyter.widget-view+json"] for o in book["cells"][0]["outputs"][::2]]
    snapshots = [states[view["model_id"]]["state"]["snapshot"] for view in views]
    kept: dict[int, list[bool]] = {count: [] for count, _, _ in RUNS}
    for (count, kind, n), page, text, snapshot in zip(RUNS, pages, plain, snapshots, strict=True):
        titles = len(re.findall(" title=", page))
        # The script has its share of the 40 KB: beside a single token there is no room for a title.
        least, most = {1: (0, 1)}.get(count, (count, count) if count <= 2_000 else (2_001, count - 1))
        assert least <= titles <= most
        # Titles are read by everybody, the window's state by nobody in JupyterLab's own saving: it has what is left.
        kept[count].append(snapshot != "")
        if n == 1:
            assert text == "".join(text for text, _, _ in tokens(count, kind))
    assert not any(kept[10_000])


BRANCHED: list[tuple[Any, ...]] = [
    (2_000, "text", 1, 40, 8, False),
    (3_000, "text", 1, 12, 20, False),
    (10_000, "text", 1, 12, 20, True),
    (300, "text", 1, 100, 3, False),
    (1, "text", 1, 30, 1, False),
    (2_000, "text", 1, 0, 0, False, 20),
    (2_000, "text", 1, 0, 0, False, 100),
]


def test_branches_near_the_end_of_long_texts_and_many_alternatives(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    found = execute(path, BRANCHED)
    kept = load(path)
    pages = [
        "".join(o["data"]["text/html"]) for o in json.loads(path.read_bytes())["cells"][0]["outputs"][1::2]
    ]
    for place, (saved, page, (count, _, _, branches, *more)) in enumerate(
        zip(found, pages, BRANCHED, strict=True)
    ):
        family = [one for one in kept if one.run.startswith(f"r{place}")]
        assert len(family) == 1 + branches
        own = sum(
            len(one.tokens) - max(0, one.session.nodes[one.session.runs[one.run].nodes[0]].kept - 1)
            for one in family
        )
        bound = most_saved(own)
        told = f"{BRANCHED[place]}: {saved}, {own} tokens, bound {bound}"
        if more[-1] == 100:  # the record alone is larger: then it is all there is beside the text
            assert saved.record > bound - 60_000, told
            assert saved.record < 6 * 100 * count
            assert saved.whole - saved.record < 40_000 + 3 * saved.text
            assert " title=" not in page
            continue
        assert saved.whole <= bound, told
        shown = page.count("from original: token")
        assert shown == branches or f"{branches - shown} further branches in this output's record" in page, (
            told
        )
        assert shown == branches or count <= 300
        if count >= 2_000:
            assert page.count(" title=") > 200, told
    # What was sent comes back to the byte, though it is told by what it shares.
    session = Session()
    for events in run_events(2_000, "text", run="r0"):
        session.apply(events)
    add_branches(session, "r0", 40, 8)
    for one in kept:
        if one.run.startswith("r0"):
            assert one.session.runs[one.run].request == session.runs[one.run].request
    ids = [one for one in kept if one.run.startswith("r2b")]
    assert [len(one.session.runs[one.run].request["prompt"]) for one in ids] == [9_999 - n for n in range(12)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_strips_styles_and_classes_shows_the_text_whole(kind: str) -> None:
    session = session_of(2_500, kind)
    bundle = mimebundle(session, "r", spent=200_000)
    left = sanitised(bundle["text/html"])
    assert not re.search(r"<style|class=|style=|<u\b|acs-", left)
    (shown,) = re.findall("<pre>(.*?)</pre>", left, re.DOTALL)
    assert unescape(re.sub("<[^>]*>", "", shown)) == bundle["text/plain"]
    assert "reached max_tokens (2500)" in left
    assert left.count(" title=") > 300  # those of unlikely tokens go with their elements


def test_a_widget_is_one_short_module_that_any_build_makes_alike() -> None:
    static = Path(__file__).parents[2] / "acs_jupyter" / "static"
    module = pressed(static / "live.js", static / "live.css")
    assert LiveCell(session_of(1), ["r"])._esm == module
    assert len(module) < 35_000
    assert len(module) < 0.55 * ((static / "live.js").stat().st_size + (static / "live.css").stat().st_size)


def test_columns_give_back_what_they_were_given() -> None:
    rows = [
        ("a", None, None), ("a", -1.5, None), ("", -0.0, {}), ("b", -2.0, {"a": -0.5, "b": -2.0, "c": -1.0}),
        ("x", -3.0, {"a": -0.5}), ("x", None, {"x": -1.0}), ("b", -2.0, {"b": -2.5}), ("z", -9999.9999, {"q": -1e9}),
    ]  # fmt: skip
    table, packed = pack_rows(rows)
    lowest = -9999.9999
    rows[-1] = ("z", lowest, {"q": lowest})
    assert unpack_rows(table, packed) == rows
    assert unpack_rows(*pack_rows([])) == []
    for cut in (3, len(packed) - 1):
        with pytest.raises((ValueError, IndexError)):
            unpack_rows(table, packed[:cut])
