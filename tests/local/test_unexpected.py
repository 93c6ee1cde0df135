"""Failures nobody expected, HTTP that is none, bodies that do not come: the envelope, or a clear word, in any case."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import openai
import pytest

from acs_jupyter.local.desk import Limits
from acs_jupyter.local.jobs import Done, Jobs
from acs_jupyter.local.store import FILE
from tests.support.contract import ASK, envelope
from tests.support.desks import counter, until
from tests.support.job_server import job_server, outcome, submit
from tests.support.servers import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Running


def raw(base: str, data: bytes) -> tuple[bytes, dict[str, str], bytes]:
    """Bytes in; status line, headers and body of what comes back until the server closes."""
    url = httpx.URL(base)
    with socket.create_connection((url.host, url.port or 80), 20) as line:
        line.sendall(data)
        found = b""
        while part := line.recv(65_536):
            found += part
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = dict(each.decode().lower().split(": ", 1) for each in lines)
    return first, headers, body


def test_an_unexpected_failure_has_the_envelope(tmp_path: Path) -> None:
    with serving("--scripted", ACS_LOCAL_DATA=str(tmp_path)) as server:
        with closing(sqlite3.connect(tmp_path / FILE)) as db:
            db.execute("ALTER TABLE keys RENAME TO elsewhere")
        with httpx.Client(base_url=server.base + "/", headers=server.auth) as client:
            asked = {"X-Request-Id": "mine"}
            for answer in (
                client.post("completions", json=ASK, headers=asked),
                client.get("models", headers=asked),
                client.get("completion-jobs/x", headers=asked),
            ):
                error = envelope(answer, 500, "internal_error")
                assert answer.headers["x-request-id"] == "mine"
                assert error["retryable"] is True
            with closing(sqlite3.connect(tmp_path / FILE)) as db:
                db.execute("ALTER TABLE elsewhere RENAME TO keys")
            assert client.post("completions", json=ASK).status_code == 200
        assert not [line for line in server.log if "Traceback" in line]


@pytest.mark.parametrize(
    "broken",
    [
        RecursionError(),
        ValueError("\ud800"),
        OverflowError(),
        MemoryError(),
        UnicodeEncodeError("x", "", 0, 0, ""),
    ],
)
def test_a_job_ends_whatever_its_work_raises(broken: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(*_: object) -> Done:
        raise broken

    monkeypatch.setattr(Jobs, "_do", work)
    with job_server() as server:
        client = server.client()
        job = submit(client, "k").json()["id"]
        assert outcome(client, job).json()["error"]["code"] == "upstream_server_error"


@pytest.mark.parametrize(
    "done",
    [
        Done(b"[" * 50_000, {}),
        Done(rb'{"error":{"message":"\ud800","code":"\ud800"}}', {}),
        Done(b'{"error":{"message":"no","code":"vllm_\\r\\nX-Evil: 1"}}', {}),
        Done(b'{"error":"plain"}', {}),
        Done(b'{"choices":[{"index":0}]}', {"x": b"no text"}),  # type: ignore[dict-item]
    ],
)
def test_a_job_ends_whatever_its_work_gives(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(*_: object) -> Done:
        return done

    monkeypatch.setattr(Jobs, "_do", work)
    with job_server() as server:
        client = server.client()
        answer = outcome(client, submit(client, "k").json()["id"])
        assert answer.status_code == 502
        assert answer.json()["error"]["message"]
        assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"GET / HTTP/x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"]
)
def test_what_is_no_http_has_the_envelope(scripted_server: Running, data: bytes) -> None:
    first, headers, body = raw(scripted_server.base, data)
    assert first == b"HTTP/1.1 400 Bad Request"
    told = json.loads(body)
    assert told["error"]["code"] == "invalid_request"
    assert told["request_id"] == headers["x-request-id"]


def test_a_strange_host_is_no_failure() -> None:
    with serving("--scripted", "--host", "0.0.0.0") as server:
        base = server.base.replace("0.0.0.0", "127.0.0.1")
        for method, status in (("GET /nope", b"404"), ("PUT /v1/models", b"405")):
            head = f"{method} HTTP/1.1\r\nHost: [\r\nConnection: close\r\n\r\n"
            first, _, body = raw(base, head.encode())
            assert status in first
            assert json.loads(body)["request_id"]


def test_a_websocket_is_an_unknown_method_of_asking(scripted_server: Running) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "a" * 24,
    }
    answer = httpx.get(f"{scripted_server.base}/completions", headers=upgrade)
    envelope(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


def test_a_wrong_way_in_is_told_the_right_one(scripted: httpx.Client, scripted_server: Running) -> None:
    wrong = scripted.get("completions")
    assert "use POST" in envelope(wrong, 405, "method_not_allowed")["message"]
    assert wrong.headers["allow"] == "POST"
    assert "use GET." in envelope(scripted.post("models"), 405, "method_not_allowed")["message"]
    root = scripted_server.root
    for path in ("/completions", "/v2/completions"):
        message = envelope(httpx.post(root + path, json=ASK), 404, "not_found")["message"]
        assert "the paths of the API begin with /v1" in message
    for path in ("", "/", "/v1", "/v1/"):
        assert "/swagger" in envelope(httpx.get(root + path), 404, "not_found")["message"]
    long = httpx.get(f"{root}/v1/{'x' * 5000}")
    assert len(envelope(long, 404, "not_found")["message"]) < 300


def test_one_model_as_the_sdk_retrieves_it(scripted: httpx.Client, scripted_server: Running) -> None:
    client = openai.OpenAI(base_url=scripted_server.base, api_key=scripted_server.key, max_retries=0)
    assert client.models.retrieve("scripted").id == "scripted"
    assert scripted.get("models/scripted").json() == scripted.get("models").json()["data"][0]
    with pytest.raises(openai.NotFoundError, match="GET /v1/models"):
        client.models.retrieve("a/b")
    envelope(httpx.get(f"{scripted_server.base}/models/scripted"), 401, "missing_authorization")


BODIES = [
    (b'{"foo":1,', "bad_json", "line 1, column 10"),
    (b'{"a":', "bad_json", "column 6"),
    (b" ", "bad_json", "it is empty"),
    (b'{"prompt":"x",\n "max_tokens":01}', "bad_json", "line 2"),
    ('{"prompt":"x"}'.encode("utf-16"), "bad_json", "byte 0"),
    ('{"prompt":"x"}'.encode("utf-16-le"), "bad_json", "UTF-8"),
    ('{"prompt":"x"}'.encode("utf-32"), "bad_json", "byte 0"),
    (b'\xef\xbb\xbf{"prompt":"x"}', "bad_json", "byte order mark"),
    (b'{"prompt":"a\xff"}', "bad_json", "byte 12"),
    (b'{"zzz":' + b"[" * 90_000, "bad_json", "deeply"),
    (rb'{"prompt":"a\ud800"}', "invalid_request", "prompt holds a lone surrogate (U+D800) at character 1"),
    (rb'{"prompt":["a","\udc00"]}', "invalid_request", "prompt holds a lone surrogate"),
    (rb'{"prompt":"x","stop":"\udc00"}', "invalid_request", "stop holds"),
    (rb'{"prompt":"x","\udc00":1}', "invalid_request", "lone surrogate"),
    (b'{"prompt":"x","max_tokens":' + b"9" * 5000 + b"}", "invalid_request", "max_tokens"),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_what_is_wrong_with_a_body_is_named(scripted: httpx.Client, number: int) -> None:
    body, code, words = BODIES[number]
    assert words in envelope(scripted.post("completions", content=body), 400, code)["message"]


@pytest.mark.parametrize(
    "shape",
    [b'{"prompt":"x","%s":1}', b'{"prompt":"x","stream_options":{"%s":1}}', b'{"prompt":"x","model":"%s"}'],
)
def test_a_huge_name_is_neither_compared_nor_repeated(scripted: httpx.Client, shape: bytes) -> None:
    answer = scripted.post("completions", content=shape % (b"a" * 4_000_000))
    assert answer.status_code == 400
    assert len(answer.content) < 500
    assert "aaaa" in answer.json()["error"]["message"]


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    with counter(tmp_path, limits=Limits(active=1, waiting=0, starts=0, body_wait=0.3)) as running:
        key = running.new_key()
        head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
        head += f"Authorization: Bearer {key}\r\n\r\n"
        first, headers, body = raw(running.base, head.encode() + b'{"a')
        assert b" 408 " in first
        assert "3 had come" in json.loads(body)["error"]["message"]
        assert headers["connection"] == "close"
        until(lambda: running.desk.gate.active == 0)
        assert running.client(key).post("completions", json=ASK).status_code == 200


def test_megabytes_of_text_are_refused_before_they_are_tokenized(smollm: httpx.Client) -> None:
    begun = time.monotonic()
    answer = smollm.post("completions", json={"prompt": "word " * 3_000_000, "max_tokens": 1})
    message = envelope(answer, 400, "context_length_exceeded")["message"]
    assert "15000000 bytes, which are at least" in message
    assert time.monotonic() - begun < 10  # tokenizing it in full takes longer


def test_a_job_of_an_exhausted_key_is_refused_at_submission() -> None:
    with job_server() as server:
        client = server.stranger(budget=12)
        assert client.post("completions", json={"prompt": [1] * 4, "max_tokens": 8}).status_code == 200
        envelope(submit(client, "k", [1]), 429, "budget_exceeded")
        assert len(server.engine.begun) == 1
        assert submit(server.client(), "k", [1]).status_code == 202  # another key, and a good one
