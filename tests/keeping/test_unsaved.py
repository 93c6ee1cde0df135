"""What a killed kernel leaves: the files, whose they are, and a real kernel killed in mid-run."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acs_jupyter import Session, load, recover
from acs_jupyter.keeping import unsaved as module
from acs_jupyter.keeping.copies import Copies
from acs_jupyter.keeping.copying import Copier
from acs_jupyter.keeping.record import record_of
from acs_jupyter.keeping.recovering import command, hint
from acs_jupyter.keeping.unsaved import Unsaved, left
from acs_jupyter.log import events as ev
from acs_jupyter.wire import CompletionRequest
from tests.support.kernels import Kernel
from tests.support.servers import ROOT, Running

NASTY = "a\r\nb\x00\u202e{{x}} %s </pre> \U0001f98a "


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACS_UNSAVED", str(tmp_path / "kept" / "unsaved"))
    return tmp_path / "kept" / "unsaved"


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel but this process counts as gone; so does this one."""
    monkeypatch.setattr(module, "is_gone", lambda process: True)


def opened(run: str, **more: Any) -> list[ev.AnyEvent]:
    request = CompletionRequest(prompt=f"prompt of {run}", model="m", logprobs=1, stream=True)
    return ev.opening(run, request, **more)


def came(node: str, *tokens: str) -> ev.TokensArrived:
    tops = tuple({token: -0.5, "other": -1.5} for token in tokens)
    return ev.TokensArrived(node, "".join(tokens), tokens, (-0.5,) * len(tokens), tops)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def gone(path: Path) -> bool:
    return not path.exists()


@pytest.fixture(autouse=True)
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


@pytest.mark.usefixtures("dead")
def test_what_came_is_in_a_private_file_at_once_and_reads_back_whole(folder: Path) -> None:
    session = Session()
    Unsaved(session, "r", notebook="x.ipynb", cell="[3]")
    assert not folder.exists()  # nothing was sent yet
    session.apply(opened("r"))
    session.apply([came("r.0", NASTY, " two")])
    (path,) = files(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (one,) = left()
    assert one.about == {"notebook": "x.ipynb", "cell": "[3]", "path": ""}
    (kept,) = recover()
    assert (kept.text, kept.prompt, kept.outcome) == (NASTY + " two", "prompt of r", "interrupted")
    assert [token.logprob for token in kept.tokens] == [-0.5, -0.5]
    assert kept.tokens[1].top == {" two": -0.5, "other": -1.5}
    session.apply([came("r.0", " three")])
    with path.open("ab") as file:  # killed in the middle of a line
        file.write(b'[1.0, {"type": "Tok')
    assert recover()[0].text == NASTY + " two three"


@pytest.mark.usefixtures("dead")
def test_a_file_holds_its_run_and_branches_and_goes_with_a_whole_copy(folder: Path) -> None:
    session = Session()
    session.apply([*opened("before"), came("before.0", " old"), ev.RunClosed("before", "done")])
    mine = Unsaved(session, "r")
    session.apply(opened("r", parents=["before.0"], added=" and"))
    session.apply(opened("stranger"))
    session.apply([came("r.0", " a", " b"), came("stranger.0", "not mine")])
    session.apply(opened("branch", parents=["r.p0"], origin=ev.Origin("r.0", 1, "other")))
    session.apply([came("branch.0", " c"), ev.RunClosed("r", "done")])
    (kept,) = recover()
    assert kept.session.text_to("r.0") == "prompt of before old and a b"
    assert [branch.text for branch in kept.branches] == [" aother c"]
    assert set(kept.session.runs) == {"r", "branch"}

    assert not mine.saved(len(session))  # a branch is still coming
    place = len(session)
    session.apply([came("branch.0", " d"), ev.RunClosed("branch", "done")])
    assert not mine.saved(place)  # drawn before the branch ended
    (path,) = files(folder)
    assert mine.saved(len(session))
    assert gone(path)
    session.apply([came("stranger.0", "!"), ev.RunClosed("stranger", "done")])
    assert files(folder) == []

    # A branch that is begun later has a file of its own, with all that it grew from.
    session.apply(opened("later", parents=["r.p0"], origin=ev.Origin("branch.0", 2)))
    session.apply([came("later.0", " e")])
    (kept,) = recover()
    assert [branch.text for branch in kept.branches] == [" aother c d"]
    assert [branch.text for branch in kept.branches[0].branches] == [" aother e"]
    session.apply([ev.RunClosed("later", "done")])
    (path,) = files(folder)
    assert mine.saved(len(session))
    assert gone(path)


@pytest.mark.usefixtures("dead")
def test_a_copy_that_nobody_confirmed_leaves_the_file(folder: Path) -> None:
    session = Session()
    mine = Unsaved(session, "r")
    copies = Copies(mine.saved)
    session.apply([*opened("r"), came("r.0", " a"), ev.RunClosed("r", "done")])
    early = copies.name(len(session))
    session.apply(opened("branch", parents=["r.p0"], origin=ev.Origin("r.0", 1)))
    session.apply([came("branch.0", " b"), ev.RunClosed("branch", "done")])
    whole = copies.name(len(session))
    copies.confirm("")  # a page is there, and shows no copy
    copies.confirm("0000-7")  # one of a kernel before
    copies.confirm(early)  # it lacks the branch
    (path,) = files(folder)  # one file: what came later was added to it
    (kept,) = recover()
    assert [branch.text for branch in kept.branches] == [" a b"]
    copies.confirm(whole)
    assert gone(path)


def test_without_a_page_an_orderly_end_counts_what_was_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*, page: bool = False, later: bool = False, shown: bool = True, doubted: bool = False) -> int:
        exit_ = module._Exit()
        monkeypatch.setattr(module, "_exit", exit_)
        session = Session()
        mine = Unsaved(session, "r")
        session.apply([*opened("r"), came("r.0", " a"), ev.RunClosed("r", "done")])
        if shown:
            mine.shown(len(session))
        if doubted:
            mine.doubted()
        if later:
            session.apply(opened("branch", parents=["r.p0"], origin=ev.Origin("r.0", 1)))
        if page:
            module.page_seen()
        exit_.leave()
        left_there = files(folder)
        for path in left_there:
            path.unlink()
        return len(left_there)

    assert ended() == 0
    assert ended(page=True) == 1  # a page that was closed may have seen nothing of it
    assert ended(later=True) == 1
    assert ended(doubted=True) == 1  # a page whose kernel is restarted in mid-run, and was not heard before
    assert ended(shown=False) == 1  # written by a thread, after its cell: no client collects that


def test_what_the_notebooks_file_holds_by_now_is_not_offered_again(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "is_gone", lambda process: True)
    book = tmp_path / "story.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(book))
    session = Session()
    for run in ("saved", "longer", "lost"):
        Unsaved(session, run, notebook=book.name, cell="[1]")
        session.apply([*opened(run), came(f"{run}.0", " a")])
        if run != "longer":
            session.apply([ev.RunClosed(run, "done")])
    outputs = [{"metadata": record_of(session, run)} for run in ("saved", "longer")]
    book.write_text(json.dumps({"cells": [{"outputs": outputs}]}))
    session.apply([came("longer.0", " and more")])
    assert hint().startswith("note: 2 texts")
    kept: list[Any] = []
    command(SimpleNamespace(kernel=None), "", kept.append)
    assert [one.text for one in kept] == [" a and more", " a"]
    assert files(folder) == []
    book.write_text("damaged")
    assert hint() == ""


@pytest.mark.usefixtures("dead")
def test_each_notebook_is_told_of_its_own_texts_alone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    for run, path in (
        ("mine", "/a/story.ipynb"),
        ("twin", "/b/story.ipynb"),
        ("other", "/a/other.ipynb"),
        ("lost", ""),
    ):
        monkeypatch.setenv("JPY_SESSION_NAME", path)
        Unsaved(session, run, notebook=path.rpartition("/")[2], cell="[1]")
        session.apply([*opened(run), came(f"{run}.0", f" {run}")])
    kept: list[Any] = []

    def shown(path: str, rest: str = "") -> list[str]:
        monkeypatch.setenv("JPY_SESSION_NAME", path)
        command(SimpleNamespace(kernel=None), rest, kept.append)
        return capsys.readouterr().out.splitlines()

    monkeypatch.setenv("JPY_SESSION_NAME", "/a/new.ipynb")
    assert hint() == ""
    assert shown("/a/new.ipynb") == [
        "4 texts of /a/story.ipynb, /b/story.ipynb, an unknown notebook, other.ipynb: "
        "%acs recover all shows them here."
    ]
    monkeypatch.setenv("JPY_SESSION_NAME", "/a/story.ipynb")
    assert hint() == "note: 1 text of a kernel that ended early is kept: %acs recover puts it here."
    told = shown("/a/story.ipynb")
    assert [one.text for one in kept] == [" mine"]
    assert (told[0], told[-1]) == (
        "from story.ipynb [1]:",
        "3 texts of /b/story.ipynb, an unknown notebook, other.ipynb: %acs recover all shows them here.",
    )
    assert shown("/a/other.ipynb", "forget") == [
        "Removed: 1 text.",
        "2 texts of an unknown notebook, story.ipynb: %acs recover forget all removes them.",
    ]
    assert shown("/a/other.ipynb", "forget")[0] == "There is nothing to remove."
    # Where it is not known which notebook this is, what is of none is this one's, by that name.
    monkeypatch.setattr(sys, "argv", [""])
    monkeypatch.setenv("JPY_SESSION_NAME", "")
    assert hint() == (
        "note: 1 text of an unknown notebook, whose kernel ended early, is kept: %acs recover puts it here."
    )
    assert "from an unknown notebook [1]:" in shown("", "all")
    assert files(folder) == []


def test_files_of_kernels_that_run_are_theirs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    Unsaved(session, "r")
    session.apply(opened("r"))
    assert left() == []  # this process lives
    monkeypatch.setattr(module, "is_gone", lambda process: None)  # of another machine
    assert left() == []
    monkeypatch.setattr(module, "SILENT", -1.0)  # ... that has written nothing for a while
    assert len(left()) == 1
    (folder / "0-junk.jsonl").write_text("junk\n")
    (folder / "1-junk.jsonl").write_text('{"kernel": 3}\n[]\n')
    (folder / "2-junk.jsonl").write_bytes(b"")
    assert [one.path.name[:6] for one in left()[:2]] == [
        "0-junk",
        "1-junk",
    ]  # damaged, and not kept silent about
    assert len(left()) == 3


def test_a_damaged_file_is_one_line_and_those_after_it_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    Unsaved(session, "r")
    session.apply([*opened("r"), came("r.0", " all of it")])
    monkeypatch.setattr(module, "is_gone", lambda process: True)
    (good,) = files(folder)
    header, *events = good.read_bytes().splitlines(keepends=True)
    broken = {
        "0-deep": b"[" * 200_000 + b"\n[]\n",
        "0-kernel": header.replace(b'"kernel"', b'"nothing"') + b"".join(events),
        "0-model": b"".join([header, *events]).replace(b'"request":{', b'"request":{"model":[1],'),
        "0-torn": header + events[0][: len(events[0]) // 2] + b"\n" + b"".join(events[1:]),
    }
    for name, data in broken.items():
        (folder / f"{name}.jsonl").write_bytes(data)
    kept: list[Any] = []
    command(SimpleNamespace(kernel=None), "all", kept.append)
    told = capsys.readouterr().out.splitlines()
    assert not good.exists()
    for name in ("0-deep", "0-torn"):
        (line,) = [line for line in told if name in line]
        assert line.endswith("cannot be shown: it is damaged. It is left where it is.")
    # What can be shown nevertheless is shown.
    assert [path.stem for path in files(folder)] == ["0-deep", "0-torn"]
    assert [one.text for one in kept] == [" all of it"] * 3
    assert not [line for line in told if line.startswith("Nothing was left")]
    command(SimpleNamespace(kernel=None), "forget  all", kept.append)
    assert files(folder) == []


def test_a_file_that_was_given_up_goes_when_the_copy_is_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    mine = Unsaved(session, "r")
    session.apply([*opened("r"), came("r.0", " a")])
    (kept,) = files(folder)

    def full(file: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write_all", full)
    session.apply([came("r.0", " b"), ev.RunClosed("r", "done")])
    assert kept.exists()
    assert mine.saved(len(session))
    assert gone(kept)


def test_off_means_off_and_a_full_disk_stops_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ACS_UNSAVED", "off")
    session = Session()
    off = Unsaved(session, "r")
    session.apply([*opened("r"), ev.RunClosed("r", "done")])
    off.saved(len(session))
    assert (left(), folder.exists()) == ([], False)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")
    monkeypatch.setenv("ACS_UNSAVED", str(folder))
    Unsaved(session, "s")
    session.apply([*opened("s"), came("s.0", " all")])
    session.apply([came("s.0", " of it")])
    assert session.nodes["s.0"].text == " all of it"
    assert len([line for line in caplog.messages if "not kept beside the notebook" in line]) == 1


def test_copies_are_spaced_while_more_is_coming_and_the_last_is_certain() -> None:
    drawn: list[int] = []
    ended, coming = [0], [True]
    copier = Copier(lambda: drawn.append(ended[0]), lambda: coming[0], every=30.0)

    def end() -> None:
        ended[0] += 1
        copier.soon()

    def until(count: int) -> None:
        stop = time.monotonic() + 10
        while len(drawn) < count and time.monotonic() < stop:
            time.sleep(0.005)
        assert len(drawn) == count

    end()
    until(1)  # the first at once
    for _ in range(10):
        end()
    assert len(drawn) == 1
    coming[0] = False
    end()
    until(2)
    assert drawn[-1] == 12
    end()  # nothing comes any more: no need to wait
    until(3)
    assert drawn[-1] == 13


def test_a_drawing_that_breaks_does_not_end_the_next(recwarn: Any) -> None:
    drawn = threading.Event()
    broken = [True]

    def save() -> None:
        if broken.pop() if broken else False:
            raise RuntimeError("once")
        drawn.set()

    copier = Copier(save, lambda: False)
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        copier.soon()
        end = time.monotonic() + 10
        while not drawn.is_set() and time.monotonic() < end:
            time.sleep(0.01)
            copier.soon()
    finally:
        threading.excepthook = hook
    assert drawn.is_set()


CELLS = (
    "%load_ext acs_jupyter",
    "%%acs --max-tokens 8 -o whole\n#scripted rate=0\nsaved",
    "%%acs --bg --max-tokens 3000 --logprobs 2 -o r\n#scripted rate=300\nOnce\n",
    "%acs recover",
    "print(_acs.outcome, len(_acs.tokens), _acs.tokens[0].top is not None)",
    "import acs_jupyter; print(acs_jupyter.recover())",
    "%acs recover tomorrow",
)


def test_a_kernel_killed_in_mid_run_leaves_what_it_had_received(
    folder: Path, scripted_server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACS_API_BASE", scripted_server.base)
    monkeypatch.setenv("ACS_API_KEY", scripted_server.key)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JPY_SESSION_NAME", "story.ipynb")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    with Kernel(*CELLS) as first:
        first.run(0)
        first.run(1)
        first.run(2)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if any(path.read_bytes().count(b"TokensArrived") > 250 for path in files(folder)):
                break  # no more than that many tokens, since arrivals are merged
            time.sleep(0.05)
        first.kill()
    raw = b"".join(path.read_bytes() for path in files(folder)).decode()
    assert scripted_server.key not in raw
    assert scripted_server.key[-12:] not in raw
    command = [sys.executable, "-c", "from acs_jupyter import recover; print(repr(recover()[-1].text))"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with Kernel(*CELLS) as second:
        assert "kernel that ended early" in second.run(0)  # before anything is run
        assert "kernel that ended early" not in second.run(1)
        assert "acs recover takes nothing, all, forget or forget all" in second.run(6)
        shown = second.run(3)
        assert "from story.ipynb [3]:" in shown
        copy = second.book.cells[3].outputs[-1]
        assert repr(copy.data["text/plain"]) == told
        outcome, count, known = second.run(4).split()
        assert (outcome, known) == ("interrupted", "True")
        assert int(count) > 200
        assert second.run(5).strip() == "[]"
        second.book.cells = second.book.cells[3:4]
        (tmp_path / "story.ipynb").write_text(json.dumps(second.book))
    found = load(tmp_path / "story.ipynb")[-1]
    assert (repr(found.text), found.outcome, len(found.tokens)) == (told, "interrupted", int(count))


def test_a_headless_kernel_that_ends_in_order_leaves_nothing(
    folder: Path, scripted_server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACS_API_BASE", scripted_server.base)
    monkeypatch.setenv("ACS_API_KEY", scripted_server.key)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    page = "from acs_jupyter.keeping.unsaved import page_seen; page_seen()"
    for cells, kept in ((CELLS[:2], 0), ((*CELLS[:2], page), 1)):
        with Kernel(*cells) as kernel:
            for index in range(len(cells)):
                kernel.run(index)
            assert len(files(folder)) == 1  # while it runs nobody has said that it arrived
        assert len(files(folder)) == kept
