"""The gateway against the same upstream asked directly, in alternating pairs; prints medians and ratios.

Run from the checkout: ``python -m tests.benchmarks.bench_gateway [PAIRS]``. Upstream (scripted) and gateway are
processes of their own; the client reads plain sockets, which costs next to nothing. Prints throughput of 16 streams
at once (paced as an engine would be, and as fast as the upstream can), the time to the first token, and the peak
memory of the gateway for JSON bodies of 5 and 50 MB. The first token is timed with 16 streams always under way, a new
one whenever one ends (the aim is for this), for one stream alone, and for 16 that start in one instant, where it
is the time to work off a queue.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.gateway import MODELS
from tests.support.player import END, Player, chunk, head
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAMS, RATE = 16, 100
MARK = b'"finish_reason"'


async def stream(server: Running, tokens: int, **fields: Any) -> list[float]:
    """Times of the frames of one stream, from the moment it was asked for."""
    body = {"prompt": "Hello", "max_tokens": tokens, "seed": 1, "stream": True, "logprobs": 5, **fields}
    data = json.dumps(body).encode()
    host, port = server.root.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    start = time.perf_counter()
    writer.write(
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.key}\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
        + data
    )
    stamps: list[float] = []
    rest = b""  # a mark may be cut in two by a read
    while part := await reader.read(65536):
        stamps += [time.perf_counter() - start] * (rest + part).count(MARK)
        rest = part[1 - len(MARK) :]
    writer.close()
    assert len(stamps) == tokens, len(stamps)
    return stamps


async def together(server: Running, tokens: int) -> tuple[float, float]:
    """Tokens a second of all streams, and the median time to a first token among them."""
    start = time.perf_counter()
    found = await asyncio.gather(*(stream(server, tokens) for _ in range(STREAMS)))
    return STREAMS * tokens / (time.perf_counter() - start), statistics.median(one[0] for one in found)


def pairs(direct: Running, front: Running, tokens: int, count: int) -> tuple[float, float, float, float]:
    """Medians: ratio of throughput, tokens a second direct, seconds to the first token direct and in front."""
    rows = []
    for number in range(count + 1):
        row = {}
        for server in (direct, front) if number % 2 else (front, direct):
            row[server.base] = asyncio.run(together(server, tokens))
        if number:  # the first pair warms up
            rows.append((row[direct.base], row[front.base]))
    return (
        statistics.median(there[0] / here[0] for here, there in rows),
        statistics.median(here[0] for here, _ in rows),
        statistics.median(here[1] for here, _ in rows),
        statistics.median(there[1] for _, there in rows),
    )


async def steady(server: Running, each: int) -> list[float]:
    """Seconds to the first token, 16 streams always under way, of lengths that keep their starts apart."""

    async def one_after_another(worker: int) -> list[float]:
        lengths = random.Random(worker)
        await asyncio.sleep(lengths.random() / 2)
        return [(await stream(server, lengths.randint(20, 80)))[0] for _ in range(each)]

    found = await asyncio.gather(*map(one_after_another, range(STREAMS)))
    return [stamp for worker in found for stamp in worker]


def under_way(direct: Running, front: Running, count: int) -> tuple[float, float]:
    """Median seconds to the first token with 16 streams under way, direct and in front, in turns."""
    found: dict[str, list[float]] = {direct.base: [], front.base: []}
    for _ in range(count):
        for server in (direct, front):
            found[server.base] += asyncio.run(steady(server, 10))
    return statistics.median(found[direct.base]), statistics.median(found[front.base])


def first_tokens(direct: Running, front: Running, count: int) -> tuple[float, float]:
    """Median seconds to the first token, one stream at a time."""
    found: dict[str, list[float]] = {direct.base: [], front.base: []}
    for _ in range(count):
        for server in (direct, front):
            found[server.base].append(asyncio.run(stream(server, 1))[0])
    return statistics.median(found[direct.base]), statistics.median(found[front.base])


def pieces(size: int) -> Iterator[bytes]:
    """A JSON body of ``size`` bytes in parts, like one with the whole vocabulary."""
    entry = b'"12345":{"logprob":-12.345678,"rank":12345,"decoded_token":" word"},' * 900
    yield b'{"choices":[{"prompt_logprobs":[null,{'
    for _ in range(size // len(entry)):
        yield entry
    yield b'"0":{}}]}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}'


def peak(pid: int) -> float:
    """Largest resident size of a process since it was last asked, in MB; then counting starts anew."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return found / 1024


async def fetch(server: Running, encoding: str, pause: float) -> int:
    """Read one JSON body; ``pause`` seconds after every 64 KB make a slow client."""
    data = b'{"prompt":"x","max_tokens":1}'
    host, port = server.root.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=65536)
    writer.write(
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.key}\r\n"
        f"Accept-Encoding: {encoding}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
        + data
    )
    size = 0
    while part := await reader.read(65536):
        size += len(part)
        if pause:
            await asyncio.sleep(pause)
    writer.close()
    return size


def memory() -> None:
    """Peak memory of the gateway for a small and a large body."""
    for megabytes, encoding, pause in (
        (5, "identity", 0.0), (50, "identity", 0.0), (50, "identity", 0.002), (5, "gzip", 0.0), (50, "gzip", 0.0),
    ):  # fmt: skip
        answer = [head(), *(chunk(part) for part in pieces(megabytes * 10**6)), END]
        with (
            Player([answer], {"/v1/models": MODELS}) as upstream,
            serving("--upstream", upstream.base) as front,
        ):
            asyncio.run(fetch(front, encoding, 0.0) if megabytes == 5 else asyncio.sleep(0))
            peak(front.process.pid)
            before = peak(front.process.pid)
            start = time.perf_counter()
            size = asyncio.run(fetch(front, encoding, pause))
            took = time.perf_counter() - start
            print(
                f"{megabytes:3} MB {encoding:8} {'slow' if pause else 'fast'} client: {size / 1e6:6.1f} MB sent in "
                f"{took:5.2f} s; resident before {before:5.1f} MB, peak {peak(front.process.pid):5.1f} MB"
            )


def main(count: int = 5) -> None:
    """Print everything."""
    for rate in (RATE, 0):
        with serving("--scripted", "--rate", str(rate), "--starts", "0") as direct:
            arguments = ["--upstream", direct.base, "--upstream-key-env", "KEY_ABOVE", "--starts", "0"]
            with serving(*arguments, KEY_ABOVE=direct.key) as front:
                ratio, speed, here, there = pairs(direct, front, 500 if rate else 3000, count)
                pace = f"{rate} tokens/s a stream" if rate else "as fast as it goes"
                print(
                    f"{STREAMS} streams, {pace}: {speed:.0f} tokens/s direct, ratio {ratio:.3f} (aim 0.95); first "
                    f"token of 16 that start in one instant {here * 1e3:.1f} ms direct, {there * 1e3:.1f} ms through"
                )
                if rate:
                    here, there = under_way(direct, front, count)
                    print(
                        f"{STREAMS} streams under way: first token {here * 1e3:.2f} ms direct, "
                        f"{there * 1e3:.2f} ms through, {(there - here) * 1e3:+.2f} ms (aim 5)"
                    )
                else:
                    here, there = first_tokens(direct, front, 100)
                    print(
                        f"one stream: first token {here * 1e3:.2f} ms direct, {there * 1e3:.2f} ms through, "
                        f"{(there - here) * 1e3:+.2f} ms (aim 5)"
                    )
    memory()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
