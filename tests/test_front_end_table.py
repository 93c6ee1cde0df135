"""The README's table of front ends: each row names tests that exist, or says that it is untested."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
README = (TESTS.parent / "README.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    part = README.split("\n## What works where\n", 1)[1].split("\n## ", 1)[0]
    table = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def names_in(file: str) -> set[str]:
    (path,) = TESTS.rglob(file)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_row_names_tests_that_exist_or_says_untested() -> None:
    found = rows()
    assert len(found) >= 12
    for row in found:
        *_, backed = row
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", backed)
        assert named or "untested" in backed, row[0]
        for file, name in named:
            assert name in names_in(file), f"{row[0]}: {file}::{name}"


def test_the_front_ends_people_use_are_all_there() -> None:
    names = " ".join(row[0] for row in rows())
    for name in (
        "JupyterLab",
        "Notebook 7",
        "VS Code",
        "Colab",
        "marimo",
        "Voila",
        "terminal",
        "papermill",
        "PDF",
        "Markdown",
        "Binder",
        "GitHub",
    ):
        assert name in names
