"""Scoring many short texts against a server at a steady pace: what is added to the server's own time.

Run from the checkout: ``python -m tests.benchmarks.bench_score [TEXTS] [MILLISECONDS A TEXT] [ROUNDS]``; 10,000 texts
of some nine tokens, 0.6 ms each (1,700 texts or 15,000 tokens a second), three rounds. The server works on one text at
a time (``tests/support/score_server.py``), so the floor is known: bare sockets that send the same bodies and look at
nothing, 4 wide in batches of 64 for ``score``, 16 wide with one text each for ``perplexity(into=...)``. All are
processes of their own, in alternating order. CPU is that of the contender alone.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BATCH, MODEL = 64, "m"
WORDS = [
    "the",
    "old",
    "keeper",
    "climbed",
    "slowly",
    "to",
    "her",
    "lamp",
    "and",
    "wrote",
    "what",
    "was",
    "said",
]


def texts_of(count: int) -> list[str]:
    return [f"Text {i}: " + " ".join(WORDS[(i + j) % len(WORDS)] for j in range(7)) for i in range(count)]


def scores(base: str, texts: list[str]) -> None:
    from acs_jupyter import Client, score

    with Client(base, "key", model=MODEL) as client:
        found = score(texts, client=client, batch=BATCH)
    assert [one.text for one in found] == texts


def documents(base: str, texts: list[str]) -> None:
    from acs_jupyter import Client, perplexity

    with tempfile.TemporaryDirectory() as folder, Client(base, "key", model=MODEL) as client:
        frame = perplexity(texts, into=f"{folder}/x.acs.db", client=client, starts=0, progress=False)
    assert frame["error"].isna().all()
    assert len(frame) == len(texts)


def bare(base: str, prompts: list[object], wide: int) -> None:
    """The floor: sockets that send the next body when an answer has ended, and look at nothing."""
    host, port = base.removeprefix("http://").removesuffix("/v1").split(":")
    fields = {"model": MODEL, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "stream": False}
    left = iter([json.dumps({"prompt": prompt, **fields}).encode() for prompt in prompts])
    turn = threading.Lock()

    def one() -> None:
        with socket.create_connection((host, int(port))) as line:
            while True:
                with turn:
                    body = next(left, None)
                if body is None:
                    return
                line.sendall(
                    b"POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body
                )
                _read(line)

    threads = [threading.Thread(target=one) for _ in range(wide)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _read(line: socket.socket) -> None:
    data = line.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.rpartition(b"content-length: ")[2].split(b"\r\n")[0])
    left = size - len(body)
    while left > 0:
        left -= len(line.recv(1 << 18))


def in_batches(texts: list[str]) -> list[object]:
    return [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]


CONTENDERS: dict[str, Callable[[str, list[str]], None]] = {
    "bare batches": lambda base, texts: bare(base, in_batches(texts), 4),
    "score": scores,
    "bare singles": lambda base, texts: bare(base, list(texts), 16),
    "perplexity(into)": documents,
}


def measured(base: str, name: str, count: int) -> dict[str, float]:
    """In this process: seconds and CPU seconds of one contender, after a few texts to warm up."""
    work = CONTENDERS[name]
    work(base, texts_of(2 * BATCH))
    wall, cpu = time.perf_counter(), time.process_time()
    work(base, texts_of(count))
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def child(base: str, name: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.bench_score", base, name, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def server(seconds: float) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.support.score_server", str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main(count: int = 10_000, milliseconds: float = 0.6, rounds: int = 3) -> dict[str, float]:
    """Print the table; returns the overheads, as parts of the floor's time."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    with server(milliseconds / 1000) as base:
        for turn in range(rounds):
            for name in list(CONTENDERS)[:: 1 if turn % 2 else -1]:
                found[name].append(child(base, name, count))
    for name, rows in found.items():
        wall, cpu = (statistics.median(row[what] for row in rows) for what in ("wall", "cpu"))
        print(
            f"{name:17} {wall:6.2f} s for {count:,} texts ({milliseconds * count / 1000:.2f} s are the server's), "
            f"CPU {cpu / count * 1e6:4.0f} µs a text"
        )
    overheads = {}
    for name, floor in (("score", "bare batches"), ("perplexity(into)", "bare singles")):
        pairs = zip(found[name], found[floor], strict=True)
        overheads[name] = statistics.median(ours["wall"] / least["wall"] for ours, least in pairs) - 1
        print(f"{name}: {overheads[name]:+.1%} over the server (at most 5 %)")
    return overheads


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("http"):
        print(json.dumps(measured(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    else:
        numbers = sys.argv[1:]
        main(*(int(n) if i != 1 else float(n) for i, n in enumerate(numbers)))
