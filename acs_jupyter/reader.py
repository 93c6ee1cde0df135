"""Answers read into events, one chunk or one whole body at a time.

Owns what an answer means. It must not know where bytes come from, nor what a session makes of an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from .failures import unchanged
from .log.events import AnyEvent, Finished, PromptScored, Scored, Served, Spent, TokensArrived, node_of
from .wire import MOST_TOKENS, Answer, Choice, CompletionRequest, PromptLogprob, Usage

T = TypeVar("T")
SLACK = 16
"""Tokens that a server may count beyond what was asked, for each prompt and each choice: its own marks."""
LONGEST = 1_000_000
"""Tokens of a choice, where the request does not say at most how many."""


class Strainer(Protocol):
    """Takes out of a JSON body what is too large for the usual reader, while it arrives; raises ``ValueError``."""

    def feed(self, data: bytes) -> bytes:
        """Bytes of the body; returns those that are for the usual reader."""

    def end(self) -> bytes:
        """The body is complete; what was still held back."""


class Reader:
    """One answer to events, a chunk at a time, or the one body of a JSON answer.

    It keeps what a single chunk cannot tell: ``started`` (text has come), ``seen`` (tokens, or pieces where tokens
    are not known), ``bytes`` (of text), ``unfinished`` (indices of choices without a finish reason) and ``usage``
    (the last :class:`Spent`) and ``checkpoint`` (what answered, by its own name).
    """

    def __init__(
        self,
        run: str,
        request: CompletionRequest,
        *,
        parents: list[str] | None = None,
        redact: Callable[[str], str] = unchanged,
    ) -> None:
        self.run = run
        self._redact = redact
        self._request = request
        self._fan_out = request.fan_out
        self._prompts = parents or [f"{run}.p{i}" for i in range(request.prompt_count)]
        self._nodes = [node_of(run, index) for index in range(request.choice_count)]
        self.started = False
        self.seen = 0
        self.bytes = 0
        self.unfinished = set(range(len(self._nodes)))
        self.usage: Spent | None = None
        self.checkpoint: str | None = None
        self._most_prompt, self._most_made = _most(request)
        self._served = False
        self._scored: set[str] = set()
        self._by_choice: dict[int, int] = {}
        self._behind: set[int] = set()
        self._final = False
        self._told: Spent | None = None
        self._by_prompt: dict[int, int] = {}
        self._prompt_total = 0
        self._completion_total = 0

    def read(self, answer: Answer, events: list[AnyEvent]) -> None:
        """Append the events of one stream chunk to ``events``. Raises ``IndexError`` on a choice nobody asked for."""
        if not self._served:
            self._served = True
            self.checkpoint, own = self._redact(answer.model) or None, self._redact(answer.id) or None
            events.append(Served(self.run, self.checkpoint, own))
        choices: Sequence[Choice] = answer.choices or ()
        usage = answer.usage
        single = len(choices) == 1
        for choice in choices:
            self._read_choice(choice, events)
        self._told = None if choices else self._bill(usage)
        if usage is None or not (
            (
                single
                and 0 < usage.completion_tokens <= self._most_made
                and 0 < usage.prompt_tokens <= self._most_prompt
            )
            or self._believable(usage, whole=not single)
        ):
            self._behind.update(choice.index for choice in choices)
            if self._final and choices:
                self._reopen()
            return
        # A chunk of one choice counts for that choice; anything else for the whole answer, and is its bill at the end.
        if single:
            self._final = False
            self.usage = self._running(choices[0].index, usage)
        else:
            self._final = not self.unfinished
            self._behind.update(choice.index for choice in choices)
            self.usage = self._total(usage, "usage" if self._final else "continuous")
        events.append(self.usage)

    def read_body(self, answer: Answer, events: list[AnyEvent]) -> None:
        """Append the events of a whole JSON body; its usage is final."""
        usage, answer.usage = answer.usage, None
        try:
            self.read(answer, events)
        finally:  # known even if something cannot be read
            if usage is not None and self._believable(usage):
                self.usage = self._total(usage, "usage")
                events.append(self.usage)

    def conclude(self) -> None:
        """A stream that was left has ended by its server's word: a total that nothing came behind is the bill."""
        self.usage = self._told or self.usage

    @property
    def made(self) -> int:
        """Tokens so far by the running counts."""
        return self._completion_total

    @property
    def ran(self) -> bool:
        """Whether the engine has begun, and so has the bill: text has come, a count of tokens, or an end."""
        return self.started or self.usage is not None or len(self.unfinished) < len(self._nodes)

    @property
    def untold(self) -> list[int]:
        """The places of prompts of which no running count has come."""
        return [place for place in range(len(self._prompts)) if place not in self._by_prompt]

    @property
    def prompt_told(self) -> int:
        """Tokens of the prompts of which a running count has come."""
        return self._prompt_total

    @property
    def running(self) -> tuple[int, int, int]:
        """What the running counts are worth: tokens of the choices whose count came with their end, the number of
        those that ended with a count that is behind, or none, and the last counts of these."""
        ended = [index for index in range(len(self._nodes)) if index not in self.unfinished]
        behind = [index for index in ended if index in self._behind or index not in self._by_choice]
        late = sum(self._by_choice.get(index, 0) for index in behind)
        return sum(self._by_choice.get(index, 0) for index in ended) - late, len(behind), late

    def cut(self, each: int, ahead: int) -> int:
        """The most tokens of choices that had not ended when they were left, of at most ``each``: those counted, and
        ``ahead`` more of all together. Where text came behind a count, or without one, only ``each`` is known."""
        if self.unfinished & self._behind:
            return len(self.unfinished) * each
        counts = [self._by_choice.get(index, 0) for index in self.unfinished]
        return min(sum(counts) + ahead, sum(max(each, count) for count in counts))

    def counted(self, prompt: int) -> tuple[int, int]:
        """What the running counts say of one prompt: its tokens, and those of its choices so far."""
        first = prompt * self._fan_out
        made = sum(self._by_choice.get(index, 0) for index in range(first, first + self._fan_out))
        return self._by_prompt.get(prompt, 0), made

    def _reopen(self) -> None:
        """Something came behind the bill, which so was none."""
        self._final = False
        if self.usage is not None:
            self.usage = Spent(self.run, self.usage.prompt_tokens, self.usage.completion_tokens, "continuous")

    def _bill(self, usage: Usage | None) -> Spent | None:
        """A total that can be true; of an answer of which nothing came it can be that it cost nothing."""
        if usage is None or usage.completion_tokens < self._completion_total:
            return None
        nothing = not (self.started or self._by_choice or usage.prompt_tokens or usage.completion_tokens)
        return self._total(usage, "usage") if nothing or self._believable(usage) else None

    def _believable(self, usage: Usage, *, whole: bool = True) -> bool:
        """Whether a count can be true: text costs tokens, and so does a prompt that is not empty; no more than was
        asked for, and, for the ``whole`` of the answer, no less than any choice has had."""
        if not (
            0 <= usage.completion_tokens <= self._most_made and 0 <= usage.prompt_tokens <= self._most_prompt
        ):
            return False
        if whole and usage.completion_tokens < max(self._by_choice.values(), default=0):
            return False
        made = usage.completion_tokens or not self.bytes or self._request.echo is True
        return bool(made and (usage.prompt_tokens or not any(self._request.prompts)))

    def _read_choice(self, choice: Choice, events: list[AnyEvent]) -> None:
        if choice.index < 0:
            raise IndexError(choice.index)
        node = self._nodes[choice.index]
        if choice.prompt_logprobs is not None:
            self._read_positions(choice, events)
        lp, text = choice.logprobs, choice.text
        if lp is not None:
            tokens = lp.tokens
            if tokens or text:
                logprobs, tops = lp.token_logprobs, lp.top_logprobs or (None,) * len(tokens)
                if len(logprobs) != len(tokens) or len(tops) != len(tokens):
                    logprobs, tops = _fitted(logprobs, len(tokens)), _fitted(tops, len(tokens))
                events.append(TokensArrived(node, text, tokens, logprobs, tops))
                self.started = True
                self.seen += len(tokens) or 1
                self.bytes += _size(text)
        elif text:
            events.append(TokensArrived(node, text))
            self.started = True
            self.seen += 1
            self.bytes += len(text) if text.isascii() else _size(text)
        if choice.finish_reason is not None:
            self.unfinished.discard(choice.index)
            stop = choice.stop_reason
            stop = self._redact(stop) if isinstance(stop, str) else stop
            events.append(Finished(node, self._redact(choice.finish_reason), stop))

    def _read_positions(self, choice: Choice, events: list[AnyEvent]) -> None:
        prompt = self._prompts[choice.index // self._fan_out]
        if prompt not in self._scored:  # every choice of a prompt carries the same positions
            self._scored.add(prompt)
            events.append(PromptScored(prompt, _positions(choice.prompt_logprobs or [])))

    def _running(self, index: int, usage: Usage) -> Spent:
        before, completion = self._by_choice.get(index), usage.completion_tokens
        if before is None or completion > before:
            self._completion_total += completion - (before or 0)
            self._by_choice[index] = completion
        if self._behind:
            self._behind.discard(index)
        prompt, tokens = index // self._fan_out, usage.prompt_tokens
        if self._by_prompt.get(prompt) != tokens:
            self._prompt_total += tokens - self._by_prompt.get(prompt, 0)
            self._by_prompt[prompt] = tokens
        return Spent(self.run, self._prompt_total, self._completion_total, "continuous")

    def _total(self, usage: Usage, source: str) -> Spent:
        return Spent(self.run, usage.prompt_tokens, usage.completion_tokens, source)


def _most(request: CompletionRequest) -> tuple[int, int]:
    """The most tokens that a prompt and all choices can be told to have had. No token is less than a byte, and no
    character more than four."""
    each = request.max_tokens
    each = LONGEST if isinstance(each, bool) or not isinstance(each, int) else max(0, each)
    prompt = sum(4 * len(one) + SLACK for one in request.prompts)
    made = (each + SLACK) * request.choice_count + (prompt if request.echo is True else 0)
    return min(prompt, MOST_TOKENS), min(made, MOST_TOKENS)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _fitted(values: tuple[T | None, ...], count: int) -> tuple[T | None, ...]:
    """As many values as there are tokens: what is missing is not known, what is over belongs to none."""
    return (*values[:count], *(None,) * (count - len(values)))


def _positions(raw: list[dict[str, PromptLogprob] | None]) -> list[list[Scored] | None]:
    # The order of the wire is kept: the real token is the first key of its position.
    return [
        None
        if entries is None
        else [(int(key), e.decoded_token or "", e.logprob, e.rank) for key, e in entries.items()]
        for entries in raw
    ]
