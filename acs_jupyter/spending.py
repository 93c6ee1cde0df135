"""What a run has cost where the server has not said it: a likely number to show, and the most it can be to count.

Owns both rules. It must not know budgets or sockets. What is shown may be wrong either way; what is counted against a
limit must not be less than what the server bills, or the limit could be passed. Of a stream that its client has left,
and whose server did not answer that (``parting.py``), the most is what was counted and what an engine that goes on at
the same pace makes until it notices; of one that broke off by itself nobody knows when it noticed.
"""

from __future__ import annotations

from .ledger.terms import worst_case
from .log.events import Spent
from .reader import Reader
from .wire import CompletionRequest


def likely(request: CompletionRequest, reader: Reader) -> Spent:
    """Four bytes a token, of the prompts and of the text that came."""
    prompt = sum(len(p) if isinstance(p, list) else _quarter(len(p.encode())) for p in request.prompts)
    return Spent(reader.run, prompt, max(reader.seen, _quarter(reader.bytes)), "estimate")


def most(request: CompletionRequest, reader: Reader, ahead: int | None = None) -> Spent | None:
    """The most a run can have cost; ``None`` when nothing was spent. What is not known is flagged as an estimate.

    Final usage is the server's bill. Running usage is exact for a choice whose end it came with. For one that was cut
    it is the least: the engine runs ahead of what arrives, so ``max_tokens`` is counted, as it is where there is no
    count; or, where we left and so know when, the count and what may have been made ``ahead`` of it. A choice that
    ended without a count, or with an old one, is bounded by its bytes (as prompts are).
    """
    spent = reader.usage
    if spent is None or spent.source == "usage":
        return spent
    worst = worst_case(request)
    each = _each(request, worst.completion)
    if spent.source != "continuous":
        ended = request.choice_count - len(reader.unfinished)
        made = _ended_at_most(request, reader, ended, each) + len(reader.unfinished) * each
        return Spent(reader.run, worst.prompt, min(worst.completion, made), "estimate")
    known, behind, late = reader.running
    untold = reader.untold
    if not (untold or behind or reader.unfinished):
        return spent
    made = known + (len(reader.unfinished) * each if ahead is None else reader.cut(each, ahead))
    made += min(behind * each, late + _ended_at_most(request, reader, behind, each))
    ahead = worst_case(request, untold).prompt
    return Spent(
        reader.run,
        max(spent.prompt_tokens, reader.prompt_told + ahead),
        max(spent.completion_tokens, min(made, worst.completion)),
        "estimate",
    )


def _ended_at_most(request: CompletionRequest, reader: Reader, ended: int, each: int) -> int:
    """The most tokens of choices that ended: their bytes, one more for each end, and what a stop text cut off."""
    ends = ended * (1 + _longest_stop(request))
    return min(ended * each, max(reader.seen, reader.bytes) + ends)


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
