"""What IPython sees: exact bodies, options, names, one-line errors, interrupts. A shell without a front end."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.terminal.interactiveshell import TerminalInteractiveShell

from acs_jupyter.completion import Completion
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.notebook.display import TextView
from acs_jupyter.notebook.options import option_names, parse_cell_line
from acs_jupyter.wire import REQUEST_FIELDS
from tests.support.interrupts import after, interruptible
from tests.support.player import DONE, HANG, frames, stream, whole
from tests.support.servers import Running
from tests.support.shells import KEY, PARIS, Shell, dispose
from tests.support.texts import session_of


def test_a_cell_streams_and_is_kept(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    ran = shell.run("%%acs -t 0 --max-tokens 20 -o paris\nThe capital of France is")
    assert (ran.ok, ran.out, ran.result) == (True, " Paris\n", None)
    assert str(shell["paris"]) == " Paris"
    sent = server.requests[0].json
    assert sent["prompt"] == "The capital of France is"
    assert (sent["temperature"], sent["max_tokens"], sent["logprobs"], sent["stream"]) == (0, 20, 5, True)
    assert sent["model"] == "m-default"


BODIES = [
    "plain",
    ">>> x\n>>> y",
    "In [1]: a\nIn [2]: b",
    "...: more",
    "   ",
    " indented\n\ttab",
    "trailing space ",
    "ends in newline\n",
    "\n",
    "a\r\nb\r\n",
    "{x} {{y}} {",
    "$HOME $x %s %%time\n%acs models\n!ls\n?help",
    '"""quotes\' \\n \\',
    "form\x0cfeed\x85\u2028sep\x1c",
    "NUL \x00 bidi \u202e emoji 🦊 é é",
    "</script><img src=x onerror=alert(1)>",
    "#!/bin/sh\n# -*- coding: latin-1 -*-",
    "x" * 1_000_000,
]


@pytest.mark.parametrize("body", BODIES, ids=[repr(b[:24]) for b in BODIES])
def test_the_body_is_the_prompt_byte_for_byte(shell: Shell, connect: Any, body: str) -> None:
    server = connect(PARIS)
    assert shell.run(f"%%acs -m m\n{body}").ok
    assert server.requests[-1].json["prompt"].encode() == body.encode()


INDENTED = [
    "    %%acs -m m\n    The capital\n    of France is",
    "\t%%acs -m m\n\tThe capital\n  of France is",
    "  %%acs -m m\nThe capital\n    of France is",
    "\n   \n    %%acs -m m\n      deeper\n    \n    back\n  ",
    "%%acs -m m\n    every\n    line\n     indented",
    "  %%acs -m m\n  >>> x\n  ... y",
    "%%capture\n    %%acs -m m\n      nested\n    once",
    "%%capture\n%%acs -m m\n    nested\n    twice",
]


@pytest.mark.parametrize("cell", INDENTED, ids=map(repr, INDENTED))
def test_an_indented_cell_is_sent_as_it_was_typed(shell: Shell, connect: Any, cell: str) -> None:
    server = connect(PARIS)
    assert shell.run(cell).ok
    head = cell.index("%%acs")
    assert server.requests[-1].json["prompt"] == cell[cell.index("\n", head) + 1 :]


@pytest.mark.parametrize("prompt", [">>> ", ">>>", "  >>> ", "In [1]: ", "In [12]: "])
def test_a_cell_pasted_with_its_prompt_is_refused_in_one_line(
    shell: Shell, connect: Any, prompt: str
) -> None:
    server = connect(PARIS)
    ran = shell.run(f"{prompt}%%acs -m m\n{prompt}The capital\n... of France is")
    assert not ran.ok
    assert len(ran.out.strip().splitlines()) == 1
    assert "Nothing was sent: a prompt" in ran.out
    assert prompt.strip() in ran.out
    assert server.requests == []


def test_a_stop_while_the_copy_is_drawn_stops_and_what_came_is_kept(
    shell: Shell, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(PARIS)
    closed = []

    def drawing(self: TextView) -> None:
        signal.raise_signal(signal.SIGINT)
        closed.append("whole")

    monkeypatch.setattr(TextView, "close", drawing)
    ran = shell.run("%%acs -m m -o r\nHi")
    assert closed == ["whole"]  # the copy is written to its end first
    assert isinstance(ran.error, KeyboardInterrupt)
    assert "what came is kept" in ran.out
    assert (shell["r"].text, shell["r"].outcome) == (" Paris", "done")


def test_bodies_reach_the_magic_by_other_ways(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    shell.run('get_ipython().run_cell_magic("acs", "-m m", "from code\\n")')
    assert server.requests[-1].json["prompt"] == "from code"
    shell.run("%%capture\n%%acs -m m\nnested")
    assert server.requests[-1].json["prompt"] == "nested"


def test_a_lone_surrogate_is_named_and_nothing_is_sent(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    ran = shell.run("%%acs -m m\na\ud800b")
    assert not ran.ok
    assert "U+D800" in ran.out
    assert server.requests == []


def test_every_field_is_an_option() -> None:
    for name in REQUEST_FIELDS:
        if name != "prompt":
            assert f"--{name.replace('_', '-')}" in option_names()
    line = (
        "-m m --max_tokens 4 -n 2 --stop '\\n' --stop 'a b' -t 1.5 --top-p .9 --top_k 5 --min-p 0.1 "
        "--presence-penalty 1 "
        "--frequency_penalty -1 --repetition-penalty 1.2 --seed 9223372036854775807 --logprobs 0 --prompt-logprobs -1 "
        "--echo --stream false --user u --add-special-tokens false --stream-options '{\"include_usage\": true}' -o r"
    )
    options = parse_cell_line(line)
    assert options.name == "r"
    assert options.fields == {
        "model": "m", "max_tokens": 4, "n": 2, "stop": ["\n", "a b"], "temperature": 1.5, "top_p": 0.9, "top_k": 5,
        "min_p": 0.1, "presence_penalty": 1.0, "frequency_penalty": -1.0, "repetition_penalty": 1.2,
        "seed": 2**63 - 1, "logprobs": 0, "prompt_logprobs": -1, "echo": True, "stream": False, "user": "u",
        "add_special_tokens": False, "stream_options": {"include_usage": True},
    }  # fmt: skip
    assert set(options.fields) == set(REQUEST_FIELDS) - {"prompt"}


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%acs --max-tokns 5\nHi", ["--max-tokns", "Did you mean --max-tokens?"]),
        ("%%acs --max_tokns=5\nHi", ["Did you mean --max-tokens?"]),
        ("%%acs --temperature warm\nHi", ["temperature='warm'", "a number is needed"]),
        ("%%acs -n 2.0\nHi", ["n='2.0'", "whole number"]),
        ("%%acs -t 200\nHi", ["temperature=200.0", "100"]),
        ("%%acs --stop 'x\nHi", ["quote is not closed"]),
        ("%%acs hello\nHi", ["'hello' is not an option", "cell's body"]),
        ("%%acs -o 2x\nHi", ["-o 2x", "variable of your own"]),
        ("%%acs --seed\nHi", ["--seed"]),
        ("%acs modles", ["'modles'", "Did you mean models?"]),
        ("%acs set temprature 1", ["'temprature'", "Did you mean temperature?"]),
        ("%acs set temperature hot", ["temperature='hot'"]),
        ("%acs set top_p 7", ["top_p=7.0"]),
        ("%acs help optons", ["optons", "Did you mean options?"]),
    ],
)
def test_mistakes_cost_one_line_and_nothing_else(
    shell: Shell, connect: Any, cell: str, words: list[str]
) -> None:
    server = connect(PARIS)
    ran = shell.run(cell)
    assert not ran.ok
    for word in words:
        assert word in ran.out
    assert len(ran.out.strip().splitlines()) == 1
    assert "Traceback" not in ran.out
    assert server.requests == []


def test_without_key_and_base_one_line_says_what_to_do(shell: Shell) -> None:
    ran = shell.run("%%acs\nHi")
    assert not ran.ok
    assert len(ran.out.strip().splitlines()) == 1
    for word in ("ACS_API_BASE", "ACS_API_KEY", "%acs local"):
        assert word in ran.out


def test_an_error_is_one_line_with_code_advice_and_request_id(shell: Shell, connect: Any) -> None:
    error = {
        "error": {"code": "budget_exceeded", "message": "Monthly token budget exhausted"},
        "request_id": "req_9",
    }
    connect(whole(error, "429 Too Many Requests", X_Request_Id="req_9"))
    ran = shell.run("%%acs -m m -o r\nHi")
    assert not ran.ok
    assert len(ran.out.strip().splitlines()) == 1
    for word in ("budget_exceeded", "Monthly token budget exhausted", "resets on the 1st", "req_9"):
        assert word in ran.out
    assert KEY not in ran.out
    assert type(ran.error).__name__ == "BudgetExceeded"
    assert shell["r"].error["code"] == "budget_exceeded"


def test_an_interrupt_keeps_the_partial_text_and_is_raised_again(shell: Shell, connect: Any) -> None:
    connect(stream(*frames(["a", "b"], None), HANG))
    with interruptible(after(0.8)):
        ran = shell.run("%%acs -m m -o r\nHi")
    assert not ran.ok
    assert isinstance(ran.error, KeyboardInterrupt)
    assert ran.out.startswith("ab")
    assert "what came is kept" in ran.out
    assert (shell["r"].text, shell["r"].outcome) == ("ab", "stopped")
    assert shell["r"].usage.completion_tokens == 2


@pytest.mark.parametrize("option", ["logprobs", "max-tokens", "temperature", "stop", "seed"])
def test_none_in_a_cell_sends_no_such_field_over_any_setting(shell: Shell, connect: Any, option: str) -> None:
    connect("http://127.0.0.1:9")
    values = {"logprobs": "3", "max-tokens": "7", "temperature": "0.5", "stop": "x", "seed": "4"}
    shell.run(f"%acs set {option} {values[option]}")
    name = option.replace("-", "_")
    assert name in shell.run("%%acs --dry -m m\nHi").out
    ran = shell.run(f"%%acs --dry -m m --{option} none\nHi")
    assert ran.ok
    assert f'"{name}"' not in ran.out


@pytest.mark.parametrize("cell", ["%%acs --help", "%%acs -h\nHi", "%%acs --max-tokens 3 --help\nHi"])
def test_help_is_asked_for_as_in_a_shell(shell: Shell, cell: str) -> None:
    ran = shell.run(cell)
    assert ran.ok
    assert ran.out == shell.run("%acs help options").out
    assert shell.run("%acs --help").out == shell.run("%acs help").out


def test_dry_shows_the_request_and_sends_nothing(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    ran = shell.run("%%acs --dry -m m -n 2 --seed 1\n{x}")
    shown, told = ran.out.split("\n}\n")
    assert json.loads(shown + "}")["prompt"] == "{x}"
    assert json.loads(shown + "}")["n"] == 2
    assert told.splitlines() == [
        "prompt tokens: at most 4 (one a byte and one for BOS; the server alone can count)",
        "worst case: 260 tokens (4 prompt + 256 generated)",
    ]
    assert server.requests == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("Hi ", "ends in a space"),
        ("Hi \t", "ends in 2 blank characters"),
        ("a\r\nb", "\\r\\n line ends (1)"),
        ("<|begin_of_text|>Hi", "begins with <|begin_of_text|>"),
        ("The capital of France: Fran", "'Fran' begins 'France'"),
        ("Hi", ""),
        ("The cats like the cat", ""),
        ("There was one of them there", ""),
        ("Once upon a time, a runner: a-run", ""),
        ("日本語。日本", ""),
    ],
)
def test_boundaries_are_pointed_out_and_nothing_is_repaired(
    shell: Shell, connect: Any, body: str, words: str
) -> None:
    server = connect(PARIS)
    shown = shell.run(f"%%acs -m m\n{body}").out
    assert words in shown
    assert ("note:" in shown) == bool(words)
    assert server.requests[-1].json["prompt"] == body
    shell.run("%acs set notes off")
    assert "note:" not in shell.run(f"%%acs -m m\n{body}").out


def test_the_doctor_measures_both_ways(
    shell: Shell, smollm_server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACS_API_BASE", smollm_server.base)
    monkeypatch.setenv("ACS_API_KEY", smollm_server.key)
    assert "run a %%acs cell first" in shell.run("%acs doctor").out
    shell.run("%%acs --max-tokens 1\nThe capital of France is ")
    frame = shell.run("%acs doctor").result
    assert frame["without"].iloc[0] == "·Paris"
    assert frame["probability_without"].iloc[0] > 0.7
    assert frame["as_is"].iloc[0] != "·Paris"
    shell.run("%%acs --max-tokens 1\nThe capital of France is")
    assert "clean" in shell.run("%acs doctor").out
    assert (
        "note:" not in shell.run("%%acs --max-tokens 1\nThe capital of Germany is Berl").out
    )  # it cannot be known
    frame = shell.run("%acs doctor").result  # but measured
    assert len(frame["note"][0]) > 50
    assert frame["note"][0] in frame._repr_html_().replace("&#x27;", "'")
    assert frame["note"][0] in repr(frame)
    assert "'Berl' for the beginning of a longer word" in frame["note"].iloc[0]
    assert (
        frame["as_is"].iloc[0].isalpha()
    )  # it goes on inside the word, and not with what the word was to be
    assert frame["without"].iloc[0] == "·Berlin"
    assert not frame["note"].iloc[1:5].any()  # it stands once


def test_in_the_background_the_cell_returns_at_once(shell: Shell, connect: Any) -> None:
    connect(stream(*frames(["a"], None), 2.0, *frames(["b"]), DONE))
    began = time.monotonic()
    ran = shell.run("%%acs -m m --bg -o r\nHi")
    assert time.monotonic() - began < 1.5
    assert ran.ok
    while shell["r"].outcome == "open" and time.monotonic() - began < 8:
        time.sleep(0.02)
    assert (shell["r"].text, shell["r"].outcome) == ("ab", "done")


def test_filling_is_asked_for(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    shell.run("city = 'Paris'")
    shell.run("%%acs -m m\n@@{city} {city}")
    shell.run("%%acs -m m --fmt\n@@{city} {city}")
    assert [request.json["prompt"] for request in server.requests] == ["@@{city} {city}", "Paris {city}"]
    ran = shell.run("%%acs -m m --fmt\n@@{ctiy}")
    assert "Did you mean @@{city}?" in ran.out
    assert len(server.requests) == 2


def test_settings_hold_for_the_cells_that_follow(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    shell.run("%acs set model mine")
    shell.run("%acs set max-tokens 7")
    shell.run("%acs set logprobs none")
    shell.run("%%acs\nHi")
    sent = server.requests[-1].json
    assert (sent["model"], sent["max_tokens"]) == ("mine", 7)
    assert "logprobs" not in sent
    assert "max_tokens = 7" in shell.run("%acs set").out
    shell.run("%%acs --max-tokens 9\nHi")
    assert server.requests[-1].json["max_tokens"] == 9


def test_a_setting_is_shown_cleared_and_put_back(shell: Shell) -> None:
    assert shell.run("%acs set max_tokens").out == "max_tokens = 128\n"
    assert shell.run("%acs set max_tokens none").out == "max_tokens is not sent\n"
    assert shell.run("%acs set max_tokens default").out == "max_tokens = 128\n"
    assert shell.run("%acs set -t 0.5").out == "temperature = 0.5\n"
    assert "There are: add_special_tokens, echo" in shell.run("%acs set bogus 3").out


def test_what_is_not_understood_is_not_ignored(shell: Shell) -> None:
    assert "takes nothing more" in shell.run("%acs models foo").out
    assert "--gguf FILE" in shell.run("%acs local --guf x").out
    assert "no-such.gguf" in shell.run("%acs local --gguf no-such.gguf").out
    assert "--max-tokens" in shell.run("%%acs --help\nHi").out
    assert "%acs help options" in shell.run("%%acs --zzzzz\nHi").out
    assert "Topics: budget, compare, continue" in shell.run("%acs help zzz").out


@pytest.mark.parametrize("name", ["In", "Out", "exit", "quit", "__", "___", "_", "print", "get_ipython"])
def test_names_of_the_shell_are_not_given_away(name: str) -> None:
    with pytest.raises(InvalidRequest, match="a variable of your own"):
        parse_cell_line(f"-o {name}")


@pytest.mark.parametrize("flag", ["--max_tokens", "--max-tokens"])
def test_a_missing_value_is_told_with_the_option_as_it_is_written(flag: str) -> None:
    with pytest.raises(InvalidRequest, match=": --max-tokens needs a value"):
        parse_cell_line(flag)


def test_the_last_completion_is_shown_again(shell: Shell, connect: Any) -> None:
    assert "run a %%acs cell first" in shell.run("%acs last").out
    connect(PARIS)
    shell.run("%%acs -m m\nHi")
    assert shell.run("%acs last").out == " Paris\n"
    shell.shell.user_ns["kept"] = shell["_acs"]
    assert shell.run("%acs last kept").out == " Paris\n"
    assert "shell is no completion" in shell.run("%acs last shell").out
    session = session_of(6, n=2)
    shell.shell.user_ns["two"] = two = Completion(session, "r")
    first, second = two.texts
    told = shell.run("%acs last two").out
    assert told == f"--- continuation 1 of 2 ---\n{first}\n--- continuation 2 of 2 ---\n{second}\n"


def test_in_a_terminal_the_empty_lines_that_end_a_cell_are_not_sent(connect: Any) -> None:
    server = connect(PARIS)
    made = TerminalInteractiveShell()
    made.run_line_magic("load_ext", "acs_jupyter")
    Shell(made).run("%%acs -m m\nThe capital\n of France is\n\n")
    assert server.requests[-1].json["prompt"] == "The capital\n of France is"
    dispose(made)


def test_models_are_listed(shell: Shell, connect: Any) -> None:
    connect(PARIS)
    frame = shell.run("%acs models").result
    assert list(frame["id"]) == ["m-first", "m-default"]


def test_several_choices_are_told_apart(shell: Shell, connect: Any) -> None:
    pieces = [*frames(["a"], index=0), *frames(["b"], index=1)]
    connect(stream(*pieces, DONE))
    ran = shell.run("%%acs -m m -n 2\nHi")
    assert ran.out == "[1 of 2] a\n[2 of 2] b\n"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%%acs --max", "--max-tokens"),
        ("%%acs --top", "--top-k"),
        ("%acs mo", "models"),
        ("%acs ", "local"),
        ("%%acs -m ", "m-default"),
        ("%%acs --model m", "m-first"),
        ("%acs set te", "temperature"),
        ("%acs help o", "options"),
    ],
)
def test_completion_offers(shell: Shell, connect: Any, line: str, offered: str) -> None:
    connect(PARIS)
    with provisionalcompleter():
        for code in (line, f"{line}\nThe prompt"):
            found = shell.shell.Completer.completions(code, len(line))
            assert offered in [completion.text for completion in found]


def test_help_names_every_option(shell: Shell) -> None:
    shown = shell.run("%acs help options").out
    for option in option_names():
        assert option in shown
    assert "%%acs" in shell.run("%acs help").out
    assert "%%acs" in shell.run("%acs").out


def test_a_config_file_sets_defaults(connect: Any) -> None:
    from traitlets.config import Config

    server = connect(PARIS)
    made = InteractiveShell(config=Config({"AcsMagics": {"max_tokens": 33, "model": "from-config"}}))
    made.run_line_magic("load_ext", "acs_jupyter")
    Shell(made).run("%%acs\nHi")
    assert (server.requests[-1].json["max_tokens"], server.requests[-1].json["model"]) == (33, "from-config")
    dispose(made)


def test_loading_twice_and_unloading(shell: Shell) -> None:
    shell.run("%load_ext acs_jupyter")
    assert "acs" in shell.shell.magics_manager.magics["cell"]
    shell.run("%unload_ext acs_jupyter")
    assert "acs" not in shell.shell.magics_manager.magics["cell"]
    shell.run("%load_ext acs_jupyter")
    assert "acs" in shell.shell.magics_manager.magics["cell"]


def test_a_comment_at_a_lines_end_is_no_argument(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    assert shell.run("%acs set max_tokens 9   # short ones").out == "max_tokens = 9\n"
    assert shell.run("%%acs -m m --stop '#'  # an option's # stays\nHi").ok
    assert server.requests[-1].json["stop"] == ["#"]
    assert server.requests[-1].json["prompt"] == "Hi"
    assert shell.run("%%acs -m m --stop 'a  # b'\nHi").ok
    assert server.requests[-1].json["stop"] == ["a  # b"]
    assert "max_tokens" in shell.run("%acs settings  # all of them").out
