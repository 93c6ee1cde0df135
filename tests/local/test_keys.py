"""Keys: made once, kept as hashes, revoked while the server runs."""

from __future__ import annotations

import re
import sqlite3
import stat
from typing import TYPE_CHECKING

import httpx
import pytest

from acs_jupyter.local import store as store_module
from acs_jupyter.local.keys import Caller, Keys, own_caller
from acs_jupyter.local.ledger import read_log
from acs_jupyter.local.store import FILE, MIGRATIONS, Store, StoreFailed
from tests.support.command import one_line, run
from tests.support.contract import ASK, envelope
from tests.support.desks import OWN, counter, until
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def keys(folder: Path, *arguments: str) -> str:
    done = run("keys", *arguments, "--data", str(folder))
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def ask(server: Running, key: str) -> httpx.Response:
    return httpx.post(
        f"{server.base}/completions", json=ASK, headers={"Authorization": f"Bearer {key}"}, timeout=30
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "new" / "acs"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with serving("--scripted", "--data", str(folder)) as running:
        yield running


def test_a_key_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    key = keys(folder, "create", "--name", "my notebook", "--budget", "5000").strip()
    assert re.fullmatch(r"acs-bm-[0-9a-f]{8}-[A-Za-z0-9_-]{32}", key)
    prefix, secret = key[7:15], key[16:]
    shown = keys(folder, "list")
    assert prefix in shown
    assert "my notebook" in shown
    assert "5,000" in shown
    assert secret not in shown
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    assert prefix.encode() in stored
    assert secret.encode() not in stored


def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    store = Store(folder)
    Keys(store).create()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert FILE in modes
    assert f"{FILE}-wal" in modes
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.close()


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Store(tmp_path).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    (tmp_path / FILE).chmod(0o644)
    Store(tmp_path).close()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_changes_count_while_the_server_runs(server: Running, folder: Path) -> None:
    key = keys(folder, "create").strip()
    other = keys(folder, "create").strip()
    assert ask(server, key).status_code == 200
    assert keys(folder, "revoke", key[7:15]) == f"{key[7:15]}: revoked\n"
    assert key[7:15] in envelope(ask(server, key), 401, "key_revoked")["message"]
    assert "revoked" in keys(folder, "list")
    assert ask(server, other).status_code == 200
    assert ask(server, server.key).status_code == 200


def test_the_budget_changes_while_the_server_runs(server: Running, folder: Path) -> None:
    key = keys(folder, "create", "--budget", "4").strip()
    assert ask(server, key).status_code == 200  # 2 + 2 tokens
    envelope(ask(server, key), 429, "budget_exceeded")
    assert keys(folder, "budget", key[7:15], "8") == f"{key[7:15]}: 8 a month\n"
    assert ask(server, key).status_code == 200
    envelope(ask(server, key), 429, "budget_exceeded")
    assert keys(folder, "budget", key[7:15], "none") == f"{key[7:15]}: no limit a month\n"
    assert ask(server, key).status_code == 200


def test_a_wrong_secret_tells_nothing(server: Running, folder: Path) -> None:
    key = keys(folder, "create").strip()
    envelope(ask(server, key[:-1] + ("x" if key[-1] != "x" else "y")), 401, "invalid_api_key")
    keys(folder, "revoke", key[7:15])
    envelope(ask(server, key[:-4] + "wxyz"), 401, "invalid_api_key")
    envelope(ask(server, "acs-bm-00000000-" + "a" * 32), 401, "invalid_api_key")
    assert ask(server, server.key).status_code == 200


def test_the_log_names_the_prefix(server: Running, folder: Path) -> None:
    key = keys(folder, "create").strip()
    answer = ask(server, key)
    entry = read_log(folder)[-1]
    assert (entry.request_id, entry.prefix) == (answer.headers["x-request-id"], key[7:15])


def test_revoking_lets_a_running_stream_end(tmp_path: Path) -> None:
    with counter(tmp_path) as served:
        key = served.new_key()
        client = served.client(key)
        body = {"prompt": "#scripted rate=60", "max_tokens": 20, "stream": True}
        with client.stream("POST", "completions", json=body) as stream:
            lines = stream.iter_lines()
            next(lines)
            assert served.desk.keys.revoke(key[7:15])
            envelope(client.post("completions", json=ASK), 401, "key_revoked")
            assert [line for line in lines if line][-1] == "data: [DONE]"
        [entry] = served.quiet()
        assert entry.completion_tokens == 20


def test_a_stored_key_is_what_the_table_says(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = Keys(store).create()
    both = Keys(store, key)
    stored = both.require(f"Bearer {key}")
    assert both.revoke(key[7:15])
    with pytest.raises(Exception, match="revoked"):
        both.require(f"Bearer {key}")
    assert stored != own_caller(key)
    store.close()


def test_the_callers_name_tells_nothing_of_a_chosen_key() -> None:
    chosen = own_caller("password")
    assert chosen == own_caller("password")
    assert chosen != own_caller("passwore")
    assert "password" not in f"{chosen.id}{chosen.prefix}"
    assert own_caller(OWN).prefix == "0123abcd"
    assert isinstance(chosen, Caller)


def test_two_writers_at_once(tmp_path: Path) -> None:
    one, two = Store(tmp_path), Store(tmp_path)
    with one.writing() as db:
        db.execute("INSERT INTO usage VALUES ('a', 'm', 1, 1)")
        assert two.rows("SELECT * FROM usage") == []
    assert two.rows("SELECT * FROM usage") == [("a", "m", 1, 1)]

    def half() -> None:
        with two.writing() as db:
            db.execute("DELETE FROM usage")
            db.execute("nonsense")

    with pytest.raises(sqlite3.OperationalError):
        half()
    assert len(one.rows("SELECT * FROM usage")) == 1
    one.close()
    two.close()


def test_migrations_run_once_and_later_ones_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).close()

    def m9999_more(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE more (x)")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "MIGRATIONS", (*MIGRATIONS, m9999_more))
        Store(tmp_path).close()
        again = Store(tmp_path)
        assert [name for (name,) in again.rows("SELECT name FROM migrations ORDER BY name")] == [
            *(step.__name__ for step in MIGRATIONS),
            "m9999_more",
        ]
        again.close()
    with pytest.raises(StoreFailed, match="newer version"):
        Store(tmp_path)


def test_a_failed_migration_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def m9999_broken(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE half (x)")
        db.execute("nonsense")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "MIGRATIONS", (*MIGRATIONS, m9999_broken))
        with pytest.raises(StoreFailed, match="nonsense"):
            Store(tmp_path)
    store = Store(tmp_path)
    assert store.rows("SELECT name FROM sqlite_master WHERE name = 'half'") == []
    store.close()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["keys"], "ACTION"),
        (["keys", "nonsense"], "nonsense"),
        (["keys", "create", "--budget", "-1"], "-1"),
        (["keys", "create", "--budget", "lots"], "lots"),
        (["keys", "create", "--name", "a\nb"], "printable"),
        (["keys", "revoke"], "PREFIX"),
        (["keys", "revoke", "00000000"], "00000000"),
        (["keys", "budget", "00000000", "5"], "00000000"),
        (["keys", "list", "--data", "/dev/null/x"], "/dev/null/x"),
        (["serve", "--scripted", "--port", "0", "--data", "/dev/null/x"], "/dev/null/x"),
        (["serve", "--scripted", "--active", "0"], "--active"),
        (["serve", "--scripted", "--starts", "-1"], "--starts"),
        (["serve", "--scripted", "--window", "x"], "--window"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], word: str, tmp_path: Path) -> None:
    assert word in one_line(run(*arguments, ACS_LOCAL_DATA=str(tmp_path)))


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database at all, " * 100)
    assert FILE in one_line(run("keys", "list", "--data", str(tmp_path)))


def test_without_a_place_to_write_the_server_still_serves(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, not a folder")
    with serving("--scripted", ACS_LOCAL_DATA="", XDG_DATA_HOME=str(tmp_path / "home")) as server:
        assert ask(server, server.key).status_code == 200
        until(lambda: len(server.log) == 1)
        assert "kept in memory" in server.log[0]


def test_a_chosen_key_keeps_its_usage_over_a_restart(tmp_path: Path) -> None:
    start = ("--scripted", "--data", str(tmp_path), "--key", "my-own-key", "--budget", "7")
    with serving(*start) as server:
        assert ask(server, server.key).json()["usage"]["total_tokens"] == 4
    with serving(*start) as server:
        answer = ask(server, server.key)
        assert answer.headers["x-acs-max-tokens-clamped"].startswith("requested=2,applied=1,")
    assert len({entry.key_id for entry in read_log(tmp_path)}) == 1


def test_health_tells_of_the_database(tmp_path: Path) -> None:
    with counter(tmp_path) as served:
        root = served.base.removesuffix("/v1")
        database = httpx.get(f"{root}/health").json()["wrapper"]["database"]
        assert database["ok"] is True
        assert database["latency_ms"] > 0
        served.desk.store.close()
        down = httpx.get(f"{root}/health")
        assert (down.status_code, down.json()["status"]) == (503, "down")
        assert down.json()["wrapper"]["database"] == {"ok": False, "latency_ms": None}
