"""The command's words: help for each, suggestions for a slip, exit codes, completion in the shells that are here."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acs_jupyter.cli import main, make_parser
from acs_jupyter.commands.asking import SHELLS
from acs_jupyter.doctor import report
from acs_jupyter.errors import NotConfigured

KEY = "acs-bm-0123abcd-SECRETSECRETSECRETSECRETSECRETSEC"


def parsers(
    parser: argparse.ArgumentParser, *words: str
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from parsers(child, *words, name)


ALL = list(parsers(make_parser()))


@pytest.mark.parametrize("words", [words for words, _ in ALL], ids=" ".join)
def test_every_command_has_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert f"usage: acs-jupyter {' '.join(words)}".rstrip() in capsys.readouterr().out


def test_every_option_says_what_it_is() -> None:
    silent = [
        f"{' '.join(words)} {action.option_strings[-1]}"
        for words, parser in ALL
        for action in parser._actions
        if action.option_strings and not action.help
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("serv", "acs-jupyter: there is no 'serv'. Did you mean serve?"),
        ("doktor", "Did you mean doctor?"),
        ("xyzzy", "There are: serve, demo, keys, jobs, budget, doctor, strip, export, completion."),
        ("serve --scriptd", "acs-jupyter serve: unknown option --scriptd. Did you mean --scripted?"),
        ("serve --prot=8000", "unknown option --prot=8000. Did you mean --port?"),
        ("serve --xyzzy", "--help lists them."),
        ("keys lst", "acs-jupyter keys: there is no 'lst'. Did you mean list?"),
        ("keys", "ACTION must be given: create, list, revoke, budget, settle"),
        ("keys create extra", "'extra' is one word too many"),
        ("jobs run --model m", "--prompt and --max-tokens must be given"),
        ("budget setle", "Did you mean settle?"),
        ("budget --as heldd", "Did you mean held?"),
        ("completion bsh", "Did you mean bash?"),
        (f"export x.ipynb {KEY}", "'acs-bm-0123abcd-…' is one word too many"),
        (f"export --{KEY}", "unknown option --acs-bm-0123abcd-…"),
        ("--versoin", "unknown option --versoin. Did you mean --version?"),
        (
            "jobs run --prompt-file no.json --max-tokens 3",
            "unknown option --prompt-file. Did you mean --prompt?",
        ),
        ("keys create --budget lots", "'lots' is not a number of tokens, such as 50000, 50k or 3m"),
        ("serve --budget 1.5", "'1.5' is not a number of tokens, such as 50000, 50k or 3m"),
        ("demo --port abc", "'abc' is not a port number"),
        ("", "name a COMMAND: serve,"),
        ("serve --port 99999", "is not a port number"),
    ],
)
def test_a_slip_costs_one_line(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert told in shown.err
    assert "SECRET" not in shown.err


@pytest.fixture
def command(tmp_path: Path) -> dict[str, str]:
    """A PATH on which ``acs-jupyter`` is this checkout's."""
    script = tmp_path / "bin" / "acs-jupyter"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m acs_jupyter "$@"\n')
    script.chmod(0o755)
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths}


BASH = """
eval "$(acs-jupyter completion bash)"
asked() {
  COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; read -ra COMP_WORDS <<<"$COMP_LINE"
  [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=("")
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=()
  complete=$(complete -p acs-jupyter); complete=${complete##*-F }
  ${complete%% *} acs-jupyter "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
  printf '%s\\n' "${COMPREPLY[*]}"
}
asked 'acs-jupyter do'; asked 'acs-jupyter keys '; asked 'acs-jupyter serve --scr'; asked 'acs-jupyter completion '
"""
ZSH = """
zmodload zsh/zpty; autoload -Uz compinit; compinit -u -D
eval "$(acs-jupyter completion zsh)"
print -r -- "${_comps[acs-jupyter]}"
"""
FISH = """
acs-jupyter completion fish | source
complete -C 'acs-jupyter do'; complete -C 'acs-jupyter keys '; complete -C 'acs-jupyter serve --scr'
"""


def ask(shell: str, script: str, env: dict[str, str]) -> str:
    found = shutil.which(shell)
    assert found is not None, f"{shell} is needed: bash tests/run installs it"
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [found, *flags, "-c", script], capture_output=True, text=True, timeout=120, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bash_completes(command: dict[str, str]) -> None:
    one, two, three, four = ask("bash", BASH, command).splitlines()
    assert one.split() == ["doctor"]
    assert {"create", "list", "revoke", "budget", "settle"} <= set(two.split())
    assert three.split() == ["--scripted"]
    assert set(four.split()) >= set(SHELLS)


def test_zsh_completes(command: dict[str, str]) -> None:
    assert "argcomplete" in ask("zsh", ZSH, command)


def test_fish_completes(command: dict[str, str]) -> None:
    told = ask("fish", FISH, command)
    assert "doctor" in told
    assert "create" in told
    assert "--scripted" in told


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    told = capsys.readouterr().out
    assert "acs-jupyter" in told
    assert "_ARGCOMPLETE" in told


def test_what_escapes_a_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for escaped, code, told in (
        (
            NotConfigured(f"No server for {KEY}."),
            2,
            "not_configured: No server for acs-bm-0123abcd-…. Set ACS_API_BASE",
        ),
        (KeyboardInterrupt(), 130, ""),
    ):

        def escape(error: BaseException = escaped, **_: object) -> int:
            raise error

        monkeypatch.setattr(report, "in_shell", escape)
        assert main(["doctor"]) == code
        shown = capsys.readouterr().err
        assert told in shown
        assert len(shown.splitlines()) == bool(told)


@pytest.mark.parametrize(
    ("text", "tokens"), [("50000", 50_000), ("50k", 50_000), ("3M", 3_000_000), ("none", 0)]
)
def test_a_budget_is_written_as_in_a_notebook(text: str, tokens: int) -> None:
    assert make_parser().parse_args(["keys", "create", "--budget", text]).budget == tokens


def test_a_value_may_look_like_an_option() -> None:
    words = ["jobs", "run", "--model", "m", "--prompt=--x", "--max-tokens", "3"]
    assert make_parser().parse_args(words).prompt == "--x"
    words[4:5] = ["--prompt", "--two words"]
    assert make_parser().parse_args(words).prompt == "--two words"
