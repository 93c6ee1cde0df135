"""JSON is compressed when the client wants it and it is worth it; streams never are."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING

import httpx
import pytest

from acs_jupyter.local.compress import accepts_gzip
from tests.support.gateway import fronting
from tests.support.player import CLOSE, DONE, END, Step, chunk, frames, head, stream, whole
from tests.support.upstreams import ANSWER, ASK, METERED, envelope_with, playing

if TYPE_CHECKING:
    from tests.support.servers import Running

BIG = b'{"choices":[{"text":"' + b"abcd efgh " * 30_000 + b'"}],' + ANSWER[1:]


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("GZIP;q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("gzip;q=x", False),
    ],
)
def test_accept_encoding(header: str, wanted: bool) -> None:
    assert accepts_gzip(header) is wanted


def raw_of(client: httpx.Client, body: dict[str, object], encoding: str) -> tuple[httpx.Response, bytes]:
    with client.stream("POST", "completions", json=body, headers={"Accept-Encoding": encoding}) as got:
        return got, b"".join(got.iter_raw())


@pytest.mark.parametrize("tokens", [1, 60])
def test_bodies_of_the_engine(scripted: httpx.Client, tokens: int) -> None:
    body = {"prompt": "Hello", "max_tokens": tokens, "seed": 1, "logprobs": 2}
    packed, raw = raw_of(scripted, body, "gzip")
    plain, text = raw_of(scripted, body, "identity")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers.get_list("vary") == plain.headers.get_list("vary") == ["Accept-Encoding"]
    assert "content-encoding" not in plain.headers
    assert int(plain.headers["content-length"]) == len(text)
    assert json.loads(gzip.decompress(raw))["choices"] == json.loads(text)["choices"]
    assert len(raw) < len(text)


def test_small_bodies_stay(scripted: httpx.Client, scripted_server: Running) -> None:
    got = scripted.get("models/scripted/status")
    assert "content-encoding" not in got.headers
    assert got.headers["vary"] == "Accept-Encoding"
    error = httpx.post(f"{scripted_server.base}/completions", json={})
    assert error.status_code == 401
    assert "content-encoding" not in error.headers


def test_large_errors_are_compressed() -> None:
    told = whole({"error": {"message": "no " * 300, "code": 400}}, "400 Bad Request")
    with playing(told) as upstream, fronting(upstream.base) as front, front.client() as client:
        got = client.post("completions", json=ASK)
    assert got.status_code == 400
    assert got.headers["content-encoding"] == "gzip"
    assert got.json()["error"]["code"] == "vllm_invalid_request"


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("body", [ANSWER, BIG], ids=["small", "big"])
def test_upstream_bodies(chunked: bool, body: bytes) -> None:
    parts = [chunk(body[at : at + 50_000]) for at in range(0, len(body), 50_000)]
    answer: list[Step] = [head(), *parts, END] if chunked else whole(body)
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        packed, raw = raw_of(client, ASK, "gzip")
        plain, text = raw_of(client, ASK, "identity")
    assert text == body
    assert ("content-length" in plain.headers) is not chunked
    if body is BIG:
        assert gzip.decompress(raw) == body
        assert len(raw) < len(body) / 5
    else:
        assert raw == body
        assert "content-encoding" not in packed.headers


@pytest.mark.parametrize("asked", ["gzip", "identity"])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("cold", [0.0, 0.5])
def test_the_upstreams_own_encoding(asked: str, coding: str, cold: float) -> None:
    packed = gzip.compress(BIG[:1000]) + gzip.compress(BIG[1000:]) if coding == "gzip" else zlib.compress(BIG)
    answer: list[Step] = [cold, *whole(packed, Content_Encoding=coding)]
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        got, raw = raw_of(client, ASK, asked)
    assert got.headers.get("content-encoding") == ("gzip" if asked == "gzip" else None)
    assert (gzip.decompress(raw) if asked == "gzip" else raw) == BIG


def test_encoded_streams_are_read_and_passed_plain() -> None:
    parts = [*frames([" a", " b"]), DONE]
    packed = gzip.compress(b"".join(parts))
    answer = stream(packed[:40], 0.05, packed[40:], Content_Encoding="gzip")
    with playing(answer) as upstream, fronting(upstream.base) as front, front.client() as client:
        got, raw = raw_of(client, METERED, "gzip")
    assert raw == b"".join(parts)
    assert "content-encoding" not in got.headers
    assert got.headers["cache-control"] == "no-cache, no-transform"


@pytest.mark.parametrize(("coding", "body"), [("br", b"xxx"), ("gzip", b"not gzip")])
def test_unreadable_encodings(coding: str, body: bytes) -> None:
    with (
        playing(whole(body, Content_Encoding=coding)) as upstream,
        fronting(upstream.base) as front,
        front.client() as client,
    ):
        envelope_with(client.post("completions", json=ASK), 502, "upstream_server_error")


def test_a_cut_body_stays_cut() -> None:
    packed = gzip.compress(BIG, mtime=0)
    for answer in ([head(length=len(BIG)), BIG[:-9], CLOSE], whole(packed[:-9], Content_Encoding="gzip")):
        with (
            playing(answer) as upstream,
            fronting(upstream.base) as front,
            front.client() as client,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            client.post("completions", json=ASK)
