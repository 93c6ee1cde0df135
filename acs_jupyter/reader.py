"""Answers read into events, one chunk or one whole body at a time.

Owns what an answer means. It must not know where bytes come from, nor what a session makes of an event.
"""

from __future__ import annotations

from .events import (
    AnyEvent,
    Finished,
    PromptScored,
    Scored,
    Served,
    Spent,
    TokensArrived,
    node_of,
)
from .wire import Answer, Choice, CompletionRequest, PromptLogprob, Usage


class Reader:
    """One answer to events, a chunk at a time, or the one body of a JSON answer.

    It keeps what a single chunk cannot tell: ``started`` (text has come), ``seen`` (tokens, or pieces where tokens
    are not known), ``unfinished`` (choices without a finish reason) and ``usage`` (the last :class:`Spent`).
    """

    def __init__(self, run: str, request: CompletionRequest, *, parents: list[str] | None = None) -> None:
        self.run = run
        self._fan_out = request.fan_out
        self._prompts = parents or [f"{run}.p{i}" for i in range(request.prompt_count)]
        self._nodes = [node_of(run, index) for index in range(request.choice_count)]
        self.started = False
        self.seen = 0
        self.unfinished = len(self._nodes)
        self.usage: Spent | None = None
        self._served = False
        self._scored: set[str] = set()
        self._by_choice: dict[int, int] = {}
        self._by_prompt: dict[int, int] = {}
        self._prompt_total = 0
        self._completion_total = 0

    def read(self, answer: Answer, events: list[AnyEvent]) -> None:
        """Append the events of one stream chunk to ``events``. Raises ``IndexError`` on a choice nobody asked for."""
        if not self._served:
            self._served = True
            events.append(Served(self.run, answer.model or None, answer.id or None))
        choices = answer.choices or ()
        for choice in choices:
            self._read_choice(choice, events)
        usage = answer.usage
        if usage is None:
            return
        if not choices:
            self.usage = Spent(self.run, usage.prompt_tokens, usage.completion_tokens)
        elif len(choices) == 1:
            self.usage = self._running(choices[0].index, usage)
        else:
            return
        events.append(self.usage)

    def read_body(self, answer: Answer, events: list[AnyEvent]) -> None:
        """Append the events of a whole JSON body; its usage is final."""
        usage, answer.usage = answer.usage, None
        self.read(answer, events)
        if usage is not None:
            self.usage = Spent(self.run, usage.prompt_tokens, usage.completion_tokens)
            events.append(self.usage)

    def _read_choice(self, choice: Choice, events: list[AnyEvent]) -> None:
        node = self._nodes[choice.index]
        if choice.prompt_logprobs is not None:
            self._read_positions(choice, events)
        lp, text = choice.logprobs, choice.text
        if lp is not None:
            tokens = lp.tokens
            if tokens or text:
                tops = lp.top_logprobs or (None,) * len(tokens)
                events.append(TokensArrived(node, text, tokens, lp.token_logprobs, tops))
                self.started = True
                self.seen += len(tokens) or 1
        elif text:
            events.append(TokensArrived(node, text))
            self.started = True
            self.seen += 1
        if choice.finish_reason is not None:
            self.unfinished -= 1
            events.append(Finished(node, choice.finish_reason, choice.stop_reason))

    def _read_positions(self, choice: Choice, events: list[AnyEvent]) -> None:
        prompt = self._prompts[choice.index // self._fan_out]
        if prompt not in self._scored:  # every choice of a prompt carries the same positions
            self._scored.add(prompt)
            events.append(PromptScored(prompt, _positions(choice.prompt_logprobs or [])))

    def _running(self, index: int, usage: Usage) -> Spent:
        self._completion_total += usage.completion_tokens - self._by_choice.get(index, 0)
        self._by_choice[index] = usage.completion_tokens
        prompt = index // self._fan_out
        if self._by_prompt.get(prompt) != usage.prompt_tokens:
            self._prompt_total += usage.prompt_tokens - self._by_prompt.get(prompt, 0)
            self._by_prompt[prompt] = usage.prompt_tokens
        return Spent(self.run, self._prompt_total, self._completion_total, "continuous")


def _positions(raw: list[dict[str, PromptLogprob] | None]) -> list[list[Scored] | None]:
    # The order of the wire is kept: the real token is the first key of its position.
    return [
        None
        if entries is None
        else [(int(key), e.decoded_token or "", e.logprob, e.rank) for key, e in entries.items()]
        for entries in raw
    ]
