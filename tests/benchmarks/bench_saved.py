"""What a run takes in a saved notebook: ``python -m tests.benchmarks.bench_saved``.

The notebook is executed in a kernel by nbclient, which keeps the state of widgets, and shown by the display path of
``%%acs``. Counted, as the file has them with its indentation: the state of the window and of its layout (the
bundle is in it), the static HTML, the record, and the exact text as ``text/plain``. JupyterLab's own saving keeps
no state unless it is told to. The peer is a guidance widget: 845,426 characters of HTML in each one's state, read
from its notebook ``tool_calling.ipynb``; text and tokens come on top of that.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from acs_jupyter.widgets.snapshot import most_saved
from tests.support.saving import execute, execute_looms

GUIDANCE = 845_426
RUNS = [
    (10_000, "text", 1), (10_000, "han", 1), (10_000, "markup", 1), (10_000, "text", 5),
    (1, "text", 1), (500, "text", 1), (2_000, "text", 1), (32_000, "text", 1),
]  # fmt: skip


TREES = [(0, 0), (100, 100), (1_000, 100)]


def _kb(size: int) -> str:
    return f"{size / 1000:,.1f} KB"


def main() -> None:
    """Print the figures; fails over the bound."""
    with tempfile.TemporaryDirectory() as folder:
        found = execute(Path(folder) / "n.ipynb", RUNS)
    for (count, kind, choices), saved in zip(RUNS, found, strict=True):
        bound = most_saved(count)
        print(
            f"{count:6,} tokens of {kind}, {choices} choice(s): {_kb(saved.whole)}, {saved.whole / bound:.0%} of "
            f"{_kb(bound)}; {saved.whole / GUIDANCE:.2f} of guidance, gzip {_kb(saved.packed)}"
        )
        print(
            f"       state {_kb(saved.state)}, html {_kb(saved.html)} ({saved.html / count:.0f} B a token), record "
            f"{_kb(saved.record)} ({saved.record / count:.1f} B a token), text {_kb(saved.text)}"
        )
        assert saved.whole <= bound
    with tempfile.TemporaryDirectory() as folder:
        looms = execute_looms(Path(folder) / "l.ipynb", TREES)
    for (nodes, tokens), saved in zip(TREES, looms, strict=True):
        bound = most_saved(nodes * tokens)
        print(
            f"a loom of {nodes:,} nodes of {tokens} tokens: {_kb(saved.whole)}, {saved.whole / bound:.0%} of "
            f"{_kb(bound)} (state {_kb(saved.state)}, html {_kb(saved.html)}, record {_kb(saved.record)}, text "
            f"{_kb(saved.text)})"
        )
        assert saved.whole <= bound


if __name__ == "__main__":
    main()
