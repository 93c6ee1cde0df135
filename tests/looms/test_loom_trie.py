"""Where samples part: the trie against a direct count, and two siblings side by side."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter import Client, Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.log import events as ev
from acs_jupyter.looms.sampling import Settings, left_of, reshaped, settings_of
from acs_jupyter.looms.trie import Trie, TrieNode, trie
from tests.support.servers import Running

WHATIF = Path(__file__).parent.parent / "data" / "whatif.json"
Told = tuple[list[str], str | None]


def loom_of(
    samples: list[Told], *, tokens: bool = True, top: dict[str, float] | None = None, **request: Any
) -> Loom:
    """A loom with one root and these samples below it: tokens, and how each ended."""
    loom = Loom("P", **request)
    session, (root,) = loom.session, loom.roots
    session.apply([ev.RunOpened("r", {"prompt": "P", "n": len(samples), **request})])
    for i, (words, finish) in enumerate(samples):
        session.apply([ev.NodeOpened(f"r.{i}", "r", root, i)])
        columns = (tuple(words), (-1.0,) * len(words), (top,) * len(words)) if tokens else ((), (), ())
        session.apply([ev.TokensArrived(f"r.{i}", "".join(words), *columns)])
        if finish is not None:
            session.apply([ev.Finished(f"r.{i}", finish)])
    session.apply([ev.RunClosed("r", "done")])
    return loom


SAMPLES = st.lists(
    st.tuples(
        st.lists(st.sampled_from([" a", " b", " c", "🦊", "<b>"]), max_size=5),
        st.sampled_from(["stop", "length", None]),
    ),
    min_size=1,
    max_size=12,
)


def ways(found: Trie) -> dict[tuple[str, ...], TrieNode]:
    """Every node by the units from the root to the end of its first token."""
    named: dict[tuple[str, ...], TrieNode] = {}
    paths: dict[int, tuple[str, ...]] = {}
    for node, parent, _ in found.walk():
        before = () if parent is None else paths[id(parent)]
        paths[id(node)] = before + node.tokens
        named[before if parent is None else (*before, node.token or "END")] = node
    return named


@given(SAMPLES, st.booleans())
def test_the_counts_equal_a_direct_count(samples: list[Told], tokens: bool) -> None:
    loom = loom_of(samples, tokens=tokens)
    found = loom.trie(loom.roots[0])
    units = [words if tokens else list("".join(words)) for words, _ in samples]
    # An empty text without tokens is known whole, so a set of samples is read by characters if one of them is not.
    assert found.by == ("tokens" if tokens or not any(words for words, _ in samples) else "text")
    ends = [
        [*own, "END"] if finish == "stop" else own for own, (_, finish) in zip(units, samples, strict=True)
    ]
    named = ways(found)
    assert found.samples == len(samples)
    for path, node in named.items():
        through = [i for i, own in enumerate(ends) if tuple(own[: len(path)]) == path]
        assert (node.count, set(node.samples)) == (len(through), {f"r.{i}" for i in through})
        if path:
            chose = [
                own for own in ends if tuple(own[: len(path) - 1]) == path[:-1] and len(own) >= len(path)
            ]
            assert node.of == len(chose)
            assert 0 <= node.low <= node.share <= node.high <= 1
    # What was cut off, what ended and what goes on is all there is, at every node.
    for node in named.values():
        assert node.count == node.cut + sum(child.count for child in node.children) or node.token is None
    leaves = sum(node.cut for node in named.values()) + sum(
        node.count for node in named.values() if node.token is None
    )
    assert leaves == len(samples)
    parted = {path[:-1] for path in named if path}
    for place in parted:
        direct = Counter(
            own[len(place)] for own in ends if tuple(own[: len(place)]) == place and len(own) > len(place)
        )
        assert all(named[(*place, token)].count == count for token, count in direct.items())
    frame = found.to_frame(untaken=False)
    assert frame.groupby("fork")["count"].sum().tolist() == frame.groupby("fork")["of"].first().tolist()


def test_it_says_what_the_model_said_before_and_after_the_settings() -> None:
    top = {" a": math.log(0.5), " b": math.log(0.25), " c": math.log(0.1), "<x>": math.log(0.05)}
    samples = [([" a"], "length")] * 6 + [([" b"], "length")] * 2
    loom = loom_of(
        [(list(words), finish) for words, finish in samples], top=top, temperature=0.5, top_k=2, logprobs=4
    )
    found = loom.trie(loom.roots[0])
    frame = found.to_frame().set_index("token")
    assert frame["count"].to_dict() == {" a": 6, " b": 2, " c": 0, "<x>": 0}
    assert frame.loc[" c", "probability"] == pytest.approx(0.1)
    assert frame.loc[" a", "sampled"] == pytest.approx(0.8)  # 0.25 to 0.0625, of what top_k leaves
    assert frame.loc["<x>", "sampled"] == 0
    # Wilson's interval of 6 of 8, from the formula's own table (Brown, Cai and DasGupta 2001 use the same).
    assert (frame.loc[" a", "low"], frame.loc[" a", "high"]) == pytest.approx((0.4093, 0.9285), abs=1e-3)
    assert any("settings" in note for note in found.notes)
    page = found._repr_html_()
    assert "&lt;x&gt;" in page
    assert "<x>" not in page
    penalised = loom_of([([" a"], "stop"), ([" b"], "stop")], top=top, presence_penalty=0.5)
    assert penalised.trie(penalised.roots[0]).to_frame()["sampled"].isna().all()


def test_branches_and_deleted_samples_do_not_count_and_split_ones_do() -> None:
    loom = loom_of([([" a", " b"], "length"), ([" a", " c"], "length"), ([" d"], "length")])
    (root,) = loom.roots
    loom.delete("r.2")
    loom.split("r.0", token=1)
    loom.session.apply([ev.RunOpened("s", {"prompt": "P"})])
    loom.session.apply([ev.NodeOpened("s.0", "s", root, 0, origin=ev.Origin("r.1", 1, " z"))])
    loom.session.apply([ev.RunClosed("s", "done")])
    loom.new_child(root, " mine")
    found = loom.trie(root)
    assert (found.samples, found.common) == (2, " a")
    assert {way.token: way.samples for way in found.root.children} == {" b": ("r.0",), " c": ("r.1",)}


def test_pieces_of_a_character_are_one_unit() -> None:
    loom = loom_of([(["", "", "🦊"], "stop"), (["", "", "🦉"], "stop"), (["x", ""], "stop")])
    found = loom.trie(loom.roots[0])
    assert [way.token for way in found.root.children] == ["🦊", "🦉", "x"]
    assert found.root.children[0].probability == pytest.approx(math.exp(-3))
    assert loom.node("r.0").tokens == ["", "", "🦊"]
    end = found.root.children[2].children[0]
    assert end.token is None
    assert end.probability == pytest.approx(math.exp(-1))


@pytest.mark.parametrize("mark", ["", "<|im_end|>"])
def test_a_mark_of_the_end_is_no_text(mark: str) -> None:
    """A server tells the token that ended a sample, and it does not stand in its text."""
    loom = Loom("P", top_k=2)
    session, (root,) = loom.session, loom.roots
    session.apply([ev.RunOpened("r", {"prompt": "P", "n": 3, "top_k": 2, "logprobs": 3})])
    top = {" b": math.log(0.5), mark: math.log(0.3), " c": math.log(0.1)}
    for i, tokens in enumerate([(" a", mark), (" a", " b"), (" a", mark)]):
        text = "".join(token for token in tokens if token != mark)
        logprobs = (-0.1, top[tokens[1]])
        session.apply([ev.NodeOpened(f"r.{i}", "r", root, i)])
        session.apply([ev.TokensArrived(f"r.{i}", text, tokens, logprobs, (None, top))])
        session.apply([ev.Finished(f"r.{i}", "length" if i == 1 else "stop")])
    session.apply([ev.RunClosed("r", "done")])
    found = loom.trie(root)
    assert found.by == "tokens"
    [fork] = found.forks
    ways = {way.token: (way.count, round(way.probability or 0, 6)) for way in fork.children}
    assert ways == {None: (2, 0.3), " b": (1, 0.5)}
    assert [way.token for way in fork.untaken] == [" c"]
    assert {way.token: way.sampled for way in fork.children} == pytest.approx({None: 0.375, " b": 0.625})
    diff = loom.diff("r.0", "r.1")
    assert (diff.by, diff.common) == ("tokens", " a")
    assert mark == "" or mark not in diff._repr_html_()


def test_given_completions(scripted_server: Running) -> None:
    with Client(scripted_server.base, scripted_server.key, meter=None) as client:
        one = client.complete("#scripted tokens=6 alternatives=3\nOnce", n=4, logprobs=3, max_tokens=6)
        two = client.complete(
            "#scripted tokens=6 alternatives=3\nOnce", n=2, logprobs=3, max_tokens=6, seed=9
        )
        other = client.complete("Twice", max_tokens=2)
    found = trie([one, two])
    texts = Counter(choice.tokens[0].text for choice in [*one.choices, *two.choices])
    assert found.samples == 6
    assert Loom().trie(iter([one, two])).samples == 6
    first = Counter({way.token: way.count for way in found.root.children}) if not found.common else texts
    assert first == texts
    with pytest.raises(InvalidRequest, match="one text"):
        trie([one, other])
    with pytest.raises(InvalidRequest, match="not int"):
        trie([3])  # type: ignore[list-item]
    with pytest.raises(InvalidRequest, match="no samples"):
        trie([])


def test_nothing_to_count_is_one_line() -> None:
    loom = loom_of([([" a"], "stop")])
    with pytest.raises(InvalidRequest, match="no generated children"):
        loom.trie("r.0")
    with pytest.raises(InvalidRequest, match="no siblings"):
        loom.trie([loom.roots[0], "r.0"])
    with pytest.raises(InvalidRequest, match="no node"):
        loom.trie("nothing")


def test_many_samples_need_no_stack() -> None:
    deep = [([" a"] * i + [" b"], "stop") for i in range(1100)]  # more than Python's own stack holds
    loom = loom_of([(list(words), finish) for words, finish in deep])
    found = loom.trie(loom.roots[0])
    assert len(found.forks) == 1099
    assert len(found._repr_html_()) < 400_000


# -- what the settings leave ----------------------------------------------------------------------

CASES: list[dict[str, Any]] = json.loads(WHATIF.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_settings_leave_what_the_window_says(case: dict[str, Any]) -> None:
    assert reshaped(case["logprobs"], Settings(**case["settings"])) == pytest.approx(case["left"], abs=1e-12)


WHOLE = st.lists(st.floats(-9, 0), min_size=3, max_size=30).map(
    lambda raw: sorted((x - math.log(math.fsum(map(math.exp, raw))) for x in raw), reverse=True)
)
SETTINGS = st.builds(
    Settings,
    st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0, 1.5]),
    st.sampled_from([1.0, 0.95, 0.8, 0.3]),
    st.sampled_from([0, 1, 2, 5, 20]),
    st.sampled_from([0.0, 0.05, 0.4]),
)


@given(WHOLE, SETTINGS, st.integers(1, 30), st.data())
def test_what_settings_leave_of_a_part_is_what_they_leave_of_the_whole(
    whole: list[float], settings: Settings, asked: int, data: st.DataObject
) -> None:
    listed = list(range(min(asked, len(whole))))
    listed += data.draw(
        st.sets(st.integers(0, len(whole) - 1), max_size=2).map(lambda s: sorted(s - set(listed)))
    )
    right = reshaped(whole, settings)
    told = left_of([whole[i] for i in listed], asked, settings)
    for place, value in zip(listed, told, strict=True):
        distinct = all(abs(whole[place] - other) > 1e-6 for i, other in enumerate(whole) if i != place)
        assert value is None or not distinct or value == pytest.approx(right[place], rel=2e-3, abs=1e-5)
    if len(listed) == len(whole):
        assert None not in told


@given(
    st.lists(st.sampled_from([" a", " b", " c", "<x>"]), min_size=2, max_size=9),
    st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    st.sampled_from([1.0, 0.8, 0.2]),
    st.sampled_from([-1, 1, 3]),
    st.sampled_from([1, 2, 4]),
)
def test_no_sampled_token_is_impossible_and_at_1_the_stated_value_stands(
    drawn: list[str], temperature: float, top_p: float, top_k: int, asked: int
) -> None:
    top = {" a": math.log(0.3), " b": math.log(0.15), " c": math.log(0.05), "<x>": math.log(0.02)}
    request = {"temperature": temperature, "top_p": top_p, "top_k": top_k, "logprobs": asked}
    loom = loom_of([([word], "length") for word in drawn], top=top, **request)
    frame = loom.trie(loom.roots[0]).to_frame()
    counted = frame[frame["count"] > 0]
    assert not (counted["sampled"] == 0).any()
    if (temperature, top_p, top_k) == (1.0, 1.0, -1):
        assert frame["sampled"].tolist() == frame["probability"].tolist()


def test_a_nucleus_that_is_not_known_is_not_told() -> None:
    top = {" a": math.log(0.2), " b": math.log(0.19), " c": math.log(0.15)}
    samples: list[Told] = [([" a"], "length"), ([" a"], "length"), ([" b"], "length"), ([" c"], "length")]
    loom = loom_of(samples, top=top, temperature=0.5, top_p=0.8, logprobs=3)
    found = loom.trie(loom.roots[0])
    assert found.to_frame()["sampled"].isna().all()
    assert any("not returned" in note for note in found.notes)
    page = found._repr_html_()
    assert "<th>95 % interval</th>" in page
    assert "<th>model stated</th>" in page


def test_lines_and_rows_read_well() -> None:
    long = [" word"] * 40
    loom = loom_of([([" a", " b", *long], "stop"), ([" a", " c"], "stop")])
    page = loom.trie(loom.roots[0])._repr_html_()
    assert "part after 1 token;" in page
    assert len(re.findall(r"·b</b>(?:·word)+[·word]*…</td>", page)) == 1
    assert "part after 1 token." in loom.diff("r.0", "r.1")._repr_html_()


def test_settings_of_a_request() -> None:
    assert settings_of({"temperature": 0.5, "top_k": -1, "top_p": None}) == Settings(0.5)
    assert settings_of({"repetition_penalty": 1.1}).penalised
    assert settings_of({"temperature": True, "min_p": float("nan")}) == Settings()


# -- diff -----------------------------------------------------------------------------------------

WORDS = st.lists(st.sampled_from([" a", " b", " c", ",", "🦊", "\n"]), max_size=12)


@given(WORDS, WORDS, st.booleans())
def test_a_diff_holds_both_texts(a: list[str], b: list[str], tokens: bool) -> None:
    loom = loom_of([(a, "stop"), (b, "stop")], tokens=tokens)
    found = loom.diff("r.0", "r.1")
    sides = [("".join(u.text for block in found.blocks for u in getattr(block, side))) for side in "ab"]
    assert sides == ["".join(a), "".join(b)]
    frame = found.to_frame()
    assert "".join(frame["a_token"].dropna()) == "".join(a)
    assert [int(i) for i in frame["b_index"].dropna()] == list(range(frame["b_token"].notna().sum()))
    shared = frame[frame["op"].isin(["common", "same"])]
    assert (shared["a_token"] == shared["b_token"]).all()
    assert (found.parts_at is None) == ("".join(a) == "".join(b) and (not tokens or a == b))
    if tokens and found.parts_at is not None:
        at = found.parts_at
        assert a[:at] == b[:at]
        assert a[at : at + 1] != b[at : at + 1]
        assert found.logprobs() == (-float(len(a) - at), -float(len(b) - at))


def test_a_diff_of_paths_begins_where_they_part() -> None:
    loom = loom_of([([" a", " b"], "stop"), ([" a", " c"], "stop")])
    head = loom.split("r.0", token=1)
    (tail,) = loom.children(head)
    found = loom.diff(tail, "r.1")
    assert (found.common, found.parts_at, found.by) == (" a", 1, "tokens")
    written = loom.new_child(tail, " <i>")
    assert loom.diff(written, "r.1").by == "words"
    assert "<i>" not in loom.diff(written, "r.1")._repr_html_()
    with pytest.raises(InvalidRequest, match="two nodes"):
        loom.diff("r.1", "r.1")
