"""What a request gave: a record that reads as its text.

Owns the views a user reads results through: completions, choices, tokens. A completion looks at its
session, so while tokens still arrive it grows. It must not know transports or widgets; frames and static
HTML are made by their own rooms when asked for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .comparing.marks import Place, places
from .log.branching import branches_of, origin_of, source_of
from .log.events import Origin, Scored
from .log.ranking import asked_of, rank_of
from .log.session import Node, Run, Session
from .wire import CLAMPED, Clamp, Usage, parse_clamp

if TYPE_CHECKING:
    import pandas as pd

    from .replay import Replay
    from .scores.exact_ids import ExactIds

MINUS_INFINITY = -9999.0
"""vLLM writes this for a probability of zero, so that JSON stays valid."""

MOST_RANKS = 2**63
"""``prompt_logprobs=-1`` asks for every rank."""


class Alternative(Struct, frozen=True, gc=False):
    """A token the model weighed: its decoded text and natural-log probability."""

    text: str
    logprob: float

    @property
    def probability(self) -> float:
        """``exp(logprob)``."""
        return math.exp(min(self.logprob, 0.0))


class Token(Struct, frozen=True):
    """One generated token.

    ``logprob`` is a natural logarithm, before temperature and truncation; ``None`` where the server gives
    none (the first token of an echoed prompt). ``top`` maps decoded text to logprob for the sampled token and
    its alternatives, ``None`` where the server gives none. ``asked``: how many alternatives were asked for, ``None``
    where that is not known.
    """

    index: int
    text: str
    logprob: float | None = None
    top: dict[str, float] | None = None
    choice: int = 0
    asked: int | None = None

    @property
    def probability(self) -> float | None:
        """``exp(logprob)``, or ``None``."""
        return None if self.logprob is None else math.exp(min(self.logprob, 0.0))

    @property
    def surprisal(self) -> float | None:
        """``-log2 p``, in bits."""
        return None if self.logprob is None else -self.logprob / math.log(2)

    @property
    def alternatives(self) -> list[Alternative]:
        """What was returned for this position, most likely first, the sampled token among them."""
        ranked = sorted((self.top or {}).items(), key=lambda item: -item[1])
        return [Alternative(text, logprob) for text, logprob in ranked]

    @property
    def rank(self) -> int | None:
        """1 = most likely; ``None`` where it is not known: the token is not among the ``asked`` likeliest."""
        return rank_of(self.text, self.logprob, self.top, self.asked)

    @property
    def other(self) -> float | None:
        """The probability mass that the returned entries do not cover, 0 to 1."""
        if self.top is None:
            return None
        return max(0.0, 1.0 - sum(math.exp(min(logprob, 0.0)) for logprob in self.top.values()))


class PromptToken(Struct, frozen=True):
    """One token of a prompt, scored: ``prompt_logprobs`` asks for it.

    ``id`` is the token's id in the vocabulary. ``logprob`` (natural) and ``rank`` (1 = most likely) are the model's for
    this token at this place; ``alternatives`` are those that were asked for, most likely first, the token itself among
    them when its rank is.
    """

    position: int
    id: int
    text: str
    logprob: float
    rank: int | None
    alternatives: tuple[Alternative, ...]


class Choice:
    """One continuation of one prompt."""

    def __init__(self, session: Session, node: Node) -> None:
        self._session = session
        self._node = node

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self._session

    @property
    def node(self) -> str:
        """Its node in the session's tree."""
        return self._node.id

    @property
    def index(self) -> int:
        """Position in the answer: prompt-major, then by sample."""
        return self._node.choice or 0

    @property
    def text(self) -> str:
        """The text exactly as the server sent it (with the prompt in front when ``echo`` was asked for)."""
        return self._node.text

    @property
    def prompt(self) -> str:
        """The text before this choice; ``""`` when the prompt was token ids."""
        parent = self._node.parent
        return self._session.text_to(parent) if parent else ""

    @property
    def tokens(self) -> list[Token]:
        """The tokens, when log-probabilities were asked for; else empty: text alone does not tell them."""
        node, session = self._node, self._session
        # Not strict: while a run goes on, another thread may be between the three.
        rows = enumerate(zip(node.tokens, node.logprobs, node.top, strict=False))
        return [
            Token(i, text, logprob, top, self.index, asked_of(session, node, i))
            for i, (text, logprob, top) in rows
        ]

    @property
    def prompt_tokens(self) -> list[PromptToken]:
        """The prompt's tokens from position 1 on, when ``prompt_logprobs`` was asked for; position 0 has no score."""
        parent = self._node.parent
        scores = self._session.nodes[parent].scores if parent else None
        request = self._session.runs[self._node.run].request
        asked = request.get("prompt_logprobs")
        top = asked if isinstance(asked, int) and asked >= 0 else MOST_RANKS
        return [_prompt_token(i, entries, top) for i, entries in enumerate(scores or ()) if entries]

    @property
    def kept(self) -> int:
        """How many of the tokens a branch took over from the text that it left; 0 when it is none."""
        return self._node.kept

    @property
    def kept_text(self) -> str:
        """The text that a branch began with, which the model did not generate in this run; ``""`` for others."""
        node = self._node
        return "".join(node.tokens[: node.kept]) or (node.origin.text if node.origin else "")

    @property
    def logprob(self) -> float | None:
        """Sum of the tokens' logprobs, or ``None`` when they are not known."""
        known = [value for value in self._node.logprobs if value is not None]
        return math.fsum(known) if known else None

    @property
    def finish_reason(self) -> str | None:
        """``stop``, ``length``, or ``None`` when it never came."""
        return self._node.finish_reason

    @property
    def stop_reason(self) -> str | int | None:
        """The stop string that matched, the token id that ended the text, or ``None``."""
        return self._node.stop_reason

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Choice({self.index}, {_short(self.text)!r}, finish_reason={self.finish_reason!r})"


class Completion:
    """One request and what came of it. ``str()`` is the text of the first choice, exactly."""

    def __init__(self, session: Session, run: str) -> None:
        self.session = session
        self.run = run

    @property
    def _run(self) -> Run:
        # A run that its thread has not opened yet reads as one of which nothing has come.
        return self.session.runs.get(self.run) or Run(self.run, {"prompt": ""}, None, self.session.now())

    @property
    def choices(self) -> list[Choice]:
        """All choices, in the server's order."""
        return [Choice(self.session, self.session.nodes[node]) for node in self._run.nodes]

    @property
    def text(self) -> str:
        """The text of the first choice, exactly as it arrived."""
        return next(iter(self.texts), "")

    @property
    def texts(self) -> list[str]:
        """The text of every choice."""
        return [choice.text for choice in self.choices]

    @property
    def tokens(self) -> list[Token]:
        """The tokens of the first choice; see :attr:`Choice.tokens`."""
        return self.choices[0].tokens if self._run.nodes else []

    @property
    def prompt(self) -> Any:
        """The prompt as it was sent: a text, a list of texts, token ids, or lists of token ids."""
        return self._run.request["prompt"]

    @property
    def request(self) -> dict[str, Any]:
        """Every field that was sent."""
        return dict(self._run.request)

    @property
    def model(self) -> str | None:
        """The checkpoint that answered, or the id that was asked for while nothing has come."""
        return self._run.checkpoint or self._run.request.get("model")

    @property
    def usage(self) -> Usage:
        """Tokens spent; :attr:`usage_source` says how surely."""
        run = self._run
        total = run.prompt_tokens + run.completion_tokens
        return Usage(run.prompt_tokens, run.completion_tokens, total)

    @property
    def usage_source(self) -> str | None:
        """``usage`` (final), ``continuous`` (running count of a cut stream), ``estimate``, or ``None``."""
        return self._run.usage_source

    @property
    def request_id(self) -> str | None:
        """The trace id to quote in a bug report."""
        return self._run.request_id

    @property
    def id(self) -> str | None:
        """The server's ``cmpl-...`` id."""
        return self._run.completion_id

    @property
    def finish_reason(self) -> str | None:
        """That of the first choice."""
        return self.choices[0].finish_reason if self._run.nodes else None

    @property
    def outcome(self) -> str:
        """``open``, ``done``, ``stopped``, ``interrupted`` or ``failed``."""
        return self._run.outcome

    @property
    def error(self) -> dict[str, Any] | None:
        """Code, message and status when the run failed."""
        return self._run.error

    @property
    def headers(self) -> dict[str, str]:
        """What the server said beside the body: clamp, upstream model and GPU."""
        return dict(self._run.headers)

    @property
    def clamp(self) -> Clamp | None:
        """How the server lowered ``max_tokens``, if it did."""
        return parse_clamp(self._run.headers.get(CLAMPED))

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from sending to the first text."""
        run = self._run
        return None if run.first_token_at is None else run.first_token_at - run.opened_at

    @property
    def branches(self) -> list[Completion]:
        """What was branched from this completion, in the order in which it was begun; each can have its own."""
        return [Completion(self.session, run) for run in branches_of(self.session, self.run)]

    @property
    def origin(self) -> Origin | None:
        """Where a branch left its source: node, kept tokens, text put in place; ``None`` when it is no branch."""
        return origin_of(self.session, self.run)

    @property
    def source(self) -> Completion | None:
        """What a branch was branched from; ``None`` when it is no branch."""
        run = source_of(self.session, self.run)
        return None if run is None else Completion(self.session, run)

    @property
    def lane(self) -> Place | None:
        """The lane of a comparison that it came of: ``lane.letter``, ``lane.name``, ``lane.round``; else ``None``."""
        return places(self.session).get(self.run)

    def replay(self, client: Any = None) -> Replay:
        """Send the same request again and say whether it gives the same; see :mod:`acs_jupyter.replay`."""
        from .replay import replay  # noqa: PLC0415  # needs a client, which reading a record does not

        return replay(self, client)

    def with_ids(self, client: Any = None, *, choice: int = 0) -> ExactIds:
        """Token ids of the prompt and of a choice's text, by one scoring request; see :mod:`acs_jupyter.exact_ids`."""
        from .scores.exact_ids import with_ids  # noqa: PLC0415  # needs a client, which reading a record does not

        return with_ids(self, client, choice=choice)

    async def replay_async(self, client: Any = None) -> Replay:
        """:meth:`replay` with an :class:`AsyncClient`, to be awaited."""
        from .replay import replay_async  # noqa: PLC0415  # as above

        return await replay_async(self, client)

    def to_frame(self) -> pd.DataFrame:
        """One row a token (or a choice when tokens are not known); see :mod:`acs_jupyter.frames`."""
        from .frames import completion_frame  # noqa: PLC0415  # pandas loads only when a frame is asked for

        return completion_frame(self)

    def __str__(self) -> str:
        return self.text

    def __format__(self, spec: str) -> str:
        return format(self.text, spec)

    def __repr__(self) -> str:
        run = self._run
        count = f", {len(run.nodes)} choices" if len(run.nodes) > 1 else ""
        tokens = "1 token" if run.completion_tokens == 1 else f"{run.completion_tokens} tokens"
        return f"Completion({_short(self.text)!r}{count}, {self.outcome}, {tokens})"

    def _repr_html_(self) -> str:
        from .widgets.snapshot import static_html  # noqa: PLC0415  # drawn only when shown

        return static_html(self.session, self.run)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)


def _prompt_token(position: int, entries: list[Scored], top: int) -> PromptToken:
    # vLLM puts the real token first in its position, whatever its rank; the others follow from rank 1 on. So the real
    # one is among the alternatives when its rank is within what was asked for.
    token, text, logprob, rank = entries[0]
    told = [e for i, e in enumerate(entries) if i > 0 or (e[3] is not None and e[3] <= top)]
    likeliest = sorted((Alternative(e[1], e[2]) for e in told), key=lambda each: -each.logprob)
    return PromptToken(position, token, text, logprob, rank, tuple(likeliest))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
