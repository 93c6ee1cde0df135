"""Odd arguments of a loom's own methods: one line each, and nothing has changed; and what is selected is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from acs_jupyter import Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.looms.keys import GRAPH, USUAL, checked_keys

KEYS_TS = Path(__file__).parents[2] / "js/src/parts/loomkeys.ts"


def test_selected_nodes_are_there() -> None:
    loom = Loom("r")
    one, two = loom.new_root("one"), loom.new_root("two")
    below = loom.new_child(one, "below")
    loom.select([below, two])
    loom.delete(one)
    assert loom.selected == [two]
    loom.delete(two)
    assert loom.selected == []
    loom.undo()
    loom.undo()
    assert loom.selected == [below, two], "undo brings them back"
    loom.select()
    loom.selection.current = below
    loom.delete(below)
    assert loom.selected == []


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        (5, "5 is no node"),
        ([5], "5 is no node"),
        (pd.DataFrame({"a": [1]}), "no column node"),
        (pd.DataFrame({"node": [1.5]}), "1.5 is no node"),
        (object, "is no node"),
    ],
)
def test_what_cannot_be_selected_is_one_line(nodes: Any, line: str) -> None:
    loom = Loom("r")
    loom.select(loom.roots)
    with pytest.raises(InvalidRequest, match=line) as raised:
        loom.select(nodes)
    assert "\n" not in raised.value.message
    assert loom.selected == loom.roots


@pytest.mark.parametrize(
    ("marks", "line"),
    [
        ({"rating": float("nan")}, "rating=nan must be a finite number"),
        ({"rating": 10**400}, r"rating=1000.*\.\.\. must be a finite number"),
        ({"rating": True}, "rating=True"),
        ({"tags": "abc"}, "tags='abc' must be a list of texts"),
        ({"tags": [1]}, r"tags=\[1\]"),
        ({"note": 5}, "note=5 must be a text"),
        ({"bookmark": "yes"}, "bookmark='yes' must be True or False"),
        ({"sampling": 5}, "sampling=5 must be a table"),
        ({"sampling": {"n": 99}}, "n=99"),
        ({"sampling": {"foo": 1}}, "foo"),
        ({"sampling": {"temperature": float("nan")}}, "temperature"),
        ({"sampling": {"prompt": "other"}}, "prompt is no sampling"),
        ({"stars": 5}, "stars is no mark"),
    ],
)
def test_what_cannot_be_marked_is_one_line(marks: dict[str, Any], line: str) -> None:
    loom = Loom("r")
    before = len(loom.session)
    with pytest.raises(InvalidRequest, match=line) as raised:
        loom.mark(loom.roots[0], **marks)
    assert "\n" not in raised.value.message
    assert len(loom.session) == before


def test_marks_that_fit_are_taken() -> None:
    loom = Loom("r")
    marks = {
        "tags": ["a", "b"],
        "note": "n",
        "rating": 2.5,
        "bookmark": True,
        "sampling": {"temperature": 0.5},
    }
    loom.mark(loom.roots[0], **marks)
    assert loom.marks(loom.roots[0]) == marks
    loom.mark(loom.roots[0], **dict.fromkeys(marks))
    assert loom.marks(loom.roots[0]) == {}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (5, "keys=5 must be command to key"),
        ({"nope": "x"}, "'nope' is no command"),
        ({"delet": "x"}, "did you mean delete"),
        ({"delete": 5}, "The key of delete is 5"),
        ({"delete": "Alt+d"}, "Alt, which belongs to the system"),
        ({"delete": "Ctrl+Alt+d"}, "Alt, which belongs to the system"),
        ({"delete": "dd"}, "'dd' for delete is no key"),
        ({"delete": "Tab"}, "is no key"),
        ({"delete": "Shift+d"}, "write D"),
        ({"delete": "Ctrl+D"}, r"write Ctrl\+Shift\+d"),
        (
            {"delete": "d", "merge": "q d"},
            "d is given to (merge and to delete|delete and to merge)",
        ),
    ],
)
def test_keys_that_cannot_be_are_one_line(keys: Any, line: str) -> None:
    with pytest.raises(InvalidRequest, match=line) as raised:
        Loom("r").show(keys=keys)
    assert "\n" not in raised.value.message


def test_keys_that_fit_are_taken() -> None:
    for keys in (
        {"delete": "d Backspace"}, {"delete": ""}, {"delete": "u", "undo": "d"}, {"delete": "u"},
        {"zoom in": "p"}, {"graph up": "["}, {"light": " "},
    ):  # fmt: skip
        assert checked_keys(keys) == keys
    with pytest.raises(InvalidRequest, match="height='x'"):
        Loom("r").show(height="x")  # type: ignore[arg-type]


def test_the_commands_are_those_of_the_window() -> None:
    text = KEYS_TS.read_text(encoding="utf-8")
    plain, graph = text.split("GRAPH_COMMANDS", 1)
    for part, known in ((plain, USUAL), (graph.split("ALL", 1)[0], GRAPH)):
        lines = re.findall(r'^  of\("([^"]+)", "[^"]*", (.*)\),$', part, re.MULTILINE)
        found = {name: tuple(re.findall(r'"([^"]*)"', keys)) for name, keys in lines}
        assert found == {name: keys for name, keys in known.items() if not re.match(r"grow \d", name)}
