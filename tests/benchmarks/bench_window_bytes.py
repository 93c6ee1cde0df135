"""Bytes from kernel to browser for one live completion: ``python -m tests.benchmarks.bench_window_bytes``.

1,000 tokens with five alternatives each, at two speeds. Counted: every comm message of the widget and its
layout as the kernel serialises it (header, parent header, metadata, content, buffers), the bundle included.
The budget is 400 KB in all.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from typing import Any, ClassVar

import comm
from comm.base_comm import BaseComm
from jupyter_client.session import Session as Wire

from acs_jupyter.log import events as ev
from acs_jupyter.log.session import Session
from acs_jupyter.wire import CompletionRequest

BUDGET = 400_000
WORDS = [
    f"{a}{b}"
    for a in ["the", "light", "keeper", "tide", "salt", "glass", "north"]
    for b in ("", "s", "ed", "ing", "er")
]


class CountingComm(BaseComm):
    """A comm that weighs what it would send."""

    wire = Wire(key=b"")
    parent = wire.msg("execute_request", {"code": ""})["header"]
    sizes: ClassVar[Counter[str]] = Counter()
    messages: ClassVar[Counter[str]] = Counter()

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
    ) -> None:
        content = {"data": data or {}, "comm_id": self.comm_id, **keys}
        message = self.wire.msg(msg_type, content, parent=self.parent, metadata=metadata or {})
        parts = self.wire.serialize(message)[2:] + list(
            buffers or []
        )  # without routing delimiter and signature
        kind = _kind(msg_type, data or {})
        self.sizes[kind] += sum(len(bytes(part)) for part in parts)
        self.messages[kind] += 1


def _kind(msg_type: str, data: dict[str, Any]) -> str:
    if msg_type == "comm_open":
        return "bundle and state" if "_esm" in data.get("state", {}) else "layout"
    return {"custom": "deltas", "update": "snapshot"}.get(data.get("method", ""), msg_type)


def made(count: int) -> list[tuple[str, float, dict[str, float]]]:
    """Tokens as a base model gives them: full-precision logprobs, varied words."""
    rng = random.Random(5)
    found = []
    for _ in range(count):
        token = " " + rng.choice(WORDS)
        logprob = -rng.expovariate(0.5)
        top = {token: logprob}
        while len(top) < 6:
            top[" " + rng.choice(WORDS)] = math.log(rng.random() * 0.4 + 1e-9)
        found.append((token, logprob, top))
    return found


def run(count: int, rate: float) -> tuple[Counter[str], Counter[str]]:
    """One completion; bytes and messages by kind."""
    from acs_jupyter.widgets.live import LiveCell

    CountingComm.sizes, CountingComm.messages = Counter(), Counter()
    session = Session()
    window = LiveCell(session, ["r"])
    request = CompletionRequest(
        prompt="Once upon a time", model="m", max_tokens=count, logprobs=5, stream=True
    )
    session.apply([*ev.opening("r", request), ev.Served("r", "m", "cmpl-1")])
    begin = time.monotonic()
    for i, (token, logprob, top) in enumerate(made(count)):
        time.sleep(max(0.0, begin + i / rate - time.monotonic()))
        session.apply(
            [
                ev.TokensArrived("r.0", token, (token,), (logprob,), (top,)),
                ev.Spent("r", 4, i + 1, "continuous"),
            ]
        )
    session.apply([ev.Finished("r.0", "length"), ev.Spent("r", 4, count), ev.RunClosed("r", "done")])
    sizes, messages = CountingComm.sizes, CountingComm.messages
    window.close()
    return sizes, messages


def main() -> None:
    """Print the figures; fails over the budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1000)
    options = parser.parse_args()
    comm.create_comm = CountingComm
    for rate in (1000.0, 100.0):
        sizes, messages = run(options.tokens, rate)
        total = sum(sizes.values())
        print(f"{options.tokens} tokens at {rate:.0f}/s: {total / 1000:.1f} KB")
        for kind, size in sizes.items():
            print(f"  {kind:18} {messages[kind]:4} messages {size / 1000:8.1f} KB")
        if options.tokens == 1000:
            assert total <= BUDGET, f"{total} bytes, over the budget of {BUDGET}"


if __name__ == "__main__":
    main()
