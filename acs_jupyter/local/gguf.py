"""Reads the head of a GGUF file: metadata and vocabulary, never a weight.

Owns the file format's head. It must not know engines or HTTP.
Format: magic, version, counts, then key / type / value triples; arrays carry their element type and length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_CONTROL = 3


class NotGguf(ValueError):
    """The file is not a GGUF model."""


@dataclass(frozen=True)
class Head:
    """What the server needs to know about a model file."""

    pieces: list[bytes]
    special: frozenset[int]
    texts: list[str]
    eos: int | None
    context_length: int | None
    layers: int | None

    def document_start(self) -> int | None:
        """The token that separates documents in training: where text starts from nothing."""
        return self.texts.index("<|endoftext|>") if "<|endoftext|>" in self.texts else self.eos


def read_head(path: Path) -> Head:
    """Metadata and vocabulary of the model at ``path``; raises :class:`NotGguf` or ``OSError``."""
    with path.open("rb") as file:
        try:
            meta = _metadata(file)
            return _head(meta)
        except (struct.error, KeyError, UnicodeDecodeError, OverflowError, MemoryError) as problem:
            raise NotGguf(f"{path.name} is damaged or not a GGUF model ({type(problem).__name__}).") from None


def _metadata(file: BinaryIO) -> dict[str, Any]:
    if file.read(4) != b"GGUF":
        raise NotGguf(f"{Path(file.name).name} does not begin with GGUF.")
    _version, _tensors, count = struct.unpack("<IQQ", file.read(20))
    meta: dict[str, Any] = {}
    for _ in range(count):
        key = _string(file).decode("utf-8")
        meta[key] = _value(file, _scalar(file, "<I"))
    return meta


def _head(meta: dict[str, Any]) -> Head:
    texts = [raw.decode("utf-8", "replace") for raw in meta["tokenizer.ggml.tokens"]]
    kinds = meta.get("tokenizer.ggml.token_type") or [1] * len(texts)
    special = frozenset(i for i, kind in enumerate(kinds) if kind == _CONTROL)
    decode = _byte_level if meta.get("tokenizer.ggml.model") == b"gpt2" else _sentencepiece
    pieces = [text.encode() if i in special else decode(text) for i, text in enumerate(texts)]
    family = meta["general.architecture"].decode()
    return Head(
        pieces=pieces,
        special=special,
        texts=texts,
        eos=meta.get("tokenizer.ggml.eos_token_id"),
        context_length=meta.get(f"{family}.context_length"),
        layers=meta.get(f"{family}.block_count"),
    )


def _byte_table() -> dict[str, int]:
    # The byte-level alphabet: printable bytes stand for themselves, the others are shifted past U+0100.
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in plain}
    others = [byte for byte in range(256) if byte not in set(plain)]
    return table | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_table()


def _byte_level(text: str) -> bytes:
    try:
        return bytes(_BYTES[char] for char in text)
    except KeyError:
        return text.encode("utf-8")


def _sentencepiece(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace("▁", " ").encode("utf-8")


def _scalar(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _string(file: BinaryIO) -> bytes:
    length = _scalar(file, "<Q")
    data = file.read(length)
    if len(data) != length:
        raise struct.error("short read")
    return data


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _scalar(file, _SCALARS[kind])
    inner, length = _scalar(file, "<I"), _scalar(file, "<Q")
    if inner in (_STRING, _ARRAY):
        return [_value(file, inner) for _ in range(length)]
    form = _SCALARS[inner]
    data = file.read(struct.calcsize(form) * length)
    return [item for (item,) in struct.iter_unpack(form, data)]
