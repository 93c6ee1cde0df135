"""What an upstream says was used: summed over choices, believed as far as it can be true, guessed when it is silent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from acs_jupyter.local.sieve import Sieve, may_be_error
from tests.support.contract import envelope
from tests.support.desks import until
from tests.support.job_server import outcome, submit
from tests.support.joined import LEFT, joined
from tests.support.player import CLOSE, DONE, END, HANG, chunk, head, stream, whole
from tests.support.upstreams import playing

if TYPE_CHECKING:
    from tests.support.player import Step

PLAIN = {"Accept-Encoding": "identity"}
METER = {"include_usage": True, "continuous_usage_stats": True}
IDS: dict[str, Any] = {"prompt": [1, 2, 3], "max_tokens": 9}
TEXT = {"index": 0, "text": " a", "logprobs": None, "finish_reason": "length", "stop_reason": None}
OTHER_TEXT = "x" * 40 + ' data: "usage" '


def frame(index: int, prompt: int, done: int, text: str = " a") -> bytes:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": None, "stop_reason": None}
    usage = {"prompt_tokens": prompt, "completion_tokens": done, "total_tokens": prompt + done}
    return b"data: " + json.dumps({"choices": [choice], "usage": usage}).encode() + b"\n\n"


def body(usage: str | None = None, **more: Any) -> bytes:
    raw = json.dumps({"id": "cmpl-1", "choices": [TEXT], **more}).encode()
    return raw if usage is None else raw[:-1] + b', "usage": ' + usage.encode() + b"}"


def left_after(count: int, answer: list[Step], ask: dict[str, Any]) -> list[tuple[int, int, int, str]]:
    """What a stream costs whose client leaves after some frames."""
    with playing(answer) as upstream, joined(upstream.base, budget=1000) as server:
        with server.client.stream("POST", "completions", json=ask) as got:
            lines = got.iter_lines()  # held: the answer ends with it
            for _ in range(count):
                next(line for line in lines if line.startswith("data: {"))
        return server.rows()


def test_a_fan_out_left_early_pays_for_every_choice() -> None:
    answer = stream(frame(0, 3, 4), frame(1, 3, 2), frame(0, 3, 5), HANG)
    ask = IDS | {"n": 2, "stream": True, "stream_options": METER}
    assert left_after(3, answer, ask) == [(3, 7, LEFT, "cut")]


def test_a_batch_left_early_pays_for_every_prompt() -> None:
    ask = IDS | {"prompt": [[1, 2, 3], [4, 5]], "n": 2, "stream": True, "stream_options": METER}
    every = stream(frame(0, 3, 1), frame(3, 2, 4), HANG)
    assert left_after(2, every, ask) == [(5, 5, LEFT, "cut")]
    one = stream(frame(0, 3, 1), HANG)  # the other prompt was read as well, and is held
    assert left_after(1, one, ask) == [(5, 1, LEFT, "cut")]


def test_a_stream_without_usage_pays_for_frames_not_for_words() -> None:
    plain = b"data: " + json.dumps({"choices": [TEXT | {"text": OTHER_TEXT}]}).encode() + b"\n\n"
    answer = stream(plain, b": data: comment\n\n", plain, HANG)
    assert left_after(2, answer, IDS | {"stream": True}) == [(3, 2, LEFT, "cut")]


ABSURD = ["1" + "0" * 23, "-5", "3.0", '"7"', "[[1]]", "null"]


@pytest.mark.parametrize("number", ABSURD)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_absurd_usage_is_not_believed(number: str, streamed: bool) -> None:
    usage = f'{{"prompt_tokens": {number}, "completion_tokens": {number}, "total_tokens": 1}}'
    closing = b'data: {"choices": [], "usage": ' + usage.encode() + b"}\n\n"
    plain = b"data: " + json.dumps({"choices": [TEXT]}).encode() + b"\n\n"
    answer = stream(plain, plain, closing, DONE) if streamed else whole(body(usage))
    with playing(answer) as upstream, joined(upstream.base, budget=1000) as server:
        got = server.client.post("completions", json=IDS | {"stream": streamed})
        assert got.status_code == 200
        [(prompt, completion, status, source)] = server.rows()
        assert (prompt, status, source) == (3, 200, "cut")
        assert completion == 2 if streamed else 0 < completion <= 9
        assert server.client.post("completions", json=IDS).status_code in (200, 502)


def test_more_than_was_asked_for_is_not_believed() -> None:
    usage = '{"prompt_tokens": 900000, "completion_tokens": 900000, "total_tokens": 1800000}'
    with playing(whole(body(usage))) as upstream, joined(upstream.base, budget=1000) as server:
        for number in range(1, 4):
            assert server.client.post("completions", json=IDS).status_code == 200
            assert server.rows() == [(3 + 16, 9, 200, "usage")] * number
    with playing(whole(body(usage))) as upstream, joined(upstream.base) as server:  # no budget: by its bytes
        assert server.client.post("completions", json=IDS | {"prompt": "four"}).status_code == 200
        assert server.rows() == [(4 + 16, 9, 200, "usage")]


def test_a_job_with_a_whole_answer_succeeds_whatever_its_usage() -> None:
    absurd = [whole(body(f'{{"prompt_tokens": {number}, "completion_tokens": 1}}')) for number in ABSURD]
    with playing(*absurd) as upstream, joined(upstream.base, budget=1000) as server:
        for number in range(len(absurd)):
            job = submit(server.client, f"k{number}", [1, 2, 3], model="m", max_tokens=9).json()["id"]
            assert outcome(server.client, job).json()["choices"] == [TEXT]
        assert {(prompt, status, source) for prompt, _, status, source in server.rows()} == {(3, 200, "cut")}


@pytest.mark.parametrize("count", ["-1", "0", "100000", "1" + "0" * 30, "3.0", "[" * 5000 + "]" * 5000])
def test_an_absurd_token_count_is_not_believed(count: str) -> None:
    told = whole(b'{"count": ' + count.encode() + b"}")
    usage = '{"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}'
    with playing(whole(body(usage)), tokenize=told) as upstream, joined(upstream.base, budget=100) as server:
        # Five bytes and a start token are held instead, so (100 - 6) fit.
        got = server.client.post("completions", json={"prompt": "Hello", "max_tokens": 500})
        assert ",applied=94,reason=budget," in got.headers["x-acs-max-tokens-clamped"]
        assert server.rows() == [(5, 2, 200, "usage")]


def test_a_body_left_before_its_end_pays_for_what_came() -> None:
    begun = body()[:-1]
    with playing([head(), chunk(begun), HANG]) as upstream, joined(upstream.base, budget=100) as server:
        with server.client.stream("POST", "completions", json=IDS, headers=PLAIN) as got:
            assert next(got.iter_raw()) == begun
        [(prompt, completion, status, source)] = server.rows()
        assert (prompt, status, source) == (3, LEFT, "cut")
        assert 1 <= completion <= 9  # by its bytes, never above what is held
    known = body('{"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}')
    with playing([head(), chunk(known), HANG]) as upstream, joined(upstream.base, budget=100) as server:
        with server.client.stream("POST", "completions", json=IDS, headers=PLAIN) as got:
            assert next(got.iter_raw()) == known
        assert server.rows() == [(3, 1, LEFT, "cut")]


VLLM = {
    "object": "error",
    "message": "EngineCore died",
    "type": "InternalServerError",
    "param": None,
    "code": 500,
}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (VLLM, 502, "vllm_engine_dead"),
        (VLLM | {"code": 400, "message": "top_k is bad"}, 400, "vllm_invalid_request"),
        ({"error": {"message": "CUDA out of memory", "code": 500}}, 502, "vllm_oom"),
        ({"detail": "broken"}, 502, "upstream_server_error"),
    ],
)
def test_an_error_inside_a_200_is_an_error(error: dict[str, Any], status: int, code: str) -> None:
    raw = json.dumps(error).encode()
    slowly: list[Step] = [head(), *(chunk(raw[at : at + 9]) for at in range(0, len(raw), 9)), END]
    for answer in (whole(raw), slowly):
        with playing(answer) as upstream, joined(upstream.base, budget=100) as server:
            envelope(server.client.post("completions", json=IDS), status, code)
            assert server.rows() == [(0, 0, status, "none")]
            [backend] = server.client.get(f"{server.front.root}/health").json()["backends"]
            assert backend["breaker_consecutive_failures"] == (status != 400)
    as_frame = stream(frame(0, 3, 1), b"data: " + raw + b"\n\n", DONE)
    if "detail" not in error:
        with playing(as_frame) as upstream, joined(upstream.base, budget=100) as server:
            got = server.client.post("completions", json=IDS | {"stream": True})
            assert json.loads(got.text.split("data: ")[-1])["error"]["code"] == code
            assert server.rows() == [(3, 1, status, "cut")]
    with playing(whole(raw)) as upstream, joined(upstream.base, budget=100) as server:
        if "detail" not in error:
            envelope(server.client.post("completions", json=IDS | {"stream": True}), status, code)
        job = submit(server.client, "k", [1, 2, 3], model="m", max_tokens=9).json()["id"]
        assert outcome(server.client, job).json()["error"]["code"] == code


def test_no_answer_is_taken_for_an_error() -> None:
    for begun in (
        b'{"id":"',
        b'{"choices":[',
        b'{"a":1',
        b'{"object":"text_completion',
        b'{"object":"errors"',
        b"[1",
        b"1",
    ):
        assert may_be_error(begun) is False, begun
    for begun in (b"", b"  ", b"{", b'{"obj', b'{"object": "err'):
        assert may_be_error(begun) is None, begun
    text = b'data: {"choices":[{"index":0,"text":"\\"object\\":\\"error\\" \\"error\\": 1"}]}\n\n'
    assert Sieve(drop_usage=True).feed(text) == text


def test_a_body_that_breaks_off_in_its_text_pays_for_what_came() -> None:
    with (
        playing([head(), chunk(body()[:-1]), CLOSE]) as upstream,
        joined(upstream.base, budget=100) as server,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            server.client.post("completions", json=IDS, headers=PLAIN)
        until(lambda: len(server.desk.ledger.entries()) == 1)
        [(prompt, completion, status, source)] = server.rows()
        assert (prompt, source) == (3, "cut")
        assert 1 <= completion <= 9
        assert status == 502
