"""What is tried in an environment that holds the installed package and nothing of this checkout.

``python packaging_smoke.py`` needs ``ACS_API_BASE`` and ``ACS_API_KEY`` of a scripted server. It prints one JSON
object: versions and what was seen. Anything that is not as it should be is an exception.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

CELL = "%%acs --max-tokens 12 --seed 3 -o kept\n#scripted tokens=12 alternatives=5\nThe lighthouse keeper"
PACKAGES = (
    "ipython",
    "ipykernel",
    "ipywidgets",
    "anywidget",
    "pandas",
    "traitlets",
    "httpx",
    "msgspec",
    "numpy",
)


def in_a_shell() -> dict[str, object]:
    """Cells, frames, a rollout and every view, made in IPython without a front end."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "acs_jupyter")

    def run(cell: str) -> object:
        done = shell.run_cell(cell)
        done.raise_error()
        return done.result

    run("%acs set logprobs 5")
    run(CELL)
    kept = shell.user_ns["kept"]
    assert len(kept.tokens) == 12
    frame = kept.to_frame()
    assert list(frame["index"]) == list(range(12))
    run("from acs_jupyter import Workbench, Compare, Loom, BudgetMeter, JobBoard, Client, rollout")
    run(
        "views = [Workbench(), Compare('Hi', [{}, {'temperature': 0.5}]), BudgetMeter(), JobBoard(), Loom('Hi')]"
    )
    run("from acs_jupyter.widgets.live import LiveCell\nview = LiveCell(kept.session, [kept.run])")
    assert shell.user_ns["view"]._esm
    assert "acs-static" in kept._repr_html_()
    models = run("%acs models")
    rows = run("rollout(['a', 'b'], seeds=range(2), max_tokens=4, into='smoke.acs.db').frame()")
    assert len(rows) == 4  # type: ignore[arg-type]
    rows.groupby("seed")["text"].count()  # type: ignore[attr-defined]
    return {"tokens": len(frame), "models": len(models), "rows": len(rows)}  # type: ignore[arg-type]


def in_a_kernel() -> dict[str, object]:
    """The same cell in a kernel of this environment: what it shows and what it answers."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        shown: list[dict[str, object]] = []

        def take(message: dict[str, object]) -> None:
            if message["msg_type"] in ("display_data", "execute_result", "update_display_data"):  # type: ignore[index]
                shown.append(message["content"]["data"])  # type: ignore[index]

        for cell in ("%load_ext acs_jupyter", CELL):
            answer = client.execute_interactive(cell, timeout=90, output_hook=take)
            assert answer["content"]["status"] == "ok", answer["content"]
        kinds = {kind for data in shown for kind in data}
        assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= kinds, kinds
        return {"kinds": sorted(kinds)}
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    import acs_jupyter

    home = Path(acs_jupyter.__file__).parent
    assert "site-packages" in home.parts, home
    versions = {name: metadata.version(name) for name in PACKAGES}
    seen = {**in_a_shell(), **in_a_kernel()}
    print(json.dumps({"python": sys.version.split()[0], **versions, **seen}))
