"""What a caller may give: other kinds of texts and numbers are taken, what cannot be sent is refused in one line."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from acs_jupyter import AsyncClient, Client, errors
from acs_jupyter.completion import Completion
from tests.support.clients import KEY, Sync, body
from tests.support.player import DONE, Player, frames, stream, whole

BASE = "http://127.0.0.1:9/v1"


class Text(str):
    __slots__ = ()


def test_texts_and_numbers_of_other_kinds_are_sent_as_plain_ones(api: Sync) -> None:
    two = body()
    two["choices"] = [{"index": i, "text": "x", "finish_reason": "stop"} for i in range(2)]
    with Player([whole(body()), whole(body()), whole(two), whole(body())]) as server:
        api.complete(
            server.base, np.str_("Hi 🦊"), model=Text("m"), max_tokens=np.int64(5), temperature=np.float32(0.5),
            stop=(Text("x"), np.str_("y")), echo=np.bool_(True), stream=False,
        )  # fmt: skip
        api.complete(server.base, np.array([1, 2]), top_p=np.float64(0.5), stream=False)
        api.complete(server.base, [Text("a"), np.str_("b")], max_tokens=1, stream=False)
        api.complete(server.base, [np.int32(3)], validate=False, odd=np.arange(2), stream=False)
    sent = [request.json for request in server.requests]
    assert sent[0] == {
        "prompt": "Hi 🦊", "model": "m", "max_tokens": 5, "temperature": 0.5, "stop": ["x", "y"], "echo": True,
        "stream": False,
    }  # fmt: skip
    assert sent[1] == {"prompt": [1, 2], "top_p": 0.5, "stream": False}
    assert sent[2]["prompt"] == ["a", "b"]
    assert (sent[3]["prompt"], sent[3]["odd"]) == ([3], [0, 1])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_tokens": 10**5000}, ["max_tokens", "out of every range"]),
        ({"temperature": 10**400}, ["temperature", "out of range"]),
        ({"stream": True, "stream_options": {1: 2}}, ["stream_options", "names are texts"]),
        ({"stream": True, "stream_options": {"a\ud800": True}}, ["stream_options", "lone surrogate"]),
        ({"foo\ud800": 1}, ["Unknown field 'foo<U+D800>'"]),
        ({"stream": True, "stream_options": {"include_usag": True}}, ["Did you mean 'include_usage'?"]),
        ({"messages": []}, ["no chat", "prompt"]),
        ({"timeout": 5}, ["Client(timeout="]),
        ({"retries": 5}, ["Client(retries="]),
        ({"stop": ""}, ["stop=''", "leave it out"]),
        ({"stop": ["x", ""]}, ["stop=''"]),
        ({"prompt": [3, -1]}, ["token id -1"]),
        ({"prompt": "", "add_special_tokens": False}, ["no token"]),
        ({"n": 2, "max_tokens": 4, "temperature": 0}, ["n=2 with temperature=0"]),
        ({"n": 16, "max_tokens": 3000}, ["1 x 16 x 3000", "Lower max_tokens to 2000"]),
    ],
)
def test_what_cannot_be_is_one_line(fields: dict[str, Any], words: list[str]) -> None:
    with Client(BASE, KEY) as client, pytest.raises(errors.InvalidRequest) as caught:
        client.request(**{"prompt": "Hi", **fields})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("field", ["min_tokens", "skip_special_tokens", "length_penalty", "logit_bias"])
def test_a_field_that_has_no_like_gets_no_suggestion(field: str) -> None:
    with Client(BASE, KEY) as client, pytest.raises(errors.InvalidRequest, match=field) as caught:
        client.request("Hi", **{field: 1})
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "odd",
    [{"a": "\ud800"}, object(), {1: 2}, {(1, 2): 1}, [10**5000], {"\ud800"}, {"\ud800": 1}, [[["\udc00"]]]],
)
def test_without_validation_what_has_no_form_is_refused(odd: Any) -> None:
    with Client(BASE, KEY) as client, pytest.raises(errors.InvalidRequest, match=r"foo|JSON"):
        client.complete("Hi", validate=False, foo=odd)


def test_without_validation_depth_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with Client(BASE, KEY) as client, pytest.raises(errors.InvalidRequest, match="nested too deep"):
        client.request("Hi", validate=False, foo=deep)


@pytest.mark.parametrize(
    "settings",
    [{"retries": "3"}, {"retries": -1}, {"retries": True}, {"timeout": "5"}, {"timeout": -1}, {"timeout": 0},
     {"timeout": float("nan")}, {"longest_wait": "1"}, {"workload": 5}, {"workload": "x\ny"}, {"workload": "ü"},
     {"base_url": 5}, {"api_key": 5}, {"api_key": b"abcdef"}],
)  # fmt: skip
def test_settings_are_judged_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(errors.NotConfigured, match=next(iter(settings))) as caught:
        Client(**{"base_url": BASE, "api_key": KEY, **settings})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("odd", ["\ud800", "", None, 5])
def test_ids_are_judged(odd: Any) -> None:
    with Client(BASE, KEY) as client:
        for call in (
            client.status,
            client.jobs.get,
            client.jobs.cancel,
            client.jobs.result,
            client.jobs.wait,
        ):
            with pytest.raises(errors.InvalidRequest):
                call(odd)


def test_what_a_job_is_given_is_judged() -> None:
    with Client(BASE, KEY) as client:
        for odd in ("x", -1, float("nan"), True):
            with pytest.raises(errors.InvalidRequest, match="deadline"):
                client.jobs.wait("job_1", deadline=odd)  # type: ignore[arg-type]
        for odd in (5, "\ud800", b"x"):
            with pytest.raises(errors.InvalidRequest, match="tag="):
                client.jobs.submit("Hi", model="m", max_tokens=1, tag=odd)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="idempotency_key"):
            client.jobs.submit("Hi", model="m", max_tokens=1, idempotency_key=5)  # type: ignore[arg-type]


def test_a_deep_answer_about_a_job_is_no_traceback() -> None:
    deep = b'{"id":"job_1","metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with Player([whole(deep)]) as server, Client(server.base, KEY, retries=0) as client:
        for call in (client.jobs.get, client.jobs.result):
            with pytest.raises(errors.Interrupted, match="cannot be read"):
                call("job_1")


# -- messages -------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_named(api: Sync, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.ConnectionFailed, match=r"127\.0\.0\.1:9: .*Check base_url") as caught:
        api.complete(BASE, "Hi", client={"retries": 0})
    assert "ACS_API_BASE" not in str(caught.value)
    monkeypatch.setenv("ACS_API_BASE", BASE)
    monkeypatch.setenv("ACS_API_KEY", KEY)
    with Client(retries=0) as client:
        for call in (client.models, lambda: client.jobs.get("job_1")):
            with pytest.raises(errors.ConnectionFailed, match=r"127\.0\.0\.1:9: .*Check ACS_API_BASE"):
                call()


# -- results --------------------------------------------------------------------------------------


def test_a_replay_in_both_forms() -> None:
    async def go(base: str, was: Completion) -> None:
        async with AsyncClient(base, KEY) as client:
            with pytest.raises(errors.InvalidRequest, match="replay_async"):
                was.replay(client)
            assert str(await was.replay_async(client)).startswith("equal")
            with pytest.raises(errors.InvalidRequest, match="AsyncClient"):
                await was.replay_async("foo")

    with Player([stream(*frames(["a"]), DONE)]) as server, Client(server.base, KEY) as client:
        was = client.complete("Hi", max_tokens=1)
        with pytest.raises(errors.InvalidRequest, match="'foo'"):
            was.replay("foo")
        assert was.replay(client).equal
        asyncio.run(go(server.base, was))


def scored(rank: int, top: int) -> dict[str, Any]:
    entries = {"5": {"logprob": -2.0, "rank": rank, "decoded_token": "own"}}
    entries |= {str(10 + r): {"logprob": -float(r), "rank": r, "decoded_token": f"r{r}"}
                for r in range(1, top + 1) if r != rank}  # fmt: skip
    said = body()
    said["choices"][0]["prompt_logprobs"] = [None, entries]
    return said


@pytest.mark.parametrize(
    ("rank", "asked", "expected"),
    [
        (2, 3, ["r1", "own", "r3"]),
        (9, 2, ["r1", "r2"]),
        (1, 0, []),
        (1, 1, ["own"]),
        (3, -1, ["r1", "own", "r2"]),
    ],
)
def test_a_prompts_token_is_among_its_alternatives_when_its_rank_is(
    rank: int, asked: int, expected: list[str]
) -> None:
    with (
        Player([whole(scored(rank, asked if asked >= 0 else 2))]) as server,
        Client(server.base, KEY) as client,
    ):
        (token,) = client.complete("Hi", prompt_logprobs=asked).choices[0].prompt_tokens
    assert token.rank == rank
    assert {each.text for each in token.alternatives} == set(expected)
    logprobs = [each.logprob for each in token.alternatives]
    assert logprobs == sorted(logprobs, reverse=True)


def test_a_frame_of_several_prompts_names_them() -> None:
    said = body()
    lp = {"tokens": [" x"], "token_logprobs": [-1.0], "top_logprobs": None, "text_offset": [0]}
    said["choices"] = [
        {"index": i, "text": " x", "logprobs": lp, "finish_reason": "length"} for i in range(2)
    ]
    with Player([whole(said)]) as server, Client(server.base, KEY) as client:
        several = client.complete(["one", "two"], max_tokens=1, logprobs=0, stream=False).to_frame()
        single = client.complete("one", max_tokens=1, n=2, logprobs=0, stream=False).to_frame()
    assert list(several["prompt"]) == ["one", "two"]
    assert list(several.columns[:4]) == ["choice", "prompt", "index", "token"]
    assert "prompt" not in single.columns


def test_what_a_job_and_a_stream_look_like() -> None:
    said = {"id": "job_1", "status": "queued", "usage_pending": False, "extra": 1}
    with Player([whole(said), stream(*frames(["a"]), DONE)]) as server, Client(server.base, KEY) as client:
        assert (
            repr(client.jobs.get("job_1")) == "Job(id='job_1', status='queued', usage_pending=False, extra=1)"
        )
        with client.stream("Hi") as running:
            assert "".join(token.text for token in running) == "a"
        assert repr(running).startswith("Stream(Completion('a'")
        assert " object at " not in repr(running)


def test_help_lists_the_fields() -> None:
    for call in (Client.complete, Client.stream, AsyncClient.complete, AsyncClient.stream):
        for field in ("max_tokens", "temperature", "logprobs", "prompt_logprobs", "stop", "validate"):
            assert field in (call.__doc__ or "")
