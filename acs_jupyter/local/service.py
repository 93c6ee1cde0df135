"""What a request means: model, token ids, lengths; then the task for the engine.

Owns the order of checks after the schema and the default of ``max_tokens``. It must not know HTTP.
Budgets, rate limits, queues and jobs will stand between :func:`plan` and the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..checks import beyond_model
from ..errors import BadRequest, ContextLengthExceeded, EngineRefused, FullVocabPromptTooLong, ModelNotFound
from .assemble import stop_strings
from .engine import Refused, Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..wire import CompletionRequest
    from .engine import Engine, Position

DEFAULT_MAX_TOKENS = 32_000


async def plan(engine: Engine, request: CompletionRequest, headers: Mapping[str, str]) -> Task:
    """A task the engine can run, or the contract's error for what it cannot.

    The context length is checked for each prompt of a batch on its own.
    """
    check_model(engine, request.model if isinstance(request.model, str) else "")
    problem = beyond_model(request, engine.model.capabilities)
    if problem:
        raise ContextLengthExceeded(problem) if "max_model_len" in problem else BadRequest(problem)
    limit = engine.model.capabilities.max_model_len or DEFAULT_MAX_TOKENS
    prompts, texts = await _tokenized(engine, request, limit)
    longest = max(map(len, prompts))
    _check_length(request, longest, limit)
    _check_full_vocab(engine, request, sum(map(len, prompts)))
    task = Task(request, prompts, texts, _max_tokens(request, longest, limit), headers)
    _check_engine_rules(task)
    return task


def check_model(engine: Engine, name: str) -> None:
    """Refuse an id that is not served; an empty one means the default model."""
    model = engine.model
    if name and name != model.id:
        raise ModelNotFound(
            f"model={name[:80]!r} is not served here. Use '{model.id}', or see GET /v1/models."
        )


def score_depth(request: CompletionRequest) -> int | None:
    """How many ranks of every prompt position the answer shows (-1: all), or ``None`` for no scores."""
    wanted = [request.prompt_logprobs] if isinstance(request.prompt_logprobs, int) else []
    if request.echo is True and isinstance(request.logprobs, int):
        wanted.append(request.logprobs)
    elif request.streamed:
        return None  # prompt_logprobs=0 is accepted in a stream, and not shown
    return -1 if -1 in wanted else max(wanted, default=None)


async def scores(engine: Engine, task: Task) -> list[list[Position | None]] | None:
    """The scored positions of every prompt of a task, or ``None`` when nobody asked."""
    depth = score_depth(task.request)
    if depth is None:
        return None
    return [await engine.score(prompt, depth) for prompt in task.prompts]


async def _tokenized(
    engine: Engine, request: CompletionRequest, limit: int
) -> tuple[list[list[int]], list[str]]:
    special = request.add_special_tokens is not False
    prompts: list[list[int]] = []
    texts: list[str] = []
    for prompt in request.prompts:
        if isinstance(prompt, str):
            _check_bytes(engine, prompt, limit)
            try:
                prompts.append(await engine.tokenize(prompt, special=special))
            except Refused as refused:
                raise EngineRefused(str(refused)) from None
            texts.append(prompt)
            continue
        for token in prompt:
            if not 0 <= token < engine.vocab_size:
                raise EngineRefused(f"prompt: token id {token} is outside 0..{engine.vocab_size - 1}.")
        prompts.append(prompt)
        texts.append(engine.detokenize(prompt))
    return prompts, texts


def _check_bytes(engine: Engine, prompt: str, limit: int) -> None:
    # Tokenizing megabytes takes seconds; when even the longest tokens were too many, that is known without.
    longest = engine.longest_token
    least = len(prompt.encode()) // longest if longest else 0
    if least > limit:
        raise ContextLengthExceeded(
            f"The prompt has {len(prompt.encode())} bytes, which are at least {least} tokens; this model's "
            f"max_model_len is {limit}."
        )


def _check_length(request: CompletionRequest, tokens: int, limit: int) -> None:
    asked = request.max_tokens if isinstance(request.max_tokens, int) else 1
    if tokens + asked > limit:
        raise ContextLengthExceeded(
            f"The prompt has {tokens} tokens; with max_tokens={asked} that is above this model's "
            f"max_model_len of {limit}."
        )


def _check_full_vocab(engine: Engine, request: CompletionRequest, tokens: int) -> None:
    cap = engine.model.capabilities.full_vocab_max_prompt_tokens
    if request.prompt_logprobs == -1 and cap is not None and tokens > cap:
        raise FullVocabPromptTooLong(
            f"prompt_logprobs=-1 takes at most {cap} prompt tokens; there are {tokens}."
        )


def _max_tokens(request: CompletionRequest, tokens: int, limit: int) -> int:
    if isinstance(request.max_tokens, int):
        return request.max_tokens
    return max(1, min(DEFAULT_MAX_TOKENS, limit - tokens))


def _check_engine_rules(task: Task) -> None:
    if "" in stop_strings(task):
        raise EngineRefused("stop holds an empty string.")
    if task.request.temperature == 0 and task.request.fan_out > 1:
        raise EngineRefused(f"n={task.request.fan_out} with temperature=0: greedy decoding has one answer.")
