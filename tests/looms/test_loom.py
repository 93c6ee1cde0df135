"""The loom without a window: grown over real HTTP, read, measured, searched, kept in a file through a kill."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter import AsyncClient, Client, Loom, Session
from acs_jupyter.errors import AcsError, InvalidRequest
from acs_jupyter.ledger import ledger, report
from acs_jupyter.log import events as ev
from acs_jupyter.looms.file import LoomFile, read
from acs_jupyter.looms.query import NODE_NAMES, TOKEN_NAMES
from acs_jupyter.notebook import topics
from tests.support.player import DONE, Player, stream, whole
from tests.support.servers import ROOT, Running, environment

SIX = "#scripted tokens=6 alternatives=3\nOnce"
OPERATORS = ("contains", "and", "or", "not", "true", "false", "none")


def client_of(scripted_server: Running) -> Client:
    return Client(scripted_server.base, scripted_server.key, meter=None)


def test_grows_branches_and_remembers_sampling(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, temperature=0.7, max_tokens=6, seed=5)
        (root,) = loom.roots
        children = loom.grow(root, 3, top_p=0.9)
        assert loom.children(root) == children
        assert all(loom.marks(child) == {"unread": True} for child in children)
        request = loom.session.runs[loom.node(children[0]).run].request
        assert (request["temperature"], request["top_p"], request["n"], request["seed"]) == (0.7, 0.9, 3, 5)
        (deeper,) = loom.grow(children[1])
        again = loom.session.runs[loom.node(deeper).run].request
        assert (again["top_p"], again["logprobs"], "n" in again) == (0.9, 5, False)
        assert again["prompt"] == loom.text(children[1]) == SIX + loom.own_text(children[1])
        (more,) = loom.grow(root)
        assert loom.session.runs[loom.node(more).run].request["seed"] == 6
        other = next(iter(loom.node(deeper).top[2] or {}))
        (branch,) = loom.branch(deeper, 2, other)
        assert loom.parent(branch) == children[1]
        assert loom.node(branch).tokens[:3] == [*loom.node(deeper).tokens[:2], other]
        loom.mark(branch, sampling={"temperature": 0.1})
        (cool,) = loom.grow(branch)
        assert loom.session.runs[loom.node(cool).run].request["temperature"] == 0.1
        for _ in range(6):
            loom.undo()
        assert loom.nodes == [root]
        assert [loom.redo() for _ in range(6)] == ["grow", "grow", "grow", "grow", "sampling", "grow"]
        assert cool in loom.nodes


def test_several_grow_without_a_length_as_in_a_window(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client)
        first, _ = loom.grow(loom.roots[0], 2)
        request = loom.session.runs[loom.node(first).run].request
        assert (request["max_tokens"], request["logprobs"], request["n"]) == (128, 5, 2)
        (own,) = loom.grow(loom.roots[0], 1, max_tokens=3)
        assert loom.session.runs[loom.node(own).run].request["max_tokens"] == 3


def test_grows_with_an_async_client(scripted_server: Running) -> None:
    async def grown() -> Loom:
        async with AsyncClient(scripted_server.base, scripted_server.key, meter=None) as client:
            loom = Loom(SIX, client=client, max_tokens=4)
            await asyncio.gather(*(loom.grow_async(loom.roots[0], 2) for _ in range(2)))
            return loom

    loom = asyncio.run(grown())
    assert len(loom.children(loom.roots[0])) == 4


def test_a_loom_is_booked_under_the_models_id(scripted_server: Running) -> None:
    """The server answers under another name than requests send."""
    where = (scripted_server.base, scripted_server.key)
    with Client(*where) as client:
        loom = Loom(SIX, client=client, max_tokens=2)
        [grown] = loom.grow(loom.roots[0])
        loom.grow(grown)
        loom.branch(grown, 1, " x")
        run = loom.session.runs[loom.session.nodes[grown].run]
        assert (run.request["model"], run.checkpoint) == ("scripted", "scripted/deterministic")

    async def aside() -> None:
        async with AsyncClient(*where) as client:
            other = Loom(SIX, client=client, max_tokens=2)
            await other.grow_async(other.roots[0])

    asyncio.run(aside())
    with Client(*where) as client:  # another client of this process knows the names, too
        client.complete("Hi", max_tokens=1)
        client.complete("Hi", max_tokens=1, model="scripted")
    assert [entry["model"] for entry in report.entries(ledger())] == ["scripted"] * 6


def test_a_server_that_lists_no_models_grows_all_the_same() -> None:
    body = {"id": "c", "model": "org/m", "choices": [{"index": 0, "text": " y", "finish_reason": "length"}]}
    usage = {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    frames = stream(f"data: {json.dumps({**body, **usage})}\n\n".encode(), DONE)
    with Player([frames], {"/models": whole({"error": {"message": "no"}}, "404 Not Found")}) as server:
        with Client(server.base, "k" * 20) as client:
            loom = Loom(SIX, client=client, max_tokens=1)
            loom.grow(loom.roots[0])
        [sent] = server.requests
    assert "model" not in json.loads(sent.body)
    assert [entry["model"] for entry in report.entries(ledger())] == ["org/m"]


def test_a_refused_growth_keeps_the_tree(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom("Once", client=client)
        with pytest.raises(InvalidRequest, match="n"):
            loom.grow(loom.roots[0], 99)
        with pytest.raises(AcsError):
            loom.grow(loom.roots[0], model="nobody")
        assert len(loom.roots) == 1


def test_without_a_client_the_environment_s_grows_it(
    scripted_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    loom = Loom(SIX, max_tokens=2, model="scripted")
    for name in ("ACS_API_BASE", "ACS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AcsError, match="Set ACS_API_BASE and ACS_API_KEY"):
        loom.grow(loom.roots[0])
    monkeypatch.setenv("ACS_API_BASE", scripted_server.base)
    monkeypatch.setenv("ACS_API_KEY", scripted_server.key)
    [grown] = loom.grow(loom.roots[0])
    [again] = asyncio.run(loom.grow_async(grown))
    assert loom.node(again).parent == grown
    loom.expand(again, lambda node: 0.0, requests=1, width=2)
    assert len(loom.children(again)) == 2


def test_a_client_of_either_kind_grows_both_ways(scripted_server: Running) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, max_tokens=2)
        [first] = asyncio.run(loom.grow_async(loom.roots[0]))
    loom.client = AsyncClient(scripted_server.base, scripted_server.key, meter=None)
    loom.grow(first)
    assert len(loom.nodes) == 3


@pytest.fixture
def loom() -> Loom:
    made = Loom("The end", model="m", temperature=0.5)
    (root,) = made.roots
    session = made.session
    session.apply([ev.RunOpened("r", {"prompt": "The end", "model": "m", "seed": 3, "logprobs": 2})])
    session.apply([ev.Served("r", "M-1")])
    for i, (tokens, logprobs) in enumerate([((" a", " b"), (-1.0, -6.0)), ((" a", " c"), (-1.0, -0.25))]):
        tops = tuple({t: p, " z": -0.5} for t, p in zip(tokens, logprobs, strict=True))
        session.apply([ev.NodeOpened(f"r.{i}", "r", root, i)])
        session.apply([ev.TokensArrived(f"r.{i}", "".join(tokens), tokens, logprobs, tops)])
        session.apply([ev.Finished(f"r.{i}", ("length", "stop")[i])])
    session.apply([ev.RunClosed("r", "done")])
    made.new_child("r.1", " and more")
    return made


def test_path_logprob_counts_from_the_prompt_s_end(loom: Loom) -> None:
    (leaf,) = loom.children("r.1")
    assert loom.logprob(loom.roots[0]).total is None
    measured = loom.logprob("r.1")
    assert (measured.total, measured.tokens, measured.per_token, measured.complete) == (
        -1.25,
        2,
        -0.625,
        True,
    )
    assert (loom.logprob(leaf).total, loom.logprob(leaf).unknown) == (-1.25, 1)
    head = loom.split("r.0", token=1)
    (tail,) = loom.children(head)
    assert loom.logprob(tail).total == -7.0
    rows = loom.frame().set_index("node").loc[[head, tail]]
    assert list(rows["generated"]) == [True, True]
    assert list(rows["model"]) == ["M-1", "M-1"]
    assert list(rows["finish_reason"].fillna("")) == ["", "length"]


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ("logprob < -5", ["r.0"]),
        ("not logprob < -5", ["root", "r.1", "leaf"]),
        ('model == "M-1" and finish == "length"', ["r.0"]),
        ("finish = 'stop' or depth == 0", ["root", "r.1"]),
        ("total > -2", ["r.1"]),
        ("seed == 3 and (rank == 1 and token contains 'c')", ["r.1"]),
        ("path <= -7.0", ["r.0"]),
        ("generated == false", ["root", "leaf"]),
        ("model == none", ["root", "leaf"]),
        ('text contains "more"', ["leaf"]),
        ("bookmark", []),
        ("tokens", ["r.0", "r.1"]),
    ],
)
def test_search_by_predicate(loom: Loom, predicate: str, found: list[str]) -> None:
    names = {loom.roots[0]: "root", loom.children("r.1")[0]: "leaf"}
    assert [names.get(node, node) for node in loom.where(predicate)] == found


@pytest.mark.parametrize(
    "predicate",
    ["", "logprob <", "logprob < -5 and", "(tokens > 1", "tokens > 1)", "__import__('os')", "a.b == 1", "x == 1",
     "logprob < y", "and", "not " * 2000 + "tokens", "(" * 2000, 'text == "open', "tokens > 1 1"],
)  # fmt: skip
def test_a_predicate_that_cannot_be_read_is_one_line(loom: Loom, predicate: str) -> None:
    with pytest.raises(InvalidRequest) as told:
        loom.where(predicate)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("predicate", "line"),
    [
        ("logprobs_ < -5", "logprobs_ is nothing a node has. Did you mean logprobs?"),
        ("finished == 'x'", "Did you mean finish?"),
        ("zzz == 1", "it can be token, logprob, surprisal"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(loom: Loom, predicate: str, line: str) -> None:
    with pytest.raises(InvalidRequest) as told:
        loom.where(predicate)
    assert line in told.value.message


def test_the_help_for_where_names_all_that_can_be_asked(loom: Loom) -> None:
    shown, known = topics.text("where")
    assert known
    assert all(re.search(rf"\b{name}\b", shown) for name in [*TOKEN_NAMES, *NODE_NAMES, *OPERATORS])
    examples = re.findall(r"^    loom\.where\((['\"])(.+)\1\)", shown, re.MULTILINE)
    assert len(examples) >= 3
    for _, predicate in examples:
        assert set(loom.where(predicate)) <= set(loom.nodes)
    assert "%acs help where" in (Loom.where.__doc__ or "")


def test_search_by_text_and_marks(loom: Loom) -> None:
    loom.mark("r.0", note="Interesting", tags=["good"], rating=0)
    assert loom.find("INTEREST") == loom.find("good") == ["r.0"]
    assert loom.find("INTEREST", case=True) == []
    assert loom.find(" and", within="r.0") == []
    assert loom.where("rating == 0 and tags contains 'good'") == ["r.0"]
    with pytest.raises(InvalidRequest, match="colour is no mark"):
        loom.mark("r.0", colour="red")
    loom.hoist("r.0")
    assert loom.hoisted == "r.0"
    loom.delete("r.0")
    assert (loom.hoisted, loom.find("good")) == (None, [])
    with pytest.raises(InvalidRequest, match="was deleted; undo"):
        loom.text("r.0")


def test_frames(loom: Loom) -> None:
    loom.mark("r.1", tags=["x"])
    frame = loom.frame()
    assert list(frame["node"]) == loom.nodes
    row = frame.set_index("node").loc["r.1"]
    assert (row["model"], row["path_logprob"], row["depth"], row["children"]) == ("M-1", -1.25, 1, 1)
    assert (row["finish_reason"], row["tags"], row["parent"]) == ("stop", ["x"], loom.roots[0])
    tokens = loom.tokens_frame()
    assert list(tokens["token"]) == [" a", " b", " a", " c"]
    assert tokens["rank"].tolist() == [2, 2, 2, 1]


# -- the file -------------------------------------------------------------------------------------


def test_kept_as_it_grows_and_opened_again(loom: Loom, tmp_path: Path) -> None:
    path = loom.keep(tmp_path / "a.loom")
    size = path.stat().st_size
    leaf = loom.new_child("r.0", " x")
    assert path.stat().st_size - size < 400  # a change costs itself
    loom.delete("r.1")
    loom.undo()
    assert read(path).state() == loom.session.state()
    loom.close()
    with Loom.open(path) as again:
        assert again.nodes == loom.nodes
        assert again.redo() == "delete"
        assert again.undo() == "delete"
        again.undo()
        assert leaf not in again.nodes
    assert read(path).state() == again.session.state()
    assert not path.with_name("a.loom.lock").exists()


def test_a_closed_loom_takes_no_change_that_nothing_would_keep(
    scripted_server: Running, tmp_path: Path
) -> None:
    with client_of(scripted_server) as client:
        loom = Loom(SIX, client=client, max_tokens=6)
        (root,) = loom.roots
        loom.close()  # it was never kept: nothing changes
        loom.grow(root, 2)
        path = loom.keep(tmp_path / "a.loom")
        loom.close()
        before = loom.session.state()
        for change in (
            lambda: loom.grow(root, 2),
            lambda: loom.new_child(root, " x"),
            loom.undo,
            lambda: loom.multiverse(root, requests=1),
        ):
            with pytest.raises(InvalidRequest, match=r"closed.*Loom\.open\(.*a\.loom.*loom\.keep") as told:
                change()
            assert "\n" not in str(told.value)
        assert loom.session.state() == before == read(path).state()
        assert "does not keep it any more" in loom.trouble
        other = loom.keep(tmp_path / "b.loom")
        loom.grow(root, 1)
        assert loom.trouble == ""
        loom.close()
        assert read(other).state() == loom.session.state() != before


def test_a_lock_goes_with_whoever_had_it(tmp_path: Path) -> None:
    path, lock = tmp_path / "a.loom", tmp_path / "a.loom.lock"
    loom = Loom("text")
    loom.keep(path)
    assert lock.exists()
    del loom  # nobody has it any more
    gc.collect()
    assert not lock.exists()
    code = f"from acs_jupyter import Loom; loom = Loom.open({str(path)!r}); print('open', flush=True)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert not lock.exists()
    killed = subprocess.Popen(
        [sys.executable, "-c", f"{code}; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert killed.stdout is not None
    assert killed.stdout.readline() == b"open\n"
    with pytest.raises(InvalidRequest, match=f"by process {killed.pid}"):
        Loom.open(path)
    killed.kill()
    killed.communicate()
    assert lock.exists(), "it stays, and holds nothing"
    with Loom.open(path) as again:
        assert again.own_text(again.roots[0]) == "text"
    assert not lock.exists()


def test_a_line_without_its_end_is_cut_off(loom: Loom, tmp_path: Path) -> None:
    path = loom.keep(tmp_path / "a.loom")
    loom.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'[1.0,{"type":"Revised","wha')
    assert read(path).state() == loom.session.state()
    file = LoomFile.open(path)
    assert file.cut == 27
    file.close()
    assert path.read_bytes() == whole
    path.write_bytes(whole + b'[1.0,{"type":"Nonsense"}]\n')
    with pytest.raises(InvalidRequest, match="not a session event"):
        Loom.open(path)
    path.write_bytes(b"")
    with pytest.raises(InvalidRequest, match="not a saved session"):
        Loom.open(path)


def test_a_run_that_was_open_is_closed_in_the_file_too(loom: Loom, tmp_path: Path) -> None:
    path = loom.keep(tmp_path / "a.loom")
    loom.session.apply([ev.RunOpened("q", {"prompt": ""}), ev.NodeOpened("q.0", "q", "r.0", 0)])
    loom.session.apply([ev.TokensArrived("q.0", " half")])
    loom.close()
    with Loom.open(path) as again:
        assert again.session.runs["q"].outcome == "interrupted"
        assert again.own_text("q.0") == " half"
    assert b'"interrupted"' in path.read_bytes()


WRITER = """
import sys
from acs_jupyter import Loom
loom = Loom.open(sys.argv[1])
node = loom.roots[0]
print("ready", flush=True)
while True:
    node = loom.new_child(node, " word")
    print(node, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_writer_loses_nothing_it_had_told_and_another_is_told(loom: Loom, tmp_path: Path) -> None:
    path = loom.keep(tmp_path / "a.loom")
    loom.close()
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    assert child.stdout is not None
    try:
        told = [child.stdout.readline().strip() for _ in range(40)]
        assert told[0] == "ready"
        with pytest.raises(InvalidRequest, match=rf"written by process {child.pid}.*read_only=True"):
            Loom.open(path)
        looking = Loom.open(path, read_only=True)
        assert set(told[1:]) <= set(looking.nodes)
        with pytest.raises(InvalidRequest, match="opened to look at"):
            looking.undo()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        told += child.stdout.read().split()
        child.wait()
        child.stdout.close()
    with Loom.open(path) as again:
        assert set(told[1:]) <= set(again.nodes)


def test_a_file_in_use_is_told_of_in_this_process_too(loom: Loom, tmp_path: Path) -> None:
    path = loom.keep(tmp_path / "a.loom")
    with pytest.raises(InvalidRequest, match=r"this process: call loom\.close\(\)"):
        Loom.open(path)
    with pytest.raises(InvalidRequest, match="kept in"):
        loom.keep(tmp_path / "b.loom")
    loom.close()
    with pytest.raises(InvalidRequest, match="is there already"):
        loom.keep(path)
    with pytest.raises(InvalidRequest, match="no file"):
        Loom.open(tmp_path / "none.loom")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_a_full_disk_is_told_and_made_up_for(loom: Loom, tmp_path: Path, monkeypatch: Any) -> None:
    path = loom.keep(tmp_path / "a.loom")
    file = loom._file
    assert file is not None
    (good,), full = file._file, os.open("/dev/full", os.O_RDWR)
    file._file[:] = [full]
    loom.new_child("r.0", " x")
    assert "No space left" in loom.trouble
    file._file[:] = [good]
    os.close(full)
    loom.new_child("r.0", " y")
    assert loom.trouble == ""
    loom.close()
    assert read(path).state() == loom.session.state()


def test_what_a_loom_can_begin_with() -> None:
    session = Session()
    assert Loom(session).session is session
    assert Loom().nodes == []
    root = (loom := Loom()).new_root("late")
    assert loom.text(root) == "late"
    with pytest.raises(InvalidRequest, match="not with int"):
        Loom(3)  # type: ignore[arg-type]


@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(-30, 0)), max_size=4), min_size=1, max_size=6), st.data()
)
def test_a_path_s_logprob_is_the_direct_sum(nodes: list[list[float | None]], data: st.DataObject) -> None:
    loom = Loom("The prompt")
    (above,) = loom.roots
    session, flat = loom.session, []
    session.apply([ev.RunOpened("r", {"prompt": "The prompt"})])
    for i, logprobs in enumerate(nodes):
        tokens = tuple(f" {i}.{k}" for k in range(len(logprobs)))
        session.apply([ev.NodeOpened(f"r.{i}", "r", above, i)])
        session.apply(
            [ev.TokensArrived(f"r.{i}", "".join(tokens), tokens, tuple(logprobs), (None,) * len(tokens))]
        )
        above = f"r.{i}"
        flat += logprobs
    session.apply([ev.RunClosed("r", "done")])
    measured = loom.logprob(above)
    known = [value for value in flat if value is not None]
    begins = next((i for i, value in enumerate(flat) if value is not None), len(flat))
    assert measured.tokens == len(known)
    assert measured.total == (pytest.approx(sum(known)) if known else None)
    assert measured.per_token == (pytest.approx(sum(known) / len(known)) if known else None)
    if len(flat) > 1 and known:
        # Splitting changes no sum, and each piece of text without a logprob behind the first known one is told.
        node = data.draw(
            st.sampled_from([n for n in loom.nodes[1:] if len(loom.node(n).tokens) > 1] or [above])
        )
        if len(loom.node(node).tokens) > 1:
            loom.split(node, token=1)
        assert loom.logprob(loom.nodes[-1]).total == pytest.approx(sum(known))
    assert measured.unknown <= len(flat) - begins + sum(1 for v in flat[:begins] if v is None)
