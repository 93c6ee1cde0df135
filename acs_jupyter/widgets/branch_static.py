"""What a branch is in a static view and in plain text: its name, the end of what it kept, what is its own.

Owns how much of the kept text is said again: its source stands in the same view. It must not know pages or widgets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .roads import branch_name, leaving_words, seam_words, source_name
from .tinted import text_of
from .words import clamp_words, error_words, status_words

if TYPE_CHECKING:
    from ..log.session import Node, Session

LEAD = 80
"""Characters of what stands before it that are shown with a branch from a long text; its source has the rest."""


def branch_markup(session: Session, branch: str, texts: dict[str, str]) -> str:
    """A branch under its name: the end of what it kept as plain text, what was sampled on as ``texts`` has it."""
    here = session.runs[branch]
    node = session.nodes[here.nodes[0]]
    kept = text_of(_lead(node)).replace("\n", "&#10;")
    lines = (
        ("acs-line acs-error", error_words(here)),
        ("acs-line", clamp_words(here)),
        ("acs-line", f"{status_words(session, here)} · {seam_words(session, branch)}"),
    )
    return "".join(
        [
            f'<div><div class="acs-name">{text_of(_branch_line(session, branch))}</div>',
            '<pre style="white-space:pre-wrap;word-break:normal">',
            f'<span style="opacity:.65">{kept}</span>{texts.get(node.id, "")}</pre>',
            *(f'<div class="{name}">{text_of(line)}</div>' for name, line in lines if line),
            "</div>",
        ]
    )


def branch_plain(session: Session, branch: str) -> str:
    """A branch as plain text."""
    node = session.nodes[session.runs[branch].nodes[0]]
    return f"--- {_branch_line(session, branch)} ---\n{_lead(node)}{own_part(node).text}"


def further(count: int) -> str:
    """What is said of branches that are not shown."""
    return f"{count:,} further {'branch' if count == 1 else 'branches'} in this output's record: acs_jupyter.load"


def own_part(node: Node) -> Node:
    """What a branch has of its own, the token put in place included: all of a node that is no branch."""
    if node.origin is None:
        return node
    kept = node.kept - bool(node.kept and node.origin.text)
    text = node.text[sum(map(len, node.tokens[:kept])) :]
    tokens, logprobs, top = node.tokens[kept:], node.logprobs[kept:], node.top[kept:]
    return replace(node, parts=[text], joined=(0, ""), tokens=tokens, logprobs=logprobs, top=top)


def _lead(node: Node) -> str:
    """What is repeated of the text that a branch kept: all of a short one, of a long one the end."""
    kept = node.text[: len(node.text) - len(own_part(node).text)]
    return kept if len(kept) <= 2 * LEAD else f"…{kept[-LEAD:]}"


def _branch_line(session: Session, branch: str) -> str:
    return f"{branch_name(session, branch)}, from {source_name(session, branch)}: {leaving_words(session, branch)}"
