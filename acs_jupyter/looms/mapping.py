"""Which requests make a multiverse map, and what their answers mean.

Owns the order (the likeliest cell first), the two ways of asking, and the budget. It must not know clients or sockets:
steps yield the fields of requests and are sent their completions (or errors), as those of ``scores/steps.py`` do; the
drivers are there.

By ids: the ids of the node's text are found first (``token_ids.py``); then a cell's ids go out as a prompt with one
more id behind, and ``prompt_logprobs`` tells what may stand in that one's place, with the ids. By text: the text goes
out with ``max_tokens`` 1 and ``logprobs``. That tells no ids, and a server may read the text of a cell in other
tokens than those that were weighed; of a long text it costs a server less, since it can keep what it has read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from ..completion import MINUS_INFINITY, Completion
from ..errors import AcsError, InvalidRequest, NoPromptLogprobs
from ..log.events import Scored
from ..scores.steps import TOO_LONG, Fields, Steps
from ..token_ids import Unknown, found, probes, scoring_fields
from .multiverse import Cell, Multiverse

MOST_EXACT = 4000
"""Bytes of a text up to which ids are used unless told otherwise: each answer tells all positions."""
RETOKENISED = "By text: the server may read a cell's text in other tokens than the ones that were weighed."
DIFFERS = (
    "The server reads the node's text in other tokens than the model wrote it in; the map is of its reading."
)


@dataclass
class Plan:
    """What a map may take and how far it goes. ``budget``: tokens this call may be billed; ``requests``: how many it
    may send; ``depth``: tokens from the node; ``least``: the area below which nothing is asked behind a cell;
    ``width``: tokens asked for behind each; ``batch``: cells a request; ``in_flight``: requests side by side, which are
    chosen together; ``exact``: by ids (``None``: where they can be had); ``like``: fields of the node's own request;
    ``tokens``: those its text was written in, as far as they are known."""

    budget: int | None = None
    requests: int | None = None
    depth: int = 8
    least: float = 0.001
    width: int = 5
    batch: int = 8
    in_flight: int = 4
    exact: bool | None = None
    like: Fields = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    stop: Callable[[], bool] = lambda: False

    def check(self) -> None:
        """Raise :class:`InvalidRequest` for what cannot be."""
        for name in ("depth", "width", "batch", "in_flight", "budget", "requests"):
            value = getattr(self, name)
            optional = value is None and name in ("budget", "requests")
            if not optional and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidRequest(f"{name}={value!r}: a whole number of at least 1 is needed.")
        if self.budget is None and self.requests is None:
            raise InvalidRequest("A map needs a bound: say budget= (tokens) or requests=.")
        good = isinstance(self.least, (int, float)) and not isinstance(self.least, bool)
        if not good or not 0 <= self.least <= 1:
            raise InvalidRequest(f"least={self.least!r} must be a probability, 0 to 1.")


def map_steps(here: Multiverse, text: str, plan: Plan, came: Callable[[], None]) -> Steps[None]:
    """Expand a map until nothing is left to ask or the plan's bounds are reached; ``came`` is called behind each
    answer. Raises the error of a request; what came before it stays."""
    plan.check()
    meter = _Room(here, plan)
    here.stopped = "stopped"
    if not here.by:
        yield from _begun(here, text, plan, meter)
        came()
    while not plan.stop():
        cells = [c for c in here.open if c.area >= plan.least and c.depth < plan.depth]
        if not cells:
            here.stopped = "done"
            return
        groups = _groups(here, text, cells, plan, meter)
        if not groups:
            here.stopped = meter.why
            return
        # Their results come one by one, each while the others are under way.
        answers = yield [_fields(here, text, group, plan) for group, _ in groups]
        failed: AcsError | None = None
        for (group, bound), answer in zip(groups, answers, strict=True):
            meter.ended(bound, answer)
            if isinstance(answer, AcsError):
                failed = failed or answer
                continue
            _read(here, group, answer, plan)
            came()
        if failed is not None:
            raise failed


def _groups(
    here: Multiverse, text: str, cells: list[Cell], plan: Plan, meter: _Room
) -> list[tuple[list[Cell], int]]:
    """What is asked side by side: of each request its cells and the most it can cost, which counts from now on."""
    groups: list[tuple[list[Cell], int]] = []
    cells = cells[: plan.batch * plan.in_flight]
    for place in range(0, len(cells), plan.batch):
        group = cells[place : place + plan.batch]
        while group and not meter.has(_bound(here, text, group)):
            group.pop()
        if not group:
            break
        groups.append((group, _bound(here, text, group)))
        meter.sent(groups[-1][1])
    return groups


class _Room:
    """What may still be spent. A request counts at its most from when it is sent until its usage is known."""

    def __init__(self, here: Multiverse, plan: Plan) -> None:
        self._here, self._plan = here, plan
        self._spent, self._sent = here.spent, here.requests
        self.why = "budget"

    def has(self, bound: int) -> bool:
        plan, here = self._plan, self._here
        if plan.requests is not None and here.requests - self._sent >= plan.requests:
            self.why = "requests"
            return False
        self.why = "budget"
        return plan.budget is None or here.spent - self._spent + bound <= plan.budget

    def sent(self, bound: int) -> None:
        self._here.requests += 1
        self._here.spent += bound

    def ended(self, bound: int, answer: Any) -> None:
        if isinstance(answer, Completion) and answer.usage.total_tokens:
            self._here.spent += answer.usage.total_tokens - bound


Answers = Generator[list[Fields], Any, Any]


def _asked(fields: Fields, meter: _Room, bound: int) -> Answers:
    meter.sent(bound)
    [answer] = yield [fields]
    meter.ended(bound, answer)
    return answer


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _bound(here: Multiverse, text: str, cells: list[Cell]) -> int:
    """Tokens that a request for these cells costs at most; of ids it is their number."""
    if here.by == "ids":
        return sum(len(here.ids(cell.number)) + 2 for cell in cells)
    return sum(_bytes(text + cell.text) + 2 for cell in cells)


# -- the beginning --------------------------------------------------------------------------------


def _begun(here: Multiverse, text: str, plan: Plan, meter: _Room) -> Generator[list[Fields], Any, None]:
    """Find the ids of the text, or settle for the text."""
    if plan.exact is False or (plan.exact is None and (not text or _bytes(text) > MOST_EXACT)):
        _by_text(here)
        return
    try:
        asked = probes(text)
    except Unknown as problem:
        _without(here, plan, str(problem))
        return
    bound = sum(_bytes(one) + 2 for one in asked)
    if not meter.has(bound + _bytes(text) + 3):
        if plan.exact:
            raise InvalidRequest(
                f"The budget has no room for finding the ids of the text, which can cost {bound} tokens: raise it."
            )
        _by_text(here)
        return
    answer = yield from _asked({**scoring_fields(asked, plan.like), "stream": False}, meter, bound)
    if isinstance(answer, AcsError):
        if isinstance(answer, TOO_LONG) or not isinstance(answer, (InvalidRequest, NoPromptLogprobs)):
            raise answer
        _without(here, plan, answer.message)
        return
    try:
        scores = [answer.session.nodes[choice._node.parent or ""].scores or [] for choice in answer.choices]
        read = found(text, "", scores, plan.tokens)
    except Unknown as problem:
        _without(here, plan, str(problem))
        return
    here.by, here.prompt = "ids", read.ids
    if read.differs is not None:
        here.notes.append(DIFFERS)


def _by_text(here: Multiverse) -> None:
    here.by = "text"
    here.notes.append(RETOKENISED)


def _without(here: Multiverse, plan: Plan, problem: str) -> None:
    if plan.exact:
        raise InvalidRequest(f"No map by ids: {problem} Say exact=False to map by text.")
    _by_text(here)


# -- cells ----------------------------------------------------------------------------------------


def _fields(here: Multiverse, text: str, cells: list[Cell], plan: Plan) -> Fields:
    like: Fields = {name: plan.like[name] for name in ("model", "add_special_tokens") if name in plan.like}
    fields = {**like, "max_tokens": 1, "temperature": 0.0, "stream": False}
    prompts: list[Any]
    if here.by == "ids":
        # Any id may stand in the place that is asked about: what is told of it does not depend on which. The rank of
        # an unlikely one takes some servers a look at the whole vocabulary, so it is one that is likely in many places.
        usual = _usual(here)
        prompts = [[*ids, ids[-1] if usual is None else usual] for ids in (here.ids(c.number) for c in cells)]
        fields |= {"prompt_logprobs": plan.width}
        fields.pop("add_special_tokens", None)
    else:
        prompts = [text + cell.text for cell in cells]
        fields |= {"logprobs": plan.width}
    return {**fields, "prompt": prompts[0] if len(prompts) == 1 else prompts}


def _read(here: Multiverse, cells: list[Cell], answer: Completion, plan: Plan) -> None:
    choices = answer.choices
    if len(choices) != len(cells):
        raise NoPromptLogprobs("The server answered fewer texts than it was asked for.")
    for cell, choice in zip(cells, choices, strict=True):
        node = choice._node
        if here.by == "ids":
            positions = answer.session.nodes[node.parent or ""].scores
            if not positions or not positions[-1]:
                raise NoPromptLogprobs("The server returned no alternatives for the next token.")
            told = _likeliest(positions[-1], plan.width)
            here.expand(cell.number, [(e[1], e[2], e[0]) for e in told if e[2] > MINUS_INFINITY])
            continue
        top = node.top[0] if node.top else None
        if top is None and not choice.finish_reason == "stop":
            raise NoPromptLogprobs("The server returned no alternatives for the next token.")
        listed = sorted((top or {}).items(), key=lambda one: -one[1])[: plan.width]
        here.expand(cell.number, [(t, p, None) for t, p in listed if p > MINUS_INFINITY and math.isfinite(p)])


def _usual(here: Multiverse) -> int | None:
    """The id that most cells told as one that may follow; ``None`` before the first."""
    told = Counter(cell.id for cell in here.cells if cell.id is not None and cell.kind != "end")
    return told.most_common(1)[0][0] if told else None


def _likeliest(entries: list[Scored], width: int) -> list[Scored]:
    """The likeliest of a place's entries: the first is what stood there, one too many unless it is one of them."""
    if entries[0][3] is None:
        return entries if len(entries) <= width else entries[1:]
    return [entry for entry in entries if entry[3] is None or entry[3] <= width]
