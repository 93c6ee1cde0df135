"""Growing a loom by itself: which node grows next, by a scorer of the user's own.

Owns the order, the budget, and how a search is taken up again. It must not know clients: steps ask for growths and for
scores, and are told when they are there; ``loom.py`` drives them.

What was done is read from the tree: a node below which enough finished samples hang has been expanded, and the scores
are kept as marks of the nodes (``scores``, see ``scorers.py``: one holds for one text and one scorer). So a search
that was stopped or killed goes on where it was, from the loom's file too, and neither asks nor scores twice. Samples
that broke off stay in the tree, and are made up for by new ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..errors import InvalidRequest
from ..ledger.terms import worst_case
from ..log.events import Change, Revised
from ..log.session import Node, Session
from ..log.standing import alive
from .measure import Measured, path_logprob
from .scorers import digest, identified, kept_scores, known_score, number

if TYPE_CHECKING:
    import pandas as pd

    from ..wire import CompletionRequest

How = Literal["best-first", "beam"]


@dataclass(frozen=True)
class Candidate:
    """A node as a scorer sees it. ``depth``: growths from where the search began."""

    session: Session
    id: str
    depth: int

    @property
    def node(self) -> Node:
        """The node itself: tokens, logprobs, finish reason."""
        return self.session.nodes[self.id]

    @property
    def text(self) -> str:
        """The whole text from the root to the end of the node."""
        return self.session.text_to(self.id)

    @property
    def own_text(self) -> str:
        """The node's own text."""
        return self.session.own_text(self.node)

    @property
    def logprob(self) -> Measured:
        """The path's log-probability from the prompt's end."""
        return path_logprob(self.session, self.id)


Scorer = Callable[[Candidate], float | None]
"""The larger, the sooner it goes on; ``None``: this node does not."""


@dataclass(frozen=True)
class Grow:
    """A growth that is asked for: ``n`` children of a node."""

    node: str
    n: int


@dataclass
class Search:
    """What is searched, and how far. ``width``: children of each node that is expanded, by one request; ``depth``:
    growths from the first node; ``keep``: nodes of a level that go on in a beam; ``budget``: tokens this call may be
    billed; ``requests``: how many it may send; ``name``: under which the scores are kept
    (the scorer's own)."""

    node: str
    scorer: Scorer
    width: int = 3
    depth: int = 4
    how: How = "best-first"
    keep: int = 3
    budget: int | None = None
    requests: int | None = None
    name: str | None = None

    @functools.cached_property
    def identity(self) -> tuple[str, str | None]:
        """The name of the scores, and what tells this scorer from others of the name."""
        return identified(self.scorer, self.name)

    def check(self) -> None:
        """Raise :class:`InvalidRequest` for what cannot be."""
        if not callable(self.scorer):
            raise InvalidRequest("scorer must be a function of a candidate: lambda c: c.logprob.per_token.")
        if self.how not in ("best-first", "beam"):
            raise InvalidRequest(f"how={self.how!r} must be best-first or beam.")
        for name in ("width", "depth", "keep", "budget", "requests"):
            value = getattr(self, name)
            optional = value is None and name in ("budget", "requests")
            if not optional and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidRequest(f"{name}={value!r}: a whole number of at least 1 is needed.")
        if self.width > 16:
            raise InvalidRequest(f"width={self.width}: one request makes at most 16; lower it.")
        if self.budget is None and self.requests is None:
            raise InvalidRequest("A search needs a bound: say budget= (tokens) or requests=.")
        _ = self.identity  # a name that is none is told before anything is sent


@dataclass
class Expansion:
    """What a search found. ``scores`` of all nodes it looked at, ``expanded`` those it grew, ``best`` first.

    ``stopped``: ``done`` (nothing is left within ``depth``), ``budget`` or ``requests``; ``spent``: tokens billed by
    this call, ``sent``: its requests.
    """

    session: Session
    node: str
    scores: dict[str, float | None] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    expanded: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    stopped: str = ""
    spent: int = 0
    sent: int = 0

    @property
    def best(self) -> list[str]:
        """The nodes that were scored, the largest first."""
        known = [(score, node) for node, score in self.scores.items() if score is not None]
        return [node for _, node in sorted(known, key=lambda one: -one[0])]

    def to_frame(self) -> pd.DataFrame:
        """One row a node, the best first: ``score`` (the scorer's own unit; missing: it does not go on), ``depth``
        (growths), ``expanded``, ``kept`` (it is one of its level's that go on, in a beam), its own ``text``,
        ``path_logprob`` (nats) and ``path_per_token``, ``finish_reason``. ``attrs`` hold ``stopped``, ``spent``,
        ``sent``.
        """
        from .measure_frames import SEARCH_COLUMNS, frame_of  # noqa: PLC0415  # pandas loads only when a frame is asked for

        rest = [node for node, score in self.scores.items() if score is None]
        rows = []
        for name in [*self.best, *rest]:
            node, path = self.session.nodes[name], path_logprob(self.session, name)
            rows.append([
                name, node.parent, self.depths[name], self.scores[name], name in self.expanded, name in self.kept,
                self.session.own_text(node), path.total, path.per_token, node.finish_reason,
            ])  # fmt: skip
        about = {"stopped": self.stopped, "spent": self.spent, "sent": self.sent}
        return frame_of(rows, SEARCH_COLUMNS, **about)

    def __repr__(self) -> str:
        return (
            f"Expansion({len(self.expanded)} expanded, {len(self.scores)} scored, {self.spent} tokens in {self.sent} "
            f"requests, {self.stopped or 'under way'})"
        )


Steps = Generator[Grow, None, None]


def search_steps(session: Session, search: Search, here: Expansion) -> Steps:
    """Ask for growths, best first or level by level, until nothing is left. The caller ends it at a bound."""
    search.check()
    if search.how == "beam":
        yield from _beam(session, search, here)
    else:
        yield from _best_first(session, search, here)
    here.stopped = "done"


def _best_first(session: Session, search: Search, here: Expansion) -> Steps:
    first = search.node
    here.depths[first] = 0
    waiting = {first: math.inf}  # the node itself grows first, whatever its score
    while waiting:
        node = max(waiting, key=lambda one: (waiting[one], -here.depths[one]))
        del waiting[node]
        yield from _grown(session, search, here, node)
        if here.depths[node] + 1 > search.depth:
            continue
        for child in _candidates(session, search, here, node):
            score = here.scores[child]
            if score is not None and here.depths[child] < search.depth and _goes_on(session, child):
                waiting[child] = score


def _beam(session: Session, search: Search, here: Expansion) -> Steps:
    level = [search.node]
    here.depths[search.node] = 0
    for depth in range(search.depth):
        found: list[str] = []
        for node in level:
            yield from _grown(session, search, here, node)
            found += _candidates(session, search, here, node)
        scored = [child for child in found if here.scores[child] is not None]
        scored.sort(key=lambda child: -(here.scores[child] or 0.0))
        chosen = scored[: search.keep]
        here.kept.update(chosen)
        level = [child for child in chosen if depth + 1 < search.depth and _goes_on(session, child)]
        if not level:
            return


def _grown(session: Session, search: Search, here: Expansion, node: str) -> Steps:
    lacking = search.width - len(_finished(session, node))
    if lacking > 0:
        yield Grow(node, lacking)
    here.expanded.append(node)


def _candidates(session: Session, search: Search, here: Expansion, node: str) -> list[str]:
    """The finished children of a node, each scored once."""
    children = _finished(session, node)
    for child in children:
        here.depths[child] = here.depths[node] + 1
        if child not in here.scores:
            here.scores[child] = _score(session, search, child, here.depths[child])
    return children


def _finished(session: Session, node: str) -> list[str]:
    """Samples below a node that came to their end."""
    children = [session.nodes[child] for child in alive(session, node)]
    return [c.id for c in children if c.choice is not None and c.finish_reason in ("stop", "length")]


def _goes_on(session: Session, node: str) -> bool:
    """Whether there is anything to continue: a text that the model ended itself is over."""
    here = session.nodes[node]
    return here.finish_reason == "length" or here.stop_reason is not None


def _score(session: Session, search: Search, node: str, depth: int) -> float | None:
    kept, text = kept_scores(session, node), session.text_to(node)
    name, by = search.identity
    known = known_score(kept, name, text, by)
    if known is not None:
        return known[0]
    try:
        score = number(search.scorer(Candidate(session, node, depth)), node)
    except InvalidRequest:
        raise
    except Exception as error:  # it is the user's own
        raise InvalidRequest(
            f"The scorer failed at node {node}: {type(error).__name__}: {error}. "
            "What was grown is kept; mend the scorer."
        ) from error
    if by is not None:
        change = Change(node, "scores", {**kept, name: [score, digest(text), by]})
        session.apply([Revised("score", "view", changes=(change,))])
    return score


def has_room(search: Search, here: Expansion, request: CompletionRequest) -> bool:
    """Whether a request fits what is left of the bounds; says in ``stopped`` which one it does not fit."""
    if search.requests is not None and here.sent >= search.requests:
        here.stopped = "requests"
        return False
    if search.budget is not None and here.spent + worst_case(request).total > search.budget:
        here.stopped = "budget"
        return False
    return True
