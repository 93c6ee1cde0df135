"""Rollouts over real HTTP, in real files: durable, resumable, stoppable, and never more than they may."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from acs_jupyter import AsyncClient, Client, Rollout, rollout, rollout_async
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.local.desk import Limits
from tests.support.desks import OWN, counter
from tests.support.player import DONE, Player, frames, most_at_once, stream, whole
from tests.support.rollout_kill import survive
from tests.support.rollouts import NO_LIST, SLOW, WORDS, run

if TYPE_CHECKING:
    from pathlib import Path


# What comes back


def test_all_three_forms_give_what_single_requests_give(client: Client) -> None:
    alone = [client.complete(prompt, max_tokens=4, seed=1).text for prompt in WORDS]
    assert list(run(client).frame().text) == alone
    begun = run(client, into="bg.acs.db", bg=True)
    assert list(begun.wait().frame().text) == alone

    async def main() -> Rollout:
        async with AsyncClient(client.base_url, client._secret, model="scripted") as other:
            made = await rollout_async(
                WORDS, client=other, max_tokens=4, seed=1, starts=0, progress=False, into="a.acs.db"
            )
        return await rollout(
            WORDS, client=other, max_tokens=4, seed=1, starts=0, progress=False, into=made.path, bg=True
        )

    assert list(asyncio.run(main()).frame().text) == alone


def test_a_frame_has_metadata_variants_costs_and_choices(client: Client) -> None:
    source = pd.DataFrame(
        {"text": ["a", "b"], "label": ["x", "y"], "prompt": ["p", "q"], "state": [1, 2]}, index=[7, 9]
    )
    made = run(
        client, source, column="text", seed=None, seeds=[3, 4], n=2, grid={"top_p": [0.5, 1.0]}, logprobs=2
    )
    frame = made.frame()
    assert list(frame.columns[:10]) == [
        "item",
        "prompt",
        "row",
        "label",
        "meta_prompt",
        "meta_state",
        "model",
        "top_p",
        "seed",
        "choice",
    ]
    assert len(frame) == 2 * 2 * 2 * 2
    assert list(frame.label) == ["x"] * 8 + ["y"] * 8
    assert list(frame.row[:1]) == [7]
    assert list(frame.prompt) == ["a"] * 8 + ["b"] * 8
    assert list(frame.meta_prompt) == ["p"] * 8 + ["q"] * 8
    assert (frame.state == "done").all()
    assert frame.prompt_tokens.sum() + frame.completion_tokens.sum() == made.stats.tokens
    tokens = made.frame(tokens=True)
    assert len(tokens) == len(frame) * 4
    assert "".join(tokens[(tokens.number == 0) & (tokens.choice == 1)].token) == frame.text[1]
    first = next(made.completions())
    assert (first.item, first.meta["label"], first.varied, first.texts) == (
        0,
        "x",
        {"top_p": 0.5, "seed": 3},
        list(frame.text[:2]),
    )
    assert first.request_id.startswith("acsj-")


def test_prompts_scored_are_kept_with_their_scores(client: Client) -> None:
    made = run(client, ["one two", [5, 6, 7]], prompt_logprobs=1, max_tokens=1)
    text, ids = made.completions()
    assert [t.text for t in text.choices[0].prompt_tokens] == ["one", " two"]
    assert ids.prompt == [5, 6, 7]
    assert list(made.frame().prompt) == ["one two", [5, 6, 7]]


def test_parquet_holds_the_frame(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    source = [
        {"prompt": "a", "k": None},
        {"prompt": "b", "k": 2},
        {"prompt": "#scripted fault=vllm_oom", "k": 3},
    ]
    made = run(client, source, logprobs=1)
    back = pd.read_parquet(made.to_parquet("run.parquet"))
    assert list(back.columns) == list(made.frame().columns)
    assert list(back.text) == list(made.frame().text)
    assert back.k.dtype.kind in "if"
    tokens = pd.read_parquet(made.to_parquet("tokens.parquet", tokens=True))
    assert dict(tokens.top[0]) == made.frame(tokens=True).top[0]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidRequest, match=r"pip install pyarrow \(in a cell: %pip install pyarrow\)\.$"):
        made.to_parquet("none.parquet")


def test_failures_are_rows_and_only_they_are_sent_again(client: Client) -> None:
    prompts = ["fine", "#scripted fault=invalid_request times=1\n1", "#scripted fault=cut after=2 times=1\n2"]
    made = run(client, prompts)
    frame = made.frame()
    assert list(frame.state) == ["done", "failed", "failed"]
    assert list(frame.error[1:]) == ["invalid_request", "interrupted"]
    assert frame.text[2].count(" ") == 2
    assert frame.completion_tokens[2] == 4  # the most it can have been
    assert made.failures == {"interrupted": 1, "invalid_request": 1}
    assert made.outcome == "done"
    assert list(run(client, prompts).frame().state) == ["done", "failed", "failed"]
    after = run(client, prompts, retry_failed=True).frame()
    assert list(after.state) == ["done"] * 3
    assert list(after.attempts) == [1, 2, 2]
    assert after.text[0] == frame.text[0]


# Durable


def test_what_is_done_returns_at_once_and_needs_no_server(client: Client) -> None:
    frame = run(client).frame()
    with Client("http://127.0.0.1:9", "no-key", model="scripted") as nowhere:
        again = run(nowhere)
        assert again.outcome == "done"
        pd.testing.assert_frame_equal(again.frame(), frame)
    pd.testing.assert_frame_equal(Rollout("run.acs.db").frame(), frame)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_tokens": 5}, "max_tokens: 4 -> 5"),
        ({"prompts": [*WORDS[:-1], "other"]}, "1 prompt differs, the first is item 19"),
        ({"prompts": WORDS[:-1]}, "prompts: 20 -> 19"),
        ({"seed": None, "seeds": [1, 2]}, "seed: 1 -> 1, 2"),
    ],
)
def test_another_plan_is_refused_and_told(client: Client, change: dict[str, Any], told: str) -> None:
    before = run(client).frame()
    with pytest.raises(InvalidRequest) as caught:
        run(client, **change)
    assert told in str(caught.value)
    pd.testing.assert_frame_equal(run(client).frame(), before)


def test_files_that_are_not_ours_or_not_there_are_told_in_one_line(client: Client, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to look at" * 20)
    with sqlite3.connect("other.db") as db:
        db.execute("CREATE TABLE x (y)")
    for name in ("text.db", "other.db"):
        with pytest.raises(InvalidRequest, match="not the journal of a rollout"):
            run(client, into=name)
        with pytest.raises(InvalidRequest, match="not the journal"):
            Rollout(name)
    with pytest.raises(InvalidRequest, match="nothing to resume"):
        run(client, resume=True)
    with pytest.raises(InvalidRequest, match="folder does not exist"):
        run(client, into="no/where.db")
    run(client)
    with pytest.raises(InvalidRequest, match="exists already"):
        run(client, resume=False)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["other.db", "run.acs.db", "text.db"]
    assert (tmp_path / "run.acs.db").stat().st_mode & 0o777 == 0o600


def test_what_is_refused_before_anything_is_sent_leaves_no_file(client: Client, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"no model 'scripte'\. Did you mean scripted"):
        run(client, models="scripte")
    assert not list(tmp_path.glob("*.db*"))
    begun = run(client, models="scripte", bg=True)
    with pytest.raises(InvalidRequest, match="no model"):
        begun.wait()
    assert (begun.outcome, len(begun), list(tmp_path.glob("*.db*"))) == ("refused", 0, [])
    assert "no model" in begun.reason
    assert "refused" in repr(begun)
    with pytest.raises(InvalidRequest, match="no 'text'"):
        run(client, [{"prompt": "a"}], column="text")
    with pytest.raises(InvalidRequest, match="per_model names 'x'"):
        run(client, per_model={"x": 1})
    assert not list(tmp_path.glob("*.db*"))
    assert run(client).stats.done == 20


def test_a_model_that_a_file_names_and_the_server_lacks_is_told_so(client: Client) -> None:
    run(client)
    with sqlite3.connect("run.acs.db") as db:
        db.execute("UPDATE about SET value = replace(value, '\"scripted\"', '\"gone\"') WHERE name = 'plan'")
        db.execute("UPDATE requests SET state = 0")
    with (
        Client(client.base_url, client._secret) as other,
        pytest.raises(
            InvalidRequest, match=r"no model 'gone', which the plan in run\.acs\.db names.*another file"
        ),
    ):
        run(other)
    assert len(Rollout("run.acs.db").frame(pending=True)) == 20


def test_the_second_one_at_a_file_is_told(client: Client) -> None:
    first = run(client, SLOW, max_tokens=12, bg=True)
    with pytest.raises(InvalidRequest, match="being written by this process"):
        run(client, SLOW, max_tokens=12)
    first.stop(drop=True)
    first.wait()
    assert run(client, SLOW[:3], into="other.db").stats.done == 3


def test_a_prompt_that_has_no_utf8_is_told_with_its_place(client: Client) -> None:
    with pytest.raises(InvalidRequest, match=r"Item 1: prompt holds a lone surrogate"):
        run(client, ["a", "b\ud800"])
    assert run(client, ["a", "b"]).stats.done == 2


def test_equal_prompts_are_requests_of_their_own(client: Client) -> None:
    made = run(client, ["same"] * 5, seed=None)
    assert made.frame().number.tolist() == [0, 1, 2, 3, 4]
    assert made.frame().request_id.nunique() == 5


def test_kill_at_random_moments_loses_nothing_and_sends_nothing_finished_again(tmp_path: Path) -> None:
    found = survive(tmp_path, kills=8, count=80, seed=1)
    assert (found.lost, found.sent_twice) == (0, 0)
    assert found.finished_at_kills[-1] > 0
    assert found.again > 0


# Flow


def test_two_at_one_key_make_room_for_each_other_and_nothing_is_lost(tmp_path: Path) -> None:
    with counter(tmp_path / "desk", Limits(active=2, waiting=1, starts=0, reads=0)) as served:
        quick = [f"#scripted ttft=0.4 tokens=2\n{i}" for i in range(6)]
        with Client(served.base, OWN, model="scripted") as client:
            both = [run(client, quick, into=f"{name}.db", bg=True) for name in "ab"]
            stats = [one.wait().stats for one in both]
        answered = [entry for entry in served.quiet() if entry.status == 200]
    assert [one.done for one in stats] == [6, 6]
    assert len(answered) == 12
    assert sum(one.retried["queue_full"] for one in stats) >= 1


def test_retryable_errors_are_waited_out_and_told(client: Client) -> None:
    prompts = [f"#scripted fault={code} times=1 retry_after=0\n" for code in ("rate_limited", "circuit_open")]
    made = run(client, prompts)
    assert made.stats.done == 2
    assert made.stats.retried == {"rate_limited": 1, "circuit_open": 1}


def test_models_are_asked_in_turn_and_each_has_its_limit() -> None:
    models = {
        "object": "list",
        "data": [{"id": "a"}, {"id": "b", "capabilities": {"max_inflight_per_key": 1}}],
    }
    answer = stream(0.05, b"".join([*frames(["x"]), DONE]))
    with Player([answer], {"/models": whole(models)}) as player, Client(player.base, "k") as client:
        made = run(client, WORDS[:8], models=["a", "b"], in_flight=4)
        asked = {name: [r for r in player.requests if r.json["model"] == name] for name in "ab"}  # type: ignore[index]
    assert made.stats.done == 16
    assert [len(requests) for requests in asked.values()] == [8, 8]
    assert asked["b"][0].came_at < asked["a"][-1].came_at  # not one model after the other
    assert most_at_once(asked["b"]) == 1
    assert most_at_once(asked["a"]) > 1


def test_a_batch_with_one_bad_prompt_is_sent_one_by_one(tmp_path: Path) -> None:
    with Player([[]], NO_LIST) as player:
        bad = whole({"error": {"code": "vllm_context_length", "message": "too long"}}, "400 Bad Request")
        good = stream(*frames(["x"]), DONE)
        player.answers = [bad, good, bad, good]
        with Client(player.base, "k", model="m") as client:
            made = run(client, ["a", "b", "c"], batch=3, in_flight=1)
        prompts = [request.json["prompt"] for request in player.requests]  # type: ignore[index]
    assert prompts == [["a", "b", "c"], "a", "b", "c"]
    assert list(made.frame().state) == ["done", "failed", "done"]


def test_the_cache_answers_what_is_deterministic_and_says_so(client: Client) -> None:
    first = run(client, cache="cache.db").frame()
    again = run(client, into="two.db", cache="cache.db")
    assert not first.cached.any()
    assert again.frame().cached.all()
    assert again.stats.tokens == 0
    assert list(again.frame().text) == list(first.text)
    assert not run(client, into="three.db", cache="cache.db", seed=None).frame().cached.any()
    assert not run(client, into="four.db", cache="cache.db", seed=2).frame().cached.any()
    assert not run(client, into="five.db").frame().cached.any()
