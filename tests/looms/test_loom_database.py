"""basemode-loom's database: read as it is, never written, hostile ones refused in a line."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Loom
from acs_jupyter.errors import InvalidRequest
from acs_jupyter.looms.formats import basemode_db

TEXT = "A \u00e9\r\n <b>&amp;</b> [x] \U0001f600\x00 -- end"
SCHEMA = """
CREATE TABLE trees (id TEXT PRIMARY KEY, current_node_id TEXT, name TEXT, show_model_names INTEGER,
  rewind_split_tokens INTEGER, global_max_tokens INTEGER, global_n_branches INTEGER, model_plan_json TEXT,
  created_at TEXT, updated_at TEXT, metadata_json TEXT, archived INTEGER);
CREATE TABLE nodes (id TEXT PRIMARY KEY, tree_id TEXT, parent_id TEXT, kind TEXT, text TEXT, context_id TEXT,
  model TEXT, strategy TEXT, max_tokens INTEGER, temperature REAL, checked_out INTEGER, created_at TEXT,
  metadata_json TEXT);
CREATE TABLE app_settings (key TEXT, value TEXT);
PRAGMA user_version = 5;
"""
NODES: list[tuple[Any, ...]] = [
    ("b", "t1", "a", "text", " later", None, "m1", None, 20, 0.8, 0, "2026-01-01T00:00:03", '{"rating": 1.5}'),
    ("a", "t1", None, "text", TEXT, None, None, None, None, None, 1, "2026-01-01T00:00:01", "{}"),
    ("c", "t1", "a", "text", " sooner", None, "m1", None, 20, 0.8, 1, "2026-01-01T00:00:02", '{"bookmarked": true}'),
    ("x", "t1", None, "context", "about", None, None, None, None, None, 0, "2026-01-01T00:00:00",
     '{"auth_token": "hush-hush"}'),
    ("z", "t2", None, "text", "other tree", None, None, None, None, None, 0, "2026-01-02T00:00:00", "no json"),
]  # fmt: skip


def made(path: Path, nodes: list[tuple[Any, ...]] = NODES, *, wal: bool = False) -> sqlite3.Connection:
    """A database, still open."""
    db = sqlite3.connect(path)
    if wal:
        db.execute("PRAGMA journal_mode = WAL")
    db.executescript(SCHEMA)
    trees = [("t1", "c", "First", 0), ("t2", None, "sk-AAAABBBBCCCCDDDD", 1)]
    db.executemany("INSERT INTO trees (id, current_node_id, name, archived) VALUES (?, ?, ?, ?)", trees)
    db.executemany(f"INSERT INTO nodes VALUES ({', '.join('?' * 13)})", nodes)
    db.execute("INSERT INTO app_settings VALUES ('api_key', 'my-private-endpoint-key')")
    db.commit()
    return db


def test_it_is_read_to_the_byte_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "looms #1?.db"
    made(path).close()
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    loom = Loom.load(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(tmp_path.iterdir())) == before
    assert loom.roots == ["a", "z"]
    assert loom.text("a").encode() == TEXT.encode()
    assert (loom.children("a"), loom.last_child("a")) == (["c", "b"], "c")
    assert loom.marks("b")["rating"] == 1.5
    assert loom.marks("c")["bookmark"]
    assert loom.session.runs[loom.node("b").run].request["temperature"] == 0.8
    kept = b"".join(loom.session.lines()).decode()
    assert not any(secret in kept for secret in ("hush-hush", "my-private", "sk-AAAA"))
    assert any("2 trees" in note for note in loom.notes)
    assert any("context" in note for note in loom.notes)


def test_one_tree_by_its_name_and_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    made(path).close()
    loom = Loom.load(path, tree="First")
    assert (loom.roots, loom.session.arrangement.mark("", "title")) == (["a"], "First")
    assert Loom.load(path, form="basemode", tree="t2").text("z") == "other tree"
    for form in ("basemode", "ours", "jsonl"):
        loom.export(tmp_path / form, form)
        again = Loom.load(tmp_path / form)
        assert [again.text(n).encode() for n in again.nodes] == [loom.text(n).encode() for n in loom.nodes]
        assert again.children("a") == ["c", "b"]
    with pytest.raises(InvalidRequest, match="0 trees"):
        Loom.load(path, tree="nobody")
    with pytest.raises(InvalidRequest, match="no such option"):
        Loom.load(path, leaf="x")


def test_one_that_is_in_use_is_read_with_what_is_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    db = made(path, wal=True)
    try:
        assert path.with_name("a.db-wal").stat().st_size > 0
        assert Loom.load(path).text("c") == TEXT + " sooner"
        assert db.execute("SELECT count(*) FROM nodes").fetchone() == (5,)
    finally:
        db.close()


def changed(path: Path, script: str) -> None:
    db = made(path)
    db.executescript(script)
    db.commit()
    db.close()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i"


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("DROP TABLE nodes", "no table nodes"),
        ("DROP TABLE trees", "no table trees"),
        (f"DROP TABLE nodes; CREATE VIEW nodes AS {ENDLESS} AS id, i AS parent_id, i AS text FROM n", "no table nodes"),
        ("DROP TABLE nodes; CREATE VIRTUAL TABLE nodes USING fts5(id, parent_id, text)", "no table nodes"),
        ("ALTER TABLE nodes DROP COLUMN text", "no column text"),
        ("UPDATE nodes SET text = x'ff00' WHERE id = 'b'", "text of b"),
        ("UPDATE nodes SET text = CAST(x'ff' AS TEXT) WHERE id = 'b'", "can be read"),
        ("UPDATE nodes SET text = 7.5 WHERE id = 'b'", None),
        ("UPDATE nodes SET id = NULL WHERE id = 'b'", "needs an id"),
        ("UPDATE nodes SET parent_id = 'b' WHERE id = 'b'", None),
        ("UPDATE nodes SET parent_id = 'gone' WHERE id = 'b'", None),
        ("UPDATE nodes SET metadata_json = '" + "[" * 5000 + "', temperature = 'hot', max_tokens = 'many'", None),
        ("PRAGMA user_version = 9", None),
    ],
)  # fmt: skip
def test_a_hostile_one_is_one_line_or_the_right_tree(tmp_path: Path, script: str, line: str | None) -> None:
    path = tmp_path / "a.db"
    changed(path, script)
    if line is None:
        assert Loom.load(path).text("a") == TEXT
        return
    with pytest.raises(InvalidRequest, match=line) as told:
        Loom.load(path)
    assert "\n" not in str(told.value)


def test_broken_files_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    made(path).close()
    whole = path.read_bytes()
    for broken in (
        whole[:100],
        whole[:4096],
        basemode_db.MAGIC,
        whole[:4096] + b"\xff" * (len(whole) - 4096),
    ):
        path.write_bytes(broken)
        with pytest.raises(InvalidRequest) as told:
            Loom.load(path)
        assert "\n" not in str(told.value)


def test_a_deep_tree_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    deep = [
        (
            f"n{i}",
            "t1",
            f"n{i - 1}" if i else None,
            "text",
            f"{i} ",
            None,
            None,
            None,
            None,
            None,
            0,
            f"{i:09}",
            "{}",
        )
        for i in range(20_000)
    ]
    made(path, deep).close()
    assert Loom.load(path).text("n19999").endswith("19998 19999 ")


def test_a_query_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    many = [
        (f"n{i}", "t1", None, "text", "x", None, None, None, None, None, 0, "", "{}") for i in range(5000)
    ]
    made(path, many).close()
    monkeypatch.setattr(basemode_db, "_STEPS", 100)
    monkeypatch.setattr(basemode_db, "_MOST_STEPS", 10)
    with pytest.raises(InvalidRequest, match="interrupted"):
        Loom.load(path)
