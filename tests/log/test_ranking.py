"""The rank of a sampled token: the browser's rule and this one are held to the same cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter.log import events as ev
from acs_jupyter.log.ranking import asked_of, rank_of
from acs_jupyter.log.session import Session

CASES = json.loads((Path(__file__).parent.parent / "data" / "ranks.json").read_text())
"""Token, logprob, alternatives, how many were asked for, rank; ``js/test/views.test.ts`` reads them too."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rank_is_told_where_it_is_known(case: list[Any]) -> None:
    token, logprob, top, asked, rank = case
    assert rank_of(token, logprob, top, asked) == rank


def test_what_a_branch_kept_was_asked_for_by_another_run() -> None:
    session = Session()
    session.apply([ev.RunOpened("r", {"prompt": "p", "logprobs": 2}), ev.NodeOpened("r.0", "r")])
    node = session.nodes["r.0"]
    node.kept = 1
    assert [asked_of(session, node, index) for index in (0, 1)] == [None, 2]
