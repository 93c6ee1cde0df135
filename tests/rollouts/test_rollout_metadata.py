"""What is noted beside a prompt comes back as it was, or is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from acs_jupyter import Client, errors, rollout
from acs_jupyter.rollouts.items import items_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def meta(source: Any, **options: Any) -> list[Mapping[str, Any]]:
    return [json.loads(item.meta) for item in items_of(source, **options)]


def test_what_is_missing_is_missing_whatever_pandas_calls_it() -> None:
    frame = pd.DataFrame(
        {
            "prompt": ["a", "b"],
            "whole": pd.array([1, pd.NA], dtype="Int64"),
            "day": [pd.Timestamp("2020-01-02"), pd.NaT],
            "word": pd.array(["u", pd.NA], dtype="string"),
            "number": [0.5, float("nan")],
        }
    )
    kept, missing = meta(frame)
    assert kept == {"whole": 1, "day": "2020-01-02T00:00:00", "word": "u", "number": 0.5}
    assert missing == dict.fromkeys(["whole", "day", "word", "number"])
    assert meta([{"prompt": "a", "n": [pd.NA, np.datetime64("NaT")]}]) == [{"n": [None, None]}]


def test_arrays_are_lists_however_long() -> None:
    cells = [np.arange(3), np.array([5]), np.array([np.inf])]
    assert [each["v"] for each in meta(pd.DataFrame({"prompt": ["a", "b", "c"], "v": cells}))] == [
        [0, 1, 2],
        [5],
        [float("inf")],
    ]
    assert meta([{"prompt": "a", "v": np.float64(2.5), "b": np.bool_(True)}]) == [{"v": 2.5, "b": True}]


def test_a_prompt_under_a_number_is_found() -> None:
    assert [item.prompt for item in items_of(pd.DataFrame([["a", "b"]]), 0)] == ["a"]
    assert meta(pd.DataFrame([["a", "b"]]), column=0) == [{"1": "b"}]
    assert meta([{0: "a", 1: "b"}], column=0) == [{"1": "b"}]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (pd.DataFrame([["a", 1, 2]], columns=["prompt", "x", "x"]), "The frame has 'x' more than once"),
        (pd.DataFrame([["a", "b"]], columns=["prompt", "prompt"]), "The frame has 'prompt' more than once"),
        (
            pd.DataFrame({"prompt": ["a"], "row": [7]}, index=["p"]),
            r"rename the column, or give .*reset_index",
        ),
        ([{"prompt": "a", 1: "x", "1": "y"}], "Item 0 has '1' more than once"),
    ],
)
def test_two_of_one_name_are_refused_in_one_line(source: Any, line: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=line) as caught:
        meta(source)
    assert "\n" not in str(caught.value)
    assert meta(pd.DataFrame({"prompt": ["a"], "row": [7]})) == [{"row": 7}]


def test_names_that_are_taken_keep_apart(client: Client) -> None:
    given = [{"prompt": "a", "text": "T", "meta_text": "q"}, {"prompt": "b", "text": "U"}]
    run = rollout(given, client=client, max_tokens=1, into="run.db", progress=False)
    frame = run.frame()
    assert frame["meta_meta_text"].tolist() == ["T", "U"]
    assert frame["meta_text"].tolist()[0] == "q"
    assert frame["meta_text"].isna().tolist() == [False, True]
    assert [each.meta for each in run.completions()] == [
        {k: v for k, v in g.items() if k != "prompt"} for g in given
    ]
