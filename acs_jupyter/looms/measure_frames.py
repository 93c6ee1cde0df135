"""What a loom measured as pandas frames; the columns and their units are told where each is asked for.

Owns the making of the frames. It must not know how anything is measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

TRIE_COLUMNS = [
    "fork", "depth", "position", "before", "token", "text", "count", "of", "share", "low", "high", "probability",
    "sampled", "cut", "nodes",
]  # fmt: skip
DIFF_COLUMNS = ["op", "a_index", "a_token", "a_logprob", "b_index", "b_token", "b_logprob"]
MAP_COLUMNS = [
    "cell", "parent", "depth", "kind", "token", "id", "text", "logprob", "probability", "path_logprob", "area",
]  # fmt: skip
SEARCH_COLUMNS = [
    "node", "parent", "depth", "score", "expanded", "kept", "text", "path_logprob", "path_per_token", "finish_reason",
]  # fmt: skip
_WHOLE = ("a_index", "b_index", "cell", "parent", "id")
"""Columns of whole numbers, some of which can be missing."""


def frame_of(rows: Iterable[list[Any]], columns: list[str], **about: Any) -> pd.DataFrame:
    """A frame of rows; ``about`` becomes its ``attrs``."""
    frame = pd.DataFrame(list(rows), columns=columns)
    if columns is not SEARCH_COLUMNS:
        frame = frame.astype({name: "Int64" for name in _WHOLE if name in columns})
    frame.attrs = about
    return frame
