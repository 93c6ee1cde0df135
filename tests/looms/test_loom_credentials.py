"""No credential comes through an import into a file of ours, each that was dropped is said, and no text is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import Loom
from acs_jupyter.looms.formats import credentials

SHAPED = "sk-" + "abcdefghijklmnopqrstuvwxyz123456"
PLAIN = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
GOOGLE = "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"


def mikupad(**fields: Any) -> dict[str, Any]:
    return {"prompt": json.dumps("x"), **{name: json.dumps(value) for name, value in fields.items()}}


def socketteer(**fields: Any) -> dict[str, Any]:
    return {"root": {"id": "a", "text": "x", "children": [], **fields}}


CASES: dict[str, Any] = {
    "who logs in": mikupad(endpointAPI=f"https://me:{PLAIN}@host/v1"),
    "only a token before @": mikupad(endpointAPI=f"https://{PLAIN}@host/v1"),
    "?key=": mikupad(endpointAPI=f"https://host/v1?a=1&key={PLAIN}"),
    "?api_key=": mikupad(endpointAPI=f"https://host/v1?api_key={PLAIN}"),
    "JSON in JSON": {"prompt": json.dumps("x"), "presets": json.dumps(json.dumps({"apiKey": PLAIN}))},
    "a pair of fields": mikupad(headers=[{"name": "Authorization", "value": PLAIN}]),
    "a pair in a list": mikupad(headers=[["X-Api-Key", PLAIN]]),
    "a header in a text": mikupad(headers=f"Authorization: {PLAIN}"),
    "a header that is a list": mikupad(headers=[["Authorization", f"Basic {PLAIN}"]]),
    "a key as a name": mikupad(foo={SHAPED: 1}),
    "the title": mikupad(name=SHAPED),
    "the model": mikupad(endpointModel=SHAPED),
    "Google's shape": mikupad(foo=GOOGLE),
    "tags": socketteer(tags=[SHAPED]),
    "notes": socketteer(notes=[f"my key: {SHAPED}"]),
    "basemode": {
        "version": 1,
        "nodes": [{"id": "a", "text": "x", "metadata": {"headers": {"Cookie": PLAIN}}}],
    },
    "service": {
        "version": 1,
        "loom": {"title": SHAPED},
        "nodes": [{"id": "a", "text": "x", "model": SHAPED}],
    },
    **{
        name: mikupad(**{name: PLAIN})
        for name in (
            "hfToken",
            "token",
            "key",
            "cookie",
            "private_key",
            "pwd",
            "API  KEY",
            "api__key",
            "auth",
            "xKey",
        )
    },
}


@pytest.mark.parametrize("data", CASES.values(), ids=CASES.keys())
def test_it_is_dropped_and_said(data: Any, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(json.dumps(data))
    loom = Loom.load(tmp_path / "in")
    loom.export(tmp_path / "out", "ours")
    kept = (tmp_path / "out").read_text()
    assert not [secret for secret in (SHAPED, PLAIN, GOOGLE) if secret in kept]
    assert any("credential" in line.lower() for line in loom.notes)
    assert not [line for line in loom.notes if SHAPED in line or PLAIN in line]


def test_texts_stay_to_the_byte_and_are_counted(tmp_path: Path) -> None:
    text = f"Authorization: Bearer {SHAPED}"
    (tmp_path / "in").write_text(json.dumps({"root": {"id": "a", "text": text, "children": [{"text": "y"}]}}))
    loom = Loom.load(tmp_path / "in")
    assert loom.text("a") == text
    assert loom.notes == [
        "1 text or id looks as if it held a credential; they are kept as they came: look before you share this."
    ]


def test_settings_that_are_none_stay() -> None:
    fields: dict[str, Any] = {
        "max_tokens": 100, "eosToken": "<|endoftext|>1", "token": 50256, "sortKey": "name2", "author": "somebody1",
        "key": "temperature", "url": "https://host/v1?model=a1b2c3d4e5&n=1", "keyboard": "qwerty12345", "passw": False,
        "text": "a token: of 12 words, the key = 3",
    }  # fmt: skip
    from acs_jupyter.looms.formats.values import scrubbed  # beside what it is about

    notes: list[str] = []
    assert scrubbed(fields, notes) == fields
    assert notes == []
    assert credentials.named("endpointAPIKey")
    assert not credentials.named("monkey")


def test_a_file_of_our_own_with_a_key_in_a_request(tmp_path: Path) -> None:
    path = tmp_path / "a.loom"
    Loom("text").export(path)
    given = f'"prompt":"","api_key":"{PLAIN}"'.encode()
    path.write_bytes(path.read_bytes().replace(b'"prompt":""', given))
    assert PLAIN.encode() in path.read_bytes()
    loom = Loom.load(path)
    loom.export(tmp_path / "b.loom")
    assert PLAIN.encode() not in (tmp_path / "b.loom").read_bytes()
    assert loom.text(loom.roots[0]) == "text"
    assert loom.notes == ["A credential in api_key was dropped."]
    with Loom.open(path) as again:
        assert again.notes == ["A credential in api_key stands in the file: do not share it."]
