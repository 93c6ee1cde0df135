"""A loopback server that plays prepared answers byte by byte and records what it was sent.

For tests that need exact control of the socket: cuts in the middle of a character, silence, repeated answers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Step = bytes | float
"""Bytes to send, or seconds to wait."""
HANG = float("inf")
"""Wait until the client leaves."""


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    came_at: float = field(default_factory=time.monotonic)
    last_at: float | None = None
    """When the last step of the answer began: the client can know of its end a little later at the earliest."""
    left_at: float | None = None
    """When the client closed the socket while the answer was still being played."""

    @property
    def json(self) -> object:
        return json.loads(self.body)


def most_at_once(requests: Iterable[Request]) -> int:
    """How many of these requests, all of them answered, were with the server at one time."""
    begun = [(one.came_at, 1) for one in requests]
    ended = [(one.last_at or math.inf, -1) for one in requests]
    return max(itertools.accumulate(change for _, change in sorted(begun + ended)))


@dataclass
class Player:
    """Plays ``answers`` in turn, one a request; the last one repeats. ``routes``: path ending to a fixed answer."""

    answers: list[list[Step]]
    routes: dict[str, list[Step]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    """Those that took one of ``answers``."""

    def __enter__(self) -> Player:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        count = 0
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )  # steps go out as they are played
            thread = threading.Thread(target=self._serve, args=(connection, count), daemon=True)
            self._open.append(connection)
            thread.start()
            self._threads.append(thread)
            count += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader:
            while (request := _read_request(reader, number)) is not None:
                answer = self._answer(request)
                if not self._play(connection, request, answer):
                    return

    def _answer(self, request: Request) -> list[Step]:
        if not re.search("/v1/|/tokenize ", request.line):  # a stranger asks for who had this port before
            return whole({}, "404 Not Found")
        for ending, fixed in self.routes.items():
            if request.line.split(" ")[1].endswith(ending):
                return fixed
        self.requests.append(request)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]

    def _play(self, connection: socket.socket, request: Request, answer: list[Step]) -> bool:
        for number, step in enumerate(answer, 1):
            if number == len(answer):
                request.last_at = time.monotonic()
            if isinstance(step, bytes):
                try:
                    connection.sendall(step)
                except OSError:
                    request.left_at = time.monotonic()
                    return False
            elif _left(connection, step, lambda: self._stopping):
                request.left_at = time.monotonic()
                return False
        return answer[-1] != b"" if answer else False


CLOSE = b""
"""As the last step: close the connection."""


def _left(connection: socket.socket, seconds: float, stopping: object) -> bool:
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0 and not stopping():  # type: ignore[operator]
        connection.settimeout(min(0.05, rest))
        try:
            if connection.recv(1, socket.MSG_PEEK) == b"":
                return True
            time.sleep(0.01)
        except TimeoutError:
            pass
        except OSError:
            return True
        finally:
            connection.settimeout(None)
    return False


def _read_request(reader: object, number: int) -> Request | None:
    try:
        line = reader.readline()  # type: ignore[attr-defined]
        headers: dict[str, str] = {}
        while (raw := reader.readline().strip()) != b"":  # type: ignore[attr-defined]
            key, _, value = raw.decode("latin-1").partition(":")
            headers[key.lower()] = value.strip()
        if not line:
            return None
        body = reader.read(int(headers.get("content-length", 0)))  # type: ignore[attr-defined]
    except OSError:
        return None
    return Request(line.decode("latin-1").strip(), headers, body, number)


def head(
    status: str = "200 OK", kind: str = "application/json", length: int | None = None, **headers: str
) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"]
    lines.append(f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(body: object, status: str = "200 OK", kind: str = "application/json", **headers: str) -> list[Step]:
    """One complete body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [head(status, kind, len(raw), **headers), raw]


def chunk(data: bytes) -> bytes:
    """One HTTP/1.1 chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


END = chunk(b"")


def stream(*pieces: Step, end: bool = True, **headers: str) -> list[Step]:
    """An event stream of raw pieces."""
    body: list[Step] = [chunk(p) if isinstance(p, bytes) else p for p in pieces]
    return [head(kind="text/event-stream", **headers), *body, END if end else CLOSE]


def frames(texts: list[str], finish: str | None = "length", index: int = 0) -> Iterator[bytes]:
    """Frames of a text-only stream."""
    for number, text in enumerate(texts):
        last = finish if number == len(texts) - 1 else None
        answer = {
            "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "checkpoint",
            "choices": [{"index": index, "text": text, "logprobs": None, "finish_reason": last, "stop_reason": None}],
            "usage": {"prompt_tokens": 3, "completion_tokens": number + 1, "total_tokens": number + 4},
        }  # fmt: skip
        yield b"data: " + json.dumps(answer, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
