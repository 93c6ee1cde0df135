"""A client that closes its side in the middle of a stream: it is told its bill, and nothing of it lingers."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from acs_jupyter.local import leaving
from acs_jupyter.local.desk import Desk, Limits
from acs_jupyter.local.store import Store
from acs_jupyter.local.upstream import Patience
from tests.support.desks import OWN, Counter, counter, until
from tests.support.gateway import KEY, MODELS, fronting
from tests.support.player import END, HANG, Player, Step, frames, stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METER = {"include_usage": True, "continuous_usage_stats": True}
ENDLESS = {"prompt": "#scripted rate=50\nx", "max_tokens": 5000, "stream": True}
LEFT = 499


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Counter]:
    with counter(tmp_path, Limits(active=1, waiting=1, starts=0)) as running:
        yield running


class Line:
    """A bare connection with one request on it."""

    def __init__(self, base: str, key: str, body: dict[str, Any], *, sent: float = 1.0) -> None:
        address = urlsplit(base)
        raw = json.dumps(body).encode()
        lines = (
            f"POST {address.path}/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        )
        self.socket = socket.create_connection((address.hostname or "", address.port or 0), timeout=20)
        self.socket.sendall(lines.encode() + raw[: int(len(raw) * sent)])
        self.data = b""

    def until(self, mark: bytes, count: int = 1) -> bytes:
        """Read until the mark has come so often."""
        while self.data.count(mark) < count:
            got = self.socket.recv(65536)
            assert got, self.data
            self.data += got
        return self.data

    def leave(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def rest(self) -> bytes:
        """All that still comes, to the end of the connection."""
        try:
            while got := self.socket.recv(65536):
                self.data += got
        except ConnectionResetError:
            pass
        self.socket.close()
        return self.data


@contextmanager
def front(*answer: Step, patience: Patience | None = None, **more: Any) -> Iterator[tuple[Desk, str]]:
    desk = Desk(Store(), KEY, limits=Limits(starts=0))
    with Player([list(answer)], {"/models": MODELS}) as upstream:
        options = {"patience": patience} if patience else {}
        with fronting(f"m={upstream.base}", desk=desk, **options, **more) as running:
            yield desk, running.base


def rows(desk: Desk) -> list[tuple[int, int, int, str]]:
    until(lambda: (desk.gate.active, desk.gate.waiting, desk.budget.reserved) == (0, 0, 0))
    return [(e.prompt_tokens, e.completion_tokens, e.status, e.source) for e in desk.ledger.entries()]


def told(data: bytes) -> tuple[dict[str, int], bytes]:
    """The last usage frame, which has no choices, and what stands behind it."""
    frame, behind = data.rsplit(b"data: {", 1)[1].split(b"\n\n", 1)
    read = json.loads(b"{" + frame)
    assert read["choices"] == []
    return read["usage"], behind


@pytest.mark.parametrize("n", [1, 3])
def test_the_last_word_is_the_bill(desk: Counter, n: int) -> None:
    line = Line(desk.base, OWN, {**ENDLESS, "n": n, "stream_options": METER})
    assert b"x-acs-on-leave: usage\r\n" in line.until(b"data: {", 4).lower()
    line.leave()
    usage, behind = told(line.rest())
    assert behind.replace(b"\r\n", b"") == b"data: [DONE]\n\n0"  # and the body is whole
    [(prompt, completion, status, source)] = rows(desk.desk)
    assert (status, source) == (LEFT, "cut")
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (prompt, completion)
    assert usage["total_tokens"] == prompt + completion >= 4


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_who_asked_for_no_usage_is_told_none(desk: Counter, options: dict[str, bool] | None) -> None:
    asked = {} if options is None else {"stream_options": options}
    line = Line(desk.base, OWN, {**ENDLESS, **asked})
    line.until(b"data: {", 2)
    line.leave()
    data = line.rest()
    assert b'"usage"' not in data
    assert b"data: [DONE]\n\n" in data
    assert rows(desk.desk)[0][2:] == (LEFT, "cut")


def test_before_the_engine_begins_there_is_nothing_to_pay(desk: Counter) -> None:
    body = {**ENDLESS, "prompt": "#scripted ttft=60\nx", "stream_options": METER}
    line = Line(desk.base, OWN, body)
    line.until(b"\r\n\r\n")
    line.leave()
    assert told(line.rest())[0] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert rows(desk.desk) == [(0, 0, LEFT, "none")]


def test_half_a_request_is_none(desk: Counter) -> None:
    line = Line(desk.base, OWN, ENDLESS, sent=0.5)
    until(lambda: desk.desk.gate.active == 1)
    line.leave()
    assert b"data:" not in line.rest()
    assert rows(desk.desk) == []


def test_an_answer_that_does_not_stream_is_left(desk: Counter) -> None:
    line = Line(desk.base, OWN, {"prompt": ENDLESS["prompt"], "max_tokens": 5000})
    until(lambda: desk.desk.budget.reserved > 0)
    line.leave()
    assert line.rest() == b""
    assert rows(desk.desk)[0][2:] == (LEFT, "cut")


def test_who_waits_for_a_place_gives_it_up(desk: Counter) -> None:
    first = Line(desk.base, OWN, ENDLESS)
    first.until(b"data: {")
    second = Line(desk.base, OWN, ENDLESS)
    until(lambda: desk.desk.gate.waiting == 1)
    second.leave()
    assert second.rest() == b""
    until(lambda: desk.desk.gate.waiting == 0)
    first.leave()
    first.rest()
    assert len(rows(desk.desk)) == 1


def test_one_that_does_not_read_is_cut(desk: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its buffers are full; the place is free again, and the connection goes."""
    monkeypatch.setattr(leaving, "PATIENCE", 0.3)
    body = {**ENDLESS, "prompt": "#scripted\n", "max_tokens": 32_000, "logprobs": 20, "stream_options": METER}
    line = Line(desk.base, OWN, body)
    line.until(b"data: {")
    line.leave()
    [(_, completion, _, _)] = rows(desk.desk)
    assert 0 < completion < 32_000
    other = Line(desk.base, OWN, {"prompt": "x", "max_tokens": 1})
    assert b"200 OK" in other.until(b"usage")
    line.socket.close()
    other.socket.close()


def test_nothing_lingers_on_a_connection_that_was_answered(desk: Counter) -> None:
    """The server closes it, though the client would keep it open and said nothing of closing."""
    line = Line(desk.base, OWN, {**ENDLESS, "stream_options": METER})
    line.until(b"data: {")
    line.leave()
    line.until(b"[DONE]")
    assert line.rest().endswith(b"0\r\n\r\n")


def test_a_stream_from_an_upstream_is_billed_as_reported() -> None:
    asked = {"prompt": [1, 2], "max_tokens": 50, "stream": True, "stream_options": METER}
    with front(*stream(*frames([" a", " b", " c"], finish=None), HANG)) as (desk, base):
        line = Line(base, KEY, asked)
        line.until(b"data: {", 3)
        line.leave()
        usage, behind = told(line.rest())
        [(prompt, completion, status, source)] = rows(desk)
    assert behind.startswith(b"data: [DONE]\n\n")
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (prompt, completion) == (3, 3)
    assert (status, source) == (LEFT, "cut")


def test_an_upstream_that_is_starting_is_left_without_a_bill() -> None:
    """Before the first keepalive such a client is gone, behind it it is told that there is nothing to pay."""
    asked = {"prompt": [1, 2], "max_tokens": 50, "stream": True, "stream_options": METER}
    with front(HANG, patience=Patience(cold=60.0, warm=60.0)) as (desk, base):
        line = Line(base, KEY, asked)
        until(lambda: desk.budget.reserved > 0)
        line.leave()
        assert line.rest() == b""
        assert rows(desk) == [(0, 0, LEFT, "none")]
    with front(HANG, patience=Patience(cold=0.05, warm=0.05, silence=0.05)) as (desk, base):
        line = Line(base, KEY, asked)
        line.until(b": keepalive")
        line.leave()
        assert told(line.rest())[0]["total_tokens"] == 0
        assert rows(desk) == [(0, 0, LEFT, "none")]


def test_a_whole_close_is_a_client_that_is_gone(desk: Counter) -> None:
    line = Line(desk.base, OWN, {**ENDLESS, "stream_options": METER})
    line.until(b"data: {", 2)
    line.socket.close()
    assert rows(desk.desk)[0][2:] == (LEFT, "cut")


def test_the_end_of_the_answer_is_the_end(desk: Counter) -> None:
    """Leaving when all is out changes nothing."""
    line = Line(desk.base, OWN, {"prompt": "x", "max_tokens": 3, "stream": True, "stream_options": METER})
    line.until(b"[DONE]")
    line.leave()
    data = line.rest()
    assert data.count(b"[DONE]") == 1
    assert END in data
    assert rows(desk.desk)[0][2:] == (200, "usage")
