"""Looms of other programs: each format from a sample, its round trip to the byte, and hostile files in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from acs_jupyter import Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.looms.formats import choosing

LOOMS = Path(__file__).parents[1] / "data" / "looms"
TEXT = "A \u00e9\r\n <b>&amp;</b> [x] \U0001f600"
FORMS = ["socketteer", "obsidian", "basemode", "mikupad", "service"]
SECRETS = ["sk-AAAA", "sk-BBBB", "my-private-endpoint-key", "hush-hush"]


def loaded(form: str, **options: Any) -> Loom:
    return Loom.load(LOOMS / f"{form}.json", **options)


def shape(loom: Loom) -> list[Any]:
    return [(n, loom.parent(n), loom.own_text(n), loom.node(n).tokens) for n in loom.nodes]


@pytest.mark.parametrize("form", FORMS)
def test_a_sample_is_told_and_its_text_kept_to_the_byte(form: str) -> None:
    loom = loaded(form)
    assert loom.text(loom.roots[0]).encode() == TEXT.encode()
    kept = b"".join(loom.session.lines()).decode()
    assert not any(secret in kept for secret in SECRETS)


@pytest.mark.parametrize("form", FORMS)
def test_round_trip(form: str, tmp_path: Path) -> None:
    loom = loaded(form)
    node = max(loom.nodes, key=lambda one: len(loom.path(one)))
    loom.export(tmp_path / "out.json", form, node=node)
    again = Loom.load(tmp_path / "out.json")
    assert shape(again) == shape(loom)
    for one in loom.nodes:
        for theirs, ours in zip(again.node(one).logprobs, loom.node(one).logprobs, strict=True):
            assert (
                theirs == ours
                if ours is None
                else theirs is not None and math.isclose(theirs, ours, abs_tol=1e-12)
            )
        kept = loom.marks(one).get("meta", {}).get(form, {})
        assert kept.keys() <= again.marks(one).get("meta", {}).get(form, {}).keys()


@pytest.mark.parametrize("source", FORMS)
@pytest.mark.parametrize("form", ["socketteer", "obsidian", "basemode", "service", "jsonl", "ours"])
def test_any_loom_in_any_format(source: str, form: str, tmp_path: Path) -> None:
    loom = loaded(source)
    loom.export(tmp_path / "out", form)
    again = Loom.load(tmp_path / "out")
    texts = [loom.text(node).encode() for node in loom.nodes]
    several = form == "socketteer" and len(loom.roots) > 1
    assert [again.text(node).encode() for node in again.nodes][several:] == texts
    if form in ("jsonl", "ours"):
        assert [again.marks(n) for n in again.nodes] == [loom.marks(n) for n in loom.nodes]


def test_socketteer_keeps_tokens_tags_notes_and_where_one_was() -> None:
    loom = loaded("socketteer")
    assert loom.children("s-root") == ["s-a", "s-b", "s-d", "s-e"]
    node = loom.node("s-a")
    assert (node.tokens, node.logprobs) == ([" went", " up"], [-0.5, -1.5])
    assert node.top == [{" went": -0.5, " was": -1.25}, None]
    assert (loom.node("s-b").finish_reason, loom.node("s-d").logprobs) == ("stop", [None, -2.5])
    marks = loom.marks("s-a")
    assert (marks["tags"], marks["bookmark"], marks["note"], marks["folded"]) == (["odd"], True, "look", True)
    assert marks["meta"]["socketteer"]["history"] == [{"timestamp": "t", "text": " went"}]
    assert loom.last_child("s-root") == "s-a"
    assert loom.own_text("s-e") == ""
    assert loom.where('model == "davinci"') == ["s-a", "s-b"]
    assert any("api_key" in line for line in loom.notes)
    assert any("still being generated" in line for line in loom.notes)
    assert loom.session.arrangement.mark("", "meta")["socketteer"]["chapters"]["c1"]["title"] == "One"


def test_socketteer_s_other_shapes_and_a_backup(tmp_path: Path) -> None:
    whole = json.loads((LOOMS / "socketteer.json").read_bytes())
    path = tmp_path / "x.json"
    path.write_text(json.dumps(whole["root"]))
    bare = Loom.load(path, responses=whole["model_responses"])
    assert bare.node("s-a").logprobs == [-0.5, -1.5]
    path.write_text(json.dumps(whole["root"]["children"]))
    assert Loom.load(path).roots == ["s-a", "s-b", "s-d", "s-e"]
    path.write_text(json.dumps({"text": "a", "children": [{"text": "b", "children": []}]}))
    assert [Loom.load(path).text(n) for n in Loom.load(path).nodes] == ["a", "ab"]


def test_obsidian_is_unescaped_and_has_several_roots() -> None:
    loom = loaded("obsidian")
    assert loom.roots == ["a", "z"]
    assert loom.own_text("b") == " then <i> and [1]"
    assert loaded("obsidian", unescape=False).own_text("b") == " then \\<i> and \\[1]"
    assert loom.marks("b")["folded"]
    assert loom.hoisted == "a"
    with pytest.raises(InvalidRequest, match=r"holds 2 notes; name one with note=: 'a.md', 'b/c.md'"):
        loaded("obsidian-plugin")
    plugin = loaded("obsidian-plugin", note="b/c.md")
    assert [plugin.text(n) for n in plugin.nodes] == ["two"]
    assert any("settings" in line for line in plugin.notes)


def test_basemode_orders_by_time_and_keeps_contexts_aside() -> None:
    loom = loaded("basemode")
    assert loom.roots == ["aa"]
    assert loom.children("aa") == ["cc", "bb"]
    assert loom.last_child("aa") == "cc"
    assert loom.marks("bb")["rating"] == 1.5
    assert loom.session.runs[loom.node("bb").run].request["temperature"] == 0.8
    assert any("context" in line for line in loom.notes)
    assert any("auth_token" in line for line in loom.notes)


def test_mikupad_is_one_path_with_logprobs_and_no_key() -> None:
    loom = loaded("mikupad")
    assert [loom.own_text(n) for n in loom.nodes] == [TEXT, " one odd", " mine", " end"]
    node = loom.node(loom.nodes[1])
    assert node.logprobs == [math.log(0.5), None]
    assert node.top[0] == {" one": math.log(0.5), " two": math.log(0.25)}
    assert loom.notes == ["A credential in endpointAPIKey was dropped."]
    assert loom.session.arrangement.mark("", "title") == "Pad #1"


def test_the_service_s_cycles_are_dropped_and_orphans_re_homed() -> None:
    loom = loaded("service")
    assert loom.children("n1") == ["n3", "n2", "o1"]
    assert loom.node("n2").top == [{" a": -0.5, " b": -1.5}]
    assert loom.session.runs[loom.node("n2").run].request["seed"] == 7
    assert [line.split()[0] for line in loom.notes] == ["1", "2"]


def test_only_what_a_person_deleted_is_told_as_deleted(tmp_path: Path) -> None:
    loom = Loom("a")
    child = loom.new_child(loom.roots[0], " one two")
    loom.split(child, at=4)
    assert loom.export(tmp_path / "a.md") == []  # the split stands in the place of its node
    loom.undo()
    assert loom.export(tmp_path / "b.md") == []  # the halves were never deleted by anybody
    loom.new_child(child, " below")
    loom.delete(child)
    assert loom.export(tmp_path / "c.md") == ["2 nodes that were deleted are left out."]
    loom.undo()
    assert loom.export(tmp_path / "d.md") == []
    loom.redo()
    assert loom.export(tmp_path / "e.md") == ["2 nodes that were deleted are left out."]


def test_outline_and_text(tmp_path: Path) -> None:
    loom = Loom("<script>``` x\n````\n# y")
    loom.new_child(loom.roots[0], "z")
    loom.delete(loom.new_child(loom.roots[0], "gone"))
    notes = loom.export(tmp_path / "o.md", "markdown")
    lines = (tmp_path / "o.md").read_text().splitlines()
    assert lines.count("  `````text") == 1
    assert "gone" not in "\n".join(lines)
    assert notes == ["1 node that was deleted is left out."]
    leaf = loom.children(loom.roots[0])[0]
    loom.export(tmp_path / "o.txt", "text", node=leaf)
    assert (tmp_path / "o.txt").read_bytes() == loom.text(leaf).encode()
    with pytest.raises(InvalidRequest, match="name the node"):
        Loom().export(tmp_path / "o.txt", "text")
    (tmp_path / "o.txt").unlink()
    loom.export(tmp_path / "o.txt", node=leaf)
    loom.export(tmp_path / "p.MD")
    loom.export(tmp_path / "p.loom")
    assert (tmp_path / "o.txt").read_bytes() == loom.text(leaf).encode()
    assert (tmp_path / "p.MD").read_bytes() == (tmp_path / "o.md").read_bytes()
    again = Loom.load(tmp_path / "p.loom")
    assert [again.text(each) for each in again.nodes] == [loom.text(each) for each in loom.nodes]
    for name in ("o.json", "o.docx", "o"):
        with pytest.raises(InvalidRequest, match=f"{name} does not say its format: give one"):
            loom.export(tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(InvalidRequest, match="cannot be written; choose from"):
        loom.export(tmp_path / "o.txt", "word")


NASTY: list[Any] = [None, 3, "x", [], {}, [1], {"nodes": 3}, {"nodes": {"a": 1}}, {"nodes": {"a": {"text": 1}}},
    {"nodes": [1]}, {"nodes": [{"id": "a"}]}, {"nodes": [{"id": [], "text": ""}]}, {"root": 1},
    {"root": {"text": 1}}, {"root": {"text": "", "children": 4}}, {"root": {"text": "", "children": [4]}},
    {"prompt": "{"}, {"prompt": "[1]"}, {"prompt": '[{"content":1}]'}, {"version": 2, "loom": {}, "nodes": []},
    {"version": 1, "loom": {}, "nodes": [{"id": "a", "text": "", "logprobs": [1]}]}, {"settings": 1, "state": {}},
    {"version": 1, "loom": {}, "nodes": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]},
    {"root": {"text": "", "tags": 3, "children": []}}, {"nodes": {"": {"text": "x"}}},
    {"root": {"id": "a", "text": "x", "generation": {"id": [], "index": "1"}, "meta": 3}, "model_responses": [1]},
]  # fmt: skip


@pytest.mark.parametrize("value", NASTY, ids=lambda value: json.dumps(value)[:50])
@pytest.mark.parametrize("form", [None, *FORMS])
def test_wrong_types_are_one_line_or_a_tree(value: Any, form: str | None) -> None:
    told = ""
    try:
        session, _ = choosing.read(json.dumps(value).encode(), form=form)
        msgspec.json.encode(session.state())
    except InvalidRequest as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 300


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"{", b"[" * 100_000, b'{"root":' * 100_000, b'{"root":{"text":"\\ud800"}}', b"NaN",
     b'{"root":{"text":"","children":[' * 50_000],
)  # fmt: skip
def test_what_is_no_json_is_one_line(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as told:
        choosing.read(data)
    assert "\n" not in str(told.value)


def test_a_tree_of_twenty_thousand_levels() -> None:
    nodes = [{"id": f"n{i}", "parent_id": f"n{i - 1}" if i else None, "text": "x"} for i in range(20_000)]
    nodes[10_000]["text"] = "</script><img src=x>"
    session, notes = choosing.read(json.dumps({"version": 1, "loom": {}, "nodes": nodes}).encode())
    assert notes == []
    loom = Loom(session)
    assert len(loom.nodes) == 20_000
    assert len(loom.text("n19999")) == 19_999 + len("</script><img src=x>")
    with pytest.raises(InvalidRequest, match="deep"):
        choosing.write(session, "socketteer")


def test_a_deep_tree_in_flat_formats() -> None:
    nodes = [{"id": f"n{i}", "parent_id": f"n{i - 1}" if i else None, "text": f"{i} "} for i in range(3000)]
    session, _ = choosing.read(json.dumps({"version": 1, "loom": {}, "nodes": nodes}).encode())
    for form in ("service", "jsonl", "basemode", "obsidian"):
        data, _ = choosing.write(session, form)
        again, _ = choosing.read(data)
        assert again.text_to("n2999") == session.text_to("n2999")


def test_deep_settings_and_huge_numbers_do_no_harm(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    root = {"id": "a", "text": "x", "children": [], "frame": deep, "big": 10**30}
    session, notes = choosing.read(json.dumps({"root": root}).encode())
    assert notes == ["Fields that are nested too deeply were dropped."]
    session.save(tmp_path / "s")
    assert Loom.load(tmp_path / "s").text("a") == "x"
