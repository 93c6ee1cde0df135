"""Whatever an upstream says or does not say: an envelope, an ended job, a verdict, and never its key."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from acs_jupyter.errors import ApiError
from acs_jupyter.local.upstream_errors import presentable
from tests.support.contract import envelope
from tests.support.gateway import QUICK, fronting
from tests.support.job_server import outcome, submit
from tests.support.joined import joined
from tests.support.player import DONE, frames, stream, whole
from tests.support.servers import serving
from tests.support.upstreams import ASK, playing, vllm

if TYPE_CHECKING:
    from tests.support.player import Step

STREAM = ASK | {"stream": True}
SURROGATE = rb'{"error":{"message":"half \ud800 of one","type":"x\udc00","code":500}}'
DEEP = b'{"error":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
HARD = replace(QUICK, retries=0)
SECRET = "sk-very-secret-upstream-key/+="


def told(answer: httpx.Response) -> dict[str, Any]:
    return dict(json.loads(answer.text.split("data: ")[-1])["error"])


@pytest.mark.parametrize(
    ("error", "words"), [(SURROGATE, "half ? of one"), (DEEP, "The upstream failed with 500.")]
)
def test_errors_that_cannot_be_repeated_are_still_errors(error: bytes, words: str) -> None:
    first = next(frames([" a", " b"]))
    answers: list[list[Step]] = [
        whole(error, "500 Internal"), whole(error, "500 Internal"), whole(error),
        stream(first, b"data: " + error + b"\n\n", DONE), whole(error, "500 Internal"), whole(error),
    ]  # fmt: skip
    with (
        playing(*answers, tokenize=whole(b"", "404 Not Found")) as upstream,
        joined(upstream.base, budget=1000, patience=replace(HARD, breaker_failures=9)) as server,
    ):
        http = server.client
        refused = envelope(http.post("completions", json=ASK), 502, "upstream_server_error")
        assert (refused["message"], refused["attempts"], refused["upstream_status"]) == (words, 1, 500)
        assert (
            envelope(http.post("completions", json=STREAM), 502, "upstream_server_error")["message"] == words
        )
        assert envelope(http.post("completions", json=ASK), 502, "upstream_server_error")["message"] == words
        assert told(http.post("completions", json=STREAM))["message"] == words
        for number in range(2):
            job = submit(http, f"k{number}", model="m").json()["id"]
            assert outcome(http, job).json()["error"]["message"] == words
        [backend] = http.get(f"{server.front.root}/health").json()["backends"]
        assert backend["breaker_consecutive_failures"] == 6
        assert server.desk.budget.reserved == 0


def test_the_upstreams_key_is_in_nothing_it_says() -> None:
    said = f"Incorrect key {SECRET} in 'Bearer {SECRET}'" + " " * 1960 + SECRET
    answers: list[list[Step]] = [
        whole(vllm(said, 400), "400 Bad Request"), whole(vllm(said, 500), "500 Internal"), whole(vllm(said, 500)),
        whole(b"x", Content_Encoding=SECRET[:20]), whole(vllm(said, 400), "400 Bad Request"),
        stream(b"data: " + vllm(said, 500) + b"\n\n", DONE), whole(vllm(said, 429), "429 Too Many", Retry_After="3"),
    ]  # fmt: skip
    with (
        playing(*answers) as upstream,
        joined(upstream.base, key=SECRET, patience=replace(HARD, breaker_failures=99)) as server,
    ):
        http = server.client
        seen = [http.post("completions", json=ASK) for _ in range(4)]
        assert "Incorrect key [key] in 'Bearer [key]'" in seen[0].json()["error"]["message"]
        job = submit(http, "k", model="m").json()["id"]
        seen += [
            outcome(http, job),
            http.post("completions", json=STREAM),
            http.post("completions", json=ASK),
        ]
        seen += [http.get("models"), http.get(f"{server.front.root}/health")]
        everything = "".join(answer.text + str(answer.headers) for answer in seen)
    assert SECRET[:12] not in everything
    assert upstream.requests[0].headers["authorization"] == f"Bearer {SECRET}"


def test_hiding_comes_before_cutting() -> None:
    error = presentable(ApiError("x" * 1990 + SECRET), lambda text: text.replace(SECRET, "[key]"))
    assert error.message == "x" * 1990 + "[key]"
    assert "secret" not in str(error)


def test_what_is_said_of_an_upstream_that_does_not_answer() -> None:
    now = [0.0]
    with playing(whole(b"{}")) as upstream:
        base = upstream.base
    with (
        fronting(f"m={base}", patience=replace(HARD, breaker_failures=1), clock=lambda: now[0]) as front,
        front.client() as client,
    ):
        health = client.get(f"{front.root}/health").json()
        assert (health["status"], health["degraded_backends"]) == ("degraded", ["m"])
        assert health["backends"][0]["status"] == "unreachable"
        front.fleet.upstreams[0]._cold_since = now[0]
        now[0] += 42
        message = envelope(client.post("completions", json=ASK), 502, "upstream_unreachable")["message"]
        assert message.startswith("The upstream of 'm' did not answer, for 42 seconds now: ")
        now[0] += 10
        message = envelope(client.post("completions", json=ASK), 503, "circuit_open")["message"]
        assert "The upstream of 'm' failed 1 times" in message
        assert "rests for 50 more seconds" in message
        assert base.split("/")[2] not in message


def test_an_upstream_that_answers_is_live() -> None:
    with playing(whole(b"{}")) as upstream, fronting(upstream.base) as front, front.client() as client:
        health = client.get(f"{front.root}/health").json()
        assert (health["status"], health["backends"][0]["status"]) == ("ok", "live")


def test_ids_that_could_steer_a_terminal_are_refused() -> None:
    from acs_jupyter.local.fleet import BadUpstream, open_fleet

    for name in ("evil\u001b[2J", "a\r\nX-Evil: 1", " ", ""):
        with playing(whole(b"{}")) as upstream:
            upstream.routes["/v1/models"] = whole({"data": [{"id": name}]})
            with pytest.raises(BadUpstream, match="did not name its model") as caught:
                open_fleet([upstream.base])
            assert str(caught.value).isprintable()


@pytest.mark.parametrize("length", ["-1", "0", "1" + "0" * 23])
def test_an_absurd_length_of_context_is_not_believed(length: str) -> None:
    listed = b'{"data": [{"id": "m", "max_model_len": ' + length.encode() + b"}]}"
    with playing(whole(b'{"choices": []}')) as upstream:
        upstream.routes["/v1/models"] = whole(listed)
        with fronting(upstream.base) as front, front.client() as client:
            [model] = client.get("models").json()["data"]
            assert "max_model_len" not in model["capabilities"]
            assert client.post("completions", json={"prompt": "x", "max_tokens": 5}).status_code == 200


def test_a_running_server_keeps_its_upstreams_key_out_of_its_log() -> None:
    with (
        playing(whole(vllm(f"no {SECRET}", 400), "400 Bad")) as upstream,
        serving("--upstream", upstream.base, "--upstream-key-env", "UP", UP=SECRET) as front,
    ):
        got = httpx.post(f"{front.base}/completions", json=ASK, headers=front.auth)
        assert "no [key]" in got.text
    assert SECRET not in "".join(front.log)
