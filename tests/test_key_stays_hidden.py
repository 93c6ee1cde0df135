"""No word that a server says shows the key, nor a piece of it: over real sockets, both clients, jobs too."""

from __future__ import annotations

import asyncio
import json
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acs_jupyter import AsyncClient, Client, errors, rollout
from acs_jupyter.secret import FRAGMENT, HIDDEN, Secret
from tests.support.player import CLOSE, DONE, Player, Step, frames, stream, whole

KEY = "acs-bm-0123abcd-SECRETSECRETSECRETSECRETSECRETSEC"
PIECES = {KEY[i : i + 8] for i in range(len(KEY) - 7)}


def shown(error: BaseException) -> str:
    """All that a verbose traceback, a log or a debugger would show of an error."""
    told = ["".join(traceback.format_exception(error)), repr(error), repr(vars(error))]
    if getattr(error, "completion", None) is not None:
        told.append(repr(error.completion.session.state()))  # type: ignore[attr-defined]
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None:
            continue
        pending += [each.__cause__, each.__context__]
        step = each.__traceback__
        while step is not None:
            if "acs_jupyter" in step.tb_frame.f_code.co_filename.split("/tests/")[0]:
                told += [f"{name}={value!r}" for name, value in step.tb_frame.f_locals.items()]
            step = step.tb_next
    return "\n".join(told)


def leaks(text: str) -> set[str]:
    return {piece for piece in PIECES if piece in text}


def failed(played: list[Step], **fields: Any) -> list[errors.AcsError]:
    """The error of one request, by both clients."""

    async def go(base: str) -> None:
        async with AsyncClient(base, KEY, retries=0) as client:
            await client.complete("Hi", max_tokens=5, **fields)

    found: list[errors.AcsError] = []
    with Player([played]) as server:
        with pytest.raises(errors.AcsError) as caught, Client(server.base, KEY, retries=0) as client:
            client.complete("Hi", max_tokens=5, **fields)
        found.append(caught.value)
        with pytest.raises(errors.AcsError) as caught:
            asyncio.run(go(server.base))
        found.append(caught.value)
    return found


ERROR = {"error": {"code": KEY, "message": f"no {KEY} {KEY[:24]}…", "type": KEY}, "request_id": KEY}
PAGE = b"<p>" + b"x" * 270 + b" Bearer " + KEY.encode() + b"</p>"
LATE = b"x" * 3980 + b" " + KEY.encode()


@pytest.mark.parametrize(
    "played",
    [
        whole(PAGE, "400 Bad Request", "text/html"),
        whole(LATE, "400 Bad Request", "text/plain"),
        whole({"error": f"no {KEY}"}, "400 Bad Request"),
        whole(ERROR, "400 Bad Request", X_Request_Id=KEY),
        whole(ERROR),
        whole({"object": "error", "message": KEY, "code": 400}),
        whole(b"", "302 Found", Location=f"http://elsewhere/{KEY}?key={KEY}"),
        stream(f": {KEY}\n\n".encode(), b"data: " + json.dumps(ERROR).encode() + b"\n\n"),
        stream(*frames(["a"], None), X_Acs_Upstream_Model=KEY, X_Request_Id=KEY),
        [f"HTTP/1.1 200 OK\r\nX-{KEY}\r\n\r\n".encode(), CLOSE],
    ],
    ids=[
        "cut page",
        "cut text",
        "text",
        "status",
        "in a 200",
        "vllm",
        "redirect",
        "frame",
        "headers",
        "broken",
    ],
)
def test_errors_do_not_show_it(played: list[Step]) -> None:
    for error in failed(played):
        assert leaks(shown(error)) == set()
        assert "\n" not in str(error)


def test_a_record_does_not_show_it() -> None:
    raw = b"".join(frames(["a"])).replace(b'"checkpoint"', json.dumps(KEY).encode())
    played = stream(f": {KEY[:20]}\n\n".encode(), raw, DONE, X_Acs_Upstream_Gpu=KEY, X_Request_Id=KEY)
    with Player([played]) as server, Client(server.base, KEY) as client:
        got = client.complete("Hi")
    assert got.text == "a"
    assert got.model == got.headers["x-acs-upstream-gpu"] == got.request_id == HIDDEN
    assert leaks(repr(got.session.state()) + repr(list(got.session.log))) == set()


@pytest.mark.parametrize("field", ["finish_reason", "stop_reason"])
def test_the_reason_of_an_end_does_not_show_it(field: str, tmp_path: Path) -> None:
    choice = {"index": 0, "text": "a", "finish_reason": "stop", "stop_reason": None, field: KEY}
    answer = {
        "id": "c",
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1},
    }
    job = whole({"id": "job_1", "status": "queued"}, "202 Accepted")
    answers, models = [whole(answer), whole(answer), job, whole(answer)], {"/models": whole({"data": []})}
    with Player(answers, models) as server, Client(server.base, KEY, model="m") as client:
        got = client.complete("Hi", stream=False)
        made = rollout(
            ["a"], client=client, into=tmp_path / "r.db", max_tokens=1, prompt_logprobs=0, progress=False
        )
        done = client.jobs.result(client.jobs.submit("Hi", max_tokens=1))
        notes = repr(client.jobs.notes.rows())
    for one in (got, done, next(made.completions())):
        assert leaks(repr(one.session.state()) + repr(list(one.session.log))) == set()
        assert HIDDEN in repr(one.session.state())
    assert leaks(notes) == set()


def test_a_models_text_is_not_touched() -> None:
    with Player([stream(*frames([KEY]), DONE)]) as server, Client(server.base, KEY) as client:
        assert client.complete("Hi").text == KEY


@pytest.mark.parametrize("call", ["models", "status", "submit", "get", "wait"])
def test_other_questions_do_not_show_it(call: str) -> None:
    with Player([whole(ERROR, "400 Bad Request", X_Request_Id=KEY)]) as server:
        client = Client(server.base, KEY, retries=0)
        calls = {
            "models": client.models,
            "status": lambda: client.status("m"),
            "submit": lambda: client.jobs.submit("Hi", model="m", max_tokens=4),
            "get": lambda: client.jobs.get("j"),
            "wait": lambda: client.jobs.wait("j"),
        }
        with pytest.raises(errors.AcsError) as caught:
            calls[call]()
        client.close()
    assert leaks(shown(caught.value)) == set()
    with Client("http://127.0.0.1:9", KEY, retries=0) as client, pytest.raises(errors.AcsError) as lost:
        client.models()
    assert lost.value.__context__ is None
    assert leaks(shown(lost.value)) == set()


def test_a_jobs_metadata_does_not_show_it() -> None:
    said = {"id": "job_1", "status": "queued", "note": f"for {KEY}"}
    with Player([whole(said)]) as server, Client(server.base, KEY) as client:
        job = client.jobs.get("job_1")
    assert job.fields["note"] == f"for {HIDDEN}"


@pytest.mark.parametrize(
    "base",
    [f"ftp://{KEY}", f"http://x@y/{KEY}", f"http://x:{KEY}@y", f"http://{KEY}@y", "http://u:SECRETSECRET@h"],
)
def test_an_address_that_holds_it_is_refused_without_showing_it(base: str) -> None:
    with pytest.raises(errors.NotConfigured) as caught:
        Client(base, KEY)
    assert leaks(shown(caught.value)) == set()


def test_pieces() -> None:
    secret = Secret(KEY)
    assert secret.censor(f"a {KEY} b") == f"a {HIDDEN} b"
    assert secret.censor(f"a {KEY[:20]}") == f"a {HIDDEN}"
    assert secret.censor(f"…{KEY[-9:]} b") == f"…{HIDDEN} b"
    assert secret.censor("acs-bm- and SECRETS") == "acs-bm- and SECRETS"
    assert Secret("short").censor("a short one") == f"a {HIDDEN} one"
    assert Secret("").censor("anything") == "anything"


def _one_by_one(key: str, text: str) -> str:
    """The rule itself: whatever stands in a row of eight that the key has, too, goes."""
    text = text.replace(key, HIDDEN) if key else text
    parts = {key[i : i + FRAGMENT] for i in range(len(key) - FRAGMENT + 1)}
    out, place = "", 0
    while place < len(text):
        end = place
        while text[end : end + FRAGMENT] in parts and end == place:
            end += FRAGMENT
        while end > place and text[end - FRAGMENT + 1 : end + 1] in parts:
            end += 1
        out += HIDDEN if end > place else text[place]
        place = max(end, place + 1)
    return out


@given(st.data())
def test_whatever_is_left_of_a_key_is_hidden_wherever_it_stands(data: st.DataObject) -> None:
    key = data.draw(st.one_of(st.just(KEY), st.text("ab-^]\\&", max_size=24), st.text(max_size=24)))
    cut = st.tuples(st.integers(0, len(key)), st.integers(0, len(key))).map(
        lambda ends: key[min(ends) : max(ends)]
    )
    pieces = data.draw(
        st.lists(st.one_of(cut, st.text(max_size=9), st.text(key or "x", max_size=20)), max_size=8)
    )
    text = "".join(pieces)
    assert Secret(key).censor(text) == _one_by_one(key, text)
