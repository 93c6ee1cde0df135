"""What became of one attempt: its end for the flow, its results for the journal, its worst case for a budget.

Owns the reading of an exchange that is over. Pure; it must not know journals or clocks.
"""

from __future__ import annotations

from ..errors import ApiError, ConnectionFailed
from ..exchange import Exchange
from ..ledger.terms import worst_case
from ..wire import CompletionRequest
from .flow import End
from .gathered import Gathered
from .packed import Packed


def end_of(exchange: Exchange) -> End:
    """How an exchange that has closed by itself ended."""
    error = exchange.error
    if error is None:
        return End()
    ran = exchange.usage is not None
    if isinstance(error, ApiError):
        again = error.retryable and not exchange.told_not_to_retry
        return End(error.code, error.status, again, error.retry_after, exchange.started, ran)
    unsent = isinstance(error, ConnectionFailed) and not ran
    return End(error.code, None, unsent, None, exchange.started, ran)


def bound(request: CompletionRequest) -> int:
    """The most tokens a request can cost, by the ledger's rule."""
    return worst_case(request).total


def results_of(exchange: Exchange, answer: Gathered, count: int) -> list[Packed]:
    """One result a prompt. In a batch the server's total is dealt out by its running counts, or, of prompts that were
    scored, by their positions; the sum stays exact.

    What nobody counted is the most it can have been, since a budget rests on it. A prompt whose choices had all
    finished is done, whatever happened to the others.
    """
    results = [answer.packed(prompt, count) for prompt in range(count)]
    total = exchange.most_spent
    if count == 1:
        if total is not None:
            results[0].prompt_tokens, results[0].completion_tokens = (
                total.prompt_tokens,
                total.completion_tokens,
            )
            results[0].usage_source = total.source
        return results
    rest = [total.prompt_tokens, total.completion_tokens] if total else [0, 0]
    for prompt, result in enumerate(results):
        mine = _counted(exchange, prompt, result)
        result.prompt_tokens, result.completion_tokens = mine
        rest = [left - part for left, part in zip(rest, mine, strict=True)]
        if all(choice.finish_reason is not None for choice in result.choices):
            result.outcome, result.error = "done", None
    if min(rest) >= 0:  # what nobody counted belongs to what was cut
        cut = next((result for result in results if result.outcome != "done"), results[0])
        cut.prompt_tokens += rest[0]
        cut.completion_tokens += rest[1]
    return results


def _counted(exchange: Exchange, prompt: int, result: Packed) -> tuple[int, int]:
    """Tokens of one prompt of a batch, as far as they are known."""
    before, made = exchange.counted(prompt)
    if not made and exchange.request.max_tokens == 1:  # of one body that ended well: there is one a choice
        made = sum(choice.finish_reason is not None for choice in result.choices)
    return before or len(result.scores or ()), made
