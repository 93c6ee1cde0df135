"""Both clients against real sockets: what is sent, what is kept, what is raised, what is closed."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from acs_jupyter import AsyncClient, Client, Session, errors
from acs_jupyter.completion import Completion
from tests.support.clients import KEY, Ledger, Sync, body, refusal
from tests.support.player import CLOSE, DONE, HANG, Player, Step, chunk, frames, head, stream, whole

NASTY = "{x} {{y}} %s $z \\n \x00 \u202e🦊 </script><img src=x onerror=alert(1)>\r\n\t `'\"  "


def answer(streamed: bool, text: str = " Paris", **headers: str) -> list[Step]:
    return stream(*frames([text]), DONE, **headers) if streamed else whole(body(text), **headers)


def test_every_byte_and_every_field_is_sent(api: Sync, streamed: bool) -> None:
    with Player([answer(streamed)]) as server:
        api.complete(
            server.base, NASTY, model="m", max_tokens=4, temperature=1, top_k=-1, seed=2**63 - 1, stop=["\n", "x"],
            logprobs=0, echo=False, add_special_tokens=True, user="me", stream=streamed or False,
            stream_options={"include_usage": True} if streamed else None,
        )  # fmt: skip
    request = server.requests[0]
    assert request.json["prompt"].encode() == NASTY.encode()
    assert request.json["seed"] == 2**63 - 1
    assert request.json["stop"] == ["\n", "x"]
    assert request.json["logprobs"] == 0
    assert request.json["echo"] is False
    assert set(request.json) == {
        "model", "prompt", "max_tokens", "temperature", "top_k", "seed", "stop", "logprobs", "echo",
        "add_special_tokens", "user", "stream", *(["stream_options"] if streamed else []),
    }  # fmt: skip
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-acs-workload"] == "interactive"
    assert request.headers["x-request-id"].startswith("acsj-")


def test_a_completion_is_a_record(api: Sync, streamed: bool) -> None:
    headers = {
        "X_Request_Id": "req_1",
        "X_Acs_Max_Tokens_Clamped": "requested=9,applied=1,reason=budget,source=client",
    }
    with Player([answer(streamed, NASTY, **headers)]) as server:
        got = api.complete(server.base, "Hi", max_tokens=9, stream=streamed)
    assert str(got) == got.text == NASTY
    assert (got.model, got.id, got.request_id) == ("checkpoint", "cmpl-1", "req_1")
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (3, 1)
    assert got.finish_reason == "length"
    assert got.outcome == "done"
    assert got.clamp is not None
    assert got.clamp.applied == 1
    assert got.request["max_tokens"] == 9
    assert KEY not in repr(vars(got.session)) + repr(got.session.state())


def test_text_in_pieces_cut_inside_a_character(api: Sync) -> None:
    raw = b"".join(frames(["🦊", "é ", "", "日本"])) + DONE
    with Player([stream(*(raw[i : i + 3] for i in range(0, len(raw), 3)))]) as server:
        tokens, got = api.tokens(server.base, "Hi", max_tokens=9)
    assert got.text == "🦊é 日本"
    assert "".join(token.text for token in tokens) == got.text


def test_cold_boot_whitespace_and_comments_are_waited_through(api: Sync, streamed: bool) -> None:
    cold: list[Step] = (
        stream(b": keepalive\n\n", b": [#..] loading weights \r", 0.05, b"\n", *frames(["ok"]), DONE)
        if streamed
        else [
            head(),
            chunk(b" " * 1024),
            0.05,
            chunk(b" " * 1024),
            chunk(json.dumps(body("ok")).encode()),
            chunk(b""),
        ]
    )
    with Player([cold]) as server:
        session = Session()
        got = api.complete(server.base, "Hi", stream=streamed, session=session)
    assert got.text == "ok"
    notes = [event.note for _, event in session.log if type(event).__name__ == "Waited"]
    assert notes[0] in ("keepalive", "the model is starting")


@pytest.mark.parametrize(
    ("code", "status", "cls"),
    [
        ("invalid_request", "400 Bad Request", errors.BadRequest),
        ("model_not_found", "400 Bad Request", errors.ModelNotFound),
        ("invalid_api_key", "401 Unauthorized", errors.Unauthorized),
        ("budget_exceeded", "429 Too Many Requests", errors.BudgetExceeded),
        ("upstream_deadline", "504 Gateway Timeout", errors.UpstreamDeadline),
        ("something_new", "400 Bad Request", errors.BadRequest),
    ],
)
def test_refusals_are_typed_and_not_repeated(
    api: Sync, streamed: bool, code: str, status: str, cls: type[errors.ApiError]
) -> None:
    with Player([refusal(code, status, X_Request_Id="req_7")]) as server:
        with pytest.raises(cls) as caught:
            api.complete(server.base, "Hi", stream=streamed)
        assert len(server.requests) == 1
    assert (caught.value.code, caught.value.status, caught.value.request_id) == (
        code,
        int(status[:3]),
        "req_7",
    )
    assert KEY not in f"{caught.value!s} {caught.value!r} {vars(caught.value)}"
    assert caught.value.completion.outcome == "failed"


@pytest.mark.parametrize("where", ["body", "frame"])
def test_an_error_inside_a_200_is_raised_as_what_it_is(api: Sync, where: str) -> None:
    error = {
        "error": {"code": "vllm_invalid_request", "message": "greedy wants n=1", "type": "upstream_error"}
    }
    played = (
        whole(error)
        if where == "body"
        else stream(b"data: " + json.dumps(error).encode() + b"\n\n", end=False)
    )
    with Player([played]) as server, pytest.raises(errors.EngineRefused, match="greedy wants n=1") as caught:
        api.complete(server.base, "Hi", stream=where == "frame")
    assert caught.value.status == 400
    assert caught.value.retryable is False


def test_an_error_frame_after_tokens_keeps_them(api: Sync) -> None:
    frame = b'data: {"error":{"code":"server_restarting","message":"deploy","retryable":true}}\n\n'
    with Player([stream(*frames(["a", "b"], None), frame, end=False)]) as server:
        with pytest.raises(errors.ServerRestarting) as caught:
            api.complete(server.base, "Hi")
        assert len(server.requests) == 1  # never after the first token
    assert caught.value.completion.text == "ab"
    assert caught.value.completion.outcome == "interrupted"
    assert caught.value.completion.usage.completion_tokens == 2
    assert caught.value.completion.usage_source == "continuous"


@pytest.mark.parametrize("ending", ["cut", "no done", "bad frame"])
def test_a_cut_stream_keeps_what_came(api: Sync, ending: str) -> None:
    last = {"cut": [], "no done": [], "bad frame": [b"data: {]\n\n"]}[ending]
    played = stream(*frames(["a", "b"], None), *last, end=ending != "cut")
    with Player([played]) as server, pytest.raises(errors.Interrupted) as caught:
        api.complete(server.base, "Hi")
    assert caught.value.completion.text == "ab"
    assert caught.value.completion.outcome == "interrupted"
    assert caught.value.request_id


@pytest.mark.parametrize(
    "raw", [b"   ", b'{"id":"x","choices":[{"te', b'{"id":"x"}', b"[]", b"<html>hello</html>"]
)
def test_broken_bodies(api: Sync, raw: bytes) -> None:
    with Player([whole(raw)]) as server, pytest.raises(errors.Interrupted) as caught:
        api.complete(server.base, "Hi", stream=False)
    assert "\n" not in str(caught.value)


def test_foreign_errors(api: Sync, streamed: bool) -> None:
    page = b"<html><head><title>x</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    html = whole(page, "502 Bad Gateway", "text/html")
    with Player([html]) as server, pytest.raises(errors.UpstreamServerError, match="502 Bad") as caught:
        api.complete(server.base, "Hi", stream=streamed, client={"retries": 0})
    assert "<" not in str(caught.value)
    vllm = {"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}
    with (
        Player([whole(vllm, "400 Bad Request")]) as server,
        pytest.raises(errors.BadRequest, match="too long"),
    ):
        api.complete(server.base, "Hi", stream=streamed)
    with Player([whole(b"", "500 Internal Server Error")]) as server, pytest.raises(errors.ServerFailure):
        api.complete(server.base, "Hi", stream=streamed, client={"retries": 0})


def test_retries_obey_retry_after(api: Sync, streamed: bool) -> None:
    with Player([refusal("rate_limited", Retry_After="1"), answer(streamed)]) as server:
        began = time.monotonic()
        got = api.complete(server.base, "Hi", stream=streamed)
        assert time.monotonic() - began >= 1.0
    assert got.text == " Paris"
    ids = [request.headers["x-request-id"] for request in server.requests]
    assert len(set(ids)) == 2
    assert server.requests[0].body == server.requests[1].body


def test_retries_obey_should_retry(api: Sync, streamed: bool) -> None:
    refused = refusal("queue_full", Retry_After="0", X_Should_Retry="false")
    with Player([refused]) as server:
        with pytest.raises(errors.QueueFull):
            api.complete(server.base, "Hi", stream=streamed)
        assert len(server.requests) == 1


def test_retries_end(api: Sync) -> None:
    with Player([refusal("queue_full", Retry_After="0")]) as server:
        with pytest.raises(errors.QueueFull) as caught:
            api.complete(server.base, "Hi", client={"retries": 2})
        assert len(server.requests) == 3
    assert caught.value.retry_after == 0.0


def test_a_connection_lost_before_the_answer_is_not_sent_again(api: Sync, streamed: bool) -> None:
    with Player([[CLOSE]]) as server:
        with pytest.raises(errors.ConnectionFailed, match="not sent again"):
            api.complete(server.base, "Hi", stream=streamed)
        assert len(server.requests) == 1


def test_no_server(api: Sync) -> None:
    with pytest.raises(errors.ConnectionFailed) as caught:
        api.complete("http://127.0.0.1:9/v1", "Hi", client={"retries": 0})
    assert KEY not in str(caught.value)


def test_connections_are_reused() -> None:
    with Player([whole(body())]) as server, Client(server.base, KEY) as client:
        for _ in range(3):
            client.complete("Hi", stream=False)
        assert {request.connection for request in server.requests} == {0}
    with Player([stream(*frames(["a"]), DONE)]) as server, Client(server.base, KEY) as client:
        for _ in range(3):
            client.complete("Hi")
        assert {request.connection for request in server.requests} == {0}


def first_node(session: Session) -> str:
    return next(iter(session.runs.values())).nodes[0]


def test_leaving_the_loop_closes_the_socket_and_keeps_what_came(api: Sync) -> None:
    with Player([stream(*frames(["a", "b", "c"], None), HANG)]) as server:
        tokens, got = api.tokens(server.base, "Hi", max_tokens=50, take=2)
        deadline = time.monotonic() + 2
        while server.requests[0].left_at is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.requests[0].left_at is not None
    assert [token.text for token in tokens] == ["a", "b"]
    assert got.text.startswith("ab")
    assert got.outcome == "stopped"
    assert got.usage_source == "continuous"
    assert len(got.text) <= got.usage.completion_tokens <= 3  # what was on its way is counted, and not kept


def test_leaving_an_async_loop_needs_no_close() -> None:
    async def go(server: Player) -> Completion:
        async with AsyncClient(server.base, KEY) as client:
            running = client.stream("Hi", max_tokens=50)
            async for _ in running:
                break
            await asyncio.sleep(0.3)
            assert server.requests[0].left_at is not None
            return running.completion

    with Player([stream(*frames(["a", "b"], None), HANG)]) as server:
        assert asyncio.run(go(server)).outcome == "stopped"


def test_cancelling_a_task_closes_the_socket_and_keeps_what_came() -> None:
    async def go(server: Player) -> Session:
        session, first_token = Session(), asyncio.Event()
        session.subscribe(
            lambda events: first_token.set() if session.nodes[first_node(session)].text == "ab" else None
        )
        async with AsyncClient(server.base, KEY) as client:
            task = asyncio.create_task(client.complete("Hi", session=session))
            await asyncio.wait_for(first_token.wait(), 5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return session

    with Player([stream(*frames(["a", "b"], None), HANG)]) as server:
        session = asyncio.run(go(server))
        time.sleep(0.2)
        assert server.requests[0].left_at is not None
    run = next(iter(session.runs.values()))
    assert run.outcome == "stopped"
    assert session.nodes[run.nodes[0]].text == "ab"
    assert run.completion_tokens == 2


def test_without_any_usage_the_estimate_is_flagged(api: Sync) -> None:
    raw = [json.dumps({"choices": [{"index": 0, "text": t}]}).encode() for t in ("a", "b")]
    cut = stream(*(b"data: " + r + b"\n\n" for r in raw), end=False)
    with Player([cut]) as server, pytest.raises(errors.Interrupted) as caught:
        api.complete(server.base, "Hi there")
    got = caught.value.completion
    assert (got.usage_source, got.usage.prompt_tokens, got.usage.completion_tokens) == ("estimate", 2, 2)


def test_models(api: Sync) -> None:
    listed = {
        "object": "list",
        "data": [{"id": "m", "default": True, "capabilities": {"max_logprobs": 20, "new": 1}}],
    }
    with Player([whole(listed)]) as server:
        (model,) = api.models(server.base)
    assert (model.id, model.default, model.capabilities.max_logprobs) == ("m", True, 20)
    with (
        Player([refusal("invalid_api_key", "401 Unauthorized")]) as server,
        pytest.raises(errors.Unauthorized),
    ):
        api.models(server.base)


def test_without_validation_everything_is_sent_as_it_is(api: Sync, streamed: bool) -> None:
    odd = {"n": "2", "temperature": 200, "new_field": {"a": [1]}, "prompt_logprobs": None}
    with Player([answer(streamed), refusal("invalid_request", "400 Bad Request")]) as server:
        got = api.complete(server.base, "Hi", validate=False, stream=streamed, **odd)
        assert got.text == " Paris"
        sent = server.requests[0].json
        assert {key: sent[key] for key in ("n", "temperature", "new_field", "prompt")} == {
            "n": "2", "temperature": 200, "new_field": {"a": [1]}, "prompt": "Hi",
        }  # fmt: skip
        with pytest.raises(errors.BadRequest):
            api.complete(server.base, [1, "two", None], validate=False, stream=streamed)
        assert server.requests[1].json["prompt"] == [1, "two", None]
        assert len(server.requests) == 2


def test_a_models_limits_are_known_once_listed() -> None:
    listed = {"data": [{"id": "m", "default": True, "capabilities": {"max_logprobs": 20}}]}
    with Player([whole(listed)]) as server, Client(server.base, KEY) as client:
        client.models()
        with pytest.raises(errors.InvalidRequest, match="max_logprobs of 20"):
            client.complete("Hi", model="m", logprobs=21)
        assert len(server.requests) == 1


def test_the_meter_is_asked_before_a_socket_opens(api: Sync, streamed: bool) -> None:
    with Player([answer(streamed)]) as server:
        meter = Ledger(refuse=True)
        with pytest.raises(errors.BudgetRefused):
            api.complete(server.base, "Hi", max_tokens=4, stream=streamed, client={"meter": meter})
        assert server.requests == []
        meter = Ledger()
        api.complete(server.base, "Hi", max_tokens=4, stream=streamed, client={"meter": meter})
        assert meter.calls == [("reserve", 4), ("settle", 3, 1, "continuous" if streamed else "usage")]
    with Player([refusal("invalid_request", "400 Bad Request")]) as server:
        meter = Ledger()
        with pytest.raises(errors.BadRequest):
            api.complete(server.base, "Hi", max_tokens=4, stream=streamed, client={"meter": meter})
        assert meter.calls == [("reserve", 4), ("release",)]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        (" https://host.example/v1 ", "https://host.example/v1"),
        ("host.example", "https://host.example/v1"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://host.example/api/v1", "https://host.example/api/v1"),
    ],
)
def test_base_url_with_or_without_v1(given: str, used: str) -> None:
    with Client(given, KEY) as client:
        assert client.base_url == used
        assert KEY not in repr(client)


@pytest.mark.parametrize("given", ["ftp://x", "https://user:pw@host/v1", "http://"])
def test_base_urls_that_cannot_be(given: str) -> None:
    with pytest.raises(errors.NotConfigured):
        Client(given, KEY)


def test_without_key_and_base_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACS_API_BASE", raising=False)
    monkeypatch.delenv("ACS_API_KEY", raising=False)
    with pytest.raises(errors.NotConfigured, match=r"ACS_API_BASE and ACS_API_KEY are not set.*%acs local"):
        Client()
    monkeypatch.setenv("ACS_API_BASE", "http://127.0.0.1:1")
    with pytest.raises(errors.NotConfigured, match="ACS_API_KEY is not set"):
        Client()


def test_a_key_with_a_newline_is_refused_without_showing_it() -> None:
    with pytest.raises(errors.NotConfigured) as caught:
        Client("http://127.0.0.1:1", "secret\nx")
    assert "secret" not in str(caught.value)
