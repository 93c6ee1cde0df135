"""Going on from a place: by name, byte for byte, in the same tree; and one line for what cannot go on."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import pytest

from acs_jupyter import Client, Session
from acs_jupyter.keeping.record import pack_run, unpack_run
from acs_jupyter.log import events as ev
from acs_jupyter.notebook.options import parse_cell_line
from tests.support.player import CLOSE, DONE, HANG, chunk, frames, head, stream
from tests.support.shells import KEY, PARIS, Shell

MORE = stream(*frames([" and", " on"]), DONE)


def prompts(server: Any) -> list[str]:
    return [request.json["prompt"] for request in server.requests]


@pytest.mark.parametrize("body", [" and", "\n\n\tthen\u202e {x} %s", ">>> x", " ", "\n"])
def test_the_body_follows_what_came_byte_for_byte(shell: Shell, connect: Any, body: str) -> None:
    server = connect(PARIS, MORE)
    shell.run("%%acs -m m -t 0.5 --max-tokens 9 -o a\nThe capital ")
    assert shell.run(f"%%acs --in a -o b\n{body}").ok
    assert prompts(server)[1] == f"The capital  Paris{body}"
    a, b = shell["a"], shell["b"]
    assert (a.text, b.text, b.prompt) == (" Paris", " and on", prompts(server)[1])
    assert b.session is a.session
    tree = a.session
    (continued,) = tree.runs[a.run].nodes
    (added,) = tree.nodes[continued].children
    assert (tree.nodes[added].text, tree.nodes[added].run) == (body, b.run)
    assert tree.nodes[added].children == tree.runs[b.run].nodes
    sent = server.requests[1].json
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("m", 0.5, 9)


@pytest.mark.parametrize("cell", ["%%acs --in a -o b", "%%acs --in a -o b\n", "\n%%acs --in a -o b"])
def test_without_a_body_it_goes_on_at_the_end(shell: Shell, connect: Any, cell: str) -> None:
    server = connect(PARIS, MORE)
    shell.run("%%acs -m m -o a\nHi")
    assert shell.run(cell).ok
    assert prompts(server)[1] == "Hi Paris"
    (node,) = shell["b"].session.runs[shell["b"].run].nodes
    assert shell["b"].session.nodes[node].parent == shell["a"].choices[0].node
    assert shell["b"].session.text_to(node) == "Hi Paris and on"


def test_a_cell_of_nothing_is_one_line(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    for cell in ("%%acs -m m", "%%acs", "\n%%acs\n"):
        ran = shell.run(cell)
        assert not ran.ok
        assert "The cell has no body" in str(ran.error)
        assert len(ran.out.strip().splitlines()) <= 1
    assert server.requests == []
    shell.run("%unload_ext acs_jupyter")
    assert "Cell magic `%%acs` not found" in shell.run("%%acs\nx").out


def test_a_terminal_still_waits_for_the_body(shell: Shell) -> None:
    assert shell.shell.check_complete("%%acs --in a")[0] == "incomplete"


def test_one_of_several_choices_is_named(shell: Shell, connect: Any) -> None:
    pieces = [*frames([" one"], index=0), *frames([" two"], index=1)]
    server = connect(stream(*pieces, DONE), MORE)
    shell.run("%%acs -m m -n 2 -o a\nHi")
    assert "a has 2 choices; name one, --in a:1 to a:2" in shell.run("%%acs --in a\n!").out
    assert "a has 2 choices, counted from 1" in shell.run("%%acs --in a:3\n!").out
    assert "a has 2 choices, counted from 1" in shell.run("%%acs --in a:0\n!").out
    assert len(server.requests) == 1
    assert shell.run("%%acs --in a:2 -o b\n!").ok
    assert prompts(server)[1] == "Hi two!"
    assert "n" not in server.requests[1].json
    shell.run("c = a.choices[0]")
    assert shell.run("%%acs --in c\n!").ok
    assert prompts(server)[2] == "Hi one!"


def test_a_client_s_completion_and_a_session_go_on(shell: Shell, connect: Any) -> None:
    server = connect(PARIS, MORE)
    session = Session()
    with Client() as client:
        shell.shell.user_ns["r"] = client.complete("Hi", model="m", session=session)
    shell.shell.user_ns["s"] = session
    assert shell.run("%%acs --in s\n.").ok
    assert shell.run("%%acs --in s\n!").ok
    assert shell.run("%%acs --in r\n?").ok
    assert prompts(server) == ["Hi", "Hi Paris.", "Hi Paris. and on!", "Hi Paris?"]
    assert len(session.runs) == 4
    assert len(session.roots) == 1


def test_an_interrupted_one_goes_on_from_what_came(shell: Shell, connect: Any) -> None:
    cut = [head(kind="text/event-stream"), *map(chunk, frames([" Par"], None)), CLOSE]
    server = connect(cut, MORE)
    assert not shell.run("%%acs -m m -o a\nHi").ok
    assert shell["a"].outcome == "interrupted"
    assert shell.run("%%acs --in a\nis").ok
    assert prompts(server)[1] == "Hi Paris"


def test_a_running_one_must_end_first(shell: Shell, connect: Any) -> None:
    server = connect(stream(*frames([" a"], None), HANG), MORE)
    shell.run("%%acs -m m --bg -o a\nHi")
    while not shell["a"].text:
        time.sleep(0.01)
    ran = shell.run("%%acs --in a\n!")
    assert "a is still running" in ran.out
    assert len(ran.out.strip().splitlines()) == 1
    assert (shell["a"].text, len(server.requests)) == (" a", 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--in storry", "no variable storry. Did you mean --in story?"),
        ("--in zzz", "no variable zzz. Keep a completion with -o NAME first."),
        ("--in nope", "no variable nope. Keep a completion with -o NAME first."),  # not: open
        ("--in numbr", "no variable numbr. Keep a completion with -o NAME first."),
        ("--in number", "number is no completion and no session, but an int;"),
        ("--in a.b", "a variable's name is needed"),
        ("--in empty", "nothing has been run in this session yet"),
        ("--in ids", "its prompt was token ids"),
        ("--in", "--in needs a value"),
    ],
)
def test_what_cannot_go_on_is_one_line(shell: Shell, connect: Any, line: str, words: str) -> None:
    server = connect(PARIS)
    shell.run("number = 3")
    shell.shell.user_ns["empty"] = shell.shell.user_ns["story"] = Session()
    with Client() as client:
        shell.shell.user_ns["ids"] = client.complete([1, 2], model="m")
    ran = shell.run(f"%%acs {line}\nHi")
    assert words in ran.out
    assert len(ran.out.strip().splitlines()) == 1
    assert len(server.requests) == 1


def test_a_saved_session_goes_on_after_a_restart(shell: Shell, connect: Any, tmp_path: Any) -> None:
    server = connect(PARIS, MORE)
    shell.run("%%acs -m m -o a\nHi")
    shell["a"].session.save(tmp_path / "s.jsonl")
    shell.shell.user_ns["s"] = Session.load(tmp_path / "s.jsonl")
    assert shell.run("%%acs --in s -o b\n!").ok
    assert prompts(server)[1] == "Hi Paris!"
    shell["b"].session.save(tmp_path / "s.jsonl")
    assert Session.load(tmp_path / "s.jsonl").state() == shell["b"].session.state()


def test_what_a_saved_notebook_holds_goes_on_after_a_restart(shell: Shell, connect: Any) -> None:
    server = connect(PARIS, MORE)
    shell.run("%%acs -m m -t 0.5 -o a\nHi")
    shell.shell.user_ns["kept"] = unpack_run(pack_run(shell["a"].session, shell["a"].run))
    assert shell.run("%%acs --in kept -o b\n!").ok
    assert prompts(server)[1] == "Hi Paris!"
    assert server.requests[1].json["temperature"] == 0.5


def test_dry_opens_no_socket_and_counts_what_is_known(shell: Shell, connect: Any) -> None:
    server = connect(PARIS, MORE)
    server.routes.clear()  # a question for the models would be recorded like any other
    told = shell.run("%%acs --dry --max-tokens 7\né").out
    assert "prompt tokens: at most 3" in told
    assert "worst case: 10 tokens (3 prompt + 7 generated)" in told
    assert "model: the server's default; it is asked for when the cell is sent" in told
    assert server.requests == []
    shell.run("%%acs -m m -o a\nHi")
    assert "prompt tokens: 3 (counted)" in shell.run("%%acs -m m --dry\nHi").out
    shown, _, told = shell.run("%%acs --in a --dry -n 2\n!").out.partition("\n}\n")
    assert json.loads(shown + "}")["prompt"] == "Hi Paris!"
    assert "prompt tokens: at most 10" in told
    assert "+ 256 generated" in told
    assert "32,000 generated; max_tokens is not sent" in (
        shell.run("%acs set max_tokens none").out + shell.run("%%acs -m m --dry\nHi").out
    )
    assert len(server.requests) == 1
    assert KEY not in shown + told


def test_the_option_is_read() -> None:
    assert parse_cell_line("--in a:2").continues == "a:2"


def test_reading_a_text_changes_nothing_since_another_thread_may_be_writing_it() -> None:
    session = Session()
    session.apply([ev.RunOpened("r", {"prompt": ""}), ev.NodeOpened("r.0", "r", choice=0)])
    for piece in "abc":
        session.apply([ev.TokensArrived("r.0", piece)])
    node = session.nodes["r.0"]
    assert node.text == "abc"
    assert node.parts == ["a", "b", "c"]


def test_two_threads_may_fold_into_one_session() -> None:
    session = Session()
    for run in "ab":
        session.apply([ev.RunOpened(run, {"prompt": ""}), ev.NodeOpened(f"{run}.0", run, choice=0)])

    def write(run: str) -> None:
        for number in range(5_000):
            session.apply([ev.TokensArrived(f"{run}.0", run)], at=float(number))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=write, args=run) for run in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert [session.nodes[f"{run}.0"].text for run in "ab"] == ["a" * 5_000, "b" * 5_000]
    times = {run: [at for at, event in session.log if getattr(event, "text", "") == run] for run in "ab"}
    assert times == {run: [float(number) for number in range(5_000)] for run in "ab"}
