"""Tokens a second through the server against the engine's own, in alternating pairs; prints the median ratio.

Run from the checkout: ``python -m tests.benchmarks.bench_engine [PAIRS]``. The engine's own speed is taken in
this process with the same file, threads and slots, asked for the same 200 tokens with 5 alternatives; the
server's in a process of its own over HTTP. Only one of the two works at a time.
Also prints load time, time until a left stream frees its slot, and the scripted engine's speed.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from acs_jupyter.local.fetch import cached_model
from acs_jupyter.local.llama import LlamaEngine
from acs_jupyter.local.llama_wire import ask
from tests.support.servers import Running, serving

TOKENS = 200
IDS = [504, 3575, 282, 4649, 314]
FIELDS: dict[str, Any] = {"temperature": 0.0, "seed": 1, "top_k": 1, "samplers": ["top_k"]}


def rate_of(stamps: list[float]) -> float:
    """Tokens a second between the first and the last token."""
    return (len(stamps) - 1) / (stamps[-1] - stamps[0])


def engine_rate(engine: LlamaEngine) -> float:
    """The engine alone: chunks are taken as they come and not read."""
    stamps: list[float] = []
    engine.stream(
        ask(IDS, TOKENS, 5, ignore_eos=True, **FIELDS),
        lambda raw: stamps.append(time.perf_counter()) if '"logprobs":{' in raw else None,
    )
    return rate_of(stamps)


def server_rate(server: Running, **fields: Any) -> float:
    """The server: time stamps of content frames at a plain socket, which costs next to nothing to read."""
    body = {"prompt": IDS, "max_tokens": TOKENS, "temperature": 0, "logprobs": 5, "stream": True, **fields}
    data = json.dumps(body).encode()
    host, port = server.root.removeprefix("http://").split(":")
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.key}\r\n"
    stamps: list[float] = []
    with socket.create_connection((host, int(port))) as line:
        line.sendall(f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
        while part := line.recv(65536):
            stamps += [time.perf_counter()] * part.count(b'"finish_reason"')
    return rate_of(stamps)


def cancel_seconds(client: httpx.Client, server: Running) -> float:
    """From closing a stream until the server says that nothing is generated."""

    def busy() -> int:
        count: int = client.get(f"{server.root}/health").json()["backends"][0]["active_choices"]
        return count

    body = {"prompt": IDS, "max_tokens": 1500, "temperature": 0, "logprobs": 5, "stream": True}
    with client.stream("POST", "completions", json=body) as answer:
        parts = answer.iter_raw()
        for _ in range(10):
            next(parts)
        assert busy() == 1
    start = time.perf_counter()
    while busy():
        pass
    return time.perf_counter() - start


def main(pairs: int = 7) -> None:
    """Measure and print."""
    given = os.environ.get("ACS_GGUF")
    path = Path(given) if given else cached_model(print)
    start = time.perf_counter()
    engine = LlamaEngine(path)
    print(f"load: {time.perf_counter() - start:.2f} s")
    with serving() as server, httpx.Client(base_url=server.base, headers=server.auth, timeout=120) as client:
        engine_rate(engine), server_rate(server)
        found = [(engine_rate(engine), server_rate(server)) for _ in range(pairs)]
        own, ours = (statistics.median(column) for column in zip(*found, strict=True))
        ratio = statistics.median(b / a for a, b in found)
        print(f"engine {own:.1f} tok/s, server {ours:.1f} tok/s, median ratio {ratio:.3f} of {pairs} pairs")
        waits = sorted(cancel_seconds(client, server) for _ in range(9))
        print(f"cancel: median {waits[4] * 1000:.1f} ms, worst {waits[-1] * 1000:.1f} ms of 9")
    with serving("--scripted") as server, httpx.Client(base_url=server.base, headers=server.auth) as client:
        rates = [scripted_rate(client) for _ in range(3)]
        print(f"scripted: {statistics.median(rates):.0f} tok/s (20,000 tokens, 5 alternatives)")
        body = {"prompt": "#scripted rate=1000\n", "max_tokens": 3000, "logprobs": 5, "stream": True}
        begun = time.perf_counter()
        content = client.post("completions", json=body).text
        print(
            f"paced at 1000 tok/s: {content.count('finish_reason') / (time.perf_counter() - begun):.1f} tok/s"
        )
        assert json.loads(content.split("\n\n")[0].removeprefix("data: "))["choices"]


def scripted_rate(client: httpx.Client) -> float:
    """Tokens a second of the scripted engine at full speed, whole request."""
    body = {"prompt": "x", "max_tokens": 20_000, "logprobs": 5, "stream": True}
    start = time.perf_counter()
    count = client.post("completions", json=body).content.count(b'"finish_reason"')
    assert count == 20_000
    return count / (time.perf_counter() - start)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
