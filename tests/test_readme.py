"""What the README prints runs as it is printed, one block after the other, against a local server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import Running, serving

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


SCORING = tuple(
    f"from acs_jupyter import {name}"
    for name in ("choose", "Inspector", "calibration", "difference", "Surgery")
)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving("--scripted") as running:
        yield running


def test_the_python_examples_run_in_their_order(
    server: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACS_API_BASE", server.base)
    monkeypatch.setenv("ACS_API_KEY", server.key)
    elsewhere = ("%", "from acs_jupyter import BudgetMeter", "from acs_jupyter import rollout", *SCORING)
    examples = [block for block in blocks("python") if not block.startswith(elsewhere)]
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    names["client"].close()
    names["sdk"].close()
    names["loom"].client.close()
    names["loom"].close()
    names["board"]._notebook.close()
    assert len(examples) == 5
    assert names["board"].frame()["lane"].tolist() == ["A", "B", "C", "C"]
    assert (tmp_path / "board.jsonl").exists()
    assert (tmp_path / "story.loom").exists()
    assert len(names["frame"]) == 8
    assert names["completion"].usage.completion_tokens == 40
    assert names["answer"].choices[0].text in capsys.readouterr().out


def test_the_example_of_scoring_runs(
    smollm_server: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACS_API_BASE", smollm_server.base)
    monkeypatch.setenv("ACS_API_KEY", smollm_server.key)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    examples = [block for block in blocks("python") if block.startswith(SCORING)]
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    assert len(examples) == 5
    assert names["cut"].done
    assert (tmp_path / "corpus.acs.db").exists()
    assert names["one"].text == "The quick brown fox jumps over the lazy dog."
    assert names["after"].of(" Paris").rank == 1
    assert (tmp_path / "france.npz").exists()


def test_the_curl_example_runs(server: Running) -> None:
    (example,) = [block for block in blocks("bash") if "curl" in block]
    known = {**os.environ, "ACS_API_BASE": server.base, "ACS_API_KEY": server.key, "no_proxy": "127.0.0.1"}
    ran = subprocess.run(["bash", "-c", example], env=known, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["usage"]["completion_tokens"] == 8
