"""Settings: one order of precedence, told with where each value came from; bad ones are one line and lose nothing."""

# fixtures of another file

from __future__ import annotations

import atexit
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from acs_jupyter import AsyncClient, Client
from acs_jupyter.errors import NotConfigured
from acs_jupyter.notebook.defaults import names, variable_of
from acs_jupyter.notebook.traits import CellTraits
from tests.support.player import DONE, frames, stream
from tests.support.shells import KEY, PARIS, Shell, dispose


@pytest.fixture
def configured() -> Iterator[Any]:
    made: list[InteractiveShell] = []

    def go(**traits: Any) -> Shell:
        made.append(InteractiveShell(config=Config({"AcsMagics": traits})))
        made[-1].run_line_magic("load_ext", "acs_jupyter")
        return Shell(made[-1])

    yield go
    for each in made:
        dispose(each)


def row(shown: str, name: str) -> list[str]:
    (line,) = [line for line in shown.splitlines() if line.startswith(f"{name} ")]
    return line.split(maxsplit=2)


def test_each_place_goes_over_the_one_before_it(
    configured: Any,
    connect: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = connect(PARIS)
    shell = configured(model="m", seed=1)
    steps = [
        (lambda: None, 128, "default"),
        (
            lambda: shell.run("%config AcsMagics.max_tokens = 11"),
            11,
            "IPython config (c.AcsMagics.max_tokens)",
        ),
        (lambda: monkeypatch.setenv("ACS_MAX_TOKENS", "12"), 12, "environment (ACS_MAX_TOKENS)"),
        (lambda: shell.run("%acs set max_tokens 13"), 13, "%acs set"),
    ]
    for change, value, source in steps:
        change()
        assert shell.run("%%acs\nHi").ok
        assert server.requests[-1].json["max_tokens"] == value
        assert row(shell.run("%acs settings").out, "max_tokens")[1:] == [str(value), source]
    assert shell.run("%%acs --max-tokens 14\nHi").ok
    assert server.requests[-1].json["max_tokens"] == 14
    assert server.requests[-1].json["seed"] == 1
    assert shell.run("%acs set max_tokens default").out == "max_tokens = 12\n"
    assert shell.run("%acs set seed none").out == "seed is not sent\n"
    shell.run("%%acs\nHi")
    assert "seed" not in server.requests[-1].json
    assert re.search(r"(?m)^seed +not sent +%acs set$", shell.run("%acs settings").out)


def test_everything_that_can_be_set_is_a_trait_and_a_variable(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sorted(CellTraits.class_trait_names(config=True)) == names()
    shown = configured().run("%acs settings").out
    for name in names():
        assert name in shown
        monkeypatch.setenv(variable_of(name), "?")
    assert "not understood" in configured().run("%acs settings").out


def test_the_page_tells_server_and_key_without_the_key(shell: Shell, connect: Any) -> None:
    server = connect(PARIS)
    shown = shell.run("%acs settings").out
    assert row(shown, "server") == ["server", server.base, "environment (ACS_API_BASE)"]
    assert row(shown, "key")[2] == "environment (ACS_API_KEY)"
    assert KEY not in shown
    for name in ("budget ledger", "job journal", "unsaved runs", "Not set:", "A cell's own option goes over"):
        assert name in shown


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ACS_SEED=x", "a whole number is needed"),
        ("ACS_TEMPERATURE=-3", "temperature=-3.0"),
        ("ACS_NOTES=perhaps", "on or off"),
        ("ACS_TIMEOUT=soon", "timeout='soon'"),
        ("ACS_RETRIES=1.5", "whole number"),
    ],
)
def test_a_bad_variable_is_one_line_that_names_it(
    shell: Shell,
    connect: Any,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    told: str,
) -> None:
    server = connect(PARIS)
    name, _, value = given.partition("=")
    monkeypatch.setenv(name, value)
    ran = shell.run("%%acs -m m\nHi")
    assert not ran.ok
    assert len(ran.out.strip().splitlines()) == 1
    for words in [name, told, "Correct it, or take it away."]:
        assert words in ran.out
    assert server.requests == []
    shell.run(f"%acs set {name.removeprefix('ACS_').lower()} {'off' if name == 'ACS_NOTES' else 1}")
    assert shell.run("%%acs -m m\nHi").ok  # %acs set goes over it


def test_a_bad_configuration_is_one_line(configured: Any, connect: Any) -> None:
    server = connect(PARIS)
    ran = configured(top_p=7.0).run("%%acs -m m\nHi")
    assert len(ran.out.strip().splitlines()) == 1
    assert "c.AcsMagics.top_p: top_p=7.0" in ran.out
    assert server.requests == []
    made = InteractiveShell(config=Config({"AcsMagics": {"max_tokens": "many"}}))
    ran = Shell(made).run("%load_ext acs_jupyter")
    assert not ran.ok
    assert len(ran.out.strip().splitlines()) == 1
    assert "max_tokens" in ran.out
    assert "ipython_config.py" in ran.out
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


def test_a_mistyped_name_in_the_configuration_is_told(configured: Any) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        configured(max_tokns=5)
    assert any("Did you mean" in str(each.message) and "max_tokens" in str(each.message) for each in told)


def test_clients_take_the_argument_then_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACS_TIMEOUT", "7")
    monkeypatch.setenv("ACS_RETRIES", "0")
    with Client("http://127.0.0.1:9", KEY, meter=None) as client:
        assert (client._timeout, client.retries, client._longest_wait) == (7.0, 0, None)
        again = client.same(AsyncClient)
        assert (again._timeout, again.retries) == (7.0, 0)
    with Client("http://127.0.0.1:9", KEY, meter=None, timeout=8, retries=2, longest_wait=0) as client:
        assert (client._timeout, client.retries, client._longest_wait) == (8.0, 2, 0.0)
    monkeypatch.setenv("ACS_LONGEST_WAIT", "for ever")
    with pytest.raises(NotConfigured, match="ACS_LONGEST_WAIT: longest_wait='for ever': expected seconds"):
        Client("http://127.0.0.1:9", KEY, meter=None)


def test_a_cell_retries_as_often_as_is_set(shell: Shell, connect: Any) -> None:
    from tests.support.player import whole

    refusal = {"error": {"code": "queue_full", "message": "busy"}}
    server = connect(whole(refusal, "429 Too Many Requests", Retry_After="0"), stream(*frames(["a"]), DONE))
    shell.run("%acs set retries 0")
    assert "queue_full" in shell.run("%%acs -m m\nHi").out
    assert len(server.requests) == 1
    shell.run("%acs set retries 1")
    assert shell.run("%%acs -m m\nHi").ok
