"""Chunks per CPU second, socket to tokens, against openai-python and against a bare loop.

A recorded stream with five alternatives a token, repeated to 19,200 chunks, is served by another process. Three
clients read it in turn, several times:

- ours: ``Client.drive`` into a ``Session`` (tokens, logprobs, alternatives, usage, log);
- openai: ``openai.OpenAI().completions.create(stream=True)``, collecting the same three per token;
- bare: ``httpx`` lines and a typed msgspec decoder, collecting the same three per token.

Prints the medians and the two ratios. Run: ``python -m tests.benchmarks.bench_decode``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import openai

from acs_jupyter import Client, Session, wire

RECORDED = Path(__file__).parent.parent / "data" / "wire" / "stream_continuous_logprobs_5.response.sse"
REPEATS = 300
ROUNDS = 7

SERVER = """
import asyncio, sys
body = sys.stdin.buffer.read()
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\\r\\n")[0])
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n")
            writer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body))
            writer.write(body)
            await writer.drain()
    except asyncio.IncompleteReadError:
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def recording() -> bytes:
    frames = [
        f for f in RECORDED.read_bytes().split(b"\n\n") if f.startswith(b"data: {") and b'"choices":[{' in f
    ]
    unfinished = [f for f in frames if b'"finish_reason":null' in f]
    frames = (unfinished * (REPEATS + 5))[: len(frames) * REPEATS]
    return b"\n\n".join([*frames, b"data: [DONE]", b""])


def ours(base: str) -> int:
    session = Session()
    with Client(base, "acs-bm-benchmark") as client:
        exchange = client.exchange(client.request("x", model="m", max_tokens=32_000, stream=True, logprobs=5))
        for _ in client.drive(exchange, session.apply):
            pass
    return len(session.nodes[session.runs[exchange.run].nodes[0]].tokens)


def theirs(base: str) -> int:
    tokens: list[object] = []
    with openai.OpenAI(base_url=base, api_key="x") as client:
        chunks = client.completions.create(model="m", prompt="x", max_tokens=32_000, stream=True, logprobs=5)
        for chunk in chunks:
            for choice in chunk.choices:
                known = choice.logprobs
                assert known is not None
                assert known.token_logprobs is not None
                assert known.top_logprobs is not None
                tokens.append((choice.text, known.token_logprobs[0], known.top_logprobs[0]))
    return len(tokens)


def bare(base: str) -> int:
    tokens: list[object] = []
    body = {"model": "m", "prompt": "x", "max_tokens": 32_000, "stream": True, "logprobs": 5}
    with httpx.Client() as client, client.stream("POST", f"{base}/completions", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                for choice in wire.decode_answer(line[6:]).choices or ():
                    known = choice.logprobs
                    assert known is not None
                    assert known.top_logprobs is not None
                    tokens.append((choice.text, known.token_logprobs[0], known.top_logprobs[0]))
    return len(tokens)


def speed(read: Callable[[str], int], base: str, chunks: int) -> float:
    began = time.process_time()
    count = read(base)
    spent = time.process_time() - began
    assert count == chunks, (read.__name__, count, chunks)
    return chunks / spent


def main() -> None:
    body = recording()
    chunks = body.count(b"data: {")
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write(body)
        server.stdin.close()
        base = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        speeds: dict[str, list[float]] = {"ours": [], "openai": [], "bare": []}
        for _ in range(ROUNDS):
            for name, read in (("ours", ours), ("openai", theirs), ("bare", bare)):
                speeds[name].append(speed(read, base, chunks))
        server.kill()
    for name, values in speeds.items():
        low, mid, high = min(values), statistics.median(values), max(values)
        print(
            f"{name:>7}: {mid:>8,.0f} chunks per CPU second (median of {ROUNDS}; {low:,.0f} to {high:,.0f})"
        )
    pairs = {n: [a / b for a, b in zip(speeds["ours"], speeds[n], strict=True)] for n in ("openai", "bare")}
    print(f"ours / openai: {statistics.median(pairs['openai']):.2f} (at least 6)")
    print(f"ours / bare:   {statistics.median(pairs['bare']):.2f} (at least 0.8)")


if __name__ == "__main__":
    main()
