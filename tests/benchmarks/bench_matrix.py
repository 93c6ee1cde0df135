"""A full-vocabulary answer to a float32 matrix: this package against ``json`` and a typed msgspec decode.

Run from the checkout: ``python -m tests.benchmarks.bench_matrix``. The body (8 positions x 49,152 tokens, about 30 MB)
is made here in vLLM's form. Times are CPU seconds, medians of alternating rounds. Memory is the peak of resident
memory of a process of its own, which gets the body through a pipe, above what it had before; a small body was read
there first, so that libraries are loaded. The result is the matrix and the vocabulary's texts (about half of the matrix
of 8 positions, and the same for any number); what is counted is all of it, as a multiple of the matrix, and then
without the texts and with them on both sides.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from acs_jupyter.scores.matrix_reader import MatrixReader
from tests.benchmarks.bench_gateway import peak as peak_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 49_152
ROUNDS = 7
NETWORK = 65_536


def pieces(positions: int, width: int = SIZE) -> Iterator[bytes]:
    """A body in parts, one a position; texts and values are like those of a small model."""
    random = np.random.default_rng(0)
    words = [json.dumps(f" token{i}" if i % 9 else f"\"{i}'") for i in range(width)]
    yield b'{"id":"cmpl-1","model":"m","choices":[{"index":0,"text":"x","prompt_logprobs":[null'
    for _ in range(positions):
        values = random.normal(size=width) * 4
        logprobs = (values - np.log(np.exp(values).sum())).astype(np.float32)
        order = np.argsort(-logprobs).tolist()
        entries = (
            f'"{token}":{{"logprob":{float(logprobs[token])!r},"rank":{rank},"decoded_token":{words[token]}}}'
            for rank, token in enumerate(order, 1)
        )
        yield (",{" + ",".join(entries) + "}").encode()
    yield b'],"finish_reason":"length"}],"usage":{"prompt_tokens":9,"total_tokens":10,"completion_tokens":1}}'


class Entry(msgspec.Struct, gc=False):
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


class Choice(msgspec.Struct, gc=False):
    prompt_logprobs: list[dict[int, Entry] | None]


class Body(msgspec.Struct, gc=False):
    choices: list[Choice]


typed_decode = msgspec.json.Decoder(Body).decode


def ours(data: bytes) -> Any:
    reader = MatrixReader()
    for start in range(0, len(data), NETWORK):
        reader.feed(data[start : start + NETWORK])
    reader.end()
    return reader.matrices[0].logprobs


def standard(data: bytes) -> Any:
    rows = json.loads(data)["choices"][0]["prompt_logprobs"][1:]
    matrix = np.full((len(rows), SIZE), np.nan, np.float32)
    for row, entries in zip(matrix, rows, strict=True):
        for token, entry in entries.items():
            row[int(token)] = entry["logprob"]
    return matrix


def typed(data: bytes) -> Any:
    rows = typed_decode(data).choices[0].prompt_logprobs[1:]
    matrix = np.full((len(rows), SIZE), np.nan, np.float32)
    for row, entries in zip(matrix, rows, strict=True):
        assert entries is not None
        ids = np.fromiter(entries, np.int64, len(entries))
        row[ids] = np.fromiter((entry.logprob for entry in entries.values()), np.float64, len(entries))
    return matrix


def speed(data: bytes) -> None:
    """Print megabytes a CPU second and ratios."""
    ways: tuple[Callable[[bytes], Any], ...] = (ours, standard, typed)
    times: dict[str, list[float]] = {way.__name__: [] for way in ways}
    expected = standard(data)
    for _ in range(ROUNDS):
        for way in ways:
            start = time.process_time()
            found = way(data)
            times[way.__name__].append(time.process_time() - start)
            assert (found == expected).all()
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    for name, taken in medians.items():
        print(
            f"{name:9} {len(data) / 1e6 / taken:6.0f} MB/s, ours is {taken / medians['ours']:.2f} times as fast"
        )
    print("aims: 6 times the standard json, 1.5 times a typed msgspec decode")


def memory(positions: int) -> None:
    """Read a body from standard input and print the peak of this process."""
    warm = MatrixReader()
    warm.feed(b"".join(pieces(1, 500)))
    warm.end()
    size, reader = 0, MatrixReader()
    peak_of(os.getpid())
    before = peak_of(os.getpid())
    while part := sys.stdin.buffer.read(NETWORK):
        size += len(part)
        reader.feed(part)
    reader.end()
    [matrix] = reader.matrices
    peak = peak_of(os.getpid()) - before
    held = matrix.logprobs.nbytes / 2**20
    words = matrix.vocabulary
    texts = (len(words.blob) + words.starts.nbytes + words.lengths.nbytes) / 2**20
    print(
        f"{size / 1e6:5.0f} MB, {positions} positions: matrix {held:.1f} MiB, texts {texts:.2f} MiB, peak "
        f"{peak:.2f} MiB more than before: {peak / held:.2f} of the matrix; without texts {(peak - texts) / held:.2f} "
        f"(aim 1.3), of both {peak / (held + texts):.2f}"
    )


def main() -> None:
    """Print everything."""
    speed(b"".join(pieces(8)))
    own = [sys.executable, "-m", "tests.benchmarks.bench_matrix"]
    for positions in (8, 32, 144):
        with subprocess.Popen([*own, "make", str(positions)], stdout=subprocess.PIPE) as maker:
            subprocess.run([*own, "read", str(positions)], stdin=maker.stdout, check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        for piece in pieces(int(sys.argv[2])):
            sys.stdout.buffer.write(piece)
    elif sys.argv[1:2] == ["read"]:
        memory(int(sys.argv[2]))
    else:
        main()
