"""Where nobody looks on: papermill and nbclient, conversions, IPython in a terminal. Nothing hangs or is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import papermill
import pexpect
import pytest

from acs_jupyter import load
from tests.support.servers import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Running

CELLS = {
    "parameters": "subject = 'city'",
    "load": "%load_ext acs_jupyter",
    "cell": "%%acs --fmt -t 0 --max-tokens 8 -o first\nThe @@{subject} at night is",
    "many": "%%acs -n 2 --seed 1 --max-tokens 4\nOnce",
    "behind": "%%acs --bg -t 0 --max-tokens 8 -o behind\nOnce upon a time",
    "wait": "import time\nwhile behind.outcome == 'open': time.sleep(0.05)\nprint(behind.outcome)",
    "text": "%acs set view text",
    "plain": "%%acs -t 0 --max-tokens 4\nOnce",
    "quiet": "%%acs --bg -t 0 --max-tokens 4 -o quiet\nOnce upon",
    "live": "%acs set view live\nwhile quiet.outcome == 'open': time.sleep(0.05)",
    "job": "%%acs --job -o night --max-tokens 8\nThe keeper wrote",
    "result": "print(night.wait(60).outcome)",
    "jobs": "%acs jobs",
    "board": "from acs_jupyter import JobBoard\nJobBoard()",
    "meter": "from acs_jupyter import BudgetMeter\nBudgetMeter()",
    "inspector": "from acs_jupyter import Inspector\nInspector(first)",
    "loom": "from acs_jupyter import Loom\nloom = Loom(first)\nloom",
    "bench": "from acs_jupyter import Workbench\nWorkbench()",
    "compare": "from acs_jupyter import Compare\nboard = Compare('Once', [{'seed': 1}, {'seed': 2}], max_tokens=4)\n"
    "board.run().wait()\nboard",
    "rollout": "from acs_jupyter import rollout\nrollout(['a', 'b'], max_tokens=4, into='rollout.db')",
    "bars": "bars = rollout(['c', 'd'], max_tokens=4, into='bars.db', bg=True)",
    "over": "bars.wait()",
    "difference": "from acs_jupyter import difference, score\n"
    "difference(score('It is a cat on a mat.'), score('It is a dog on a mat.'))",
    "completion": "first",
    "last": "%acs last",
}


@pytest.fixture(scope="module")
def executed(smollm_server: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook with one of each, run by papermill (its engine is nbclient) with a parameter."""
    folder = tmp_path_factory.mktemp("headless")
    book = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    for name, source in CELLS.items():
        book.cells.append(nbformat.v4.new_code_cell(source, id=name, metadata={"tags": [name]}))
    nbformat.write(book, folder / "in.ipynb")
    known = {
        "ACS_API_BASE": smollm_server.base,
        "ACS_API_KEY": smollm_server.key,
        "ACS_JOURNAL": str(folder / "j.db"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment() | known | {"IPYTHONDIR": str(folder)}).items():
            patch.setenv(name, value)
        papermill.execute_notebook(
            folder / "in.ipynb", folder / "out.ipynb", {"subject": "sea"}, kernel_name="python3", cwd=str(folder),
            progress_bar=False, execution_timeout=60,
        )  # fmt: skip
    return folder / "out.ipynb"


def outputs(path: Path) -> dict[str, list[Any]]:
    return {cell.id: cell.outputs for cell in nbformat.read(path, as_version=4).cells}


def test_papermill_runs_all_and_every_output_is_there(executed: Path) -> None:
    shown = outputs(executed)
    assert not [one for cell in shown.values() for one in cell if one.output_type == "error"]
    found = load(executed)
    assert [one.outcome for one in found[:2]] == ["done", "done"]
    assert found[0].prompt == "The sea at night is"
    assert {"Once upon a time", "Once"} <= {one.prompt for one in found}
    assert shown["wait"][0].text == shown["result"][0].text == "done\n"
    windows = {
        "cell",
        "many",
        "behind",
        "job",
        "jobs",
        "board",
        "meter",
        "inspector",
        "loom",
        "compare",
        "difference",
    }
    for name in sorted(windows | {"completion", "last"}):
        pages = [one.data["text/html"] for one in shown[name] if "text/html" in one.get("data", {})]
        assert pages, name
        assert "acs" in pages[-1], name
    assert shown["plain"][0].output_type == "stream"
    assert "<details>" in shown["plain"][-1].data["text/html"]
    assert [one.output_type for one in shown["quiet"]] == ["display_data"]
    assert {"Once", "Once upon"} <= {one.prompt for one in found}
    assert "acs-static" in shown["quiet"][0].data["text/html"]
    assert "2 of 2 ended" in shown["rollout"][-1].data["text/plain"]
    for name in ("rollout", "bars"):  # what is kept of a bar is how it ended
        kept = shown[name][0].data
        assert kept["text/plain"].startswith(f"{name}.db: 100 %, 2 of 2 requests in ")
        assert '<progress max="2" value="2"' in kept["text/html"]
        assert "application/vnd.jupyter.widget-view+json" not in kept


def test_a_page_without_widgets_shows_how_a_rollout_ended(executed: Path) -> None:
    page = unescape(re.sub("<(?!progress)[^>]+>", "", converted(executed, "html")))
    for name in ("rollout.db", "bars.db"):
        assert re.search(rf"{name} <progress [^>]+> 100 %, 2 of 2 requests in \d+ s, \d+ tokens", page)
    assert "0%|" not in page


def converted(executed: Path, form: str, *options: str) -> str:
    command = [sys.executable, "-m", "nbconvert", "--to", form, "--stdout", *options, str(executed)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout


def test_markdown_has_every_text_and_no_script(executed: Path) -> None:
    text = unescape(re.sub("<[^>]+>", "", converted(executed, "markdown")))
    for one in load(executed):
        assert all(choice.text.split()[0] in text for choice in one.choices if choice.text.strip())
    plain = converted(executed, "markdown", "--NbConvertBase.display_data_priority=text/plain")
    assert "<style" not in plain
    (sea, *_) = load(executed)
    assert sea.text.strip().splitlines()[0] in plain


ACCEPTED = r"\x1b\[\?2004l"
"""What the terminal is told when a cell has been entered: no more typing."""


@pytest.fixture
def terminal(scripted_server: Running, tmp_path: Path) -> Iterator[pexpect.spawn[str]]:
    """IPython in a terminal of its own, at its first prompt."""
    known = {"ACS_API_BASE": scripted_server.base, "ACS_API_KEY": scripted_server.key}
    known |= {"IPYTHONDIR": str(tmp_path), "ACS_LEDGER": os.environ["ACS_LEDGER"]}
    known |= {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    options = ["-m", "IPython", "--no-banner", "--no-confirm-exit", "--InteractiveShell.colors=nocolor"]
    child = pexpect.spawn(
        sys.executable, options, env=environment(**known), encoding="utf-8", timeout=60, dimensions=(40, 160)
    )
    try:
        child.expect_exact("In [1]:")
        yield child
    finally:
        child.close(force=True)


def test_ipython_in_a_terminal_streams_text_and_ctrl_c_keeps_it(terminal: pexpect.spawn[str]) -> None:
    """``%%acs``, its body, then Esc and Enter, as the README says."""

    def enter(*lines: str) -> None:
        terminal.send("\r".join(lines) + ("\x1b\r" if len(lines) > 1 else "\r"))
        terminal.expect(ACCEPTED)

    enter("%load_ext acs_jupyter")
    terminal.expect_exact("In [2]:")
    enter("%%acs --max-tokens 6", "#scripted tokens=6")
    terminal.expect_exact("In [3]:")
    streamed = terminal.before or ""
    enter("print('<' + _acs.text + '>', _acs.outcome, len(_acs.tokens))")
    terminal.expect(r"<([^<>]+)> done 6")
    assert terminal.match is not None
    assert terminal.match[1].strip() in streamed
    terminal.expect_exact("In [4]:")
    enter("%%acs --max-tokens 30000 -o long", "#scripted tokens=30000 rate=50")
    terminal.expect(r"(\w+\W+){10}")  # some of it stands there
    terminal.sendintr()
    terminal.expect_exact("KeyboardInterrupt: stopped; what came is kept.")
    terminal.expect_exact("In [5]:")
    enter("print(long.outcome, len(long.tokens) > 3)")
    terminal.expect_exact("stopped True")
