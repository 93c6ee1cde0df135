"""A loom as pandas frames: one row a node, or one a token.

Owns the columns and their units. It must not know who holds the session.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ..log.arrangement import sampled
from ..log.session import Session
from .measure import Paths, scored
from .query import TOKEN_NAMES, model_of

NODE_COLUMNS = [
    "node", "parent", "depth", "children", "generated", "model", "text", "tokens", "logprob", "path_logprob",
    "path_per_token", "path_tokens", "path_unknown", "finish_reason", "stop_reason", "outcome", "temperature", "top_p",
    "seed", "max_tokens", "opened_at", "tags", "note", "bookmark", "rating", "unread", "run",
]  # fmt: skip
TOKEN_COLUMNS = ["node", "index", "token", "logprob", "probability", "surprisal", "rank", "other", "top"]


def node_frame(session: Session, nodes: list[str], children: dict[str, int]) -> pd.DataFrame:
    """One row a node, in the given order. ``logprob`` sums the node's own tokens, ``path_*`` from the prompt's end."""
    paths = Paths(session)
    rows = [_row(session, node, children.get(node, 0), paths) for node in nodes]
    return pd.DataFrame(rows, columns=NODE_COLUMNS)


def _row(session: Session, name: str, children: int, paths: Paths) -> list[Any]:
    node, run = session.nodes[name], session.runs[session.nodes[name].run]
    path, own = paths.logprob(name), scored(session, node)
    generated = sampled(session.arrangement, node)
    marks = session.arrangement.marks.get(name, {})
    sampling = [run.request.get(field) for field in ("temperature", "top_p", "seed", "max_tokens")]
    return [
        name, node.parent, paths.depth(name), children, generated, model_of(session, node),
        session.own_text(node), len(node.tokens), own.total, path.total, path.per_token, path.tokens, path.unknown,
        node.finish_reason, node.stop_reason, run.outcome if generated else None, *sampling, run.opened_at,
        list(marks.get("tags", ())), marks.get("note"), bool(marks.get("bookmark")), marks.get("rating"),
        bool(marks.get("unread")), node.run,
    ]  # fmt: skip


def token_frame(session: Session, nodes: list[str]) -> pd.DataFrame:
    """One row a token. ``other``: the mass that was not returned.

    ``rank``: 1 = most likely, ``<NA>`` for a token that is not among the returned likeliest.
    """
    rows = []
    for name in nodes:
        node = session.nodes[name]
        for i, token in enumerate(node.tokens):
            logprob, top = node.logprobs[i], node.top[i]
            probability = None if logprob is None else math.exp(min(logprob, 0.0))
            other = None if top is None else max(0.0, 1.0 - sum(math.exp(min(v, 0.0)) for v in top.values()))
            surprisal, rank = (TOKEN_NAMES[measure](session, node, i) for measure in ("surprisal", "rank"))
            rows.append([name, i, token, logprob, probability, surprisal, rank, other, top])
    return pd.DataFrame(rows, columns=TOKEN_COLUMNS).astype({"rank": "Int64"})
