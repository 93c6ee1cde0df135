"""Every line that says no: one line, what happened and what to do, without jargon. Read from classes and from code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acs_jupyter import errors
from acs_jupyter.errors import AcsError, ApiError

PACKAGE = Path(errors.__file__).parents[1]
CLASSES = sorted(
    (cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, AcsError)),
    key=lambda cls: cls.__name__,
)
RAISED = {cls.__name__ for cls in CLASSES} | {"BadSetting", "Failed", "FetchFailed", "StoreFailed"}
DO = re.compile(
    r"\b(?:"
    r"add|ask|begin|check|choose|copy|correct|create|delete|drop|enable|expected|finish|free|give|inspect|install|keep|"
    r"leave|light|load|lower|make|mend|move|name|needed|needs|open|pick|put|raise|read|report|reset|run|sample|say|score|"
    r"send|set|shorten|show|slow down|split|start|stop|stream|submit|take|takes|try|undo|unset|update|use|wait|write|"
    r"may be|must be|must not|can be|did you mean|there are|instead|replaces it|puts it back|brings it back|lists|"
    r"one of|goes? with|from \d|ends in|it is kept|nothing was changed|nothing to do|once|was not touched"
    r")\b",
    re.IGNORECASE,
)
HINTED = re.compile(r"…$|…: ….$|looks like|an existing name")
"""What is filled in at the end is itself a sentence that says what to do, a suggestion most often."""
JARGON = re.compile(
    r"\b(?:traceback|NoneType|kwargs|args|str|dict|bool|instance of|deserial\w*|coroutine|regex|parse error|"
    r"invalid syntax|null pointer|stack|mutex|errno)\b"
)


def literal(node: ast.expr) -> str | None:
    """The text of a message as the code tells it; ``…`` for what is filled in, ``None`` if it is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        sides = literal(node.left), literal(node.right)
        return None if None in sides else "".join(filter(None, sides))
    return None


def raised() -> Iterator[tuple[str, str, str]]:
    """Each refusal that is written out in the code: its place, its class, and its words with its advice."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            told = literal(node.args[0]) if node.func.id in RAISED else None
            if told is None or " " not in told:
                continue
            given = next((each.value for each in node.keywords if each.arg == "advice"), None)
            own = getattr(errors, node.func.id, None)
            advice = getattr(own, "advice", "") if given is None else literal(given)
            advice = "Try what a constant says." if advice is None else advice
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node.func.id, f"{told} {advice}".strip()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_one_line_that_names_a_fix(cls: type[AcsError]) -> None:
    error = (
        cls("What\nhappened.", request_id="req_1") if issubclass(cls, ApiError) else cls("What\nhappened.")
    )
    error.request_id = "req_1"
    told = str(error)
    assert len(told.splitlines()) == 1
    assert told.startswith(f"{error.code}: What happened. ") or cls.advice == ""
    assert told.endswith("[request req_1]")  # the last word: ready to copy
    assert cls.__doc__
    if cls not in (AcsError, ApiError, errors.InvalidRequest):  # these are told with the field and its bound
        assert DO.search(cls.advice), cls.advice
        assert cls.advice[0].isupper() or cls.advice[0] == "`"
        assert cls.advice.endswith(".")
        assert not JARGON.search(cls.advice)


def test_every_refusal_in_the_code_says_what_to_do() -> None:
    found = list(raised())
    assert len(found) > 200
    silent = [
        f"{place} {kind}: {told}"
        for place, kind, told in found
        if not DO.search(told) and not HINTED.search(told)
    ]
    assert silent == []


def test_no_refusal_speaks_of_the_machinery() -> None:
    told = [f"{place}: {words}" for place, _, words in raised() if JARGON.search(words) or "\n" in words]
    assert told == []


def test_every_refusal_is_a_sentence() -> None:
    odd = [f"{place}: {words}" for place, _, words in raised() if not re.search(r"[.)…`]$", words)]
    assert odd == []
