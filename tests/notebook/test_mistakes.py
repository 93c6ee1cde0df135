"""What a newcomer gets wrong, and what is said of it: one line that names the fault and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.support.servers import Running
from tests.support.shells import Shell, dispose
from tests.test_messages import JARGON

MISTAKES = (
    ("%%acs --max-tokns 3\nHi", r"Unknown option --max-tokns\. Did you mean --max-tokens\?"),
    ("%%acs --max-tokens\nHi", r"--max-tokens needs a value"),
    ("%%acs --max-tokens ten\nHi", r"max_tokens='ten': a whole number is needed\."),
    ("%%acs --max-tokens -1\nHi", r"max_tokens=-1: a whole number of at least 1 is needed\."),
    ("%%acs --max-tokens 40000\nHi", r"Lower max_tokens to 32000\."),
    ("%%acs -t 0,7\nHi", r"temperature='0,7': a number is needed\."),
    ("%%acs --top-p 3\nHi", r"top_p=3\.0: a number of at most 1 is needed\."),
    ("%%acs --top-p 0\nHi", r"top_p=0\.0: a number above 0 is needed\."),
    ("%%acs -n 99\nHi", r"n=99: a whole number of at most 16 is needed\."),
    ("%%acs -m scriptd --max-tokens 1\nHi", r"Did you mean scripted\?"),
    ("%%acs --temp 0.5\nHi", r"Did you mean --temperature\?"),
    ("%%acs --max 3\nHi", r"Did you mean --max-tokens\?"),
    ("%%acs max-tokens=5\nHi", r"'max-tokens=5' is not an option; write --max-tokens 5\."),
    (
        '%%acs --stop "\\n" "."\nHi',
        r"'\.' is not an option; write --stop before each text: --stop A --stop B\.",
    ),
    ("%%acs --stop none --stop a\nHi", r"stop=none stands alone"),
    ("Client().complete('Hi', temp=1)", r"Did you mean 'temperature'\?"),
    ("%%acs", r"there is no prompt\. Write one below"),
    ("%%acs hello\nworld", r"'hello' is not an option; write the prompt into the cell's body\."),
    (
        "%%acs --in nothing --max-tokens 3\nHi",
        r"there is no variable nothing\. Keep a completion with -o NAME",
    ),
    ("%%acs -o 3x --max-tokens 3\nHi", r"such as -o result\."),
    ("%%acs --fmt --max-tokens 3\n@@{nobody}", r"there is no variable nobody\."),
    ("%acs hi there", r"A prompt goes below %%acs, with two percent signs"),
    ("%acs modles", r"Did you mean models\?"),
    ("%acs help bugdet", r"Did you mean budget\?"),
    ("%acs set max_tokns 3", r"Did you mean max_tokens\?"),
    ("%acs budget --limit 1.5", r"a whole number of tokens is needed, such as 1\.5k or 1\.5m, or none"),
    ("%acs budget --limit 3x", r"such as 50000, 50k or 1\.5m"),
    ("%acs budget --limit", r"--limit needs a value, such as 200k, 3m or none\."),
    ("%acs budget --limt 3m", r"%acs budget has no option --limt\. Did you mean --limit\?"),
    ("%acs budget limit 3m", r"there is no 'limit'; it takes settle, or options such as --limit 3m\."),
    ("Client().complete(3)", r"prompt=3: a text or a list is needed, not a whole number\."),
    ("Client().complete('Hi', max_token=3)", r"Did you mean 'max_tokens'\?"),
    ("Client().complete('Hi', max_tokens='3')", r"max_tokens='3': a whole number is needed, not a text\."),
    ("Client().complete('Hi', max_tokens=True)", r"a whole number is needed, not true or false\."),
    ("load('none.ipynb')", r"none\.ipynb cannot be read: No such file or directory\. Check the name"),
    ("load('text.txt')", r"text\.txt is not a notebook: give the \.ipynb file\.$"),
    ("Session.load('none.jsonl')", r"none\.jsonl cannot be read: .* Check the name"),
    ("Session.load('text.txt')", r"text\.txt is not a saved session\. Check that it is the right file"),
    ("rollout('none.jsonl', max_tokens=3)", r"none\.jsonl cannot be read: No such file"),
    ("rollout('one two', max_tokens=3)", r"put it into a list, \[prompt\]"),
    ("rollout(['a'], max_tokens=3, seeds=3)", r"a list is needed, such as range\(5\)"),
    ("score('')", r"Text 0 is empty: it has nothing to score\."),
)


@pytest.fixture(scope="module")
def cells(scripted_server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    made = InteractiveShell()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("mistakes"))
        patch.setenv("ACS_API_BASE", scripted_server.base)
        patch.setenv("ACS_API_KEY", scripted_server.key)
        Path("text.txt").write_text("some text")
        made.run_line_magic("load_ext", "acs_jupyter")
        shell = Shell(made)
        assert shell.run("from acs_jupyter import Client, Session, load, rollout, score").ok
        yield shell
        dispose(made)


@pytest.mark.parametrize(("cell", "told"), MISTAKES, ids=[cell for cell, _ in MISTAKES])
def test_a_mistake_is_answered_in_a_line_that_helps(cells: Shell, cell: str, told: str) -> None:
    ran = cells.run(cell)
    assert not ran.ok
    lines = ran.out.strip().splitlines()
    if not cell.startswith("%"):
        assert lines.pop(0) == f"line 1: {cell}"  # the reader's own
    notes = [line for line in lines if line.startswith("note: ")]  # of a prompt's end
    (line,) = [line for line in lines if line not in notes]
    assert re.search(told, line), line
    assert not JARGON.search(line)
