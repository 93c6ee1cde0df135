"""A rollout against ``AsyncOpenAI`` with gather and a semaphore, and bare sockets; time, CPU and memory.

Run from the checkout: ``python -m tests.benchmarks.bench_rollout [ROUNDS]``. Each contender is a process of its own,
16 wide, in alternating order, against one server that answers every request 50 ms after it came
(``tests/support/prompt_server.py``, which costs next to nothing itself). CPU is that of the contender's process after
its imports and a few requests to warm up. Memory is the peak for 2,000 and for 20,000 requests without a delay.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

COUNT, WIDE, SECONDS, TOKENS = 2000, 16, 0.05, 16
FIELDS = {"max_tokens": TOKENS, "temperature": 0.7, "seed": 1}


def rollouts(base: str, count: int, name: str) -> None:
    from acs_jupyter import Client, rollout

    with tempfile.TemporaryDirectory() as folder, Client(base, "key", model="m") as client:
        prompts = (f"{name} {i}" for i in range(count))
        run = rollout(
            prompts,
            into=f"{folder}/run.acs.db",
            client=client,
            starts=0,
            in_flight=WIDE,
            progress=False,
            **FIELDS,
        )
        assert (run.stats.done, run.stats.tokens) == (count, count * (5 + TOKENS)), run


def openai(base: str, count: int, name: str) -> None:
    from openai import AsyncOpenAI

    async def run() -> None:
        gate = asyncio.Semaphore(WIDE)
        async with AsyncOpenAI(base_url=base, api_key="key") as client:

            async def one(number: int) -> str:
                async with gate:
                    answer = await client.completions.create(model="m", prompt=f"{name} {number}", **FIELDS)
                    return answer.choices[0].text

            texts = await asyncio.gather(*(one(i) for i in range(count)))
        assert texts == [" word" * TOKENS] * count

    asyncio.run(run())


def bare(base: str, count: int, name: str) -> None:
    """The floor: sockets that send the next request when an answer has ended, and look at nothing."""

    async def run() -> None:
        host, port = base.removeprefix("http://").removesuffix("/v1").split(":")
        numbers = iter(range(count))

        async def one() -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            for number in numbers:
                body = json.dumps({"prompt": f"{name} {number}", "stream": True}).encode()
                writer.write(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await reader.readuntil(b"\r\n0\r\n\r\n")
            writer.close()

        await asyncio.gather(*(one() for _ in range(WIDE)))

    asyncio.run(run())


CONTENDERS: dict[str, Callable[[str, int, str], None]] = {"bare": bare, "rollout": rollouts, "openai": openai}


def measured(base: str, name: str, count: int) -> dict[str, float]:
    """In this process: seconds, CPU seconds and peak memory of one contender."""
    work = CONTENDERS[name]
    work(base, 2 * WIDE, "warm")
    wall, cpu = time.perf_counter(), time.process_time()
    work(base, count, "prompt")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak}


def child(base: str, name: str, count: int = COUNT) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.bench_rollout", base, name, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def server(seconds: float) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.support.prompt_server", str(seconds), str(TOKENS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main(rounds: int = 3) -> None:
    ideal = COUNT / WIDE * SECONDS
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    with server(SECONDS) as base:
        for turn in range(rounds):
            for name in list(CONTENDERS)[:: 1 if turn % 2 else -1]:
                found[name].append(child(base, name))
    for name, rows in found.items():
        wall, cpu = (statistics.median(row[what] for row in rows) for what in ("wall", "cpu"))
        print(
            f"{name:8} {wall:.2f} s ({wall / ideal:.3f} of the ideal {ideal:.2f} s), CPU {cpu:.2f} s "
            f"({cpu / COUNT * 1000:.2f} ms a request)"
        )
    rows = list(zip(found["rollout"], found["openai"], found["bare"], strict=True))
    wall = statistics.median(ours["wall"] for ours, _, _ in rows)
    floor = statistics.median(ours["wall"] / least["wall"] for ours, _, least in rows)
    cpu = statistics.median(ours["cpu"] / theirs["cpu"] for ours, theirs, _ in rows)
    print(f"time against the ideal: {wall / ideal:.3f} (at most 1.05 on a quiet machine)")
    print(f"time against bare sockets: {floor:.3f}")
    print(f"CPU against openai: {cpu:.2f} (at most 0.33)")
    with server(0.0) as base:
        small, large = (child(base, "rollout", count)["peak"] for count in (2000, 20_000))
    print(
        f"peak memory: {small:.0f} MB for 2,000, {large:.0f} MB for 20,000: {large / small:.2f} times (about 1)"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measured(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    else:
        main(*map(int, sys.argv[1:]))
