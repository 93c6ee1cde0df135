"""The little language that tells the scripted engine what to do.

Owns its words: ``key=value`` pairs in the ``X-Scripted`` header, or in a first prompt line that begins with
``#scripted``. Values that hold spaces or line ends are JSON strings. It must not know engines or sockets.

    #scripted tokens=200 rate=50
    #scripted say="a <b>\\n" fault=cut after=2
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import CATALOGUE, BadRequest

if TYPE_CHECKING:
    from .engine import Task

HEADER = "x-scripted"
MARK = "#scripted"
HOSTILE = "</script><img src=x onerror=alert(1)>\u202egnp.exe\u202c\x00\x1b[31m<!-- ${`}\r\n```\u2066]]>"
FAULTS = ("cold", "error", "cut", "truncated", "blank", "slow", "no_usage", "crlf", "html502", *CATALOGUE)
_PAIR = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|\S+)(?:\s+|$)')


@dataclass(frozen=True)
class Script:
    """What one request asks of the scripted engine. Times are seconds, ``rate`` is tokens a second."""

    tokens: int | None = None
    rate: float | None = None
    chunk: int = 1
    ttft: float = 0.0
    blank: int = 0
    alternatives: int | None = None
    say: str | None = None
    stop_reason: int | None = None
    fault: str | None = None
    after: int = 3
    code: str = "upstream_error"
    wait: float = 0.2
    retry_after: float | None = None
    times: int | None = None
    bytes: int = 5
    pause: float = 0.0
    source: str = ""


_KINDS = {item.name: str(item.type) for item in fields(Script)}


def script_of(task: Task) -> Script:
    """The script of a request: from its header, else from the first line of its first prompt."""
    text = task.headers.get(HEADER)
    if text is None and task.texts[0].startswith(MARK):
        text = task.texts[0].split("\n", 1)[0][len(MARK) :]
    return parse(text or "")


def parse(text: str) -> Script:
    """A script from its text; raises :class:`BadRequest` naming what it cannot read."""
    text = text.strip()
    given: dict[str, Any] = {"source": text}
    place = 0
    while place < len(text):
        pair = _PAIR.match(text, place)
        if pair is None:
            raise BadRequest(f"The script cannot be read at {text[place : place + 20]!r}.")
        given[pair[1]] = _value(pair[1], pair[2])
        place = pair.end()
    if given.get("fault") not in (None, *FAULTS):
        raise BadRequest(f"fault={given['fault']!r} is none of {', '.join(FAULTS[:9])} or an error code.")
    if given.get("say") == "hostile":
        given["say"] = HOSTILE
    return Script(**given)


def _value(name: str, raw: str) -> Any:
    kind = _KINDS.get(name)
    if kind is None or name == "source":
        raise BadRequest(
            f"The script has no key '{name}'; it has {', '.join(k for k in _KINDS if k != 'source')}."
        )
    try:
        text = msgspec.json.decode(raw, type=str) if raw.startswith('"') else raw
        if kind.startswith("int"):
            return int(text)
        return float(text) if kind.startswith("float") else text
    except (ValueError, msgspec.DecodeError):
        raise BadRequest(f"{name}={raw} in the script is not a value for it.") from None
