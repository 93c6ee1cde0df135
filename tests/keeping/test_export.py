"""``acs-jupyter export``: what a saved notebook keeps, in forms that others read, without a kernel."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from acs_jupyter import Completion, load
from acs_jupyter.cli import main
from acs_jupyter.keeping.export import CHOICE_COLUMNS, TOKEN_COLUMNS
from acs_jupyter.keeping.record import KEY, pack_run
from tests import make_golden as golden

NAMES = ("logprobs_5", "plain", "batch_2_n_2")


def completion_of(name: str) -> Completion:
    return Completion(golden.session_of(golden.events_of(name)), golden.RUN)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return write_book(tmp_path / "x.ipynb")


def write_book(path: Path) -> Path:
    outputs = [
        {"output_type": "display_data", "data": {}, "metadata": {KEY: pack_run(one.session, one.run)}}
        for one in map(completion_of, NAMES)
    ]
    cells = [{"cell_type": "code", "metadata": {}, "source": "", "outputs": [each]} for each in outputs]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_jsonl_has_every_completion_whole(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(book), "--tokens"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kept = load(book)
    assert [row["completion"] for row in rows] == [1, 2, 3]
    assert [[c["text"] for c in row["choices"]] for row in rows] == [one.texts for one in kept]
    assert rows[0]["request"] == kept[0].request
    assert rows[0]["request_id"] == kept[0].request_id
    assert [t["top"] for t in rows[0]["choices"][0]["tokens"]] == [t.top for t in kept[0].tokens]
    assert rows[1]["choices"][0]["tokens"] == []


def test_csv_and_parquet_say_the_same(book: Path, tmp_path: Path) -> None:
    for tokens, columns in ((False, CHOICE_COLUMNS), (True, TOKEN_COLUMNS)):
        files = [tmp_path / f"{tokens}.{end}" for end in ("csv", "parquet")]
        for file in files:
            assert main(["export", str(book), "--to", str(file), *(["--tokens"] if tokens else [])]) == 0
        with files[0].open(encoding="utf-8", newline="") as read:
            rows = list(csv.DictReader(read))
        frame = pd.read_parquet(files[1])
        assert list(rows[0]) == list(frame.columns) == list(columns)
        text = "token" if tokens else "text"
        assert [row[text] for row in rows] == frame[text].tolist()
        assert frame[text].tolist()[0] == (load(book)[0].tokens[0].text if tokens else load(book)[0].text)
    assert json.loads(rows[0]["top"]) == dict(frame["top"][0])


def test_text_is_for_reading(book: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    assert main(["export", str(book), "--to", str(file)]) == 0
    first = load(book)[0]
    assert f"{first.prompt}{first.text}\n" in file.read_text("utf-8")
    assert "=== completion 3:4, " in file.read_text("utf-8")


def test_nothing_is_replaced_and_every_no_is_one_line(
    book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("mine")
    empty = tmp_path / "empty.ipynb"
    empty.write_text('{"cells": []}')
    tried: list[tuple[list[str], int, str]] = [
        ([str(book), "--to", str(there)], 2, "--overwrite replaces it"),
        ([str(book), "--to", str(tmp_path / "x.doc")], 2, "--form"),
        ([str(book), "--form", "parquet"], 2, "--to FILE.parquet"),
        ([str(book), "--form", "text", "--tokens"], 2, "text has none"),
        ([str(book), "--to", str(tmp_path / "no" / "x.csv")], 2, "cannot be written"),
        ([str(tmp_path / "none.ipynb")], 2, "Check the name"),
        ([str(there)], 2, "is not a notebook"),
        ([str(empty)], 1, "keeps no completion"),
    ]
    for words, code, told in tried:
        assert main(["export", *words]) == code, words
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == 1
        assert told in shown.err
    assert there.read_text() == "mine"
    assert main(["export", str(book), "--to", str(there), "--overwrite"]) == 0
    assert len(there.read_text().splitlines()) == 3
    assert sorted(tmp_path.glob("there*")) == [there]
