"""Rollouts over real HTTP, in real files: durable, resumable, stoppable, and never more than they may."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from acs_jupyter import AsyncClient, Client, Rollout, rollout, rollout_async
from acs_jupyter.errors import BudgetRefused, InvalidRequest
from acs_jupyter.ledger import ledger
from acs_jupyter.local.desk import Limits
from acs_jupyter.rollouts.driver import Stats
from acs_jupyter.rollouts.lines import batch_client
from acs_jupyter.rollouts.progress import words
from tests.support.desks import OWN, Counter, counter, until
from tests.support.player import CLOSE, DONE, Player, frames, head, stream, whole
from tests.support.rollout_kill import survive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import Running

WORDS = [f"word {i}" for i in range(20)]
SLOW = [f"#scripted rate=40 tokens=12\n{i}" for i in range(24)]
NO_LIST = {"/models": whole({"error": {"code": "not_found", "message": "none"}}, "404 Not Found")}
FREE = Limits(starts=0, reads=0)


@pytest.fixture(autouse=True)
def in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def client(scripted_server: Running) -> Iterator[Client]:
    with Client(scripted_server.base, scripted_server.key, model="scripted") as made:
        yield made


def run(client: Client, prompts: Any = WORDS, **options: Any) -> Rollout:
    fields = {"max_tokens": 4, "seed": 1, "starts": 0, "progress": False, "into": "run.acs.db"}
    return rollout(prompts, client=client, **(fields | options))


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
    with pytest.raises(InvalidRequest, match=r"pip install 'acs-jupyter\[parquet\]'"):
        made.to_parquet("none.parquet")


def test_failures_are_rows_and_only_they_are_sent_again(client: Client) -> None:
    prompts = ["fine", "#scripted fault=invalid_request times=1\n1", "#scripted fault=cut after=2 times=1\n2"]
    made = run(client, prompts)
    frame = made.frame()
    assert list(frame.state) == ["done", "failed", "failed"]
    assert list(frame.error[1:]) == ["invalid_request", "interrupted"]
    assert frame.text[2].count(" ") == 2
    assert frame.completion_tokens[2] == 2
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
    assert found.finished_at_kills[-1] > 8
    assert found.again > 0


# Stopping


@contextmanager
def interrupted_after(*seconds: float) -> Iterator[pytest.ExceptionInfo[KeyboardInterrupt]]:
    timers = [threading.Timer(s, os.kill, (os.getpid(), signal.SIGINT)) for s in seconds]
    for timer in timers:
        timer.start()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            yield caught
    finally:
        for timer in timers:
            timer.cancel()


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    with counter(tmp_path_factory.mktemp("desk"), FREE) as running:
        yield running


@pytest.fixture
def desk_client(served: Counter) -> Iterator[Client]:
    with Client(served.base, OWN, model="scripted") as made:
        yield made


def test_an_interrupt_finishes_what_is_in_flight(served: Counter, desk_client: Client) -> None:
    with interrupted_after(0.4) as caught:
        run(desk_client, SLOW, max_tokens=12, in_flight=4)
    [line] = caught.value._render_traceback_()  # type: ignore[attr-defined]  # what a notebook shows
    assert line.startswith('KeyboardInterrupt: Stopped; what came is kept: Rollout("run.acs.db") reads it.')
    assert re.search(r"Run the cell again to send the \d+ that are left\.$", line)
    states = Rollout("run.acs.db").frame(pending=True).state.value_counts()
    assert set(states.index) == {"done", "pending"}
    assert all(entry.status == 200 for entry in served.quiet())
    made = run(desk_client, SLOW, max_tokens=12)
    assert made.stats.done == len(SLOW)
    assert len(served.quiet()) == len(SLOW)  # nothing was sent twice
    assert made.stats.tokens == served.used(OWN)


def test_a_second_interrupt_drops_it_and_frees_the_server(served: Counter, desk_client: Client) -> None:
    endless = [f"#scripted rate=20\n{i}" for i in range(6)]
    with interrupted_after(0.8, 1.2):
        run(desk_client, endless, max_tokens=2000, in_flight=4)
    log = served.quiet()
    assert [entry.status for entry in log] == [499] * 4
    left = Rollout("run.acs.db")
    assert left.outcome == "stopped"
    assert list(left.frame(pending=True).state) == ["pending"] * 6
    assert left.stats.tokens <= served.used(OWN)
    assert left.stats.tokens > 4  # what was seen before the end is counted


def test_in_the_background_it_can_be_watched_and_stopped(served: Counter, desk_client: Client) -> None:
    made = run(desk_client, SLOW, max_tokens=12, in_flight=4, bg=True)
    assert made.outcome == "open"
    until(lambda: made.stats.done >= 4)
    assert len(made.frame()) >= 4
    made.stop()
    made.wait()
    assert made.outcome == "stopped"
    assert 4 <= made.stats.done < len(SLOW)
    assert made.stats.in_flight == 0


def test_a_cancelled_task_drops_what_is_in_flight(served: Counter, desk_client: Client) -> None:
    async def main() -> None:
        work = asyncio.create_task(
            rollout_async(
                SLOW, client=desk_client, max_tokens=12, into="run.acs.db", progress=False, in_flight=4
            )
        )
        await asyncio.sleep(0.5)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    served.quiet()
    assert run(desk_client, SLOW, max_tokens=12, seed=None).stats.done == len(SLOW)


def test_it_stops_before_the_budget_could_be_passed_and_goes_on_with_more(
    served: Counter, desk_client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(desk_client, budget=90)
    assert made.outcome == "budget"
    assert 0 < made.stats.done < 20
    assert served.used(OWN) == made.stats.tokens <= 90
    assert "stopped at the budget" in capsys.readouterr().err
    assert run(desk_client, budget=90).stats.tokens == made.stats.tokens  # nothing fits any more
    assert run(desk_client, budget=2000).stats.done == 20


def test_a_budget_of_the_key_stops_it(served: Counter) -> None:
    with Client(served.base, served.new_key(budget=60), model="scripted") as client:
        made = run(client, in_flight=1)
    assert made.outcome == "budget"
    assert "budget_exceeded" in made.reason
    assert made.stats.failed == 0
    assert set(made.frame(pending=True).state) == {"done", "pending"}


def test_a_wrong_key_stops_it_with_everything_still_to_do(served: Counter) -> None:
    with Client(served.base, "acs-bm-0123abcd-wrong", model="scripted") as client:
        made = run(client)
    assert (made.outcome, made.stats.done, made.stats.failed) == ("refused", 0, 0)
    assert "wrong" not in made.reason


def test_a_server_that_only_fails_stops_it(client: Client) -> None:
    broken = [f"#scripted fault=upstream_server_error retry_after=0\n{i}" for i in range(30)]
    made = run(client, broken, burst=10)
    assert made.outcome == "failures"
    assert made.stats.done == 0
    assert set(made.frame(pending=True).state) <= {"pending", "failed"}


class Allowance:
    """A meter that lets so many requests pass at a time, and so many in all."""

    def __init__(self, at_once: int, total: int) -> None:
        self.at_once, self.left, self.held, self.spent = at_once, total, 0, 0

    def reserve(self, request: Any, run: str) -> str:
        if self.held >= self.at_once or not self.left:
            raise BudgetRefused("Nothing is left.")
        self.held += 1
        self.left -= 1
        return run

    def settle(self, ticket: str, prompt_tokens: int, completion_tokens: int, source: str) -> None:
        self.held -= 1
        self.spent += prompt_tokens + completion_tokens

    def release(self, ticket: str) -> None:
        self.held -= 1


def test_a_meter_is_asked_for_each_request_and_its_no_is_waited_out(client: Client) -> None:
    client.meter = meter = Allowance(3, 12)
    made = run(client)
    assert (made.outcome, made.stats.done, made.stats.tokens) == ("budget", 12, meter.spent)
    assert "Nothing is left" in made.reason
    meter.left = 100
    assert run(client).stats.done == 20


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
    answer = stream(0.05, *frames(["x"]), DONE)
    with Player([answer], {"/models": whole(models)}) as player, Client(player.base, "k") as client:
        made = run(client, WORDS[:8], models=["a", "b"], in_flight=4)
        order = [request.json["model"] for request in player.requests]  # type: ignore[index]
    assert made.stats.done == 16
    assert "b" in order[:4]
    assert order[:6].count("b") <= 2


def test_a_batch_gives_the_same_answers_in_fewer_requests(served: Counter, desk_client: Client) -> None:
    alone = run(desk_client, logprobs=1).frame()
    count = len(served.quiet())
    together = run(desk_client, logprobs=1, into="batch.db", batch=8).frame()
    assert len(served.quiet()) - count == 3
    same = ["text", "finish_reason", "prompt_tokens", "completion_tokens", "logprob", "item"]
    pd.testing.assert_frame_equal(together[same], alone[same])
    greedy = [run(desk_client, temperature=0, into=f"{b}.db", batch=b).frame()[same] for b in (1, 7)]
    pd.testing.assert_frame_equal(*greedy)


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


# Lines


def test_lines_are_used_again_and_say_batch() -> None:
    with (
        Player([stream(*frames(["x"]), DONE)], NO_LIST) as player,
        Client(player.base, "k", model="m") as client,
    ):
        run(client, WORDS[:9], in_flight=2)
    asked = player.requests
    assert len(asked) == 9
    assert {request.headers["x-acs-workload"] for request in asked} == {"batch"}
    assert {request.headers["authorization"] for request in asked} == {"Bearer k"}
    assert len({request.connection for request in asked}) == 2
    assert all(request.json["stream"] is True for request in asked)  # type: ignore[index]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([CLOSE], "connection_failed"),
        ([b"HTTP/1.1 200 OK\r\nContent-", CLOSE], "connection_failed"),
        ([b"SSH-2.0-x\r\n\r\n"], "connection_failed"),
        (stream(*frames(["x", "y"], finish=None), end=False), "interrupted"),
        ([head(kind="text/event-stream"), b"zz\r\n"], "connection_failed"),
    ],
)
def test_a_broken_answer_is_a_failed_row_that_was_not_sent_again(answer: list[Any], code: str) -> None:
    with Player([answer], NO_LIST) as player, Client(player.base, "k", model="m") as client:
        made = run(client, ["a"])
        assert len(player.requests) == 1
    assert list(made.frame().error) == [code]


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = whole({"object": "list", "data": []})
    with Player([stream(*frames(["x"]), DONE)], {"/models": asked}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base.removesuffix("/v1"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with Client("http://service.invalid/v1", "k", model="m") as client:
            made = run(client, ["a"])
    assert made.stats.done == 1
    assert proxy.requests[0].line.startswith("POST http://service.invalid/v1/completions")


def test_the_key_shows_nowhere(client: Client, tmp_path: Path) -> None:
    made = run(client, WORDS[:3])
    key = client._secret.reveal()
    assert key not in repr(made)
    assert key not in repr(batch_client(client))
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(written) > 1  # the journal, and the budget ledger
    assert all(key.encode() not in file.read_bytes() for file in written)


# Progress


def test_the_bar_says_how_it_stands(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    run(client, [*WORDS, "#scripted fault=invalid_request"], progress=True)
    shown = capsys.readouterr().err
    assert "21/21" in shown
    assert "1 failed (invalid_request 1)" in shown
    assert "retry_failed=True sends them again" in shown
    stats = Stats(10, 2, 0, in_flight=3, tokens=1234, new_tokens=1000, waiting=12.0)
    stats.retried["queue_full"] = 2
    assert words(stats, 2.0) == (
        "1,234 tokens, 500 tokens/s, 3 in flight, 2 sent again (queue_full 2), waiting 12 s"
    )


def test_a_file_without_a_name_is_named_after_the_plan(client: Client) -> None:
    first = run(client, into=None)
    assert run(client, into=None).path == first.path
    assert run(client, into=None, max_tokens=5).path != first.path
    assert time.time() - first.path.stat().st_mtime < 600


def test_a_link_to_a_journal_is_the_same_journal(client: Client, tmp_path: Path) -> None:
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    slow = ["#scripted rate=5\nslow", *WORDS[:2]]
    first = run(client, slow, into="a.db", bg=True, max_tokens=40)
    with pytest.raises(InvalidRequest, match="is being written by"):
        run(client, slow, into="b.db", max_tokens=40)
    first.stop(drop=True)
    first.wait()
    assert (
        run(client, slow[1:] and slow, into="b.db", max_tokens=40, seeds=None).path.resolve()
        == tmp_path / "a.db"
    )


def test_a_scope_around_a_rollout_limits_it(client: Client) -> None:
    with ledger().scope("cell", "around", 30) as scope:
        made = run(client, WORDS, max_tokens=5)
        assert 0 < scope.spent <= 30
    assert made.outcome == "budget"
