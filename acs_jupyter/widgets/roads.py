"""What is said about a branch in words; ``js/src/parts/road.ts`` says the same.

Owns the names of branches and of the places where they leave. It must not know markup or widgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..log import branching
from .reading import visible

if TYPE_CHECKING:
    from ..log.session import Session

_LONGEST = 24


def branch_name(session: Session, run: str) -> str:
    """``original`` or ``branch 3``: branches of one original are counted as they were opened."""
    root = branching.root_of(session, run)
    return "original" if run == root else f"branch {branching.descendants(session, root).index(run) + 1}"


def source_name(session: Session, run: str) -> str:
    """What a branch left: ``original``, ``original 2`` (its second choice) or ``branch 3``."""
    origin = branching.origin_of(session, run)
    if origin is None:
        return ""
    node = session.nodes[origin.node]
    several = len(session.runs[node.run].nodes) > 1
    return branch_name(session, node.run) + (f" {(node.choice or 0) + 1}" if several else "")


def leaving_words(session: Session, run: str) -> str:
    """Where and how a branch leaves the text it came from: ``token 5 “·the”``; ``""`` for what is no branch."""
    origin = branching.origin_of(session, run)
    if origin is None:
        return ""
    source = session.nodes[origin.node]
    place = f"token {origin.tokens + 1:,}" if source.tokens else ""
    if not origin.text:
        return f"{place} sampled again" if place else "sampled again"
    top = source.top[origin.tokens] if origin.tokens < len(source.top) else None
    if top is not None and origin.text in top:
        return f"{place} {_short(origin.text)}"
    return f"edited from {place}" if place else "edited"


def seam_words(session: Session, run: str) -> str:
    """How a branch was sent, and what is known of its seam; ``""`` for what is no branch."""
    origin = branching.origin_of(session, run)
    if origin is None:
        return ""
    first = "" if origin.seam is None else f"first at token {origin.seam + 1:,}"
    if origin.exact:
        words = f"by token ids, found for {origin.cost:,} tokens"
        read = "the server reads what was kept otherwise than it was written"
        return f"{words}; {read}, {first}" if first else words
    differ = branching.retokenised(session, run)
    if differ is not None:
        expected, counted = differ
        words = f"by text, retokenised: the server read {counted:,} tokens where {expected:,} were written"
        where = f", {first}" if first else "; where is not to be found" if origin.cost else ""
        return words + where
    if branching.expected_prompt(session, run) is None or not _counted(session, run):
        return "by text; whether the seam was retokenised is not known"
    return "by text; the server counted the tokens that were written"


def _counted(session: Session, run: str) -> bool:
    here = session.runs[run]
    return here.usage_source in ("usage", "continuous") and here.prompt_tokens > 0


def _short(text: str) -> str:
    characters = [visible(character) for character in text]
    shown = "".join(characters[:_LONGEST])
    return f"“{shown}…”" if len(characters) > _LONGEST else f"“{shown}”"
