"""The scripted engine: its language, its determinism, its speed, and every fault as it reaches a client."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from acs_jupyter.errors import CATALOGUE
from acs_jupyter.local.script import HOSTILE, parse
from tests.support.sse import chunks, text_of

if TYPE_CHECKING:
    from tests.support.servers import Running


def ask(client: httpx.Client, script: str = "", prompt: str = "Hello", **fields: Any) -> httpx.Response:
    body = {"prompt": prompt, "max_tokens": 20, **fields}
    return client.post("completions", json=body, headers={"X-Scripted": script} if script else {})


def stream(client: httpx.Client, script: str = "", **fields: Any) -> str:
    return ask(client, script, stream=True, **fields).text


def test_seeds_and_choices(scripted: httpx.Client) -> None:
    def texts(**fields: Any) -> list[str]:
        return [choice["text"] for choice in ask(scripted, **fields).json()["choices"]]

    assert texts(seed=1, n=4) == texts(seed=1, n=4)
    assert len({*texts(seed=1, n=4), *texts(seed=2)}) == 5
    assert texts(temperature=0, seed=1) == texts(temperature=0, seed=2)
    assert texts(temperature=0) != texts(temperature=0, prompt="Other")
    assert texts() != texts()


def test_prompt_line_and_header_say_the_same(scripted: httpx.Client) -> None:
    by_header = ask(scripted, 'say="a b"').json()["choices"][0]
    by_prompt = ask(scripted, prompt='#scripted say="a b"\nand then').json()["choices"][0]
    assert by_header["text"] == by_prompt["text"] == "a b"
    assert by_header["finish_reason"] == "stop"


def test_the_prompt_is_still_the_prompt(scripted: httpx.Client) -> None:
    prompt = "#scripted tokens=2\n  x"
    assert ask(scripted, prompt=prompt, echo=True).json()["choices"][0]["text"].startswith(prompt)


@pytest.mark.parametrize(
    "said",
    [HOSTILE, "🦊 日本 e\u0301", " \n\t\r\n", "\u2028\u2029\ufeff", "</script>", '\\"', "x" * 5000, "a\x00b"],
)
def test_say_is_exact(scripted: httpx.Client, said: str) -> None:
    script = "say=" + json.dumps(said)
    whole = ask(scripted, script, max_tokens=9999, logprobs=2).json()["choices"][0]
    assert whole["text"] == said
    assert "".join(whole["logprobs"]["tokens"]) == said
    assert text_of(stream(scripted, script, max_tokens=9999)) == said


def test_hostile_has_a_short_name(scripted: httpx.Client) -> None:
    assert text_of(stream(scripted, "say=hostile", max_tokens=200)) == HOSTILE


def test_length_end_and_reason(scripted: httpx.Client) -> None:
    short = ask(scripted, "tokens=3 stop_reason=128001").json()
    assert short["usage"]["completion_tokens"] == 3
    assert short["choices"][0]["finish_reason"] == "stop"
    assert short["choices"][0]["stop_reason"] == 128001
    assert ask(scripted, "tokens=0").json()["choices"][0]["text"] == ""
    assert ask(scripted, "tokens=50").json()["choices"][0]["finish_reason"] == "length"


def test_chunks_blanks_and_fewer_alternatives(scripted: httpx.Client) -> None:
    body = stream(scripted, "chunk=4 blank=3 alternatives=2", logprobs=5, max_tokens=10)
    rows = [chunk["choices"][0]["logprobs"] for chunk in chunks(body)]
    assert [len(row["tokens"]) for row in rows] == [4, 4, 2]
    tokens = [token for row in rows for token in row["tokens"]]
    assert [i for i, token in enumerate(tokens, 1) if token == ""] == [3, 6, 9]
    assert "".join(tokens) == text_of(body)
    assert all(len(top) <= 3 for row in rows for top in row["top_logprobs"])


def test_wrong_scripts_are_refused(scripted: httpx.Client) -> None:
    for script in ("speed=3", "tokens=x", "fault=no_such", "tokens", 'say="open'):
        error = ask(scripted, script).json()["error"]
        assert error["code"] == "invalid_request", script


def test_language() -> None:
    script = parse(' tokens=5 rate=2.5 say="a \\"b\\" \\u00e9" fault=cut ')
    assert (script.tokens, script.rate, script.say, script.fault) == (5, 2.5, 'a "b" é', "cut")


def test_stop_strings_across_tokens(scripted: httpx.Client) -> None:
    script = "say=" + json.dumps("one two three four")
    for streamed in (False, True):
        answer = ask(scripted, script, stop=["o thr", "zzz"], stream=streamed)
        text = text_of(answer.text) if streamed else answer.json()["choices"][0]["text"]
        assert text == "one tw"


def test_full_speed(scripted: httpx.Client) -> None:
    start = time.perf_counter()
    content = ask(scripted, max_tokens=20_000, logprobs=5, stream=True).content
    seconds = time.perf_counter() - start
    assert content.count(b'"finish_reason"') == 20_000
    assert 20_000 / seconds > 5_000  # how fast it is at best is a benchmark's matter


def test_pace_is_kept(scripted: httpx.Client) -> None:
    start = time.perf_counter()
    content = ask(scripted, "rate=1000", max_tokens=1500, logprobs=5, stream=True).content
    assert content.count(b'"finish_reason"') == 1500
    assert 1.35 <= time.perf_counter() - start < 3


def test_first_token_waits(scripted: httpx.Client) -> None:
    start = time.perf_counter()
    ask(scripted, "ttft=0.3")
    assert 0.3 <= time.perf_counter() - start < 2


def test_silence_is_filled(scripted: httpx.Client) -> None:
    body = stream(scripted, "ttft=5.3 tokens=3")
    assert body.startswith(": keepalive\n\ndata: ")
    assert body.count(": keepalive") == 1
    assert len(chunks(body.removeprefix(": keepalive\n\n"))) == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_leaving_stops_it(scripted_server: Running, scripted: httpx.Client, streamed: bool) -> None:
    def busy() -> int:
        count: int = scripted.get(f"{scripted_server.root}/health").json()["backends"][0]["active_choices"]
        return count

    body = {"prompt": "x", "max_tokens": 3000, "n": 2, "stream": streamed}
    headers = {**scripted_server.auth, "X-Scripted": "rate=100"}
    url = f"{scripted_server.base}/completions"
    if streamed:
        with httpx.stream("POST", url, json=body, headers=headers) as answer:
            parts = answer.iter_raw()
            next(parts)
            assert busy() == 2
    else:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, json=body, headers=headers, timeout=0.2)
    start = time.perf_counter()
    while busy():
        assert time.perf_counter() - start < 2


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_code_of_the_error_table(scripted: httpx.Client, code: str) -> None:
    kind = CATALOGUE[code]
    answer = ask(scripted, f"fault={code}")
    assert answer.status_code == kind.status
    assert answer.json()["error"]["code"] == code
    upstream = code.startswith(("vllm_", "upstream_")) or code in ("circuit_open", "modal_cold_boot")
    assert answer.headers.get("x-acs-upstream-error-kind") == (code if upstream else None)
    assert answer.json()["error"]["type"].endswith(("_error", "_not_ready"))
    retry_after = answer.headers.get("retry-after")
    assert (retry_after is not None) == (kind.can_retry and kind.status in (429, 502, 503))
    assert (answer.headers.get("x-should-retry") == "false") == (
        code in ("upstream_deadline", "deadline_infeasible", "request_too_large")
    )


def test_retry_after_and_times(scripted: httpx.Client) -> None:
    script = f"fault=rate_limited retry_after=7 times=2 wait={time.time()}"
    first = ask(scripted, script)
    assert (first.status_code, first.headers["retry-after"]) == (429, "7")
    assert ask(scripted, script).status_code == 429
    assert ask(scripted, script).status_code == 200


def test_proxy_page(scripted: httpx.Client) -> None:
    answer = ask(scripted, "fault=html502")
    assert answer.status_code == 502
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["x-request-id"]


def test_cold_boot(scripted: httpx.Client) -> None:
    answer = ask(scripted, "fault=cold")
    assert answer.content.startswith(b" " * 1024)
    assert answer.json()["choices"]
    body = stream(scripted, "fault=cold")
    assert body.startswith(": [")
    assert "\r: keepalive\n\n" in body
    assert chunks(body[body.index("data: ") :])
    assert "\n\n\ndata: " in body


@pytest.mark.parametrize("fault", ["error", "cold"])
def test_error_inside_a_200(scripted: httpx.Client, fault: str) -> None:
    answer = ask(scripted, f"fault={fault} code=modal_cold_boot")
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == "modal_cold_boot"
    body = stream(scripted, f"fault={fault} code=server_restarting after=2")
    frames = [f for f in body.split("\n\n") if "data: " in f]
    assert len(frames) == (3 if fault == "error" else 1)
    assert json.loads(frames[-1].strip().removeprefix("data: "))["error"]["code"] == "server_restarting"
    assert "[DONE]" not in body


def test_cut_stream(scripted: httpx.Client) -> None:
    seen = b""

    def read() -> None:
        nonlocal seen
        with scripted.stream(
            "POST", "completions", json={"prompt": "#scripted fault=cut after=4", "stream": True}
        ) as a:
            for part in a.iter_raw():
                seen += part

    with pytest.raises(httpx.RemoteProtocolError):
        read()
    assert seen.count(b'"finish_reason"') == 4


def test_cut_and_truncated_bodies(scripted: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        ask(scripted, "fault=cut")
    half = ask(scripted, "fault=truncated")
    assert half.status_code == 200
    with pytest.raises(ValueError, match=r".*"):
        half.json()
    assert "[DONE]" not in stream(scripted, "fault=truncated after=2")
    assert stream(scripted, "fault=truncated after=2").count('"finish_reason"') == 2


def test_nothing_but_space(scripted: httpx.Client) -> None:
    assert ask(scripted, "fault=blank").text.strip() == ""
    assert "data:" not in stream(scripted, "fault=blank")


def test_slow_bytes_split_characters(scripted: httpx.Client) -> None:
    body = {"prompt": "x", "max_tokens": 20, "stream": True}
    headers = {"X-Scripted": "fault=slow bytes=3 pause=0.001 say=" + json.dumps("🦊🌙")}
    with scripted.stream("POST", "completions", json=body, headers=headers) as answer:
        parts = list(answer.iter_raw())
    assert text_of(b"".join(parts).decode()) == "🦊🌙"
    assert max(map(len, parts)) < 200
    assert any(b"\xf0" in part[-3:] and not part.endswith(b"\x8a") for part in parts)


def test_no_usage_and_crlf(scripted: httpx.Client) -> None:
    options = {"stream_options": {"include_usage": True}}
    assert ask(scripted, "fault=no_usage").json()["usage"] is None
    assert "usage" not in stream(scripted, "fault=no_usage", **options)
    body = stream(scripted, "fault=crlf", **options)
    assert "\r\n\r\n" in body
    assert chunks(body.replace("\r\n", "\n"))[-1]["usage"]["completion_tokens"] == 20


def test_prompt_scores(scripted: httpx.Client) -> None:
    prompt = "Say 🦊 to me"
    choice = ask(scripted, prompt=prompt, prompt_logprobs=3, echo=True, logprobs=1).json()["choices"][0]
    own = [next(iter(position.values()))["decoded_token"] for position in choice["prompt_logprobs"][1:]]
    assert "".join(own) == prompt
    ids = [int(next(iter(position))) for position in choice["prompt_logprobs"][1:]]
    again = ask(scripted, prompt=ids, echo=True, max_tokens=1).json()  # type: ignore[arg-type]
    assert again["choices"][0]["text"].startswith(prompt)
    assert again["usage"]["prompt_tokens"] == len(ids)
