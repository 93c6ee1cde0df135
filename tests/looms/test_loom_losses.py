"""What a format loses is said; what it holds comes back; hostile fields are no traceback; Markdown stays text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mistune
import pytest

from acs_jupyter import Loom
from acs_jupyter.looms.formats import choosing
from acs_jupyter.looms.formats.values import _MOST_UNKNOWN

BOM = b"\xef\xbb\xbf"
LIVE = "<img src=x onerror=alert(1)>"
ENDS = [
    "\n", "\r", "\r\n", "\r\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\u2424", "\x00", "\n\n\n", "\n    ",
    "\n```\n", "\r```\r", "\r\n`````", "\n~~~\n", "\n- ", "\n</code></pre>\n", "\n\t", " \n  ",
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_no_line_end_lets_html_out_of_the_outline(end: str) -> None:
    loom = Loom(f"a{end}{LIVE}{end}# H {LIVE}")
    node = loom.roots[0]
    for _ in range(12):
        node = loom.new_child(node, f"{end}{LIVE}{end}{end}# H{end}{LIVE}")
    loom.new_root(LIVE)
    page = mistune.html(choosing.write(loom.session, "markdown")[0].decode())
    assert isinstance(page, str)
    assert page.count("&lt;img") == 2 + 2 * 12 + 1
    assert "<img" not in page
    assert "<h1>H" not in page


def exported(loom: Loom, form: str, path: Path) -> tuple[list[str], Loom]:
    said = loom.export(path / "out", form)
    return said, Loom.load(path / "out")


def full() -> tuple[Loom, str]:
    loom = Loom("solo")
    (root,) = loom.roots
    loom.mark(root, tags=["t"], note="n", rating=3, bookmark=True, sampling={"temperature": 0.1})
    child = loom.new_child(root, "k")
    loom.visit(child)
    loom.hoist(child)
    return loom, root


@pytest.mark.parametrize(
    ("form", "lost"),
    [
        ("jsonl", "what is shown as root"),
        ("obsidian", "tags, notes, ratings and own sampling"),
        ("basemode", "tags, notes, own sampling and what is shown as root"),
        ("socketteer", "ratings, own sampling and what is shown as root"),
        ("service", "tags, notes, bookmarks, ratings, own sampling and what is shown as root"),
    ],
)
def test_what_a_format_cannot_hold_is_said(form: str, lost: str, tmp_path: Path) -> None:
    loom, root = full()
    said, again = exported(loom, form, tmp_path)
    assert said == [f"This format has no place for {lost}: left out."]
    words = {
        "tags": "tags",
        "notes": "note",
        "ratings": "rating",
        "own sampling": "sampling",
        "bookmarks": "bookmark",
    }
    for word, mark in words.items():
        assert (mark in again.marks(root)) == (word not in lost)
    assert exported(Loom("x"), form, tmp_path)[0] == []


def test_json_lines_come_back_as_they_were(tmp_path: Path) -> None:
    loom, root = full()
    again = exported(loom, "jsonl", tmp_path)[1]
    assert again.marks(root) == loom.marks(root)
    assert again.last_child(root) == loom.last_child(root)
    solo = Loom("solo")
    solo.mark(solo.roots[0], tags=["t"], note="n")
    assert exported(solo, "jsonl", tmp_path)[1].marks(solo.roots[0]) == {"tags": ["t"], "note": "n"}


def test_json_lines_with_a_bom_and_unknown_fields(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(
        BOM + b'{"id":"a","text":"x","mine":1,"marks":{"odd":[2],"tags":5}}\n{"id":"b","text":"y"}\n'
    )
    loom = Loom.load(path)
    kept = {"mine": 1, "marks": {"odd": [2], "tags": 5}}
    assert loom.marks("a") == {"meta": {"jsonl": kept}}
    assert exported(loom, "jsonl", tmp_path)[1].marks("a") == {"meta": {"jsonl": kept}}


LOSING: list[tuple[dict[str, Any], list[str]]] = [
    (
        {
            "root": {
                "id": "a", "text": "xy", "tags": [{"t": 1}], "notes": [{}],
                "generation": {"id": "g", "index": 0, "E": 1},
            },
            "model_responses": {
                "g": {"R": 1, "prompt": {"text": "p"}, "completions": [{"text": "xy", "tokens": [], "C": 1}, {}]},
            },
        },
        ["generation.E", "model_responses.R", "completions.C", "Some tags", "Some notes", "prompts",
         "made of were left out: 1"],
    ),
    (
        {"version": 1, "T": 1, "loom": {}, "nodes": [{"id": "a", "text": "x", "logprobs": [
            {"token": "x", "L": 1, "top": [{"K": 2}]}]}]},
        ["out: T.", "logprobs.L", "logprobs.top.K"],
    ),
    ({"current": "a", "T": 1, "nodes": {"a": {"text": "x"}}}, ["out: T."]),
    ({"version": 1, "T": 1, "tree": {"name": "n"}, "nodes": [{"id": "a", "text": "x"}]}, ["out: T.", "out: tree."]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "told"), LOSING, ids=["socketteer", "service", "obsidian", "basemode"])
def test_fields_that_are_left_out_are_named(data: dict[str, Any], told: list[str]) -> None:
    notes = choosing.read(json.dumps(data).encode())[1]
    for word in told:
        assert any(word in line for line in notes), (word, notes)


def test_a_file_of_unknown_fields_is_not_a_flood() -> None:
    data = {"current": "a", "nodes": {"a": {"text": "x"}}, **{f"field{n}": 1 for n in range(5000)}}
    notes = choosing.read(json.dumps(data).encode())[1]
    assert len(notes) == _MOST_UNKNOWN + 1
    assert notes[-1] == "More such fields were left out."


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("basemode", {"version": 1, "nodes": [{"id": "a", "text": "x", "metadata": "hello"}]}),
    ("socketteer", {"root": {"id": "a", "text": "x", "meta": "hello"}}),
    ("obsidian", {"current": "a", "nodes": {"a": {"text": "x", "raw": 5, "hello": 1}}}),
]


@pytest.mark.parametrize(("form", "data"), HOSTILE, ids=[form for form, _ in HOSTILE])
def test_a_field_of_the_wrong_kind_goes_out_again(form: str, data: dict[str, Any], tmp_path: Path) -> None:
    session, _ = choosing.read(json.dumps(data).encode())
    written, notes = choosing.write(session, form)
    assert notes == []
    assert b"hello" in written
    assert choosing.read(written)[0].text_to("a") == "x"


@pytest.mark.parametrize("form", ["socketteer", "service", "basemode", "obsidian"])
def test_what_was_kept_and_is_no_object_is_said(form: str) -> None:
    data = {"id": "a", "parent_id": None, "text": "x", "marks": {"meta": {form: 5}}}
    session, _ = choosing.read(json.dumps(data).encode())
    written, notes = choosing.write(session, form)
    assert notes == [f"What was kept for {form} of nodes is no object; left out."]
    assert choosing.read(written)[0].text_to("a") == "x"


def test_several_roots_of_which_one_is_called_roots() -> None:
    session, _ = choosing.read(
        json.dumps([{"id": "roots", "text": "A"}, {"id": "roots+", "text": "B"}]).encode()
    )
    again, _ = choosing.read(choosing.write(session, "socketteer")[0])
    assert [again.text_to(node) for node in ("roots", "roots+")] == ["A", "B"]
    assert len(again.nodes) == 3
