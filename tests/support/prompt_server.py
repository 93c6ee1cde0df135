"""A completions server that costs next to nothing: every answer comes a fixed time after its request.

For benchmarks, where the scripted server's own work would be measured too. Run as a process of its own:
``python -m tests.support.prompt_server SECONDS TOKENS`` prints its address.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import sys

USAGE = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}


def answers(tokens: int) -> tuple[bytes, bytes]:
    """The whole answer as a stream and as JSON, heads included."""
    base = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "checkpoint"}
    frames = []
    for made in range(1, tokens + 1):
        choice = {
            "index": 0,
            "text": " word",
            "logprobs": None,
            "finish_reason": "length" if made == tokens else None,
        }
        usage = USAGE | {"completion_tokens": made, "total_tokens": 5 + made}
        frames.append({**base, "choices": [choice], "usage": usage})
    frames.append({**base, "choices": [], "usage": usage})
    chunks = [b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames] + [b"data: [DONE]\n\n"]
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    whole = json.dumps({**base, "choices": [{**choice, "text": " word" * tokens}], "usage": usage}).encode()
    head = b"HTTP/1.1 200 OK\r\nx-request-id: r1\r\n"
    stream = head + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body
    return stream, head + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(whole) + whole


class Serving(asyncio.Protocol):
    """One connection; a request is answered when its time has come."""

    def __init__(self, seconds: float, tokens: int) -> None:
        self._seconds = seconds
        self._stream, self._whole = answers(tokens)
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, mark, body = self._rest.partition(b"\r\n\r\n")
        if not mark:
            return
        size = next(
            (int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length")), 0
        )
        if len(body) < size:
            return
        self._rest = b""
        if head.startswith(b"GET"):
            self._send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
            return
        streamed = b'"stream":true' in body.replace(b" ", b"")
        answer = self._stream if streamed else self._whole
        asyncio.get_running_loop().call_later(self._seconds, self._send, answer)

    def _send(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)  # type: ignore[attr-defined]


async def main(seconds: float, tokens: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Serving(seconds, tokens), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    # epoll waits whole milliseconds, which would make 50 ms 50.6 on average; select waits as long as it is told.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(main(float(sys.argv[1]), int(sys.argv[2])))
