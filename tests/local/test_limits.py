"""Rates, places and deadlines, and the order in which they are looked at."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from acs_jupyter.errors import CATALOGUE, QueueFull, RateLimited, class_for
from acs_jupyter.local import app
from acs_jupyter.local.desk import Limits
from acs_jupyter.local.gate import Gate, Rate
from acs_jupyter.local.respond import error_response
from tests.support.contract import ASK, envelope
from tests.support.desks import OWN, Counter, counter, until
from tests.support.sse import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLOW = {"prompt": "#scripted rate=40", "max_tokens": 4000, "stream": True}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Counter]:
    with counter(tmp_path, Limits(active=1, waiting=1, starts=6, reads=3)) as running:
        yield running


def post(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("completions", json=ASK | body)


class Behind:
    """A request in a thread of its own; leave the block and it has ended or is gone."""

    def __init__(self, served: Counter, **body: Any) -> None:
        self._body = ASK | body
        self.client = served.client()
        self.answer: httpx.Response | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.answer = self.client.post("completions", json=self._body)

    def __enter__(self) -> Behind:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(20)


# Rate


def test_starts_a_minute(served: Counter) -> None:
    client = served.client()
    for _ in range(6):
        assert post(client).status_code == 200
        served.clock.go(2)
    refused = post(client)
    error = envelope(refused, 429, "rate_limited")
    assert (error["type"], error["retryable"]) == ("rate_limit_error", True)
    assert refused.headers["retry-after"] == "48"
    served.clock.go(47.9)
    assert post(client).status_code == 429
    served.clock.go(0.1)
    assert post(client).status_code == 200
    assert post(client).status_code == 429


def test_refused_requests_are_starts_too(served: Counter) -> None:
    client = served.client()
    envelope(client.post("completions", content=b"{"), 400, "bad_json")
    envelope(post(client, nonsense=1), 400, "invalid_request")
    envelope(post(client, model="other"), 400, "model_not_found")
    for _ in range(3):
        assert post(client).status_code == 200
    envelope(post(client), 429, "rate_limited")
    wrong = served.client("wrong-key-for-this-server")
    for _ in range(6):
        envelope(post(wrong), 401, "invalid_api_key")
    envelope(post(wrong), 429, "rate_limited")
    served.quiet()


def test_every_key_has_its_own_rate(served: Counter) -> None:
    one, two = served.client(served.new_key()), served.client(served.new_key())
    for _ in range(6):
        assert post(one).status_code == 200
    envelope(post(one), 429, "rate_limited")
    assert post(two).status_code == 200
    # A bucket is the first 48 characters: nothing behind them makes a new one.
    for number in range(6):
        envelope(post(served.client(f"{'k' * 48}{number}")), 401, "invalid_api_key")
    envelope(post(served.client(f"{'k' * 48}x")), 429, "rate_limited")


def test_models_have_a_rate_of_their_own(served: Counter) -> None:
    client = served.client()
    for path in ("models", "models/scripted/status"):
        for _ in range(3):
            assert client.get(path).status_code == 200
        refused = client.get(path)
        envelope(refused, 429, "rate_limited")
        assert refused.headers["retry-after"] == "60"
    assert post(client).status_code == 200
    served.clock.go(60)
    assert client.get("models").status_code == 200


def test_capabilities_say_the_limits(served: Counter) -> None:
    found = served.client().get("models").json()["data"][0]["capabilities"]
    assert found["max_inflight_per_key"] == 1
    assert found["max_queued_per_key"] == 1
    assert found["rate_limit_per_minute"] == 6


def test_a_refused_start_does_not_lengthen_the_wait() -> None:
    now = [0.0]
    rate = Rate(2, lambda: now[0])
    rate.start(b"a")
    now[0] = 30.0
    rate.start(b"a")
    for now[0] in (31.0, 40.0, 59.5):
        with pytest.raises(RateLimited) as refused:
            rate.start(b"a")
        assert refused.value.retry_after == max(1, 60 - int(now[0]))
    now[0] = 60.0
    rate.start(b"a")
    Rate(0, lambda: 0.0).start(b"a")


def test_old_buckets_are_forgotten() -> None:
    now = [0.0]
    rate = Rate(1, lambda: now[0])
    for number in range(1024):
        rate.start(b"%d" % number)
    now[0] = 60.0
    rate.start(b"new")
    assert len(rate._buckets) == 1


# Places


def test_twenty_streams_on_sixteen_places(tmp_path: Path) -> None:
    with counter(tmp_path) as served:
        most = [0]

        async def one(client: httpx.AsyncClient) -> int:
            body = ASK | {"prompt": "#scripted rate=60", "max_tokens": 12, "stream": True}
            async with client.stream("POST", "completions", json=body) as stream:
                text = ""
                async for part in stream.aiter_text():
                    most[0] = max(most[0], served.desk.gate.active)
                    text += part
            return len(chunks(text))

        async def twenty() -> list[int]:
            headers = {"Authorization": f"Bearer {OWN}"}
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(
                base_url=served.base, headers=headers, timeout=30, limits=limits
            ) as client:
                return await asyncio.gather(*(one(client) for _ in range(20)))

        assert asyncio.run(twenty()) == [12] * 20
        assert most == [16]
        assert [entry.completion_tokens for entry in served.quiet()] == [12] * 20


def test_the_eighty_first_is_refused(tmp_path: Path) -> None:
    with counter(tmp_path) as served:

        async def many() -> httpx.Response:
            headers = {"Authorization": f"Bearer {OWN}"}
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(
                base_url=served.base, headers=headers, timeout=30, limits=limits
            ) as client:
                body = {"prompt": "#scripted ttft=30", "max_tokens": 1}
                held = [asyncio.create_task(client.post("completions", json=body)) for _ in range(80)]
                gate = served.desk.gate
                await asyncio.to_thread(until, lambda: (gate.active, gate.waiting) == (16, 64))
                refused = await client.post("completions", json=ASK)
                assert (gate.active, gate.waiting) == (16, 64)
                for task in held:
                    task.cancel()
                await asyncio.gather(*held, return_exceptions=True)
                return refused

        refused = asyncio.run(many())
        error = envelope(refused, 429, "queue_full")
        assert (refused.headers["retry-after"], error["retryable"]) == ("5", True)
        served.quiet()
        assert post(served.client()).status_code == 200


def test_a_stream_holds_its_place_until_it_ends(served: Counter) -> None:
    gate = served.desk.gate
    with served.client().stream("POST", "completions", json=SLOW) as stream:
        lines = stream.iter_lines()
        next(lines)
        with Behind(served) as waiting:
            until(lambda: gate.waiting == 1)
            full = post(served.client())
            envelope(full, 429, "queue_full")
            other = post(served.client(served.new_key()))  # another key has its own places
            assert other.status_code == 200
            until(lambda: gate.active == 1)  # the other key's place is free a moment after its answer
            assert (gate.waiting, waiting.answer) == (1, None)
            stream.close()
    assert waiting.answer is not None
    assert waiting.answer.status_code == 200
    served.quiet()
    assert post(served.client()).status_code == 200


def test_a_waiting_client_that_leaves_frees_its_place(served: Counter) -> None:
    gate = served.desk.gate
    with served.client().stream("POST", "completions", json=SLOW) as stream:
        lines = stream.iter_lines()
        next(lines)
        with (
            httpx.Client(base_url=served.base, headers=served.client().headers, timeout=0.2) as hasty,
            pytest.raises(httpx.ReadTimeout),
        ):
            hasty.post("completions", json=ASK)
        until(lambda: gate.waiting == 0)
        assert gate.active == 1
        with Behind(served) as waiting:
            until(lambda: gate.waiting == 1)
            stream.close()
    assert waiting.answer is not None
    assert waiting.answer.status_code == 200
    assert len(served.quiet()) == 2  # the one that left was never let in


def test_leaving_in_the_middle_of_the_body(served: Counter) -> None:
    host, port = served.base.removeprefix("http://").removesuffix("/v1").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            b"Authorization: Bearer " + OWN.encode() + b'\r\n\r\n{"prompt":'
        )
        until(lambda: served.desk.gate.active == 1)
    assert served.quiet() == []
    assert post(served.client()).status_code == 200


@pytest.mark.parametrize(
    "bad",
    [
        {"nonsense": 1},
        {"model": "other"},
        {"prompt": [1] * 70_000},
        {"prompt": "x " * 2000, "prompt_logprobs": -1},
        {"max_tokens": 15_601},
        {"prompt": "#scripted fault=upstream_server_error"},
        {"prompt": "#scripted fault=html502"},
        {"prompt": "#scripted fault=nonsense"},
        {"stop": [""]},
    ],
)
def test_refusals_leave_nothing(served: Counter, bad: dict[str, Any]) -> None:
    client = served.client()
    assert post(client, **bad).status_code >= 400
    served.quiet()
    assert post(client).status_code == 200


def test_places_go_in_order() -> None:
    async def scenario() -> list[str]:
        gate = Gate(1, 3)
        first, *others = (gate.enter("k") for _ in range(4))
        with pytest.raises(QueueFull):
            gate.enter("k")
        assert first.given.is_set()
        order = []
        others[1].leave()  # gives up while it waits
        for place in (first, others[0], others[2]):
            assert place.given.is_set()
            place.leave()
            place.leave()
            order.append(f"{gate.active}{gate.waiting}")
        return order

    assert asyncio.run(scenario()) == ["11", "10", "00"]


# Deadlines


def test_the_default_is_cut_to_the_window(tmp_path: Path) -> None:
    with counter(tmp_path) as served:
        whole = served.client().post("completions", json={"prompt": "Hello"})
        clamp = "requested=32000,applied=15600,reason=deadline,source=default"
        assert whole.headers["x-acs-max-tokens-clamped"] == clamp
        assert whole.json()["usage"]["completion_tokens"] == 15_600
        stream = served.client().post("completions", json={"prompt": "Hello", "stream": True})
        assert "x-acs-max-tokens-clamped" not in stream.headers
        assert len(chunks(stream.text)) == 32_000


def test_what_cannot_finish_is_refused(tmp_path: Path) -> None:
    with counter(tmp_path, Limits(window_tokens=50)) as served:
        client = served.client()
        refused = post(client, max_tokens=51)
        envelope(refused, 400, "deadline_infeasible")
        assert refused.headers["x-should-retry"] == "false"
        assert post(client, max_tokens=50).json()["usage"]["completion_tokens"] == 50
        assert post(client, max_tokens=50, n=4).status_code == 200
        assert post(client, max_tokens=51, stream=True).status_code == 200


@pytest.mark.parametrize(
    "limits", [Limits(window_tokens=50, refuse_infeasible=False), Limits(window_tokens=0)]
)
def test_it_can_be_tried_all_the_same(tmp_path: Path, limits: Limits) -> None:
    with counter(tmp_path, limits) as served:
        answer = post(served.client(), max_tokens=500)
        assert answer.json()["usage"]["completion_tokens"] == 500
        assert "x-acs-max-tokens-clamped" not in answer.headers


def test_past_the_window(tmp_path: Path) -> None:
    with counter(tmp_path, Limits(window=0.2)) as served:
        late = post(served.client(), prompt="#scripted rate=50", max_tokens=500)
        envelope(late, 504, "upstream_deadline")
        assert late.headers["x-should-retry"] == "false"
        assert "retry-after" not in late.headers
        [entry] = served.quiet()
        assert (entry.status, entry.completion_tokens) == (504, 0)
        stream = post(served.client(), prompt="#scripted rate=50", max_tokens=20, stream=True)
        assert len(chunks(stream.text)) == 20


def test_a_body_that_is_too_large(served: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_BODY", 1000)
    refused = post(served.client(), prompt="x" * 1000)
    envelope(refused, 413, "request_too_large")
    assert refused.headers["x-should-retry"] == "false"
    served.quiet()
    assert post(served.client()).status_code == 200


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_retryable_errors_say_when(code: str) -> None:
    kind = class_for(code, 500)
    headers = error_response(kind("x"), "id").headers
    wanted = kind.can_retry and kind.status in (429, 502, 503)
    assert ("retry-after" in headers) == wanted
    never = kind.status in (413, 504) or code == "deadline_infeasible"
    assert (headers.get("x-should-retry") == "false") == never


# Order


def test_order_of_checks(tmp_path: Path) -> None:
    with counter(tmp_path, Limits(active=1, waiting=1, starts=100, window_tokens=50)) as served:
        poor = served.client(served.new_key(2))
        full = {"model": "other", "max_tokens": 70_000, "nonsense": 1, "prompt_logprobs": -1}
        ids = [1] * 70_000
        order = [
            (b"{", "bad_json"),
            (full, "invalid_request"),
            ({"model": "other", "prompt": ids, "max_tokens": 51}, "model_not_found"),
            ({"prompt": ids, "max_tokens": 51, "prompt_logprobs": -1}, "context_length_exceeded"),
            ({"prompt": ids[:2000], "max_tokens": 51, "prompt_logprobs": -1}, "full_vocab_prompt_too_long"),
            ({"max_tokens": 51}, "deadline_infeasible"),
            ({"max_tokens": 50}, "budget_exceeded"),
        ]
        for body, code in order:
            raw = {"content": body} if isinstance(body, bytes) else {"json": ASK | body}
            answer = poor.post("completions", **raw)
            assert answer.json()["error"]["code"] == code
        envelope(served.client("wrong").post("completions", content=b"{"), 401, "invalid_api_key")
        with served.client().stream("POST", "completions", json=SLOW | {"max_tokens": 400}) as stream:
            lines = stream.iter_lines()
            next(lines)
            with Behind(served):
                until(lambda: served.desk.gate.waiting == 1)
                envelope(served.client().post("completions", content=b"{"), 429, "queue_full")
                stream.close()
        served.quiet()


def test_the_rate_comes_before_the_key(tmp_path: Path) -> None:
    with counter(tmp_path, Limits(starts=1)) as served:
        nobody = httpx.Client(base_url=served.base)
        envelope(nobody.post("completions", json=ASK), 401, "missing_authorization")
        envelope(nobody.post("completions", json=ASK), 429, "rate_limited")
        nobody.close()
        assert post(served.client()).status_code == 200
