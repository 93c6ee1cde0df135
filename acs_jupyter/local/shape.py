"""Writes vLLM's JSON: bodies and stream chunks with exactly the recorded keys, the null ones too.

Owns key order, text offsets (characters) and usage. It must not know engines or sockets.
Compared field by field with ``tests/data/wire``.
"""

from __future__ import annotations

import time
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .engine import Position, Step, Task, Token

encode = msgspec.json.encode
Scores = list["list[Position | None]"]
DONE = b"data: [DONE]\n\n"


class Answer:
    """Collects or streams the steps of one task; ``scores`` holds the positions of each prompt, once they are known."""

    def __init__(self, task: Task, served: str, fingerprint: str) -> None:
        request = task.request
        self._task = task
        self.scores: Scores | None = None
        self._fingerprint = fingerprint
        self._id = f"cmpl-{token_hex(8)}"
        self._created = int(time.time())
        self._served = served
        self._top = request.logprobs if isinstance(request.logprobs, int) else None
        self._echo = request.echo is True
        options = request.stream_options
        self._include = getattr(options, "include_usage", False) is True
        self._continuous = getattr(options, "continuous_usage_stats", False) is True
        count = request.choice_count
        self._counts, self._offsets, self._begun = [0] * count, [0] * count, [False] * count
        self._open = count
        head = {"id": self._id, "object": "text_completion", "created": self._created, "model": served}
        self._head = b"data: " + encode(head)[:-1] + b',"choices":['

    def usage(self) -> dict[str, int]:
        """Tokens so far: every prompt once, every choice's generated tokens."""
        return _usage(sum(map(len, self._task.prompts)), sum(self._counts))

    def frames(self, steps: list[Step]) -> bytes:
        """The stream frames of some steps, one chunk a step."""
        return b"".join(map(self._frame, steps))

    def closing(self) -> bytes:
        """The usage chunk, when asked for, and the end mark."""
        return self._last(self.usage()) if self._include else DONE

    def farewell(self, prompt: int, completion: int) -> bytes:
        """The same for a client that leaves: what it pays, when it asked for usage of any kind."""
        return self._last(_usage(prompt, completion)) if self._include or self._continuous else DONE

    def _last(self, usage: dict[str, int]) -> bytes:
        tail = {"usage": usage, "system_fingerprint": self._fingerprint}
        return self._head + b"]," + encode(tail)[1:] + b"\n\n" + DONE

    def _frame(self, step: Step) -> bytes:
        index = step.choice
        self._counts[index] += len(step.tokens)
        first, self._begun[index] = not self._begun[index], True
        prompt = self._task.prompt_of(index)
        echoed = self._echo and first
        choice = {
            "index": index,
            "text": self._prompt_text(index) + step.text if echoed else step.text,
            "logprobs": self._logprobs(index, step.tokens, echoed),
            "finish_reason": step.finish,
            "stop_reason": step.stop_reason,
            "prompt_token_ids": prompt if echoed else None,
            "token_ids": None,
        }
        parts = [self._head, encode(choice), b"]"]
        if self._continuous:
            parts += [b',"usage":', encode(_usage(len(prompt), self._counts[index]))]
        if step.finish is not None:
            self._open -= 1
            if not self._open and not self._include:
                parts += [b',"system_fingerprint":', encode(self._fingerprint)]
        parts.append(b"}\n\n")
        return b"".join(parts)

    def body(self, steps: list[Step]) -> bytes:
        """The whole answer as one JSON body."""
        count = len(self._counts)
        texts: list[list[str]] = [[] for _ in range(count)]
        tokens: list[list[Token]] = [[] for _ in range(count)]
        ends: list[Step | None] = [None] * count
        for step in steps:
            texts[step.choice].append(step.text)
            tokens[step.choice] += step.tokens
            if step.finish is not None:
                ends[step.choice] = step
        self._counts = [len(row) for row in tokens]
        usage: dict[str, Any] = self.usage()
        return encode(
            {
                "id": self._id,
                "object": "text_completion",
                "created": self._created,
                "model": self._served,
                "choices": [self._choice(i, "".join(texts[i]), tokens[i], ends[i]) for i in range(count)],
                "service_tier": None,
                "system_fingerprint": self._fingerprint,
                "usage": usage | {"prompt_tokens_details": None, "completion_tokens_details": None},
                "kv_transfer_params": None,
                "ec_transfer_params": None,
                "metrics": None,
            }
        )

    def _choice(self, index: int, text: str, tokens: list[Token], end: Step | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": self._prompt_text(index) + text if self._echo else text,
            "logprobs": self._logprobs(index, tokens, self._echo),
            "finish_reason": end.finish if end else None,
            "stop_reason": end.stop_reason if end else None,
            "token_ids": None,
            "prompt_logprobs": self._prompt_logprobs(index),
            "prompt_token_ids": None,
            "routed_experts": None,
        }

    def _prompt_text(self, index: int) -> str:
        return self._task.texts[index // self._task.request.fan_out]

    def _positions(self, index: int) -> list[Position | None]:
        return self.scores[index // self._task.request.fan_out] if self.scores else []

    def _logprobs(self, index: int, tokens: list[Token], echoed: bool) -> dict[str, Any] | None:
        if self._top is None:
            return None
        texts: list[str] = []
        own: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        if echoed:
            self._prompt_rows(index, texts, own, tops)
        for token in tokens:
            texts.append(token.text)
            own.append(token.logprob)
            row = {token.text: token.logprob}
            row.update(token.top[: self._top])
            tops.append(row)
        offsets = []
        for text in texts:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(text)
        return {"text_offset": offsets, "token_logprobs": own, "tokens": texts, "top_logprobs": tops}

    def _prompt_rows(
        self, index: int, texts: list[str], own: list[float | None], tops: list[dict[str, float] | None]
    ) -> None:
        positions = self._positions(index)
        for position in positions:
            if position is None:
                continue
            texts.append(position.own.text)
            own.append(position.own.logprob)
            row = {position.own.text: position.own.logprob}
            row.update((entry.text, entry.logprob) for entry in position.top[: self._top])
            tops.append(row)
        if positions:
            texts.insert(0, self._first_text(index, "".join(texts)))
            own.insert(0, None)
            tops.insert(0, None)

    def _first_text(self, index: int, others: str) -> str:
        # The first token has no score; its text is what the others leave of the prompt.
        whole = self._prompt_text(index)
        return whole.removesuffix(others) if whole.endswith(others) else ""

    def _prompt_logprobs(self, index: int) -> list[dict[str, dict[str, Any]] | None] | None:
        if not self.scores:
            return None
        wanted = self._task.request.prompt_logprobs
        top = wanted if isinstance(wanted, int) else self._top or 0
        rows: list[dict[str, dict[str, Any]] | None] = []
        for position in self._positions(index):
            if position is None:
                rows.append(None)
                continue
            entries = position.top if top < 0 else position.top[:top]
            rows.append(
                {
                    str(entry.id): {"logprob": entry.logprob, "rank": entry.rank, "decoded_token": entry.text}
                    for entry in (position.own, *(e for e in entries if e.id != position.own.id))
                }
            )
        return rows


def farewell(model: str, name: str, prompt: int, completion: int) -> bytes:
    """The end of a stream of somebody else's for a client that leaves it: what it pays, and the end mark."""
    head = {"id": name, "object": "text_completion", "created": int(time.time()), "model": model}
    return b"data: " + encode({**head, "choices": [], "usage": _usage(prompt, completion)}) + b"\n\n" + DONE


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }
