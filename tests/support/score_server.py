"""A server that scores prompts at a steady pace and costs next to nothing itself: the scores are invented.

For benchmarks. Like an engine it works on one thing at a time: a request is ready ``seconds`` a text after the one
before it, however many wait. Run as a process of its own: ``python -m tests.support.score_server SECONDS`` prints its
address. Tokens are words with their leading space.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import lru_cache

_WORD = re.compile(r"\s*\S+|\s+")


@lru_cache(maxsize=100_000)
def _entry(word: str) -> str:
    number = hash(word) % 50_000
    return (
        f'{{"{number}":{{"logprob":-{number % 9}.{number:05d}1234,"rank":{number % 90 + 1},'
        f'"decoded_token":{json.dumps(word)}}}}}'
    )


def body_of(prompts: list[str]) -> bytes:
    """The answer to a request with ``prompt_logprobs: 0``."""
    choices, tokens = [], 0
    for index, prompt in enumerate(prompts):
        words = _WORD.findall(prompt)
        tokens += len(words)
        scores = ",".join(["null", *map(_entry, words[1:])])
        choices.append(
            f'{{"index":{index},"text":" word","logprobs":null,"finish_reason":"length","stop_reason":null,'
            f'"prompt_logprobs":[{scores}]}}'
        )
    made = len(prompts)
    usage = f'{{"prompt_tokens":{tokens},"completion_tokens":{made},"total_tokens":{tokens + made}}}'
    head = '{"id":"cmpl-1","object":"text_completion","created":1,"model":"checkpoint","choices":['
    return f'{head}{",".join(choices)}],"usage":{usage}}}'.encode()


class Pace:
    """When the next answer is ready."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.free_at = 0.0

    def ready(self, texts: int, now: float) -> float:
        """The time at which so many texts are scored that came now."""
        self.free_at = max(self.free_at, now) + texts * self.seconds
        return self.free_at


class Scoring(asyncio.Protocol):
    """One connection."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, mark, body = self._rest.partition(b"\r\n\r\n")
        size = next((int(x[15:]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")), 0)
        if not mark or len(body) < size:
            return
        self._rest = b""
        if head.startswith(b"GET"):
            self._send(b'{"object":"list","data":[{"id":"m","object":"model","default":true}]}')
            return
        loop = asyncio.get_running_loop()
        came = loop.time()
        prompt = json.loads(body)["prompt"]
        prompts = [prompt] if isinstance(prompt, str) else prompt
        answer = body_of(prompts)
        loop.call_at(self._pace.ready(len(prompts), came), self._send, answer)

    def _send(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        if not self._transport.is_closing():
            self._transport.write(head + body)  # type: ignore[attr-defined]


async def main(seconds: float) -> None:
    pace = Pace(seconds)
    server = await asyncio.get_running_loop().create_server(lambda: Scoring(pace), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
