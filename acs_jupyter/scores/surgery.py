"""Prompt surgery: what each part of a prompt does for a target that follows it.

Owns the spans, what each operation costs at most, and what has come so far. It must not know how texts are scored.

The effect of a span is ln p(target | prompt) - ln p(target | prompt without it), in nats: above 0 the span makes the
target likelier. Each operation scores one text: the prompt as operated on, and the target.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..amounts import budget_of
from ..errors import InvalidRequest
from .scoring import client_of, run_steps, with_limit
from .seams import continuation_of, continuation_steps

if TYPE_CHECKING:
    import pandas as pd

    from ..client import Client
    from .values import Continuation

Span = tuple[int, int]
COLUMNS = ["start", "end", "text", "replacement", "logprob", "effect", "seam"]
_ENDS = re.compile("(?<=[.!?…])[\"'”’)\\]]*(?=\\s)|(?<=[。！？])|(?=\n)")


@dataclass(frozen=True)
class Effect:
    """One operation. ``start``, ``end``: the span in the prompt, in characters. ``logprob``: the target's after it, in
    nats; ``effect``: how much more it is with the span. ``seam``: as of :class:`Continuation`."""

    start: int
    end: int
    text: str
    replacement: str
    logprob: float
    effect: float
    seam: str


class Surgery:
    """Operations on a prompt, measured at a target; :meth:`run` sends them, and goes on where it was left.

    ``spans``: pairs of places in the prompt (characters), or texts that stand in it once; by default its sentences,
    each with the blanks in front of it. ``replace``: what is put in a span's place, by default nothing. ``batch``:
    operations a request. Other options as for :func:`score`. Nothing is sent before :meth:`run`; ``worst`` says what
    it can cost.
    """

    def __init__(
        self,
        prompt: str,
        target: str,
        spans: Sequence[Span | str] | None = None,
        *,
        replace: str = "",
        batch: int = 16,
        **options: Any,
    ) -> None:
        if not prompt or not target:
            raise InvalidRequest("Surgery needs a prompt and a target.")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise InvalidRequest(f"batch={batch!r} must be a whole number from 1 on.")
        self.prompt, self.target, self.replace = prompt, target, replace
        self.spans = sentences(prompt) if spans is None else [_place(prompt, span) for span in spans]
        self._batch, self._options = batch, options
        self._came: dict[Span | None, Continuation] = {}
        self.spent = 0
        """Tokens that were billed so far."""
        for start, end in self.spans:
            if not prompt[:start] + replace + prompt[end:]:
                raise InvalidRequest(
                    "A span is the whole prompt: nothing would stand in front of the target. "
                    "Say replace=..., or spans=..."
                )

    @property
    def worst(self) -> int:
        """Tokens that what is left can cost at most: a token a byte, a start token and the one generated, for each."""
        return sum(self._bound(one) for one in self._left())

    @property
    def done(self) -> bool:
        """Whether every operation has been measured."""
        return not self._left()

    @property
    def logprob(self) -> float | None:
        """The target's after the prompt as it is, in nats, once it is known."""
        whole = self._came.get(None)
        return None if whole is None else whole.logprob

    @property
    def effects(self) -> list[Effect]:
        """What has come so far, in the order of the spans."""
        whole = self._came.get(None)
        if whole is None:
            return []
        return [
            Effect(
                *span, self.prompt[slice(*span)], self.replace, came.logprob, whole.logprob - came.logprob, came.seam
            )
            for span in self.spans
            if (came := self._came.get(span)) is not None
        ]  # fmt: skip

    def run(
        self,
        *,
        budget: int | str | None = None,
        client: Client | None = None,
        into: str | os.PathLike[str] | None = None,
        **how: Any,
    ) -> Surgery:
        """Measure what is left. ``budget``: tokens this call may be billed; it stops before a request that could exceed
        it. What came is kept, also when a request fails: call it again to go on.

        With ``into`` (``"cut.acs.db"``) it is kept in that file, operation by operation: the same surgery made anew, in
        another kernel too, goes on there and pays nothing twice. ``how``: options of :func:`rollout` (``in_flight``,
        ``retry_failed``, ...).

        Raises :class:`InvalidRequest` when the budget has no room for the first request, or the request's error (a text
        above the model's context is one: read in windows it would cost more than was said).
        """
        most = budget_of(budget)
        if into is not None:
            self._through(Path(into), most, client, how)
            return self
        if how:
            raise InvalidRequest(
                f"{', '.join(how)}: only with into=, the file that operations go through; give it too."
            )
        before = self.spent
        with client_of(client) as used:
            while left := self._left()[: self._batch]:
                room = None if most is None else most - (self.spent - before)
                while room is not None and left and sum(map(self._bound, left)) > room:
                    left.pop()
                if left:
                    self._measure(left, used)
                elif self.spent == before:
                    raise self._no_room(most)
                else:
                    break
        return self

    def _no_room(self, budget: int | None) -> InvalidRequest:
        return InvalidRequest(
            f"budget={budget} has no room for the first request, which can cost {self._bound(self._left()[0])} "
            f"tokens; all that is left can cost {self.worst}. Nothing was sent: raise it."
        )

    def _through(self, into: Path, budget: int | None, client: Client | None, how: dict[str, Any]) -> None:
        from ..rollouts import Rollout  # noqa: PLC0415  # as above
        from .documents import scored  # noqa: PLC0415  # rollouts load with the first

        spans: list[Span | None] = [None, *dict.fromkeys(self.spans)]
        before = Rollout(into).stats.tokens if into.exists() else 0
        options = {k: v for k, v in self._options.items() if k in ("model", "add_special_tokens")} | how
        if budget is not None:
            options["budget"] = before + budget
        texts = [self._operated(span) + self.target for span in spans]
        found = scored(texts, into, client=client, windows=False, **options)
        for span, one in zip(spans, found, strict=True):
            if one.score is not None:
                self._came[span] = continuation_of(self._operated(span), self.target, one.score)
        self.spent = sum(one.billed for one in found)
        failed = [one.error for one in found if one.error is not None and one.failed]
        if failed:
            raise InvalidRequest(
                f"{len(failed)} of {len(found)} operations failed ({', '.join(dict.fromkeys(failed))}). What came is "
                "kept; run(into=..., retry_failed=True) sends the others again."
            )
        if budget is not None and self.spent == before and not self.done:
            raise self._no_room(budget)

    def to_frame(self) -> pd.DataFrame:
        """One row a span: ``start``, ``end`` (characters), ``text``, ``replacement``, ``logprob`` (the target's, nats),
        ``effect`` (nats), ``seam``; ``attrs`` hold the target and its ``logprob`` after the whole prompt."""
        import pandas as pd  # noqa: PLC0415  # only when a frame is asked for

        frame = pd.DataFrame([[getattr(e, name) for name in COLUMNS] for e in self.effects], columns=COLUMNS)
        frame.attrs = {"target": self.target, "logprob": self.logprob, "spent": self.spent}
        return frame

    def _left(self) -> list[Span | None]:
        return [one for one in (None, *dict.fromkeys(self.spans)) if one not in self._came]

    def _operated(self, span: Span | None) -> str:
        if span is None:
            return self.prompt
        return self.prompt[: span[0]] + self.replace + self.prompt[span[1] :]

    def _bound(self, span: Span | None) -> int:
        return len((self._operated(span) + self.target).encode("utf-8", "surrogatepass")) + 2

    def _measure(self, spans: list[Span | None], client: Client) -> None:
        pairs = [(self._operated(span), self.target) for span in spans]
        options = {"batch": self._batch, **with_limit(self._options, client)}
        came = run_steps(continuation_steps(pairs, **options), client, windows=False)
        self._came.update(zip(spans, came, strict=True))
        self.spent += sum(one.usage.total_tokens for one in came)

    def _repr_html_(self) -> str:
        from ..widgets.difference import effects_html  # noqa: PLC0415  # drawn only when shown

        return effects_html(self.prompt, [(e.start, e.end, e.effect) for e in self.effects], self._line())

    def _line(self) -> str:
        if self.logprob is None:
            return f"Nothing was measured yet; run() can cost {self.worst:,} tokens."
        rest = "" if self.done else f" {len(self._left())} spans are left: run() again."
        seams = sum(e.seam != "clean" for e in self.effects)
        joined = f" {seams} with a token that spans the seam, counted whole." if seams else ""
        logprob = f"{self.logprob:.2f}".replace("-", "−")
        return (
            f"Target {self.target!r}: logprob {logprob} nats after the whole prompt. Spans over an orange "
            f"line make it likelier, over a blue dashed one less likely.{joined}{rest}"
        )

    def __repr__(self) -> str:
        return f"Surgery({len(self.spans)} spans, {len(self.effects)} measured: {self._line()})"


def sentences(text: str) -> list[Span]:
    """Places of the sentences of a text, each with the blanks in front of it; together they are the text."""
    cuts = sorted({0, len(text), *(found.end() for found in _ENDS.finditer(text))})
    spans: list[Span] = []
    begin = 0
    for cut in cuts[1:]:
        if text[begin:cut].strip():
            spans.append((begin, cut))
            begin = cut
    if begin < len(text):  # blanks at the end stay with the last one
        spans = [*spans[:-1], (spans[-1][0] if spans else 0, len(text))]
    return spans


def _place(prompt: str, span: Any) -> Span:
    if isinstance(span, str):
        if not span or prompt.count(span) != 1:
            raise InvalidRequest(
                f"The span {span!r} stands {prompt.count(span) if span else 0} times in the prompt: "
                "give places (start, end)."
            )
        start = prompt.index(span)
        return start, start + len(span)
    try:
        start, end = span
        if 0 <= start < end <= len(prompt):
            return int(start), int(end)
    except (TypeError, ValueError):
        pass
    raise InvalidRequest(
        f"The span {span!r} is no text of the prompt and no (start, end) in its {len(prompt)} characters."
    )
