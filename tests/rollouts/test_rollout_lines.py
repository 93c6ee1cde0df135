"""A rollout's connections, its bar, and the names of its files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from acs_jupyter import Client
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.ledger import ledger
from acs_jupyter.rollouts.driver import Stats
from acs_jupyter.rollouts.lines import batch_client
from acs_jupyter.rollouts.progress import words
from tests.support.player import CLOSE, DONE, Player, frames, head, stream, whole
from tests.support.rollouts import NO_LIST, WORDS, run

if TYPE_CHECKING:
    from pathlib import Path


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
    assert len({request.connection for request in asked}) <= 2  # one, when each answer is there at once
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
    import ipykernel.zmqshell  # noqa: F401  # to be imported is not to be in a notebook

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
