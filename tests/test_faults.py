"""Faults that were met once, each with the right value: promises kept where they were broken."""

from __future__ import annotations

import gc
import io
import json
import os
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import AsyncClient, Client, Session, errors
from acs_jupyter.checks import build_request, parse_request
from acs_jupyter.completion import Completion, Token
from acs_jupyter.log import events
from acs_jupyter.notebook.display import TextView
from acs_jupyter.notebook.options import CellOptions, parse_cell_line
from acs_jupyter.notebook.root import Notebook
from acs_jupyter.pump import Pump
from acs_jupyter.secret import Secret
from tests.support.desks import until
from tests.support.interrupts import after, interrupt, interrupted
from tests.support.player import DONE, HANG, Player, chunk, frames, head, stream, whole
from tests.support.shells import KEY, MODELS, PARIS, Shell


def frame(*choices: dict[str, Any], **more: Any) -> bytes:
    return (
        b"data: " + json.dumps({"id": "c", "model": "m", "choices": list(choices), **more}).encode() + b"\n\n"
    )


def piece(text: str, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": finish, **more}


def complete(*pieces: Any, **fields: Any) -> Completion:
    with Player([stream(*pieces)]) as server, Client(server.base, KEY, retries=0) as client:
        return client.complete("Hi", max_tokens=5, **fields)


# -- interrupts and views ------------------------------------------------------------------------


class Failing:
    """A view that cannot open."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def open(self, session: Session, handle: Any, asking: Any, *, background: bool = False) -> None:
        time.sleep(0.4)  # the request is under way by then
        raise self.error

    def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("no window")])
def test_a_view_that_cannot_open_ends_the_run_and_what_came_is_kept(error: BaseException) -> None:
    slow = stream(*[x for f in frames(["a"] * 60, None) for x in (f, 0.05)], DONE)
    with Player([slow], {"/models": MODELS}) as server:
        notebook = Notebook(make_view=lambda: Failing(error), base_url=server.base, api_key=Secret(KEY))
        kept: list[Completion] = []
        with pytest.raises(type(error)):
            notebook.run("Hi", CellOptions({"model": "m"}), kept.append)
        deadline = time.monotonic() + 3
        while kept[0].outcome != "stopped" and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)
        assert kept[0].outcome == "stopped"
        assert server.requests[0].left_at is not None
        notebook.close()


def test_interrupts_never_fall_into_a_batch() -> None:
    texts = [f"{i} " for i in range(3000)]
    full = "".join(texts)
    played = stream(
        *[x for i, f in enumerate(frames(texts, None)) for x in ([f, 0.004] if i % 40 == 0 else [f])], HANG
    )
    with Player([played]) as server:
        pump = Pump(AsyncClient(server.base, KEY))
        for wait in (0.05, 0.09, 0.13, 0.17, 0.21, 0.25):
            handle = pump.start(pump.client.request("Hi", max_tokens=5, stream=True), Session())
            with interrupted(after(wait)):
                handle.wait()
            assert full.startswith(handle.completion.text)
            assert handle.completion.outcome == "stopped"
            time.sleep(0.03)
        pump.close()


def test_a_subscriber_that_fails_does_not_break_the_run() -> None:
    session = Session()
    session.subscribe(lambda batch: 1 / 0)
    with Player([stream(*frames(["a", "b"]), DONE)]) as server, Client(server.base, KEY) as client:
        assert client.complete("Hi", session=session).text == "ab"


def test_a_terminal_of_few_characters_shows_what_it_can(connect: Any) -> None:
    server = connect(stream(*frames(["é", "🦊"]), DONE))
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    notebook = Notebook(make_view=lambda: TextView(out.write), base_url=server.base, api_key=Secret(KEY))
    kept: list[Completion] = []
    assert notebook.run("x", CellOptions({"model": "m"}), kept.append).text == "é🦊"
    assert out.buffer.getvalue().startswith(b"\\xe9\\U0001f98a")  # type: ignore[attr-defined]
    notebook.close()


def test_an_interrupted_completion_carries_what_came() -> None:
    with Player([stream(*frames(["a", "b"], None), HANG)]) as server, Client(server.base, KEY) as client:
        session = Session()

        def once() -> None:
            until(lambda: any(node.text == "ab" for node in list(session.nodes.values())))
            interrupt()

        with interrupted(once) as caught:
            client.complete("Hi", session=session)
    assert caught.value.completion.text == "ab"  # type: ignore[attr-defined]


def test_stopping_after_the_pump_has_closed_is_harmless() -> None:
    with Player([stream(*frames(["a"]), DONE)]) as server:
        pump = Pump(AsyncClient(server.base, KEY))
        handle = pump.start(pump.client.request("Hi", stream=True), Session())
        handle.wait()
        pump.close()
        time.sleep(0.3)
        handle.stop()
        handle.detach()
        assert handle.done


# -- exact bodies --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", ["%%time", "%%capture", "%%timeit -n1 -r1", "%%prun -q"])
@pytest.mark.parametrize("body", [">>> x\n>>> y\n", "In [1]: a\nIn [2]: b", "abc\n", "   "])
def test_a_body_is_exact_under_other_magics(shell: Shell, connect: Any, wrapper: str, body: str) -> None:
    server = connect(PARIS)
    shell.run(f"{wrapper}\n%%acs -m m\n{body}")
    assert server.requests[-1].json["prompt"] == body


@pytest.mark.parametrize("before", ["   \n", "\r\n", "\n\n"])
def test_a_body_is_exact_after_blank_lines(shell: Shell, connect: Any, before: str) -> None:
    server = connect(PARIS)
    shell.run(f"{before}%%acs -m m\n>>> a\n>>> b\n")
    assert server.requests[-1].json["prompt"] == ">>> a\n>>> b\n"


def test_a_thread_sends_its_own_prompt(shell: Shell, connect: Any) -> None:
    server = connect(stream(*[x for f in frames(["a"] * 5) for x in (f, 0.2)], DONE))
    shell.run(
        "import threading, time\ndef go():\n time.sleep(.4); get_ipython().run_cell_magic('acs', '-m m', 'OTHER')\n"
        "thread = threading.Thread(target=go); thread.start()"
    )
    shell.run("%%acs -m m\nMAIN")
    shell.run("thread.join()")
    assert [request.json["prompt"] for request in server.requests] == ["MAIN", "OTHER"]


# -- options -------------------------------------------------------------------------------------


def test_stop_strings_keep_their_backslashes(shell: Shell) -> None:
    assert parse_cell_line(r"--stop \n --stop '\n\n' --stop \\ ").fields["stop"] == ["\n", "\n\n", "\\"]
    for written in (r"\n", r"'\n'", r'"\n"'):
        assert shell.run(f"%acs set stop {written}").out == 'stop = "\\n"\n'


@pytest.mark.parametrize("name", ["class", "None", "print", "_", "ﬁ", "2x"])
def test_names_that_would_hide_something_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="variable of your own"):
        parse_cell_line(f"-o {name}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--stop --n", "--stop=-1"),
        ("--max-tokens 1_0", "whole number"),
        ("--seed " + "9" * 5000, "whole number"),
    ],
)
def test_options_that_cannot_be_read(line: str, words: str) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        parse_cell_line(line)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 700


def test_prompt_logprobs_can_be_a_setting(shell: Shell) -> None:
    assert shell.run("%acs set prompt_logprobs 5").out == "prompt_logprobs = 5\n"
    assert "Unknown field 'x' in stream_options." in shell.run("%acs set stream_options '{\"x\": 1}'").out


# -- secrets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["status", "frame", "models"])
def test_a_server_that_repeats_the_key_does_not_publish_it(shell: Shell, connect: Any, how: str) -> None:
    error = {"error": {"code": "invalid_api_key", "message": f"Incorrect API key provided: {KEY}."}}
    refused = whole({**error, "request_id": KEY}, "401 Unauthorized")
    server = connect(stream(b"data: " + json.dumps(error).encode() + b"\n\n") if how == "frame" else refused)
    if how == "models":
        server.routes["/models"] = refused
        ran = shell.run("%acs models")
    else:
        ran = shell.run("%%acs -m m -o r\nHi")
        assert KEY not in repr(shell["r"].session.state()) + shell["r"]._repr_html_()
    assert "Incorrect API key provided: [key]" in ran.out
    assert KEY not in ran.out + repr(vars(ran.error))


def test_a_verbose_traceback_holds_no_key(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACS_API_KEY", KEY)
    for base, proxy in (
        ("http://[::1", ""),
        ("https://host.example", "bogus://x"),
        (f"https://{KEY}/v1", ""),
    ):
        monkeypatch.setenv("ACS_API_BASE", base)
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        shell.run("%xmode Verbose")
        ran = shell.run("from acs_jupyter import Client\nClient()")
        assert not ran.ok
        assert isinstance(ran.error, errors.NotConfigured), ran.out
        assert KEY not in ran.out
        assert KEY not in shell.run("%%acs\nHi").out


def test_a_client_shows_no_key_in_any_of_its_parts() -> None:
    with Client("http://127.0.0.1:1", KEY) as client:
        assert KEY not in repr(vars(client)) + repr(vars(client._http)) + repr(client._http.headers)
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(errors.NotConfigured) as caught:
        Client("ftp://user:password@host", KEY)
    assert "password@" not in str(caught.value)


# -- malformed answers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lp",
    [
        {"tokens": ["a", "b"], "token_logprobs": [-0.1], "top_logprobs": None},
        {"tokens": ["a", "b"], "token_logprobs": [-0.1, -0.2, -0.3], "top_logprobs": [{"a": -0.1}]},
        {"tokens": ["a", "b"], "token_logprobs": [], "top_logprobs": []},
    ],
)
def test_log_probabilities_of_unequal_number_lose_no_text(lp: dict[str, Any]) -> None:
    got = complete(frame(piece("ab", finish="stop", logprobs=lp)), DONE, logprobs=1)
    assert got.text == "ab"
    assert [token.text for token in got.tokens] == ["a", "b"]
    assert len(got.to_frame()) == 2
    assert "<pre" in got._repr_html_()


def test_a_probability_above_one_is_not_a_crash() -> None:
    token = Token(0, "x", 1000.0, {"x": 1000.0})
    assert token.probability == 1.0
    assert token.other == 0.0


@pytest.mark.parametrize(
    "models",
    [b"<html>", b'{"data":null}', b'{"data":[{"id":null}]}', b"[" * 100_000],
    ids=["html", "null", "id", "deep"],
)
def test_a_list_of_models_that_is_none(models: bytes) -> None:
    told = pytest.raises(errors.ConnectionFailed, match="list of models cannot be read")
    with Player([whole(models)]) as server, Client(server.base, KEY) as client, told:
        client.models()


@pytest.mark.parametrize(
    "answer",
    [
        whole({"choices": [piece("x", prompt_logprobs=[None, {"not a number": {"logprob": -1}}])]}),
        whole({"choices": [piece("x", prompt_logprobs=[None, {"9" * 5000: {"logprob": -1}}])]}),
        whole(b"[" * 100_000),
        whole(b"[" * 100_000, "400 Bad Request"),
        whole({"error": {"code": "modal_cold_boot", "message": "boot", "retry_after_seconds": -1}}),
        stream(frame(piece("a", index=-1)), DONE),
        stream(frame(piece("a", index=7)), DONE),
        stream(b"data: [1]\n\n", DONE),
    ],
    ids=["key", "digits", "deep", "deep 400", "wait", "negative", "beyond", "list"],
)
def test_answers_that_cannot_be_read_are_one_typed_error(answer: Any) -> None:
    with Player([answer]) as server, Client(server.base, KEY, retries=0) as client:
        with pytest.raises(errors.AcsError) as caught:
            client.complete("Hi", stream=b"event-stream" in answer[0])
        assert caught.value.completion.outcome in ("failed", "interrupted")
    assert "\n" not in str(caught.value)


def test_a_request_id_that_is_no_text_is_not_taken() -> None:
    answer = whole(
        {"error": {"code": "x", "message": "no"}, "request_id": {"a": 1}},
        "400 Bad Request",
        X_Request_Id="req_1",
    )
    with (
        Player([answer]) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.BadRequest) as caught,
    ):
        client.complete("Hi")
    assert caught.value.request_id == "req_1"


def test_what_a_server_says_cannot_steer_a_terminal() -> None:
    shown = str(errors.BadRequest("a\x1b[31mred\u202eback\x07"))
    assert shown.isprintable()
    assert "<U+001B>" in shown


def test_deep_json_is_refused_by_the_parser_too() -> None:
    with pytest.raises(errors.BadRequest):
        parse_request(b'{"prompt":' + b"[" * 100_000)


# -- usage and ends ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "fields"),
    [
        ([frame(piece("a", 0, "stop")), frame(piece("", 0, "stop")), frame(piece("b", 1))], {"n": 2}),
        ([DONE], {}),
        ([frame(piece("a")), DONE], {}),
        ([frame(piece("a", 0, "stop")), DONE], {"n": 2}),
    ],
    ids=["finished twice", "nothing", "no reason", "one of two"],
)
def test_an_answer_that_lacks_choices_is_not_done(pieces: list[Any], fields: dict[str, Any]) -> None:
    with pytest.raises(errors.Interrupted, match="did not finish") as caught:
        complete(*pieces, **fields)
    assert caught.value.completion.outcome == "interrupted"
    assert caught.value.completion.text == ("a" if len(pieces) > 1 or pieces[0] != DONE else "")


def test_a_json_answer_that_lacks_choices_is_not_done() -> None:
    body = {"choices": [piece("a", 0, "stop")], "usage": {"prompt_tokens": 9, "completion_tokens": 10}}
    with (
        Player([whole(body)]) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.Interrupted) as caught,
    ):
        client.complete("Hi", n=2, max_tokens=5, stream=False)
    assert caught.value.completion.texts == ["a", ""]
    assert caught.value.completion.usage.completion_tokens == 10


def test_usage_of_a_body_that_cannot_be_read_is_kept() -> None:
    body = {"choices": [piece("a", 7, "stop")], "usage": {"prompt_tokens": 9, "completion_tokens": 10}}
    with (
        Player([whole(body)]) as server,
        Client(server.base, KEY) as client,
        pytest.raises(errors.Interrupted) as caught,
    ):
        client.complete("Hi", stream=False)
    spent = caught.value.completion.usage
    assert (spent.prompt_tokens, spent.completion_tokens) == (9, 10)


def test_a_chunk_of_several_choices_counts_for_all() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 10}
    got = complete(frame(piece("a", 0, "stop"), piece("b", 1, "stop"), usage=usage), DONE, n=2)
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (9, 10)


def test_negative_counts_are_none() -> None:
    got = complete(
        frame(piece("a", 0, "stop")), frame(usage={"prompt_tokens": -5, "completion_tokens": -9}), DONE
    )
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (1, 1)  # not told, so estimated
    assert got.usage_source == "estimate"


def test_without_usage_a_long_body_is_not_one_token() -> None:
    with (
        Player([whole({"choices": [piece("word " * 400, 0, "stop")]})]) as server,
        Client(server.base, KEY) as client,
    ):
        got = client.complete("Hi", stream=False)
    assert got.usage_source == "estimate"
    assert got.usage.completion_tokens == 500


class Asked:
    """A meter that writes down how each hold ended."""

    def __init__(self) -> None:
        self.ends: list[tuple[Any, ...]] = []

    def reserve(self, request: Any, run: str) -> None:
        pass

    def settle(self, ticket: Any, *spent: Any) -> None:
        self.ends.append(spent)

    def release(self, ticket: Any) -> None:
        self.ends.append(("nothing",))


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (whole(b'{"id":"x","choices":[{"te'), (3, 32_000, "estimate")),
        ([head(), chunk(b"  "), b""], (3, 32_000, "estimate")),
        (whole({"error": {"code": "invalid_request", "message": "no"}}, "400 Bad Request"), ("nothing",)),
    ],
    ids=["cut body", "lost", "refused"],
)
def test_what_may_have_run_is_not_given_back(answer: Any, end: tuple[Any, ...]) -> None:
    meter = Asked()
    told = pytest.raises(errors.AcsError)
    with Player([answer]) as server, Client(server.base, KEY, retries=0, meter=meter) as client, told:
        client.complete("Hi", stream=False)
    assert meter.ends == [end]


def test_asking_for_a_stream_asks_for_its_usage() -> None:
    with Player([stream(*frames(["a"]), DONE)]) as server, Client(server.base, KEY) as client:
        client.complete("Hi", stream=True)
        assert server.requests[0].json["stream_options"]["include_usage"] is True


@pytest.mark.parametrize("kind", ["Text/Event-Stream; charset=utf-8", "text/event-stream"])
def test_a_stream_by_any_spelling_and_without_its_last_newline(kind: str) -> None:
    raw = b"".join(frames(["a", "b"])).rstrip(b"\n")
    with Player([[head(kind=kind), chunk(raw), chunk(b"")]]) as server, Client(server.base, KEY) as client:
        assert client.complete("Hi").text == "ab"


# -- sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        '[1,{"type":"NodeOpened","node":"x","run":"r","parent":"x"}]',
        '[1,{"type":"NodeOpened","node":"r.p0","run":"r"}]',
        '[1,{"type":"NodeOpened","node":"x","run":"unknown"}]',
        '[1,{"type":"TokensArrived","node":"r.0","text":"a","tokens":["a"],"logprobs":[]}]',
        '[1,{"type":"Finished","node":"nobody","finish_reason":"stop"}]',
    ],
    ids=["own parent", "twice", "no run", "unequal", "no node"],
)
def test_a_file_that_is_no_tree_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    session = Session()
    session.apply(events.opening("r", build_request({"prompt": "x"})))
    session.save(path)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match="line 5"):
        Session.load(path)


def test_the_embedded_server_gives_the_environment_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACS_API_BASE", "https://host.example/v1")
    monkeypatch.delenv("ACS_API_KEY", raising=False)
    notebook = Notebook(make_view=lambda: Failing(RuntimeError()))
    server = notebook.start_local("--scripted", tell=lambda line: None)
    assert os.environ["ACS_API_BASE"] == server.base
    notebook.close()
    assert os.environ["ACS_API_BASE"] == "https://host.example/v1"
    assert "ACS_API_KEY" not in os.environ


def test_a_window_that_is_over_keeps_no_session_alive() -> None:
    from acs_jupyter.widgets.live import LiveCell

    session = Session()
    window = LiveCell(session, ["r"], on_intent=lambda intent: None)
    session.apply([*events.opening("r", build_request({"prompt": "x"})), events.RunClosed("r", "done")])
    window.forget()
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    assert window.snapshot
