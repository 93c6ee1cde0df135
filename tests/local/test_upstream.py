"""A strict front for another completions server: bytes pass, errors are translated, leaving is noticed."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter.checks import parse_request
from acs_jupyter.errors import EngineRefused, JobResultTooLarge
from acs_jupyter.local.fleet import BadUpstream, Fleet, open_fleet
from acs_jupyter.local.relay import SPACES
from acs_jupyter.local.sieve import Sieve, usage_in
from acs_jupyter.local.splice import splice
from acs_jupyter.local.upstream import Patience, Upstream
from tests.support.contract import envelope
from tests.support.gateway import KEY, QUICK, SERVED, fronting
from tests.support.player import CLOSE, DONE, END, HANG, chunk, frames, head, stream, whole
from tests.support.servers import serving
from tests.support.upstreams import ANSWER, ASK, METERED, STREAM, envelope_with, playing, vllm

if TYPE_CHECKING:
    from tests.support.player import Step
    from tests.support.servers import Running

WIRE = Path(__file__).parents[1] / "data" / "wire"
RECORDED = sorted(path.name.removesuffix(".request.json") for path in WIRE.glob("*.request.json"))
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}\n\n'


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int | None, int]]:
    """What the metering hook is told."""
    from acs_jupyter.local import fleet as module

    told: list[tuple[int | None, int]] = []
    original = module.Forward.answer

    def answer(self: module.Forward, body: bytes, request_id: str, *, on_usage: Any, **more: Any) -> Any:
        def both(prompt: int | None, done: int) -> None:
            told.append((prompt, done))
            on_usage(prompt, done)

        return original(self, body, request_id, on_usage=both, **more)

    monkeypatch.setattr(module.Forward, "answer", answer)
    return told


def recorded(name: str) -> tuple[dict[str, Any], int, bytes]:
    request = json.loads((WIRE / f"{name}.request.json").read_text("utf-8"))
    [path] = WIRE.glob(f"{name}.response.*")
    return request["body"], request["status"], path.read_bytes()


GOOD = [name for name in RECORDED if recorded(name)[1] == 200]


@pytest.mark.parametrize("name", GOOD)
def test_recorded_answers_pass_byte_for_byte(name: str, told: list[tuple[int | None, int]]) -> None:
    body, _, raw = recorded(name)
    sent = json.dumps(body | {"model": "m"}).encode()
    answer = (
        stream(*(raw[i : i + 1000] for i in range(0, len(raw), 1000))) if body.get("stream") else whole(raw)
    )
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        got = client.post("completions", content=sent, headers={"Accept-Encoding": "identity"})
    assert got.status_code == 200
    assert got.headers["x-acs-upstream-model"] == SERVED
    [request] = upstream.requests
    asked = request.json
    if body.get("stream"):
        included = (body.get("stream_options") or {}).get("include_usage", False)
        assert asked["stream_options"] == (body.get("stream_options") or {}) | {"include_usage": True}
        assert included or b'"choices":[]' not in raw
        asked.pop("stream_options", None)
        body = {key: value for key, value in body.items() if key != "stream_options"}
    assert asked == body | {"model": SERVED}
    assert got.content == raw
    if '"usage":{' in raw.decode():
        [(prompt, completion)] = told
        assert prompt is not None
        assert completion > 0


def test_only_the_model_changes_in_a_body() -> None:
    raw = (
        '{ "prompt" : "a\\u00e9 \\"model\\": é" , "temperature":0.70, "model":"m","max_tokens":2 , "seed": 1}'
    )
    with playing(whole(ANSWER)) as upstream, fronting(upstream.base) as front, front.client() as client:
        client.post("completions", content=raw.encode())
    assert upstream.requests[0].body.decode() == raw.replace('"model":"m"', f'"model":"{SERVED}"')


def test_headers_are_listed_not_copied() -> None:
    answer = whole(ANSWER, X_Secret="s", Set_Cookie="a=b", Server="vLLM", X_Acs_Upstream_Gpu="lie")
    with (
        playing(answer) as upstream,
        fronting(upstream.base, key="up-key") as front,
        front.client() as client,
    ):
        got = client.post("completions", json=ASK, headers={"Cookie": "c=d", "X-Other": "x"})
    sent = upstream.requests[0].headers
    assert sent["authorization"] == "Bearer up-key"
    assert not {"cookie", "x-other", "x-request-id"} & set(sent)
    assert not {"x-secret", "set-cookie", "server"} & set(got.headers)
    assert got.headers.get_list("x-acs-upstream-gpu") == ["unknown"]
    assert got.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("asked", [True, False])
def test_usage_frame_is_metered_and_shown_only_when_asked(
    asked: bool, told: list[tuple[int | None, int]]
) -> None:
    parts = list(frames([" a", " b"]))
    raw = b"".join(parts)
    with (
        playing(stream(*parts, USAGE, DONE)) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
    ):
        got = client.post("completions", json=METERED if asked else STREAM)
    assert got.content == raw + (USAGE if asked else b"") + DONE
    assert told == [(3, 2)]
    assert upstream.requests[0].json["stream_options"] == {"include_usage": True}  # type: ignore[index]


def test_frames_come_as_they_are_sent() -> None:
    parts = list(frames([" a", " b", " c"]))
    steps: list[Step] = [parts[0], 1.5, parts[1][:20], 0.1, parts[1][20:], 1.5, parts[2] + DONE]
    with playing(stream(*steps)) as upstream, fronting(upstream.base) as front, front.client() as client:
        start, seen = time.monotonic(), []
        with client.stream("POST", "completions", json=STREAM) as got:
            for part in got.iter_raw():
                seen.append((time.monotonic() - start, part))  # noqa: PERF401 - the time is taken between
    assert [part for _, part in seen] == [parts[0], parts[1], parts[2] + DONE]
    assert seen[0][0] < 1.4  # before the second is sent
    assert 1.5 <= seen[1][0] < 3.0  # before the third is


def test_json_body_comes_as_it_is_sent() -> None:
    big = b'{"a":"' + b"x" * 100_000
    answer: list[Step] = [head(), chunk(big), 2.0, chunk(b'"}'), END]
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        start = time.monotonic()
        with client.stream("POST", "completions", json=ASK, headers={"Accept-Encoding": "identity"}) as got:
            parts = got.iter_raw()
            first = next(parts)
            assert time.monotonic() - start < 1.8
            assert first + b"".join(parts) == big + b'"}'


@pytest.mark.parametrize("body", [ASK, STREAM])
@pytest.mark.parametrize("when", ["waiting", "answering"])
def test_leaving_cancels_the_upstream(body: dict[str, Any], when: str) -> None:
    begun = (
        stream(next(frames([" a", " b"])), HANG)
        if "stream" in body
        else [head(), chunk(b'{"a":' * 200), HANG]
    )
    answer: list[Step] = [HANG] if when == "waiting" else begun
    with playing(answer) as upstream, fronting(upstream.base) as front:
        with front.client() as client:
            if when == "waiting":
                with pytest.raises(httpx.ReadTimeout):
                    client.post("completions", json=body, timeout=0.3)
            else:
                with client.stream("POST", "completions", json=body) as got:
                    next(got.iter_raw())
            client.close()
            left = time.monotonic()
            while upstream.requests[0].left_at is None:
                assert time.monotonic() - left < 2
                time.sleep(0.005)
            while front.fleet.upstreams[0].active:
                assert time.monotonic() - left < 2
        assert front.fleet.upstreams[0].breaker.failures == 0


def test_a_stream_that_was_left_is_reported(told: list[tuple[int | None, int]]) -> None:
    with playing(stream(*frames([" a", " b", " c"]), HANG)) as upstream, fronting(upstream.base) as front:
        with (
            front.client() as client,
            client.stream("POST", "completions", json=STREAM | {"max_tokens": 3}) as got,
        ):
            lines = got.iter_lines()  # held: the answer ends with it
            for _ in range(3):
                next(line for line in lines if line.startswith("data: {"))
        end = time.monotonic() + 1
        while not told and time.monotonic() < end:
            time.sleep(0.01)
    assert told == [(3, 3)]  # these frames carry a running usage


ERRORS = [
    ("400 Bad Request", recorded("error_context")[2], 400, "vllm_context_length"),
    ("400 Bad Request", recorded("error_prompt_logprobs_stream")[2], 400, "vllm_invalid_request"),
    ("400 Bad Request", recorded("empty_prompt")[2], 400, "vllm_invalid_request"),
    ("404 Not Found", recorded("error_unknown_model")[2], 400, "vllm_invalid_request"),
    ("422 Unprocessable", b'{"detail":"top_k is bad"}', 400, "vllm_invalid_request"),
    ("400 Bad Request", b'{"object":"error","message":"old shape","code":400}', 400, "vllm_invalid_request"),
    ("401 Unauthorized", b'{"error":"Unauthorized"}', 502, "upstream_server_error"),
    ("413 Too Large", b"<html>", 413, "request_too_large"),
    ("429 Too Many Requests", b"", 429, "rate_limited"),
    ("500 Internal", vllm("CUDA out of memory. Tried to allocate 2 GiB", 500), 502, "vllm_oom"),
    ("500 Internal", vllm("EngineCore encountered an issue. See stack trace", 500), 502, "vllm_engine_dead"),
    ("500 Internal", vllm("something else", 500), 502, "upstream_server_error"),
    ("503 Unavailable", b"<html>proxy</html>", 502, "upstream_server_error"),
    ("302 Found", b"", 502, "upstream_server_error"),
]


@pytest.mark.parametrize("body", [ASK, STREAM], ids=["json", "stream"])
@pytest.mark.parametrize(("status", "raw", "expected", "code"), ERRORS)
def test_errors_are_translated(
    body: dict[str, Any], status: str, raw: bytes, expected: int, code: str
) -> None:
    answer = whole(raw, status, Retry_After="7")
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        got = client.post("completions", json=body)
        failures = front.fleet.upstreams[0].breaker.failures
    error = envelope_with(got, expected, code)
    headers = got.headers
    if code.startswith(("vllm", "upstream")):
        assert headers["x-acs-upstream-error-kind"] == code
    assert headers["x-acs-upstream-model"] == SERVED
    assert error["upstream_status"] == int(status[:3])
    if raw.startswith(b"{") and expected == 400:
        assert error["message"] in raw.decode()
    retried = expected == 502 and code != "vllm_oom" and not status.startswith("401") and body is ASK
    assert len(upstream.requests) == (4 if retried else 1)
    assert failures == (0 if expected != 502 or status.startswith("401") else 1)
    assert ("retry-after" in headers) == (error.get("retryable") is True)
    assert upstream.base.removesuffix("/v1").removeprefix("http://") not in got.text


def test_new_attempts_are_made_before_the_first_byte() -> None:
    bad, worse = whole(vllm("no", 500), "500 Internal"), [CLOSE]
    with (
        playing(bad, worse, whole(ANSWER)) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
    ):
        got = client.post("completions", json=ASK)
    assert got.status_code == 200
    assert got.content == ANSWER
    assert len(upstream.requests) == 3


@pytest.mark.parametrize("body", [ASK, STREAM])
def test_a_connection_that_was_closed_between_requests_costs_no_attempt(body: dict[str, Any]) -> None:
    good = stream(USAGE, DONE) if "stream" in body else whole(ANSWER)
    quick = replace(QUICK, retries=0)
    with playing(good, [CLOSE], good) as upstream, fronting(upstream.base, patience=quick) as front:
        with front.client() as client:
            assert [client.post("completions", json=body).status_code for _ in range(2)] == [200, 200]
        assert len(upstream.requests) == 3
        assert len({request.connection for request in upstream.requests}) == 2
    with playing([CLOSE], good) as upstream, fronting(upstream.base, patience=quick) as front:
        with front.client() as client:  # on a connection of its own it is a failure like any other
            assert client.post("completions", json=body).status_code == 502
        assert len(upstream.requests) == 1


def test_no_new_attempt_after_the_first_byte() -> None:
    with (
        playing([head(), chunk(b'{"a":1' * 200), CLOSE]) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        client.post("completions", json=ASK)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("body", [ASK, STREAM])
def test_unreachable(body: dict[str, Any]) -> None:
    with playing(whole(ANSWER)) as upstream:
        base = upstream.base
    with fronting(f"m={base}") as front, front.client() as client:
        got = client.post("completions", json=body)
        assert not client.get("models/m/status").json()["warm"]
    error = envelope_with(got, 502, "upstream_unreachable")
    assert error["attempts"] == (4 if body is ASK else 1)
    assert got.headers["retry-after"] == "1"


def test_deadline_is_not_retried_and_says_so() -> None:
    quick = replace(QUICK, deadline=0.3)
    with playing([HANG]) as upstream, fronting(upstream.base, patience=quick) as front:
        with front.client() as client:
            got = client.post("completions", json=ASK)
        assert front.fleet.upstreams[0].breaker.failures == 0
    envelope_with(got, 504, "upstream_deadline")
    assert got.headers["x-should-retry"] == "false"
    assert "retry-after" not in got.headers
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (
            [b'data: {"error":{"message":"EngineCore died","type":"x","code":500}}\n\n', DONE],
            "vllm_engine_dead",
        ),
        ([b'data: {"error":{"message":"bad","type":"x","code":400}}\n\n', DONE], "vllm_invalid_request"),
        ([b"data: {"], "upstream_error"),
        ([], "upstream_error"),
    ],
)
@pytest.mark.parametrize("whole_end", [True, False])
def test_failures_in_a_stream(ending: list[bytes], code: str, whole_end: bool) -> None:
    first = next(frames([" a", " b"]))
    with playing(stream(first, *ending, end=whole_end)) as upstream, fronting(upstream.base) as front:
        with front.client() as client:
            got = client.post("completions", json=STREAM)
        failures = front.fleet.upstreams[0].breaker.failures
    assert got.status_code == 200
    assert got.content.startswith(first)
    [last] = got.text.removeprefix(first.decode()).split("\n\n")[:-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == code
    assert failures == (0 if code == "vllm_invalid_request" else 1)


COLD = replace(QUICK, cold=0.2, warm=0.2, silence=0.2)


def test_cold_boot_of_a_json_answer() -> None:
    with (
        playing([0.5, *whole(ANSWER)]) as upstream,
        fronting(upstream.base, patience=COLD) as front,
        front.client() as client,
    ):
        got = client.post("completions", json=ASK, headers={"Accept-Encoding": "identity"})
        packed = client.post("completions", json=ASK)
    for each in (got, packed):
        assert each.content.lstrip() == ANSWER
        assert each.content.count(b" ") in (len(SPACES), len(SPACES) * 2, len(SPACES) * 3)
    assert packed.headers["content-encoding"] == "gzip"
    assert "x-acs-upstream-error-kind" not in got.headers


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_keepalive_comes_while_waiting(encoding: str) -> None:
    with playing([1.5, *whole(ANSWER)]) as upstream, fronting(upstream.base, patience=COLD) as front:
        start = time.monotonic()
        headers = {"Accept-Encoding": encoding}
        with front.client() as client, client.stream("POST", "completions", json=ASK, headers=headers) as got:
            parts = got.iter_bytes()
            assert next(parts).isspace()
            assert time.monotonic() - start < 1.2
            assert b"".join(parts).strip() == ANSWER


def test_late_failure_stands_in_the_body() -> None:
    late: list[Step] = [0.5, *whole(vllm("bad", 400), "400 Bad Request")]
    with playing(late) as upstream, fronting(upstream.base, patience=COLD) as front, front.client() as client:
        got = client.post("completions", json=ASK)
        streamed = client.post("completions", json=STREAM)
    assert got.status_code == 200
    assert got.content.startswith(SPACES)
    assert got.json()["error"]["code"] == "vllm_invalid_request"
    assert "x-acs-upstream-error-kind" not in got.headers
    assert streamed.status_code == 200
    comments, error = streamed.text.rsplit("\n\ndata: ", 1)
    assert set(comments.split("\n\n")) == {": keepalive"}
    assert json.loads(error)["error"]["code"] == "vllm_invalid_request"


def test_cold_boot_and_silence_of_a_stream() -> None:
    parts = list(frames([" a", " b"]))
    steps: list[Step] = [0.7, *stream(parts[0], parts[1][:30], 0.7, parts[1][30:], DONE)]
    with (
        playing(steps) as upstream,
        fronting(upstream.base, patience=COLD) as front,
        front.client() as client,
    ):
        got = client.post("completions", json=STREAM)
    assert got.content.replace(b": keepalive\n\n", b"") == b"".join([*parts, DONE])
    before, found, behind = got.content.partition(parts[0])
    assert found
    assert before.count(b": keepalive\n\n") >= 2  # each 0.2 s, on a machine that has time
    assert behind.startswith(b": keepalive\n\n")


def test_cold_upstreams_are_waited_for_less() -> None:
    now = 0.0
    upstream = Upstream("http://127.0.0.1:1/v1", "m", clock=lambda: now)
    assert not upstream.warm
    upstream.heard()
    assert upstream.warm
    now = 299.0
    assert upstream.warm
    now = 301.0
    assert not upstream.warm
    upstream.heard()
    upstream.lost()
    assert not upstream.warm


def test_status_and_health() -> None:
    with playing(whole(ANSWER)) as upstream, fronting(upstream.base) as front, front.client() as client:
        assert client.get("models/m/status").json() == {
            "id": "m", "object": "model.status", "warm": True, "boot": None,
        }  # fmt: skip
        envelope(client.get("models/other/status"), 400, "model_not_found")
        client.post("completions", json=ASK)
        [backend] = client.get(f"{front.root}/health").json()["backends"]
        assert backend["warm_estimate"] == "warm"
        assert backend["last_completion_seconds_ago"] < 5
        [model] = client.get("models").json()["data"]
    assert model["id"] == "m"
    assert model["served_model_name"] == SERVED
    assert model["capabilities"]["max_model_len"] == 2048


def test_several_upstreams() -> None:
    one, two = whole(ANSWER), whole(ANSWER.replace(b"3", b"4"))
    with (
        playing(one) as first,
        playing(two) as second,
        fronting(f"a={first.base}", f"b={second.base}") as front,
        front.client() as client,
    ):
        assert [(m["id"], m["default"]) for m in client.get("models").json()["data"]] == [
            ("a", True),
            ("b", False),
        ]
        for name in ("a", "b", "b", ""):
            client.post("completions", json=ASK | {"model": name})
        envelope(client.post("completions", json=ASK | {"model": SERVED}), 400, "model_not_found")
    assert (len(first.requests), len(second.requests)) == (2, 2)


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "x", "best_of": 2},
        {"prompt": "x", "max_tokens": "1"},
        {"prompt": "x", "temperature": 101},
        {"prompt": ["a", "b"]},
        {"prompt": "x", "stream_options": {}},
    ],
)
def test_validation_stands_before_the_upstream(body: dict[str, Any]) -> None:
    with playing(whole(ANSWER)) as upstream, fronting(upstream.base) as front, front.client() as client:
        envelope(client.post("completions", json=body), 400, "invalid_request")
        long = {"prompt": [1] * 2048, "max_tokens": 1}
        envelope(client.post("completions", json=long), 400, "context_length_exceeded")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("prompt", "tokenize", "expected"),
    [
        ("Hello", whole({"count": 8, "max_model_len": 2048, "tokens": []}), 2040),
        ("Hello", whole({"detail": "Not Found"}, "404 Not Found"), 2048 - 6),
        ("x" * 5000, whole({"detail": "Not Found"}, "404 Not Found"), 16),
        ([1] * 2000, whole({}), 48),
    ],
)
def test_max_tokens_is_filled_in(prompt: Any, tokenize: list[Step], expected: int) -> None:
    with (
        playing(whole(ANSWER), tokenize=tokenize) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
    ):
        for given_max in ({}, {"max_tokens": None}):
            client.post("completions", json={"prompt": prompt, **given_max})
    assert [r.json["max_tokens"] for r in upstream.requests] == [expected] * 2  # type: ignore[index]


def test_full_vocabulary_is_capped() -> None:
    counted = whole({"count": 1025, "max_model_len": 2048, "tokens": []})
    body = {"prompt": "x" * 1200, "max_tokens": 1, "prompt_logprobs": -1}
    with (
        playing(whole(ANSWER), tokenize=counted) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
    ):
        envelope(client.post("completions", json=body), 400, "full_vocab_prompt_too_long")


@pytest.mark.parametrize("body", [ASK, STREAM])
def test_connections_are_used_again(body: dict[str, Any]) -> None:
    answer = whole(ANSWER) if body is ASK else stream(*frames([" a"]), DONE)
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        for _ in range(5):
            client.post("completions", json=body)
    assert len({request.connection for request in upstream.requests}) == 1


def test_secrets_and_prompts_stay_inside() -> None:
    with serving("--scripted", "--key", "UPSTREAM-SECRET") as upstream:
        arguments = ["--upstream", upstream.base, "--upstream-key-env", "MY_KEY"]
        with (
            serving(*arguments, MY_KEY="UPSTREAM-SECRET") as front,
            httpx.Client(base_url=front.base, headers=front.auth) as client,
        ):
            assert client.post("/completions", json=ASK).status_code == 200
            upstream.process.terminate()
            upstream.process.wait(10)
            texts = [client.post("/completions", json=STREAM | {"prompt": "PROMPT-SECRET"}).text]
            texts.append(client.get("/models").text)
            texts.append(client.get(f"{front.root}/health").text)
        assert "SECRET" not in "".join([*texts, *front.log, *front.lines])
    assert "SECRET" not in repr(Upstream("http://127.0.0.1:1/v1", key="SECRET"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("ftp://x", "http"),
        ("http://user:pw@127.0.0.1:1", "--upstream-key-env"),
        ("m=http://127.0.0.1:1/v1?key=s", "--upstream-key-env"),
        ("http://127.0.0.1:99999", "http"),
        ("http://127.0.0.1:1", "start it first"),
    ],
)
def test_bad_upstreams_are_one_line(spec: str, words: str) -> None:
    with pytest.raises(BadUpstream, match=words) as caught:
        open_fleet([spec])
    assert "\n" not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_settings_by_name() -> None:
    assert Patience.of(["silence=10", "retries=0", "breaker-pause=0.5"], deadline=7.0) == Patience(
        deadline=7.0, silence=10.0, retries=0, breaker_pause=0.5
    )
    for bad in ("x=1", "silence=", "silence=-1", "retries=nan", "deadline=10"):  # the window is --window
        with pytest.raises(ValueError, match="NAME=NUMBER"):
            Patience.of([bad])


def test_openai_client(scripted_server: Running) -> None:
    with fronting(f"gate={scripted_server.base}", key=scripted_server.key) as front:
        client = openai.OpenAI(base_url=front.base, api_key=KEY, max_retries=0)
        done = client.completions.create(model="gate", prompt="Hello", max_tokens=4, logprobs=2)
        assert done.usage is not None
        assert done.usage.completion_tokens == 4
        parts = client.completions.create(
            model="gate", prompt="Hello", max_tokens=4, stream=True, extra_body={"top_k": 5}
        )
        assert len([part for part in parts if part.choices]) == 4
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(model="gate", prompt="Hello", max_tokens=4, temperature=0, n=2)
        assert caught.value.code == "vllm_invalid_request"
        client.close()


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.dictionaries(st.text() | st.just("model"), JSONS, min_size=1),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_splice(value: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    changed = splice(raw, {"model": b'"new"', "max_tokens": b"7"})
    assert json.loads(changed.decode("utf-8", "surrogatepass")) == value | {"model": "new", "max_tokens": 7}
    assert splice(raw, {}) == raw


@given(st.lists(st.integers(1, 60), min_size=1), st.booleans(), st.sampled_from([b"\n", b"\r\n"]))
def test_any_slicing_gives_the_same_stream(sizes: list[int], drop: bool, eol: bytes) -> None:
    parts = [*frames([" a", "[DONE]", '"error":{', ' "choices":[]']), USAGE, DONE]
    raw = b"".join(parts).replace(b"\n", eol)
    sieve, got, at, turn = Sieve(drop_usage=drop), b"", 0, 0
    while at < len(raw):
        size = sizes[turn % len(sizes)]
        got, at, turn = got + sieve.feed(raw[at : at + size]), at + size, turn + 1
    expected = raw.replace(USAGE.replace(b"\n", eol), b"") if drop else raw
    assert got == expected
    assert sieve.usage == (3, 2)
    assert sieve.done


def test_text_cannot_pose_as_usage() -> None:
    fake = json.dumps({"text": '"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}'}).encode()
    assert usage_in(fake) is None
    assert usage_in(ANSWER + fake) == (3, 2)


def test_usage_is_told_before_a_client_can_leave(told: list[tuple[int | None, int]]) -> None:
    with (
        playing(stream(*frames([" a"]), USAGE + DONE, HANG)) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
        client.stream("POST", "completions", json=STREAM) as got,
    ):
        for part in got.iter_raw():
            if DONE in part:
                assert told == [(3, 2)]
                break


def test_a_whole_answer_for_a_job() -> None:
    import asyncio

    request = parse_request(json.dumps(ASK).encode())
    bad = whole(vllm("bad", 400), "400 Bad Request")

    async def work(base: str) -> None:
        fleet = Fleet([Upstream(base, "m", patience=QUICK)])
        forward = await fleet.plan(request, count=True)
        assert forward.counted == (6, 6, False)
        usage: list[tuple[int | None, int]] = []
        answer = await forward.whole("id", on_usage=lambda prompt, done: usage.append((prompt, done)))
        assert answer == ANSWER
        assert usage == [(3, 2)]
        with pytest.raises(JobResultTooLarge):
            await forward.whole("id", on_usage=lambda prompt, done: usage.append((prompt, done)), at_most=10)
        assert usage == [(3, 2)] * 2  # it was made, so it is paid
        with pytest.raises(EngineRefused):
            await forward.whole("id")
        assert fleet.upstreams[0].active == 0
        await fleet.aclose()
        await asyncio.sleep(0.01)

    missing = whole({"detail": "Not Found"}, "404 Not Found")
    with playing(whole(ANSWER), whole(ANSWER), bad, tokenize=missing) as upstream:
        asyncio.run(work(upstream.base))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads peak memory from /proc")
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_memory_does_not_grow_with_a_body(encoding: str) -> None:
    answer = [head(), *(chunk(b" " * 60_000 + b"1234") for _ in range(800)), chunk(ANSWER), END]
    with playing(answer) as upstream, serving("--upstream", upstream.base) as front:
        headers = front.auth | {"Accept-Encoding": encoding}
        peaks = []
        for _ in range(2):
            with httpx.stream("POST", f"{front.base}/completions", json=ASK, headers=headers) as got:
                size = sum(len(part) for part in got.iter_bytes())
            assert size > 48_000_000
            lines = Path(f"/proc/{front.process.pid}/status").read_text().splitlines()
            peaks.append(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
    assert peaks[0] < 90_000  # in kB, with the interpreter and its modules
    assert peaks[1] - peaks[0] < 4_000


def test_the_command_line() -> None:
    from tests.support.command import one_line, run

    assert "start it first" in one_line(run("serve", "--upstream", "http://127.0.0.1:1"))
    assert "not set" in one_line(
        run("serve", "--model", "m=http://127.0.0.1:1", "--upstream-key-env", "NO_KEY")
    )
    assert "NAME=NUMBER" in one_line(
        run("serve", "--upstream", "http://127.0.0.1:1", "--upstream-set", "x=1")
    )
    assert "stands alone" in one_line(run("serve", "--upstream", "http://127.0.0.1:1", "--scripted"))
    with playing(whole(ANSWER)) as one, playing(whole(ANSWER)) as two:
        with serving("--model", f"a={one.base}", "--model", f"b={two.base}") as front:
            listed = httpx.get(f"{front.base}/models", headers=front.auth).json()["data"]
        assert [model["id"] for model in listed] == ["a", "b"]
        assert front.process.returncode == 0
