"""``acs-jupyter doctor``: finds what is wrong, says what to do, and shows no secret to anybody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from acs_jupyter.doctor import kept, report, surroundings
from acs_jupyter.jobs import journal
from acs_jupyter.keeping import unsaved
from acs_jupyter.ledger import command as ledger_command
from acs_jupyter.ledger import ledger, resolve
from acs_jupyter.local import fetch, job_store, store
from tests.support.servers import Running, environment

PLANTED = "acs-bm-0123abcd-SECRETSECRETSECRETSECRETSECRETSEC"
SECRET = PLANTED.rsplit("-", maxsplit=1)[-1]


def doctor(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acs_jupyter", "doctor", *words]
    known = {k: v for k, v in environment().items() if k not in ("ACS_JOURNAL", "ACS_LEDGER")} | env
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=known, check=False)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "XDG_DATA_HOME": str(tmp_path / "home" / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "home" / "cache"),
        "ACS_LOCAL_DATA": "",
        "ACS_UNSAVED": "",
    }


def test_all_is_well_with_a_server_that_answers(scripted_server: Running, home: dict[str, str]) -> None:
    done = doctor(**home, ACS_API_BASE=scripted_server.base, ACS_API_KEY=scripted_server.key)
    assert done.returncode == 0, done.stdout
    assert "Nothing is wrong." in done.stdout
    for line in (
        "ok    key",
        "ok    health",
        "ok    models",
        "ok    widgets",
        "ok    budget ledger",
        "ok    disk",
    ):
        assert line in done.stdout
    assert scripted_server.key not in done.stdout + done.stderr
    assert scripted_server.key[16:] not in done.stdout
    assert home["HOME"] not in done.stdout
    assert list(Path(home["HOME"]).rglob("*")) == []  # nothing was made
    pasted = done.stdout.split("```")[1]
    assert "python: 3." in pasted
    assert "ipywidgets 8" in pasted


@pytest.mark.parametrize(
    ("base", "key", "told"),
    [
        (None, PLANTED, "ACS_API_BASE is not set"),
        ("http://127.0.0.1:9", None, "ACS_API_KEY is not set"),
        (f"http://u:{PLANTED}@h/v1", PLANTED, "ACS_API_BASE holds a key"),
        (f"ftp://h/{PLANTED}", PLANTED, "not an http(s) address"),
        ("http://127.0.0.1:9", f"'{PLANTED}'", "quotes"),
        ("http://127.0.0.1:9", f"Bearer {PLANTED}", "characters that a key cannot have"),
        ("http://127.0.0.1:9", PLANTED, "no answer at http://127.0.0.1:9/health"),
    ],
)
def test_what_is_wrong_is_told_and_the_key_is_not(
    base: str | None, key: str | None, told: str, home: dict[str, str]
) -> None:
    given = {name: value for name, value in (("ACS_API_BASE", base), ("ACS_API_KEY", key)) if value}
    more = {"OPENAI_API_KEY": "sk-" + SECRET[::-1], "ACS_LOCAL_KEY": "x" + SECRET.lower()}
    for words in ([], ["--json"]):
        done = doctor(*words, **home, **given, **more)
        assert done.returncode == 1, done.stdout
        assert told in done.stdout
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown
        for secret in (SECRET, SECRET[::-1], SECRET.lower()):
            assert secret[:8] not in shown
    assert all(one["do"] for one in json.loads(done.stdout)["findings"] if one["state"] == "wrong")


def test_what_is_no_secret_stays_readable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEYBOARD", "us")
    monkeypatch.setenv("HUB_TOKEN_PATH", str(tmp_path))
    monkeypatch.setenv("ACS_API_KEY", PLANTED)
    told = f"use {tmp_path}/x acs-bm-0123abcd-… {PLANTED} {SECRET[3:20]}"
    assert report.safe(told) == f"use {tmp_path}/x acs-bm-0123abcd-… [key] [key]"


def test_a_refused_key_is_told_with_what_to_do(scripted_server: Running, home: dict[str, str]) -> None:
    done = doctor(**home, ACS_API_BASE=scripted_server.base, ACS_API_KEY=PLANTED)
    assert done.returncode == 1
    assert "WRONG models" in done.stdout
    assert "-> Check ACS_API_KEY." in done.stdout
    assert "ok    health" in done.stdout
    assert SECRET[:8] not in done.stdout


def test_without_settings_it_is_a_note(home: dict[str, str]) -> None:
    done = doctor(**home)
    assert done.returncode == 0, done.stdout
    assert "note  server" in done.stdout
    assert "%acs local" in done.stdout


def test_files_that_are_damaged_or_closed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "ledger.sqlite3"
    damaged.write_bytes(b"no database at all " * 400)
    monkeypatch.setenv("ACS_LEDGER", str(damaged))
    monkeypatch.setenv("ACS_JOURNAL", "off")
    monkeypatch.setattr(os, "access", lambda path, mode: "unsaved" not in str(path))
    (tmp_path / "unsaved").mkdir()
    monkeypatch.setenv("ACS_UNSAVED", str(tmp_path / "unsaved"))
    found = {one.name: one for one in report.gather(ask=False)}
    assert found["budget ledger"].state == "wrong"
    assert "damaged" in found["budget ledger"].told
    assert found["job journal"].told == "switched off (ACS_JOURNAL)"
    assert found["unsaved runs"].state == "wrong"
    assert "ACS_UNSAVED" in found["unsaved runs"].do
    assert damaged.read_bytes().startswith(b"no database")


def test_a_missing_front_end_and_an_old_package_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "_extension_folders", lambda: [tmp_path])
    monkeypatch.setattr(
        surroundings, "_required", lambda: {"anywidget": "0.9.14", "pandas": "2.0", "nothing": "1"}
    )
    monkeypatch.setattr(surroundings, "versions", lambda: {"anywidget": "0.9.2", "pandas": "10.0"})
    found = {one.name: one for one in surroundings.look()}
    assert found["anywidget"].do == "pip install --upgrade 'anywidget>=0.9.14'"
    assert found["nothing"].told == "is not installed"
    assert "pandas" not in found
    assert found["ipykernel"].state == "note"
    assert "plain text" in found["widgets"].told
    assert "anywidget ipywidgets" in found["widgets"].do


def test_it_looks_where_the_rooms_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "x.sqlite3"))
    monkeypatch.setenv("ACS_LOCAL_DATA", str(tmp_path))
    monkeypatch.delenv("ACS_GGUF", raising=False)
    found = {one.name: one.path for one in kept.kept()}
    assert found["budget ledger"] == Path(ledger().store.where)
    assert found["job journal"] == Path(os.environ[journal.VARIABLE])
    assert found["unsaved runs"] == Path(os.environ[unsaved.VARIABLE])
    assert found["server's keys and use"] == store.data_folder() / store.FILE
    assert found["server's jobs"] == store.data_folder() / job_store.FILE
    assert found["model"] == fetch._cache_folder()


def test_the_budgets_options_are_the_ledgers() -> None:
    assert ledger_command.parse(["settle"]).way in resolve.WAYS
    for way in resolve.WAYS:
        assert ledger_command.parse(["settle", "--as", way]).way == way
