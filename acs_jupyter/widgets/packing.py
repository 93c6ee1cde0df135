"""A session's state as one short string: what a window shows again after a reload or from a saved notebook.

Owns the packed form, which ``js/src/packing.ts`` reads. It must not know widgets. Tokens stand in one
table of strings; each node's tokens, logprobs (whole thousandths) and alternatives are varints in base64:

    token      := string, logprob, alternatives
    logprob    := 0 for none, else 1 + thousandths below 0
    alternatives := 0 for none, else 1 + how many, then that many of
    alternative  := 0 for the token itself with its own logprob, else 1 + string, thousandths below 0
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from ..keeping.varints import varints

if TYPE_CHECKING:
    from ..log.events import Top
    from ..log.tree import Node

VERSION = 1
_FLOOR = 2**31 - 1


def pack(state: dict[str, Any], seq: int, at: float) -> str:
    """``Session.state()`` after message ``seq``, the last of which happened at ``at``."""
    strings = Strings()
    nodes = {key: packed_node(node, strings) for key, node in state["nodes"].items()}
    packed = {
        "v": VERSION, "seq": seq, "at": at, "strings": strings.table,
        "state": {**state, "nodes": nodes},
    }  # fmt: skip
    return json.dumps(packed, ensure_ascii=False, separators=(",", ":"))


def thousandths(logprob: float) -> int:
    """How many thousandths a logprob lies below 0."""
    return max(0, math.floor(-logprob * 1000 + 0.5)) if logprob * 1000 > -_FLOOR else _FLOOR


class Strings:
    """Each string once; its place is its number."""

    def __init__(self) -> None:
        self.table: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Its number."""
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self.table)
            self.table.append(text)
        return place


def packed_node(node: dict[str, Any], strings: Strings) -> dict[str, Any]:
    """A node's plain form with its tokens packed."""
    tokens = node["tokens"]
    packed = {key: node[key] for key in node if key not in {"tokens", "logprobs", "top"}}
    if tokens and node["text"] == "".join(tokens):
        packed["text"] = None
    return {**packed, "count": len(tokens), "packed": _tokens(tokens, node["logprobs"], node["top"], strings)}


def packed_tokens(node: Node, strings: Strings) -> str:
    """A node's tokens, logprobs and alternatives."""
    return _tokens(node.tokens, node.logprobs, node.top, strings)


def _tokens(tokens: list[str], logprobs: list[float | None], tops: list[Top | None], strings: Strings) -> str:
    numbers: list[int] = []
    for token, logprob, top in zip(tokens, logprobs, tops, strict=True):
        numbers += (strings.place(token), 0 if logprob is None else 1 + thousandths(logprob))
        _alternatives(token, logprob, top, strings, numbers)
    return b64encode(varints(numbers)).decode()


def _alternatives(
    token: str, logprob: float | None, top: Top | None, strings: Strings, numbers: list[int]
) -> None:
    if top is None:
        numbers.append(0)
        return
    numbers.append(1 + len(top))
    for text, value in top.items():
        if text == token and value == logprob:
            numbers.append(0)
        else:
            numbers += (1 + strings.place(text), thousandths(value))
