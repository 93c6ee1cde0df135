"""The embedded engine: llama.cpp in this process, eight choices at a time.

Owns threads, slots and cancellation. It must not know HTTP answers or JSON shapes.
Known differences from vLLM: the presence and frequency penalties also count the prompt's tokens, and
the prompt of every choice is read anew (n = 8 reads it eight times, in parallel).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..wire import Model
from .engine import Position, Refused, Step, Task
from .gguf import read_head
from .llama_load import BATCH, SLOTS, EngineFailure, capabilities, load, spare_threads
from .llama_reader import ChoiceReader
from .llama_score import Scorer
from .llama_wire import ask, sampling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path


class LlamaEngine:
    """llama.cpp over one GGUF file."""

    fingerprint = "llama.cpp"

    def __init__(
        self, path: Path, *, name: str | None = None, context: int = 2048, threads: int | None = None
    ):
        self.head = read_head(path)
        self.vocab_size = len(self.head.pieces)
        self.longest_token: int | None = max(map(len, self.head.pieces))
        context = min(context, self.head.context_length or context)
        self._key = secrets.token_urlsafe(24)
        self._server = load(path, context, threads or spare_threads(), self._key)
        self._address = self._server.listening_address.split("//", 1)[1]
        self._lines: dict[int, http.client.HTTPConnection] = {}
        self._pool = ThreadPoolExecutor(SLOTS, thread_name_prefix="choice")
        self._side = ThreadPoolExecutor(2, thread_name_prefix="tokenize")
        self._busy = 0
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._scorer = Scorer(self.head, self.stream)
        self.model = Model(
            id=name or _short(path.stem),
            owned_by="local",
            served_model_name=path.stem,
            gpu_shape="cpu",
            status="live",
            default=True,
            capabilities=capabilities(context, self.head.layers),
        )

    @property
    def busy(self) -> int:
        """Choices being generated right now."""
        return self._busy

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text. A tokenizer without a start token begins empty text at a document boundary."""
        if not text:
            start = self.head.document_start()
            if not special or start is None:
                raise Refused(
                    "The prompt is empty and add_special_tokens is false: there is nothing to continue."
                )
            return [start]
        body = {"content": text, "add_special": special, "parse_special": True}
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._side, self._post, "/tokenize", body)
        return list(answer["tokens"])

    def detokenize(self, ids: list[int]) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.head.pieces[token] for token in ids).decode("utf-8", "replace")

    async def score(self, ids: list[int], top: int) -> list[Position | None]:
        """Log-probability, rank and alternatives at every position of a prompt, at generation speed."""
        cancelled = threading.Event()
        loop = asyncio.get_running_loop()
        wanted = self.vocab_size if top < 0 else top
        work = loop.run_in_executor(
            self._pool, self._counted, lambda: self._scorer.score(ids, wanted, cancelled)
        )
        try:
            result: list[Position | None] = await work
        finally:
            cancelled.set()
        return result

    async def generate(self, task: Task) -> AsyncIterator[list[Step]]:
        """Steps of all choices; closing the iterator stops every slot at its next token."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Step | BaseException | None] = asyncio.Queue()
        cancelled = threading.Event()

        def put(item: Step | BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is gone: nobody waits
                cancelled.set()

        waiting = task.request.choice_count
        works = [
            self._pool.submit(self._counted, partial(self._choice, task, i, put, cancelled))
            for i in range(waiting)
        ]
        try:
            while waiting:
                items = [await queue.get()]
                while not queue.empty():
                    items.append(queue.get_nowait())
                waiting -= sum(item is None for item in items)
                for item in items:
                    if isinstance(item, BaseException):
                        raise item
                steps = [item for item in items if isinstance(item, Step)]
                if steps:
                    yield steps
        finally:
            cancelled.set()
            for work in works:
                work.cancel()

    def stream(self, body: str, on_chunk: Callable[[str], bool | None]) -> None:
        """One request to the engine, in this thread; a true answer of ``on_chunk`` frees the slot."""
        raised: list[BaseException] = []

        def careful(raw: str) -> bool:
            try:
                return bool(on_chunk(raw))
            except BaseException as problem:  # noqa: BLE001 - the engine's loop would swallow it
                raised.append(problem)
                return True

        self._server.handle_completions(body, careful)
        if raised:
            raise raised[0]

    def close(self) -> None:
        """Let running choices end at their next token and drop the model."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._side.shutdown(wait=False, cancel_futures=True)
        for line in self._lines.values():
            line.close()

    def _counted(self, work: Callable[[], Any]) -> Any:
        with self._lock:
            self._busy += 1
        try:
            return work()
        finally:
            with self._lock:
                self._busy -= 1

    def _choice(
        self,
        task: Task,
        choice: int,
        put: Callable[[Step | BaseException | None], None],
        cancelled: threading.Event,
    ) -> None:
        def is_over() -> bool:
            return cancelled.is_set() or choice in task.stopped

        try:
            if not is_over():
                self._run_choice(task, choice, put, is_over)
        except Exception as problem:  # noqa: BLE001 - carried to the event loop, where it is answered
            put(problem)
        finally:
            put(None)

    def _run_choice(
        self, task: Task, choice: int, put: Callable[[Step], None], is_over: Callable[[], bool]
    ) -> None:
        request = task.request
        top = request.logprobs if isinstance(request.logprobs, int) else None
        ids = task.prompt_of(choice)
        fields = sampling(request, choice, self.vocab_size)

        def again(count: int) -> list[int]:
            body = {"prompt": ids, "n_predict": count, "n_probs": max(top or 0, 1), "stream": False}
            return list(self._post("/completion", body | fields | {"return_tokens": True})["tokens"])

        reader = ChoiceReader(
            self.head,
            ids,
            choice=choice,
            limit=task.max_tokens,
            top=top,
            again=again,
            look=self._scorer.look,
        )

        with self._turn_to_read(len(ids), is_over) as read:

            def on_chunk(raw: str) -> bool:
                if is_over():
                    return True
                steps = reader.feed(raw)
                if steps:
                    read()
                for step in steps:
                    put(step)
                return is_over() or reader.ended

            if not is_over():
                self.stream(ask(ids, task.max_tokens, max(top or 0, 1), **fields), on_chunk)
        if not reader.ended and not is_over():
            raise EngineFailure("The engine ended a choice early.")

    @contextmanager
    def _turn_to_read(self, length: int, is_over: Callable[[], bool]) -> Iterator[Callable[[], None]]:
        """Long prompts are read one after the other; calling the value passes the turn on.

        The engine would read them in this order anyway, but a choice handed to it early could not be
        cancelled before its turn.
        """
        mine = False
        while length > BATCH and not mine and not is_over():
            mine = self._reading.acquire(timeout=0.02)

        def passed_on() -> None:
            nonlocal mine
            if mine:
                mine = False
                self._reading.release()

        try:
            yield passed_on
        finally:
            passed_on()

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        # One kept connection a thread to the engine's own listener, which only this process has the key for.
        line = self._lines.setdefault(threading.get_ident(), http.client.HTTPConnection(self._address))
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        try:
            line.request("POST", path, json.dumps(body), headers)
            answer = line.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            line.close()
            line.request("POST", path, json.dumps(body), headers)
            answer = line.getresponse()
            data = answer.read()
        if answer.status != 200:
            raise EngineFailure(f"The engine answered {path} with {answer.status}.")
        return json.loads(data)


def _short(stem: str) -> str:
    return stem.split(".", 1)[0].lower().removesuffix("-instruct")
