"""What a scorer gave for a node, kept with what it was given for: the text, and the scorer itself.

Owns when a kept score still holds and how scores stand in a node's marks. It must not know searches, nor who asks.

A mark is ``{name: [score, digest of the text, digest of the scorer]}``. A node that was moved has another text, and an
edited function, or another lambda, is another scorer: its score is asked for anew.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..errors import InvalidRequest
from ..log.session import Session

UNNAMED = "<lambda>"
NAMED = "by name"
"""In place of a scorer's digest where ``name=`` was given: whoever named it answers for it."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def digest(text: str) -> str:
    """Of a text, as it stands in a mark."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def identified(scorer: Callable[..., Any], name: Any) -> tuple[str, str | None]:
    """A scorer's name, and what tells it from others; ``None``: nothing does, and its scores are not kept.

    Of a function these are its code, its constants, defaults, and the plain values and functions that it uses from
    around it. Other objects are counted by their type; a lambda that uses one cannot be told from another like it.
    """
    if name is not None:
        if not isinstance(name, str) or not name:
            raise InvalidRequest(f"name={name!r} must be a text: the scores are kept under it.")
        return name, NAMED
    own = getattr(scorer, "__name__", UNNAMED)
    words: list[str] = []
    plain = isinstance(scorer, FunctionType) and _describe(scorer, words, set())
    if own == UNNAMED and not plain:
        return own, None
    return own, digest("\n".join(words))


def _describe(value: Any, words: list[str], seen: set[int]) -> bool:
    """Add what tells a value from others; says whether all of it is known."""
    if isinstance(value, FunctionType):
        if id(value) in seen:
            return True
        seen.add(id(value))
        return _function(value, words, seen)
    if isinstance(value, CodeType):
        words.append(f"{value.co_code.hex()} {value.co_names} {value.co_varnames}")
        return _describe_all(value.co_consts, words, seen)
    if isinstance(value, (tuple, frozenset)):
        parts = sorted(value, key=repr) if isinstance(value, frozenset) else value
        words.append(f"{type(value).__name__} of {len(value)}")
        return _describe_all(parts, words, seen)
    if isinstance(value, (ModuleType, type)) or (callable(value) and hasattr(value, "__qualname__")):
        words.append(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}")
        return getattr(value, "__self__", None) is None or isinstance(value.__self__, ModuleType)
    words.append(repr(value) if isinstance(value, _PLAIN) else type(value).__qualname__)
    return isinstance(value, _PLAIN)


def _describe_all(values: Iterable[Any], words: list[str], seen: set[int]) -> bool:
    known = [_describe(one, words, seen) for one in values]
    return all(known)


def _function(scorer: FunctionType, words: list[str], seen: set[int]) -> bool:
    code = scorer.__code__
    around = [scorer.__globals__[name] for name in _names(code) if name in scorer.__globals__]
    held = [_contents(cell) for cell in scorer.__closure__ or ()]
    defaults = [*(scorer.__defaults__ or ()), *sorted((scorer.__kwdefaults__ or {}).items())]
    return _describe_all((code, *around, *held, *defaults), words, seen)


def _names(code: CodeType) -> list[str]:
    """Names that code may look up around it, inner functions' too."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not set yet
        return None


def kept_scores(session: Session, node: str) -> dict[str, Any]:
    """A node's scores as they stand in its mark."""
    kept = session.arrangement.mark(node, "scores")
    return dict(kept) if isinstance(kept, dict) else {}


def known_score(kept: dict[str, Any], name: str, text: str, by: str | None) -> tuple[float | None] | None:
    """The score of a text by this scorer, in a tuple since it may be ``None``; ``None`` when there is none."""
    entry = kept.get(name)
    if (
        by is None
        or not isinstance(entry, (list, tuple))
        or len(entry) != 3
        or list(entry[1:]) != [digest(text), by]
    ):
        return None
    return (entry[0],)


def current_scores(session: Session, node: str) -> dict[str, float | None]:
    """By the scorers' names, those of the text that the node has now."""
    kept = kept_scores(session, node)
    now = digest(session.text_to(node)) if kept else ""
    entries = {
        name: entry for name, entry in kept.items() if isinstance(entry, (list, tuple)) and len(entry) == 3
    }
    return {name: entry[0] for name, entry in entries.items() if entry[1] == now}


def number(given: Any, node: str) -> float | None:
    """A scorer's word as a number. Raises :class:`InvalidRequest` for what is none."""
    if given is None:
        return None
    if isinstance(given, (str, bytes, bytearray)):
        raise InvalidRequest(
            f"The scorer gave {given!r} for node {node}; a number or None is needed, not a text."
        )
    score = float(given)
    if not math.isfinite(score):
        raise InvalidRequest(f"The scorer gave {score} for node {node}; a finite number or None is needed.")
    return score
