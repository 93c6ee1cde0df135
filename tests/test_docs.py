"""The documents hold together: links and anchors lead somewhere, names of files, commands and options exist."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from acs_jupyter.cli import make_parser
from acs_jupyter.notebook.magics import COMMANDS
from acs_jupyter.notebook.options import SHORT, option_names

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
NOTEBOOKS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("notebooks/*.ipynb"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```", re.DOTALL)


def prose(name: str) -> str:
    """A document without its blocks of code; of a notebook the Markdown cells."""
    text = (ROOT / name).read_text("utf-8")
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "markdown")
    return CODE.sub("", text)


def anchors(name: str) -> set[str]:
    """The anchors of a document's headings, as the usual sites make them."""
    heads = re.findall(r"(?m)^#+ (.+)$", prose(name))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def inline(name: str) -> list[str]:
    """What stands between backticks in a line."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(name))


@pytest.mark.parametrize("name", [*DOCUMENTS, *NOTEBOOKS])
def test_links_inside_the_repository_lead_somewhere(name: str) -> None:
    broken = []
    for target in LINK.findall(prose(name)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.exists() or (
            anchor and anchor not in anchors(file.resolve().relative_to(ROOT.resolve()).as_posix())
        ):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("name", [*DOCUMENTS, *NOTEBOOKS])
def test_no_link_can_be_clicked_before_its_placeholder_is_replaced(name: str) -> None:
    assert [
        target for target in LINK.findall(prose(name)) if re.search(r"\b[A-Z]{4,}\b(?!\.md)", target)
    ] == []


def test_the_pictures_are_small_and_committed() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", prose("README.md"))
    assert shown
    for name in shown:
        picture = (ROOT / name).read_bytes()
        assert picture.startswith((b"\x89PNG", b"GIF8"))
        assert len(picture) < 150_000, name


def test_the_files_that_the_documents_name_are_there() -> None:
    folders = ("acs_jupyter", "tests", "notebooks", "binder", "js/src", "js/test")
    files = [
        *ROOT.glob("*.*"),
        *ROOT.glob("js/*.*"),
        *(each for top in folders for each in (ROOT / top).rglob("*")),
    ]
    there = {path.relative_to(ROOT).as_posix() for path in files if path.is_file()}
    missing = []
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        for word in inline(name):
            if re.fullmatch(r"[\w./-]+\.(?:py|ts|mjs|ya?ml|toml)", word) and "NAME" not in word:
                if not any(path == word or path.endswith(f"/{word}") for path in there):
                    missing.append(f"{name}: {word}")
            elif re.fullmatch(r"python -m (tests\.[\w.]+).*", word):
                module = word.split()[2].replace(".", "/") + ".py"
                assert module in there, word
    assert missing == []


def commands(name: str) -> Iterator[list[str]]:
    """Every ``acs-jupyter`` command that a document shows, in a line or in a block."""
    text = (ROOT / name).read_text("utf-8")
    for line in [*inline(name), *"\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL)).splitlines()]:
        for found in re.findall(
            r"(?:^|[(/ ])acs-jupyter( .*)?$", line.partition("  #")[0].partition(" >>")[0]
        ):
            yield shlex.split(found.rstrip(')"'))


def known(words: list[str]) -> str | None:
    """The first word of a command that does not exist."""
    parser: argparse.ArgumentParser = make_parser()
    for word in words:
        flags = {flag for action in parser._actions for flag in action.option_strings}
        nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if word.startswith("--"):
            if word.partition("=")[0] not in flags:
                return word
        elif nested:
            if word not in nested[0].choices:
                return word
            parser = nested[0].choices[word]
    return None


def test_every_command_that_is_shown_exists() -> None:
    shown = [(name, words) for name in DOCUMENTS for words in commands(name) if words]
    assert len(shown) > 30
    wrong = [f"{name}: {' '.join(words)}" for name, words in shown if known(words)]
    assert wrong == []
    assert known(["keys", "lst"]) == "lst"
    assert known(["serve", "--prot", "1"]) == "--prot"


def test_every_magic_that_is_shown_exists() -> None:
    options = {*option_names(), *SHORT.values(), "-o"}
    seen = 0
    for name in DOCUMENTS:
        for word in inline(name):
            line = re.fullmatch(r"%acs (\w+).*", word)
            cell = re.fullmatch(r"%%acs( .*)?", word)
            if line:
                seen += 1
                assert line[1] in COMMANDS, f"{name}: {word}"
            if cell:
                seen += 1
                flags = re.findall(r"(?<!\S)--?[a-z][\w-]*", cell[1] or "")
                assert {*flags} <= options, f"{name}: {word}"
    assert seen > 20
