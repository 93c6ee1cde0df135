"""What a run has cost where the server has not said it: a likely number to show, and the most it can be to count.

Owns both rules. It must not know budgets or sockets. What is shown may be wrong either way; what is counted against a
limit must never be less than what the server bills, or the limit could be passed.
"""

from __future__ import annotations

from .events import Spent
from .ledger.terms import worst_case
from .reader import Reader
from .wire import CompletionRequest


def likely(request: CompletionRequest, reader: Reader) -> Spent:
    """Four bytes a token, of the prompts and of the text that came."""
    prompt = sum(len(p) if isinstance(p, list) else _quarter(len(p.encode())) for p in request.prompts)
    return Spent(reader.run, prompt, max(reader.seen, _quarter(reader.bytes)), "estimate")


def most(request: CompletionRequest, reader: Reader) -> Spent | None:
    """The most a run can have cost; ``None`` when nothing was spent. What is not known is flagged as an estimate.

    Final usage is the server's bill. Running usage is as far as it goes: of prompts and choices it has not told about
    yet, the worst case is taken. Without any, text is bounded by its bytes (as prompts are) where a choice has
    finished, and by ``max_tokens`` where it has not.
    """
    spent = reader.usage
    if spent is None or spent.source == "usage":
        return spent
    worst = worst_case(request)
    if spent.source == "continuous":
        prompts, choices = reader.untold
        if not prompts and not choices:
            return spent
        ahead = worst_case(request, prompts)
        made = spent.completion_tokens + len(choices) * _each(request, worst.completion)
        return Spent(
            reader.run,
            spent.prompt_tokens + ahead.prompt,
            max(spent.completion_tokens, min(made, worst.completion)),
            "estimate",
        )
    return Spent(reader.run, worst.prompt, _text_at_most(request, reader, worst.completion), "estimate")


def _text_at_most(request: CompletionRequest, reader: Reader, worst: int) -> int:
    each = _each(request, worst)
    finished = request.choice_count - len(reader.unfinished)
    # One more a choice for the token that ends it, and what was made of a stop text is cut off.
    ends = finished * (1 + _longest_stop(request))
    told = min(finished * each, max(reader.seen, reader.bytes) + ends)
    return min(worst, told + len(reader.unfinished) * each)


def _each(request: CompletionRequest, worst: int) -> int:
    each = request.max_tokens
    return max(0, each) if isinstance(each, int) and not isinstance(each, bool) else worst


def _longest_stop(request: CompletionRequest) -> int:
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    return max(
        (len(stop.encode("utf-8", "surrogatepass")) for stop in stops if isinstance(stop, str)), default=0
    )


def _quarter(size: int) -> int:
    return -(-size // 4)
