"""A loom's file that others touch: two names, gone, replaced, cut, poisoned, exported over, broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from acs_jupyter import Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.log.events import Change, Revised
from acs_jupyter.looms.file import read
from acs_jupyter.machine import whole_file

SECOND = """
import sys
from acs_jupyter import Loom
try:
    Loom.open(sys.argv[1])
except Exception as error:
    print(error)
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be moved or removed there")


def kept(path: Path) -> Loom:
    loom = Loom("root")
    loom.keep(path)
    return loom


def texts(loom: Loom) -> list[str]:
    return [loom.own_text(node) for node in loom.nodes]


@posix
@pytest.mark.parametrize("how", [os.symlink, os.link, os.rename])
def test_a_second_name_lets_no_second_writer_in(how: Callable[[Path, Path], None], tmp_path: Path) -> None:
    path, other = tmp_path / "a.loom", tmp_path / "b.loom"
    loom = kept(path)
    how(path, other)
    told = subprocess.run([sys.executable, "-c", SECOND, other], capture_output=True, text=True, check=True)
    assert "is being written" in told.stdout
    assert "read_only=True" in told.stdout
    with pytest.raises(InvalidRequest, match="is being written"):
        Loom.open(other)
    loom.new_root("more")
    loom.close()
    assert texts(Loom.open(path, read_only=True)) == ["root", "more"]


@posix
def test_a_lock_that_was_removed_by_hand_lets_no_second_writer_in(tmp_path: Path) -> None:
    loom = kept(tmp_path / "a.loom")
    (tmp_path / "a.loom.lock").unlink()
    with pytest.raises(InvalidRequest, match="is being written under another name"):
        Loom.open(tmp_path / "a.loom")
    loom.close()
    Loom.open(tmp_path / "a.loom").close()


@posix
def test_a_loom_whose_file_was_replaced_goes_on_in_another(tmp_path: Path) -> None:
    path = tmp_path / "a.loom"
    loom = kept(path)
    shutil.copy(path, tmp_path / "x")
    (tmp_path / "x").replace(path)
    loom.new_root("after")
    loom.keep(tmp_path / "b.loom")
    assert (loom.file, loom.trouble) == (tmp_path / "b.loom", "")
    loom.close()
    assert texts(Loom.open(tmp_path / "b.loom")) == ["root", "after"]
    Loom.open(path).close()  # nobody holds the first one any more


@posix
@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_file_that_is_gone_is_written_anew(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.loom"
    loom = kept(path)
    if how == "deleted":
        path.unlink()
    else:
        path.rename(tmp_path / "b.loom")
    loom.new_root("after")
    assert "written anew, whole" in loom.trouble
    loom.new_root("later")
    assert loom.trouble == ""
    with pytest.raises(InvalidRequest, match="is being written"):
        Loom.open(path)
    loom.close()
    assert texts(Loom.open(path)) == ["root", "after", "later"]
    if how == "moved":
        assert texts(Loom.open(tmp_path / "b.loom")) == ["root"]


@posix
@pytest.mark.parametrize("how", ["replaced", "truncated", "grown"])
def test_a_file_that_somebody_changed_is_left_alone_and_told(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.loom"
    loom = kept(path)
    if how == "replaced":
        shutil.copy(path, tmp_path / "x")
        (tmp_path / "x").replace(path)
    elif how == "truncated":
        os.truncate(path, path.stat().st_size - 10)
    else:
        with path.open("ab") as file:
            file.write(b"mine\n")
    there = path.read_bytes()
    loom.new_root("after")
    loom.new_root("later")
    assert "by somebody" in loom.trouble
    assert 'loom.keep("another.loom")' in loom.trouble
    assert path.read_bytes() == there
    loom.close()
    assert "by somebody" in loom.notes[-1]
    assert path.read_bytes() == there
    loom.keep(tmp_path / "b.loom")
    loom.new_root("last")
    assert loom.trouble == ""
    loom.close()
    assert texts(Loom.open(tmp_path / "b.loom")) == ["root", "after", "later", "last"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_forked_child_does_not_write_and_says_so(tmp_path: Path) -> None:
    loom = kept(tmp_path / "a.loom")
    child = os.fork()
    if child == 0:
        loom.new_root("child's")
        os._exit(0 if "forked" in loom.trouble else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loom.new_root("parent's")
    assert loom.trouble == ""
    loom.close()
    assert texts(Loom.open(tmp_path / "a.loom")) == ["root", "parent's"]


def test_half_a_surrogate_pair_is_refused_and_does_not_end_the_keeping(tmp_path: Path) -> None:
    loom = kept(tmp_path / "a.loom")
    (root,) = loom.roots
    for fields, name in (({"note": "x\ud83d"}, "The note"), ({"tags": ["\ud83d"]}, "A tag")):
        with pytest.raises(InvalidRequest, match=f"{name} holds half of a surrogate pair"):
            loom.mark(root, **fields)
    with pytest.raises(InvalidRequest, match="stop holds a lone surrogate"):
        loom.mark(root, sampling={"stop": ["\ud83d"]})
    loom.session.apply([Revised("mark", changes=(Change(root, "note", "x\ud83d"),))])  # by another way
    assert "surrogate" in loom.trouble
    loom.new_root("more")
    assert loom.trouble == ""
    loom.close()
    again = Loom.open(tmp_path / "a.loom", read_only=True)
    assert texts(again) == ["root", "more"]
    assert again.marks(root)["note"] == "x\ufffd"


@posix
def test_a_copy_is_not_written_over_a_file_that_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.loom"
    loom, other = kept(path), Loom("other")
    (tmp_path / "link").symlink_to(path)
    there = path.read_bytes()
    for each in (loom, other):
        for name in ("a.loom", "link"):
            with pytest.raises(InvalidRequest, match="A loom is kept in"):
                each.export(tmp_path / name, "ours")
    assert path.read_bytes() == there
    loom.close()
    other.export(path)
    assert texts(Loom.load(path)) == ["other"]


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    loom = Loom("root")
    loom.export(path, "service")
    there = path.read_bytes()
    loom.new_root("more")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidRequest, match="cannot be written: No space left"):
        loom.export(path, "service")
    assert path.read_bytes() == there
    assert os.listdir(tmp_path) == ["a.json"]


@posix
def test_a_replaced_file_keeps_its_rights_and_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    whole_file.write(link, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777, link.is_symlink()) == (b"new", 0o640, True)


def test_a_broken_line_costs_itself_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.loom"
    loom = kept(path)
    gone = loom.new_root("gone")
    loom.new_child(gone, "below")
    loom.new_root("stays")
    loom.close()
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b'"gone"' in line)
    lines[place] = b"\x00garbage\n"
    path.write_bytes(b"".join(lines))
    for reader in (Loom.open, Loom.load):
        with pytest.raises(InvalidRequest, match=r'Loom\.load\(path, form="ours"\) reads the rest'):
            reader(path)
    rest = Loom.load(path, form="ours")
    assert texts(rest) == ["root", "stays"]
    assert rest.notes == [
        f"2 lines could not be read or hung on one that could not; left out: line {place + 1}, {place + 2}."
    ]
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(lines[:place]))
    assert texts(Loom.load(path)) == ["root"]
    with pytest.raises(InvalidRequest, match="No line of the file"):
        Loom.load(__file__, form="ours")
    assert read(path).roots == loom.session.roots[:1]


def test_a_copy_has_the_rights_of_what_it_replaces_else_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "own.md").write_text("before")
    (tmp_path / "own.md").chmod(0o640)
    loom = Loom("x")
    for name in ("own.md", "new.md"):
        loom.export(tmp_path / name)
    rights = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert rights == {"plain": rights["plain"], "own.md": 0o640, "new.md": rights["plain"]}
