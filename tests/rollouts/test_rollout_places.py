"""Where a rollout's files lie: folders that are changed or cannot be written, and two files of equal requests."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import Client, Rollout, errors, rollout
from acs_jupyter.rollouts.run import rollout_async

if TYPE_CHECKING:
    pass

FIELDS: dict[str, Any] = {"max_tokens": 3, "temperature": 0, "progress": False, "starts": 0}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    made = tmp_path / "a", tmp_path / "b"
    for folder in made:
        folder.mkdir()
    monkeypatch.chdir(made[0])
    return made


@pytest.mark.parametrize("name", ["run.db", None])
def test_a_rollout_stays_in_the_folder_it_was_begun_in(
    client: Client, folders: tuple[Path, Path], name: str | None
) -> None:
    here, other = folders
    os.chdir(other)
    theirs = rollout(["theirs"], client=client, into="run.db", **FIELDS)
    os.chdir(here)
    mine = rollout(["mine", "me"], client=client, into=name, cache="kept.db", bg=True, **FIELDS)
    read = Rollout(mine.path.name)
    os.chdir(other)
    mine.wait()
    for each in (mine, read):
        assert each.frame().prompt.tolist() == ["mine", "me"]
    assert mine.path.parent == here
    assert repr(read).startswith(
        f"Rollout({read.path.name!r}:"
    )  # no folder of the machine stands in a notebook
    assert sorted(os.listdir(other)) == ["run.db"]
    assert sorted(os.listdir(here)) == sorted(["kept.db", mine.path.name])
    assert theirs.frame().prompt.tolist() == ["theirs"]


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing can be made or changed, as on a disk that is mounted to be read."""
    opened, asked = os.open, os.access

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and asked(path, mode))


def test_a_finished_rollout_that_cannot_be_written_is_called_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rollout(["a", "b"], client=client, into="run.db", **FIELDS)
    read_only(monkeypatch)
    again = rollout(["a", "b"], client=client, into="run.db", **FIELDS)
    assert again.outcome == "done"
    assert again.frame().equals(made.frame())
    assert asyncio.run(rollout_async(["a", "b"], client=client, into="run.db", **FIELDS)).done
    with pytest.raises(errors.InvalidRequest, match="another plan"):
        rollout(["a", "c"], client=client, into="run.db", **FIELDS)
    with pytest.raises(errors.InvalidRequest, match="cannot be written"):
        rollout(["a"], client=client, into="new.db", **FIELDS)


def test_parquet_at_a_place_that_cannot_be_written_is_one_line(client: Client, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    made = rollout(["a"], client=client, into="run.db", **FIELDS)
    for place in (tmp_path / "none" / "x.parquet", Path("run.db") / "x.parquet"):
        with pytest.raises(errors.InvalidRequest, match=r"x\.parquet cannot be written") as caught:
            made.to_parquet(place)
        assert ".part" not in str(caught.value)


def test_equal_requests_of_two_files_have_ids_of_their_own(client: Client) -> None:
    ids = [
        each.request_id
        for name in ("one.db", "two.db")
        for each in rollout(["a", "b"], client=client, into=name, **FIELDS).completions()
    ]
    assert len(set(ids)) == 4
    assert all(str(each).startswith("acsj-") and len(str(each)) < 32 for each in ids)
    runs = [str(each).split("-")[1] for each in ids]
    assert runs[:2] == runs[2:]
    marks = [str(each).split("-")[2] for each in ids]
    assert marks[0] == marks[1] != marks[2] == marks[3]


def test_an_attempt_has_one_id_whenever_the_rollout_goes_on(client: Client) -> None:
    begun = rollout(["a", "b"], client=client, into="run.db", budget=6, **FIELDS)
    assert begun.outcome == "budget"
    ids = [str(each.request_id) for each in begun.completions()]
    more = [
        str(each.request_id)
        for each in rollout(["a", "b"], client=client, into="run.db", **FIELDS).completions()
    ]
    assert more[: len(ids)] == ids
    assert len({each.split("-")[2] for each in more}) == 1
