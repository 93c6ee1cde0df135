"""What stands around every answer: keys, hosts, ids, envelopes, the contract's cases."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.contract import ASK, CASES, envelope, renamed
from tests.support.sse import chunks

if TYPE_CHECKING:
    from tests.support.servers import Running


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{n}-{CASES[n]['note'][:30]}")
def test_contract_cases(scripted: httpx.Client, number: int) -> None:
    case = CASES[number]
    raw = case["raw"] if "raw" in case else json.dumps(renamed(case["body"], case["code"]))
    answer = scripted.post("completions", content=raw.encode("utf-8", "surrogatepass"))
    assert str(answer.status_code) in case["status"].split(" or "), answer.text[:300]
    if answer.status_code != 200:
        envelope(answer, 400, case["code"])


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "missing_authorization"),
        ("", "missing_authorization"),
        ("Bearer", "missing_authorization"),
        ("Basic abc", "missing_authorization"),
        ("Bearer wrong", "invalid_api_key"),
        ("Bearer schl\xfcssel", "invalid_api_key"),
    ],
)
@pytest.mark.parametrize("path", ["completions", "models", "models/scripted/status"])
def test_key_is_needed(scripted_server: Running, path: str, header: str | None, code: str) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    url = f"{scripted_server.base}/{path}"
    answer = (
        httpx.post(url, json=ASK, headers=headers)
        if path == "completions"
        else httpx.get(url, headers=headers)
    )
    envelope(answer, 401, code)


def test_key_comes_before_the_body(scripted_server: Running) -> None:
    envelope(httpx.post(f"{scripted_server.base}/completions", content=b"{"), 401, "missing_authorization")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.", ""])
def test_foreign_host_is_refused(scripted: httpx.Client, host: str) -> None:
    answer = scripted.get("models", headers={"Host": host})
    assert answer.status_code in (400, 403)
    assert "data" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:80"])
def test_loopback_names_are_welcome(scripted: httpx.Client, host: str) -> None:
    assert scripted.get("models", headers={"Host": host}).status_code == 200


def test_no_cross_origin_header(scripted: httpx.Client) -> None:
    answer = scripted.get("models", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    preflight = scripted.options("completions", headers={"Origin": "https://evil.example"})
    envelope(preflight, 405, "method_not_allowed")


def test_request_id_is_echoed_when_valid(scripted: httpx.Client) -> None:
    given = scripted.post("completions", json=ASK, headers={"X-Request-Id": "my-trace_1"})
    assert given.headers["x-request-id"] == "my-trace_1"
    for bad in ("a b", "x" * 65, "a/b", ""):
        made = scripted.post("completions", json=ASK, headers={"X-Request-Id": bad})
        assert made.headers["x-request-id"].startswith("req_")
        assert len(made.headers["x-request-id"]) == 24


@pytest.mark.parametrize("path", ["nothing", "completions/", "models/x/y", "../secret"])
def test_unknown_path(scripted: httpx.Client, path: str) -> None:
    envelope(scripted.get(path), 404, "not_found")


def test_wrong_method(scripted: httpx.Client) -> None:
    envelope(scripted.get("completions"), 405, "method_not_allowed")


def test_chat_is_refused_without_a_key(scripted_server: Running) -> None:
    answer = httpx.post(f"{scripted_server.base}/chat/completions", json={})
    error = envelope(answer, 400, "chat_completions_unsupported")
    assert "/v1/completions" in error["message"]


def test_health_needs_no_key(scripted_server: Running) -> None:
    body = httpx.get(f"{scripted_server.root}/health").json()
    assert body["status"] == "ok"
    assert body["backends"][0]["model_id"] == "scripted"


def test_models(scripted: httpx.Client) -> None:
    body = scripted.get("models").json()
    assert body["object"] == "list"
    [model] = body["data"]
    assert model["default"] is True
    assert model["status"] == "live"
    assert model["capabilities"]["max_logprobs"] == 100
    assert model["capabilities"]["activations"] is False
    assert "n_layers" not in model["capabilities"]
    assert scripted.get("models/scripted/status").json() == {
        "id": "scripted",
        "object": "model.status",
        "warm": True,
        "boot": None,
    }
    envelope(scripted.get("models/other/status"), 400, "model_not_found")


def test_context_length(scripted: httpx.Client) -> None:
    limit = scripted.get("models").json()["data"][0]["capabilities"]["max_model_len"]
    ids = [1] * (limit - 1)
    assert scripted.post("completions", json={"prompt": ids, "max_tokens": 1}).status_code == 200
    envelope(
        scripted.post("completions", json={"prompt": ids, "max_tokens": 2}), 400, "context_length_exceeded"
    )
    envelope(scripted.post("completions", json={"prompt": [*ids, 1]}), 400, "context_length_exceeded")


def test_omitted_max_tokens_fills_up_to_the_default(scripted: httpx.Client) -> None:
    streamed = {"prompt": "Hello", "stream": True, "stream_options": {"include_usage": True}}
    stream = scripted.post("completions", json=streamed)
    assert chunks(stream.text)[-1]["usage"]["completion_tokens"] == 32_000
    limit = scripted.get("models").json()["data"][0]["capabilities"]["max_model_len"]
    near = scripted.post("completions", json={"prompt": [1] * (limit - 10)}).json()
    assert near["usage"]["completion_tokens"] == 10


def test_success_names_the_backend(scripted: httpx.Client) -> None:
    answer = scripted.post("completions", json=ASK)
    assert answer.headers["x-acs-upstream-model"] == answer.json()["model"]
    assert answer.headers["x-acs-upstream-gpu"]


def test_garbage_is_no_crash(scripted_server: Running, scripted: httpx.Client) -> None:
    host, port = scripted_server.root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        line.sendall(b"\x16\x03\x01 not http\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 400")
    assert scripted.get("models").status_code == 200


def test_nothing_of_a_prompt_is_logged(scripted_server: Running, scripted: httpx.Client) -> None:
    for body in ({"prompt": "SECRET-A", "max_tokens": 1}, {"prompt": "SECRET-B", "n": "x"}, {"SECRET-C": 1}):
        scripted.post("completions", json=body)
    assert "SECRET" not in "".join([*scripted_server.log, *scripted_server.lines])
