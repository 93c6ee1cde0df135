"""``acs-jupyter keys`` and ``serve``: what was typed is understood or refused in a line, and no key is repeated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest

from acs_jupyter.local.store import FILE
from tests.support.command import one_line, run
from tests.support.servers import serving

if TYPE_CHECKING:
    from pathlib import Path

OWN = "acs-bm-0123abcd-the-servers-own-key-of-this-test"
SLOW = {"prompt": [1, 2, 3], "max_tokens": 40, "stream": True}


def keys(folder: Path, *words: str) -> str:
    done = run("keys", *words, "--data", str(folder))
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_a_whole_key_is_understood_and_never_repeated(tmp_path: Path) -> None:
    key = keys(tmp_path, "create", "--budget", "100").strip()
    prefix, secret = key.split("-", 3)[2:]
    for given in (key, f"acs-bm-{prefix}", prefix):
        assert keys(tmp_path, "budget", given, "7") == f"{prefix}: 7 a month\n"
        assert keys(tmp_path, "settle", given) == f"No server that was killed holds anything of {prefix}.\n"
    assert keys(tmp_path, "revoke", key) == f"{prefix}: revoked\n"
    stranger = f"acs-bm-00000000-{secret}"
    for words in (
        ["revoke", stranger], ["budget", stranger, "5"], ["settle", stranger], ["budget", prefix, key], [key],
        ["list", key], ["settle", f"x{key}"], ["revoke", secret],
    ):  # fmt: skip
        assert secret not in one_line(run("keys", *words, "--data", str(tmp_path))), words
    assert secret not in one_line(run("serve", "--scripted", "--port", key))


@pytest.mark.parametrize("given", ["TYPO", "00000000", "0000000", "acs-bm-", ""])
def test_an_unknown_prefix_is_an_error(given: str, tmp_path: Path) -> None:
    keys(tmp_path, "create")
    for words in (["settle", given], ["revoke", given], ["budget", given, "1"]):
        assert "keys list" in one_line(run("keys", *words, "--data", str(tmp_path)))


def test_looking_makes_no_folder(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    for words in (["list"], ["settle"], ["revoke", "00000000"]):
        assert "does not exist" in one_line(run("keys", *words, "--data", str(nowhere)))
    assert not nowhere.exists()


def test_keys_without_a_row_are_listed_with_what_they_hold(tmp_path: Path) -> None:
    with serving("--scripted", "--rate", "5", "--key", OWN, ACS_LOCAL_DATA=str(tmp_path)) as server:
        ask = {"prompt": [1], "max_tokens": 2}
        used = httpx.post(f"{server.base}/completions", json=ask, headers=server.auth).json()["usage"]
        with httpx.stream("POST", f"{server.base}/completions", json=SLOW, headers=server.auth) as answer:
            lines = answer.iter_lines()  # held: the answer ends with it
            next(lines)
            with closing(sqlite3.connect(tmp_path / FILE)) as db:
                assert db.execute("SELECT count(*) FROM holds").fetchone() == (1,)
            server.process.kill()
            server.process.wait()
    _, row, held = keys(tmp_path, "list").splitlines()
    assert row.split()[:4] == ["0123abcd", "-", "-", str(used["total_tokens"])]
    assert row.endswith("a server's own key, not stored")
    assert held.startswith("0123abcd: 43 tokens held for 1 request of a server that was killed; ")
    hint = held.split("'")[1].split()
    assert hint == ["acs-jupyter", "keys", "settle", "0123abcd", "--data", str(tmp_path)]
    assert run(*hint[1:]).stdout == "1 request: 43 tokens counted as used\n"
    assert len(keys(tmp_path, "list").splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "serve, demo, keys, jobs"),
        (["keys", "create", "--budget", "-5"], "'-5' is not a whole number from 0"),
        (["keys", "create", "--budget", "9" * 40], "from 0 to 999999999999999"),
        (["serve", "--scripted", "--key", ""], "--key is empty"),
        (["serve", "--scripted", "--model", ""], "--model"),
        (["serve", "--scripted", "--model", "a\x1b[2J"], "--model"),
        (["serve", "--model", "a\x1b[2J=http://127.0.0.1:9"], "printable"),
        (["serve", "--scripted", "--upstream-key-env", "HOME"], "--upstream-key-env needs an --upstream"),
    ],
)
def test_bad_settings_are_one_line(arguments: list[str], word: str, tmp_path: Path) -> None:
    line = one_line(run(*arguments, ACS_LOCAL_DATA=str(tmp_path)))
    assert word in line
    assert line.isprintable()


def test_a_port_in_use_names_the_way_out() -> None:
    with serving("--scripted") as server:
        port = server.root.rsplit(":", 1)[1]
        assert "Try --port 0" in one_line(run("serve", "--scripted", "--port", port))


def test_a_context_beyond_the_models_own_says_so() -> None:
    with serving("--context", "999999") as server:
        [model] = httpx.get(f"{server.base}/models", headers=server.auth).json()["data"]
    length = model["capabilities"]["max_model_len"]
    assert length < 999_999
    assert f"--context 999999 is beyond this model's own length: {length} tokens are used.\n" in server.log
