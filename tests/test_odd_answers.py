"""Answers that are not what they should be, over real sockets: what is readable is kept, what is told is raised."""

from __future__ import annotations

# fixtures
import asyncio
import json
import logging
import time
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, errors
from tests.support.clients import KEY, Ledger, Sync, body, refusal
from tests.support.player import CLOSE, DONE, HANG, Player, Step, chunk, frames, head, stream, whole

USAGE = b'{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}'


def raw_body(text: bytes = b'" hi"', usage: bytes = USAGE, more: bytes = b"", choice: bytes = b"") -> bytes:
    return (
        b'{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":%s%s,'
        b'"finish_reason":"length"}],"usage":%s%s}' % (text, choice, usage, more)
    )


def once(raw: bytes, streamed: bool) -> list[Step]:
    return stream(b"data: " + raw + b"\n\n", DONE) if streamed else whole(raw)


def refused(api: Sync, played: list[Step], streamed: bool = True, **client: Any) -> errors.ApiError:
    """The error of one request with ``retries=0``; it was sent once."""
    with Player([played]) as server:
        with pytest.raises(errors.ApiError) as caught:
            api.complete(server.base, "Hi", max_tokens=4, stream=streamed, client={"retries": 0, **client})
        assert len(server.requests) == 1
    return caught.value


# -- sending again --------------------------------------------------------------------------------


def test_no_retries_means_none(api: Sync, streamed: bool) -> None:
    error = refused(api, refusal("internal_error", "500 Internal Server Error", Retry_After="0"), streamed)
    assert error.code == "internal_error"


def test_an_internal_error_is_sent_again_once(api: Sync) -> None:
    with Player([refusal("internal_error", "500 Internal Server Error", Retry_After="0")]) as server:
        with pytest.raises(errors.ServerFailure):
            api.complete(server.base, "Hi")
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "said",
    [
        {"error": "boom"},
        {"error": ["x"]},
        {"error": {"message": "boom"}},
        {"error": {"message": "boom", "code": "never_heard_of"}},
        {"object": "error", "message": "boom", "code": 500},
    ],
    ids=["text", "list", "no code", "unknown code", "vllm"],
)
def test_an_error_in_a_200_whose_code_says_nothing_may_have_run(
    api: Sync,
    streamed: bool,
    said: Any,
) -> None:
    meter = Ledger()
    with Player([once(json.dumps(said).encode(), streamed)]) as server:
        with pytest.raises(errors.ServerFailure) as caught:
            api.complete(server.base, "Hi there", max_tokens=4, stream=streamed, client={"meter": meter})
        assert len(server.requests) == 1
    assert caught.value.retryable is False
    assert "may have run and been billed" in str(caught.value)
    assert meter.calls == [("reserve", 4), ("settle", 9, 4, "estimate")]  # the most it can have been


def test_an_error_in_a_200_with_a_code_of_the_service_is_what_the_code_says(
    api: Sync, streamed: bool
) -> None:
    cold = {"error": {"code": "modal_cold_boot", "message": "cold", "retry_after_seconds": 0}}
    meter = Ledger()
    played = [once(json.dumps(cold).encode(), streamed), once(raw_body(), streamed)]
    with Player(played) as server:
        got = api.complete(server.base, "Hi", max_tokens=4, stream=streamed, client={"meter": meter})
        assert len(server.requests) == 2
    assert got.text == " hi"
    assert meter.calls[0] == ("reserve", 4)
    assert meter.calls[1][:3] == ("settle", 3, 2)


# -- waits ----------------------------------------------------------------------------------------


def test_a_paused_model_is_told_at_once(api: Sync, streamed: bool) -> None:
    with Player([refusal("circuit_open", "503 Service Unavailable", Retry_After="60")]) as server:
        began = time.monotonic()
        with pytest.raises(errors.CircuitOpen) as caught:
            api.complete(server.base, "Hi", stream=streamed)
        assert time.monotonic() - began < 30
        assert len(server.requests) == 1
    assert caught.value.retry_after == 60.0
    assert "longest_wait" in str(caught.value)


def test_who_asks_for_a_wait_gets_it_and_a_bound_holds_for_every_code(api: Sync) -> None:
    again = [refusal("circuit_open", "503 Service Unavailable", Retry_After="11"), whole(body())]
    with Player(again) as server, pytest.raises(errors.CircuitOpen):
        api.complete(server.base, "Hi", client={"longest_wait": 10.9})
    again = [refusal("circuit_open", "503 Service Unavailable", Retry_After="1"), whole(body())]
    with Player(again) as server:
        assert api.complete(server.base, "Hi", stream=False).text == " Paris"
    with Player([refusal("rate_limited", Retry_After="3")]) as server:
        with pytest.raises(errors.RateLimited):
            api.complete(server.base, "Hi", client={"longest_wait": 2})
        assert len(server.requests) == 1


def test_a_wait_is_said_once(api: Sync, caplog: pytest.LogCaptureFixture) -> None:
    cold = stream(b": [#..] loading weights\n\n", b": keepalive\n\n", *frames(["ok"]), DONE)
    with Player([cold]) as server, caplog.at_level(logging.WARNING, "acs_jupyter"):
        assert api.complete(server.base, "Hi", max_tokens=5).text == "ok"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "[#..] loading weights" in said[0]
    assert server.base.split("/")[2] in said[0]
    caplog.clear()
    short = [refusal("queue_full", Retry_After="0"), stream(*frames(["ok"]), DONE)]
    with Player(short) as server, caplog.at_level(logging.WARNING, "acs_jupyter"):
        assert api.complete(server.base, "Hi", max_tokens=5).text == "ok"
    assert caplog.records == []


# -- the end of a stream --------------------------------------------------------------------------


def test_done_is_the_end_also_when_the_socket_stays_open(api: Sync) -> None:
    with Player([stream(*frames(["a", "b"]), DONE, HANG)]) as server:
        began = time.monotonic()
        tokens, got = api.tokens(server.base, "Hi")
        assert time.monotonic() - began < 30
        deadline = time.monotonic() + 10
        while server.requests[0].left_at is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.requests[0].left_at is not None
    assert ("".join(token.text for token in tokens), got.outcome) == ("ab", "done")


@pytest.mark.parametrize("apart", [False, True])
def test_a_connection_is_kept_when_the_end_follows(apart: bool) -> None:
    ending = chunk(DONE) + chunk(b"")
    played: list[Step] = [head(kind="text/event-stream"), *map(chunk, frames(["a"]))]
    played += [chunk(DONE), 0.02, chunk(b"")] if apart else [ending]
    with Player([played]) as server, Client(server.base, KEY) as client:
        for _ in range(3):
            assert client.complete("Hi").text == "a"
        assert {request.connection for request in server.requests} == {0}


def test_a_connection_left_open_is_not_used_again() -> None:
    opened = stream(*frames(["a"]), DONE, HANG)
    with Player([opened, whole(body())]) as server, Client(server.base, KEY) as client:
        assert client.complete("Hi").text == "a"
        assert client.complete("Hi", stream=False).text == " Paris"
        assert [request.connection for request in server.requests] == [0, 1]


# -- errors in another shape ----------------------------------------------------------------------


@pytest.mark.parametrize("code", [400, "400"])
def test_an_engines_own_error_in_a_200(api: Sync, streamed: bool, code: Any) -> None:
    said = {
        "object": "error",
        "message": "vllm says no",
        "type": "BadRequestError",
        "param": None,
        "code": code,
    }
    error = refused(api, once(json.dumps(said).encode(), streamed), streamed)
    assert isinstance(error, errors.BadRequest)
    assert (error.status, error.message) == (400, "vllm says no")
    assert error.completion.outcome == "failed"


def test_an_engines_own_error_after_tokens_keeps_them(api: Sync) -> None:
    said = b'data: {"object":"error","message":"dead","type":"InternalServerError","code":500}\n\n'
    error = refused(api, stream(*frames(["a", "b"], None), said, end=False))
    assert (error.status, error.message) == (500, "dead")
    assert (error.completion.text, error.completion.outcome) == ("ab", "interrupted")


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"code": "budget_exceeded", "message": None}, (errors.BudgetExceeded, "budget_exceeded", None)),
        ({"code": "vllm_oom", "message": {"a": 1}}, (errors.EngineOutOfMemory, '{"a": 1}', None)),
        (
            {"code": "modal_cold_boot", "retry_after_seconds": "30"},
            (errors.ColdBoot, "modal_cold_boot", 30.0),
        ),
        ({"code": "queue_full", "message": "x", "type": 5, "retryable": "no"}, (errors.QueueFull, "x", None)),
        ({"code": "queue_full", "message": "\ud800x"}, (errors.QueueFull, "\ufffdx", None)),
    ],
)
def test_error_objects_with_odd_fields(
    api: Sync,
    streamed: bool,
    info: Any,
    expected: tuple[type[errors.ApiError], str, float | None],
) -> None:
    cls, message, after = expected
    error = refused(api, once(json.dumps({"error": info}).encode(), streamed), streamed)
    assert type(error) is cls
    assert message in error.message
    assert error.retry_after == after


# -- odd fields -----------------------------------------------------------------------------------

WHOLE = ("usage", 3, 2)
GUESSED = ("estimate", 1, 1)


@pytest.mark.parametrize(
    ("raw", "text", "usage"),
    [
        (raw_body(usage=b'{"prompt_tokens":3.0,"completion_tokens":2.0}'), " hi", WHOLE),
        (raw_body(usage=b'{"prompt_tokens":"3","completion_tokens":2}'), " hi", WHOLE),
        (raw_body(usage=b'{"prompt_tokens":null,"completion_tokens":2}'), " hi", GUESSED),
        (raw_body(usage=b'{"prompt_tokens":3,"completion_tokens":' + b"9" * 30 + b"}"), " hi", GUESSED),
        (raw_body(usage=b'"x"'), " hi", GUESSED),
        (raw_body(usage=b'{"prompt_tokens":-3000,"completion_tokens":-5}'), " hi", GUESSED),
        (raw_body(more=b',"created":1.5'), " hi", WHOLE),
        (raw_body(more=b',"system_fingerprint":7,"request_id":[]'), " hi", WHOLE),
        (raw_body(text=b'"\\ud800 hi"'), "� hi", WHOLE),
        (raw_body(text=b'"\\ud83e\\udd8a"'), "\U0001f98a", WHOLE),
        (raw_body(text=b'"\xff hi"'), "� hi", WHOLE),
        (raw_body(choice=b',"stop_reason":1.5'), " hi", WHOLE),
        (raw_body(choice=b',"logprobs":"x"'), " hi", WHOLE),
        (b"\xef\xbb\xbf" + raw_body(), " hi", WHOLE),
    ],
)
def test_an_odd_side_field_costs_no_text(
    api: Sync,
    streamed: bool,
    raw: bytes,
    text: str,
    usage: Any,
) -> None:
    with Player([once(raw, streamed)]) as server:
        got = api.complete(server.base, "Hi", stream=streamed)
    source = "continuous" if streamed and usage is WHOLE else usage[0]
    assert (got.text, got.outcome) == (text, "done")
    assert (got.usage_source, got.usage.prompt_tokens, got.usage.completion_tokens) == (source, *usage[1:])


def test_probabilities_json_has_no_form_for(api: Sync, streamed: bool) -> None:
    odd = (
        b',"logprobs":{"tokens":[" h","i"],"token_logprobs":[-Infinity,NaN],'
        b'"top_logprobs":[{" h":-Infinity," x":-0.5},null],"text_offset":[0,"x"]}'
    )
    with Player([once(raw_body(choice=odd), streamed)]) as server:
        got = api.complete(server.base, "Hi", stream=streamed)
    assert [(token.text, token.logprob, token.top) for token in got.tokens] == [
        (" h", -9999.0, {" h": -9999.0, " x": -0.5}),
        ("i", None, None),
    ]


def test_scores_of_a_prompt_survive_an_odd_entry(api: Sync) -> None:
    odd = b',"prompt_logprobs":[null,{"5":{"logprob":-1.5,"rank":2.0,"decoded_token":null}},{"x":{}}]'
    with Player([whole(raw_body(choice=odd))]) as server:
        got = api.complete(server.base, "Hi", prompt_logprobs=0)
    assert [(t.position, t.id, t.logprob, t.rank) for t in got.choices[0].prompt_tokens] == [(1, 5, -1.5, 2)]


@pytest.mark.parametrize("odd", [b'"9"', b"9", b"-1", b"null", b"9" * 30])
def test_a_choice_nobody_asked_for_ends_the_stream(api: Sync, odd: bytes) -> None:
    wrong = b'data: {"choices":[{"index":%s,"text":"x"}]}\n\n' % odd
    with (
        Player([stream(*frames(["a"], None), wrong, DONE)]) as server,
        pytest.raises(errors.Interrupted) as caught,
    ):
        api.complete(server.base, "Hi")
    assert caught.value.completion.text == "a"


# -- a wrong content type -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text/plain", "application/json", ""])
@pytest.mark.parametrize("begin", [b"", b": keepalive\n\n", b"  \n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("cut", [0, 3])
def test_a_stream_under_another_content_type(api: Sync, kind: str, begin: bytes, cut: int) -> None:
    raw = begin + b"".join(frames(["a", "b"])) + DONE
    opening = head(kind=kind) if kind else b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [piece for piece in (raw[:cut], raw[cut:]) if piece]
    played: list[Step] = [opening, *[x for piece in pieces for x in (chunk(piece), 0.02)], chunk(b"")]
    with Player([played]) as server:
        got = api.complete(server.base, "Hi")
    assert (got.text, got.outcome, got.usage.completion_tokens) == ("ab", "done", 2)


def test_a_body_under_the_content_type_of_a_stream(api: Sync) -> None:
    with Player([whole(raw_body(), kind="text/event-stream")]) as server:
        assert api.complete(server.base, "Hi").text == " hi"
    said = b'{"error":{"code":"vllm_oom","message":"no"}}'
    assert type(refused(api, whole(said, kind="text/event-stream"))) is errors.EngineOutOfMemory


def test_after_close_one_line_says_so() -> None:
    with Player([whole(body())]) as server:
        client = Client(server.base, KEY)
        client.close()
        for call in (lambda: client.complete("Hi"), client.models, lambda: client.status("m"),
                     lambda: client.jobs.get("j"), lambda: client.stream("Hi")):  # fmt: skip
            with pytest.raises(errors.ClientClosed, match="client is closed"):
                call()
        assert server.requests == []


def test_after_close_one_line_says_so_async() -> None:

    async def go(base: str) -> None:
        client = AsyncClient(base, KEY)
        await client.close()
        for call in (client.complete("Hi"), client.models(), client.status("m"), client.jobs.get("j")):
            with pytest.raises(errors.ClientClosed, match="client is closed"):
                await call
        with pytest.raises(errors.ClientClosed):
            async for _ in client.stream("Hi"):
                pass

    with Player([[CLOSE]]) as server:
        asyncio.run(go(server.base))
        assert server.requests == []
