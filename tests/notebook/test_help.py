"""``%acs help``: every topic has words and examples, and every example runs as it stands, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from acs_jupyter.doctor.kept import kept
from acs_jupyter.notebook import topics
from acs_jupyter.notebook.examples import EXAMPLES
from tests.support.servers import Running
from tests.support.shells import Shell, dispose

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
WITHOUT = {"privacy"}
"""Topics that have nothing to run."""


@pytest.fixture(scope="module")
def made() -> Iterator[Shell]:
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "acs_jupyter")
    yield Shell(shell)
    dispose(shell)


@pytest.mark.parametrize("topic", topics.names())
def test_every_topic_is_told_with_its_examples(made: Shell, topic: str) -> None:
    shown = made.run(f"%acs help {topic}").out
    assert len(shown) > 300
    assert max(map(len, shown.splitlines())) <= 130 or topic == "privacy"
    assert topic in made.run("%acs help").out
    for cell in EXAMPLES.get(topic, ()):
        assert cell.split("\n")[0] in shown
    assert (topic in EXAMPLES) != (topic in WITHOUT)


@pytest.mark.parametrize("topic", sorted(EXAMPLES))
def test_every_example_runs(
    made: Shell, smollm_server: Running, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACS_API_BASE", smollm_server.base)
    monkeypatch.setenv("ACS_API_KEY", smollm_server.key)
    for cell in EXAMPLES[topic]:
        ran = made.run(cell)
        assert ran.ok, (cell, ran.out, ran.error)
        assert "Traceback" not in ran.out
        assert ran.out or ran.result is not None or "=" in cell or topic == "saved", cell
    closing = {
        "loom": "loom.client.close(); loom.close()",
        "where": "tree.client.close()",
        "compare": "board._notebook.close(); board.close()",
    }
    assert made.run(closing.get(topic, "")).ok


def test_help_and_the_readme_name_every_kept_file(made: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACS_LEDGER", "ACS_JOURNAL", "ACS_UNSAVED", "ACS_LOCAL_DATA", "ACS_GGUF"):
        monkeypatch.delenv(name, raising=False)
    shown = made.run("%acs help privacy").out
    section = README.partition("## Privacy")[2].partition("\n## ")[0]
    for one in kept():
        assert one.path is not None
        assert f"{one.name}: {one.path} ({one.variable})" in shown
        assert one.erase in shown
        assert one.path.name in section, one.name
        assert one.variable in section, one.name


def test_the_readme_names_every_topic() -> None:
    (row,) = [line for line in README.splitlines() if line.startswith("| `%acs help [TOPIC]`")]
    assert [name.strip() for name in row.split("|")[2].split(",")] == topics.names()
