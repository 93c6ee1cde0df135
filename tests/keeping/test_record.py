"""Records: packed, kept in a notebook, read back without a kernel, stripped on request."""

from __future__ import annotations

import json
import zlib
from base64 import b85encode
from pathlib import Path

import nbformat
import pytest

from acs_jupyter import Client, Completion, Session, load
from acs_jupyter.cli import main
from acs_jupyter.keeping.record import KEY, pack_run, unpack_run
from acs_jupyter.keeping.strip import WIDGET, strip
from acs_jupyter.keeping.varints import read_varints, varints
from acs_jupyter.log import events as ev
from acs_jupyter.log.branching import plan
from acs_jupyter.log.intents import Resample
from tests import make_golden as golden
from tests.support.player import Player, stream


def completion_of(name: str) -> Completion:
    return Completion(golden.session_of(golden.events_of(name)), golden.RUN)


@pytest.mark.parametrize("name", golden.names())
def test_every_recorded_run_comes_back(name: str) -> None:
    was = completion_of(name)
    record = json.loads(json.dumps(pack_run(was.session, was.run)))
    now = unpack_run(record)
    assert now.texts == was.texts
    assert now.request == was.request
    for field in (
        "model",
        "id",
        "request_id",
        "usage",
        "usage_source",
        "outcome",
        "error",
        "headers",
        "clamp",
    ):
        assert getattr(now, field) == getattr(was, field), field
    for mine, theirs in zip(now.choices, was.choices, strict=True):
        assert (mine.prompt, mine.finish_reason, mine.stop_reason) == (
            theirs.prompt,
            theirs.finish_reason,
            theirs.stop_reason,
        )
        assert [t.text for t in mine.tokens] == [t.text for t in theirs.tokens]
        for a, b in zip(mine.tokens, theirs.tokens, strict=True):
            assert a.logprob == (None if b.logprob is None else pytest.approx(b.logprob, abs=1e-4))
            assert a.top == (None if b.top is None else pytest.approx(b.top, abs=1e-4))
            assert list(a.top or ()) == list(b.top or ())


def test_a_record_is_small() -> None:
    was = completion_of("stream_continuous_logprobs_5")
    size = len(json.dumps(pack_run(was.session, was.run)))
    assert size < 600 + 64 * 60


def test_broken_records_are_told() -> None:
    for broken in (
        {},
        {"version": 9},
        {"version": 1, "record": "!!"},
        {"version": 1, "record": "abcde"},
        None,
    ):
        with pytest.raises(ValueError, match="record"):
            unpack_run(broken)  # type: ignore[arg-type]


def notebook(path: Path, records: list[object]) -> Path:
    book = nbformat.v4.new_notebook(metadata={"widgets": {"application/vnd.jupyter.widget-state+json": {}}})
    for record in records:
        view = nbformat.v4.new_output("display_data", {WIDGET: {"model_id": "x"}, "text/plain": ""})
        copy = nbformat.v4.new_output(
            "display_data", {"text/plain": " Paris", "text/html": "<pre> Paris</pre>"}, metadata={KEY: record}
        )
        book.cells.append(nbformat.v4.new_code_cell("%%acs\nx", outputs=[view, copy]))
    nbformat.write(book, path)
    return path


def test_a_notebook_gives_its_completions_back(tmp_path: Path) -> None:
    runs = [completion_of("logprobs_5"), completion_of("stream_batch_n")]
    path = notebook(tmp_path / "x.ipynb", [pack_run(run.session, run.run) for run in runs])
    assert [completion.texts for completion in load(path)] == [run.texts for run in runs]


def test_a_run_in_several_outputs_is_listed_once_with_most_of_it(tmp_path: Path) -> None:
    first, other = completion_of("logprobs_5"), completion_of("stream_batch_n")
    grown = first.session.copy()
    run = next(iter(grown.runs))
    made = plan(grown, Resample(grown.runs[run].nodes[0], 0))
    grown.apply(ev.opening("b", made.request, parents=made.parents, origin=made.origin))
    grown.apply([ev.RunClosed("b", "done")])
    early, later = pack_run(first.session, run), pack_run(grown, run)
    path = notebook(tmp_path / "x.ipynb", [early, pack_run(other.session, other.run), later, early])
    assert [one.run for one in load(path)] == [run, "b", other.run]


def test_what_is_no_notebook_or_holds_a_broken_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"x\.ipynb is not a notebook"):
        load(path)
    with pytest.raises(ValueError, match="not a notebook"):
        strip(path)
    notebook(path, [{"version": 1, "record": "nonsense"}])
    with pytest.raises(ValueError, match=r"x\.ipynb, cell 1"):
        load(path)


def test_stripping_leaves_a_valid_notebook_with_its_texts(tmp_path: Path) -> None:
    run = completion_of("logprobs_5")
    path = notebook(tmp_path / "x.ipynb", [pack_run(run.session, run.run)])
    told = strip(path)
    assert (told.widgets, told.records) == (1, 0)
    assert told.after < told.before
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    assert "widgets" not in book.metadata
    assert [set(output.data) for output in book.cells[0].outputs] == [{"text/plain", "text/html"}]
    assert load(path)[0].text == run.text
    assert strip(path, records=True).records == 1
    assert load(path) == []
    assert nbformat.read(path, 4).cells[0].outputs[0].data["text/plain"] == " Paris"


def test_the_command_strips_and_says_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = completion_of("logprobs_5")
    path = notebook(tmp_path / "x.ipynb", [pack_run(run.session, run.run)])
    assert main(["strip", "--records", str(path)]) == 0
    assert "1 widget outputs and 1 records taken out" in capsys.readouterr().out
    assert main(["strip", str(tmp_path / "none.ipynb")]) == 2
    assert "none.ipynb" in capsys.readouterr().err


def test_stripping_goes_on_after_a_missing_file_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = notebook(tmp_path / "x.ipynb", [])
    assert main(["strip", str(tmp_path / "none.ipynb"), str(path)]) == 2
    told = capsys.readouterr()
    assert "none.ipynb" in told.err
    assert "x.ipynb: " in told.out


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path = notebook(tmp_path / "x.ipynb", [{"version": 2}])
    link = tmp_path / "link.ipynb"
    link.symlink_to(path)
    assert strip(link, records=True).records == 1
    assert link.is_symlink()
    assert "acs_jupyter" not in path.read_text()
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "s.jsonl")
    completion_of("logprobs_5").session.save(link)
    assert link.is_symlink()
    assert Session.load(tmp_path / "s.jsonl").runs


@pytest.mark.parametrize(
    "cell",
    [
        '{"outputs": null}',
        '{"outputs": [{"metadata": null, "data": null}]}',
        '{"source": "\\ud800 \\ud83d\\ude00 x"}',
    ],
)
def test_odd_cells_are_stripped_and_stay_as_they_are(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(f'{{"metadata": null, "cells": [{cell}]}}')
    before = json.loads(path.read_bytes())
    strip(path, records=True)
    assert json.loads(path.read_bytes()) == before


def test_a_file_nested_too_deeply_is_no_notebook(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text('{"cells": [' + "[" * 100_000 + "]" * 100_000 + "]}")
    with pytest.raises(ValueError, match=r"x\.ipynb is not a notebook"):
        strip(path)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ("5", "is not a notebook"),
        ("null", "is not a notebook"),
        ('"abc"', "is not a notebook"),
        ("[" * 100_000 + "]" * 100_000, "is not a notebook"),
        ("[{}, 5]", "cell 2: .*dict where there is int"),
        ('[{"outputs": 5}]', "cell 1: .*list where there is int"),
        ('[{"outputs": [[]]}]', "cell 1: .*dict where there is list"),
        ('[{"outputs": [{"metadata": "x"}]}]', "cell 1: .*dict where there is str"),
        ('[{"outputs": [{"metadata": {"acs_jupyter": 5}}]}]', "cell 1: a record"),
    ],
    ids=range(9),
)
def test_a_damaged_notebook_is_told_with_its_cell(tmp_path: Path, cells: str, told: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(f'{{"cells": {cells}}}')
    with pytest.raises(ValueError, match=rf"x\.ipynb.*{told}"):
        load(path)


def test_what_is_missing_or_null_holds_no_record(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text('{"cells": [{}, {"outputs": null}, {"outputs": [{}, {"metadata": null}]}]}')
    assert load(path) == []


@pytest.mark.parametrize(
    "entries", [[[0, 5]], [[0, None]], [5], 5, [[0, {"count": 3}]], [[0, {"count": "x"}]]]
)
def test_a_record_of_something_else_is_told(entries: object) -> None:
    head = json.dumps({"entries": entries, "strings": []}).encode()
    packed = b85encode(zlib.compress(varints([len(head)]) + head)).decode()
    with pytest.raises(ValueError, match="a record that cannot be read"):
        unpack_run({"version": 2, "record": packed})


def test_a_replay_says_where_the_two_part() -> None:
    name = "stream_continuous_logprobs_5"
    raw = (golden.WIRE / f"{name}.response.sse").read_bytes()
    other = raw.replace(b'"text":" necessary"', b'"text":" other"').replace(
        b'"tokens":[" necessary"]', b'"tokens":[" other"]'
    )
    was = completion_of(name)
    with Player([stream(raw), stream(other)]) as server, Client(server.base, "acs-bm-test") as client:
        same, changed = was.replay(client), was.replay(client)
        assert server.requests[0].json == was.request
    assert same.equal
    assert same.same_checkpoint
    assert str(same) == "equal"
    assert changed.difference is not None
    assert changed.difference.position == 2
    assert changed.difference.was is not None
    assert changed.difference.now is not None
    assert (changed.difference.was.text, changed.difference.now.text) == (" necessary", " other")
    assert "' necessary' (-7.330) became ' other' (-7.330)" in str(changed)


def test_varints() -> None:
    numbers = [0, 1, 127, 128, 300, 2**31, 2**40]
    assert list(read_varints(varints(numbers))) == numbers
    assert list(read_varints(varints(numbers)[:-1])) == numbers[:-1]
