"""Branches: which runs grew from which, and what a wish for a new one comes to.

Owns the family of a run, the plan that an intent makes, and how many tokens a branch should have cost if its text
was read as it was written. It must not know transports or windows; nothing here sends anything.
"""

from __future__ import annotations

from typing import Any

from .events import Origin
from .intents import Branching, Edit, Fork
from .session import Fork as Plan
from .session import Node, Session

_SEEDS = 2**63
_COUNTED = ("usage", "continuous")


def origin_of(session: Session, run: str) -> Origin | None:
    """Where a run branched from another one; ``None`` when it is no branch."""
    here = session.runs.get(run)
    return session.nodes[here.nodes[0]].origin if here and here.nodes else None


def source_of(session: Session, run: str) -> str | None:
    """The run that a branch left; ``None`` when it is no branch."""
    origin = origin_of(session, run)
    return None if origin is None else session.nodes[origin.node].run


def root_of(session: Session, run: str) -> str:
    """The run that a branch, and what it branched from, began with."""
    while (source := source_of(session, run)) is not None:
        run = source
    return run


def branches_of(session: Session, run: str) -> list[str]:
    """The runs that left this one, in the order in which they were opened."""
    return [other for other in list(session.runs) if source_of(session, other) == run]


def descendants(session: Session, run: str) -> list[str]:
    """All branches of a run and theirs, in the order in which they were opened: branch 1, branch 2, ..."""
    family = {run}
    found = []
    for other in list(session.runs):
        if source_of(session, other) in family:
            family.add(other)
            found.append(other)
    return found


def road(session: Session, run: str) -> list[str]:
    """The runs from the original to this one."""
    source = source_of(session, run)
    return [run] if source is None else [*road(session, source), run]


def plan(session: Session, intent: Branching) -> Plan:
    """The request, and where it hangs, that an intent asks for: one more choice, with the node's own parameters.

    A seed moves on by one for each earlier branch from the same place, or it would give the same text again.
    Raises ``ValueError`` or ``IndexError`` with one line for the user.
    """
    node = session.nodes.get(intent.node)
    if node is None or node.choice is None:
        raise ValueError("This continuation is not in the kernel's memory any more; run its cell again.")
    changes: dict[str, Any] = {"n": None, "prompt_logprobs": None}
    made = _made(session, node, intent, changes)
    seed = session.runs[node.run].request.get("seed")
    if not isinstance(seed, int) or made.origin is None:
        return made
    return _made(session, node, intent, {**changes, "seed": (seed + _earlier(session, made.origin)) % _SEEDS})


def expected_prompt(session: Session, run: str) -> int | None:
    """Tokens a text branch's prompt has when the server reads it token by token as it was written.

    Known for nothing: the original's counted prompt, the kept tokens, and one for a token put in their place.
    ``None`` when that cannot be said: the text was edited, ids were sent, or a count is missing.
    """
    origin = origin_of(session, run)
    if origin is None or origin.exact:
        return None
    return _tokens_before(session, session.nodes[session.runs[run].nodes[0]], None)


def retokenised(session: Session, run: str) -> tuple[int, int] | None:
    """Prompt tokens expected and counted, when they differ: then the server read the text in other tokens."""
    here = session.runs[run]
    expected = expected_prompt(session, run)
    if expected is None or here.usage_source not in _COUNTED or not here.prompt_tokens:
        return None
    return (expected, here.prompt_tokens) if expected != here.prompt_tokens else None


def _made(session: Session, node: Node, intent: Branching, changes: dict[str, Any]) -> Plan:
    if isinstance(intent, Fork):
        return session.fork(node.id, token=intent.token, replacement=intent.text, **changes)
    if isinstance(intent, Edit):
        return session.edit(node.id, intent.text, token=intent.token, **changes)
    if not node.tokens and not intent.token:  # text alone: there is one place to sample from, its beginning
        return session.edit(node.id, "", **changes)
    return session.fork(node.id, token=intent.token, **changes)


def _earlier(session: Session, origin: Origin) -> int:
    place = (origin.node, origin.tokens, origin.text)
    others = [origin_of(session, run) for run in list(session.runs)]
    same = sum(other is not None and (other.node, other.tokens, other.text) == place for other in others)
    return same + (not origin.text)


def _tokens_before(session: Session, node: Node, count: int | None) -> int | None:
    """Tokens from the prompt's first to the node's ``count``-th (``None``: those it was opened with)."""
    run, origin = session.runs[node.run], node.origin
    count = node.kept if count is None else count
    if origin is None:
        one = isinstance(run.request.get("prompt"), str)
        known = one and not node.echo and run.usage_source in _COUNTED and run.prompt_tokens
        return run.prompt_tokens + count if known else None
    if count > node.kept:
        counted = run.usage_source in _COUNTED and run.prompt_tokens
        return run.prompt_tokens + count - node.kept if counted else None
    put = count - origin.tokens
    if origin.text and node.kept == origin.tokens:
        return None  # text was taken over whose tokens nobody knows
    if put > 0 and not _is_token(node, origin):
        return None
    before = _tokens_before(session, session.nodes[origin.node], min(count, origin.tokens))
    return None if before is None else before + max(0, put)


def _is_token(node: Node, origin: Origin) -> bool:
    """Whether the text put in place is one token: one of the alternatives that came for that place."""
    top = node.top[origin.tokens] if origin.tokens < len(node.top) else None
    return top is not None and origin.text in top
