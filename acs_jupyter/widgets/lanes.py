"""Lanes side by side as a static page part and as plain text: what is read where no kernel is.

Owns the grid around single runs and the prompt over it. It must not know how lanes are run; a run itself is drawn by
``snapshot.py``, and all of it stays within the bound of a live cell of as many tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .snapshot import family_nodes, framed, most_saved, plain_text, run_parts
from .tinted import on_file, text_of, tinted

if TYPE_CHECKING:
    from ..log.session import Session

LEAD = 240
"""Characters of a prompt's end that are shown."""
_PRE = '<pre style="white-space:pre-wrap;word-break:normal;opacity:.75">'


@dataclass(frozen=True)
class Strand:
    """What one lane shows: its name, the prompt if it has its own, and a run if there is one."""

    title: str
    prompt: str | None
    run: str | None


def bundle(
    session: Session, prompt: str, strands: list[Strand], *, tokens: int, spent: int, line: str
) -> dict[str, str]:
    """Text and page. ``tokens``: those of all runs that are kept, whose bound it is; ``spent``: bytes that are taken
    elsewhere in the file."""
    text = plain(session, strands)
    nodes = [node for one in strands if one.run for node in family_nodes(session, one.run)]
    bare = on_file(_page(session, prompt, strands, line, {})) + on_file(text)
    room = (most_saved(tokens) - spent - bare) / max(1, sum(len(node.tokens) for node in nodes))
    texts = {node.id: tinted(node, room * len(node.tokens)) for node in nodes}
    return {"text/plain": text, "text/html": _page(session, prompt, strands, line, texts)}


def plain(session: Session, strands: list[Strand]) -> str:
    """Each lane's text under its name."""
    blocks = []
    for one in strands:
        run = session.runs.get(one.run or "")
        text = "(not run)" if run is None else plain_text(session, run.id)
        if run is not None and run.error is not None:
            text = f"{text}\n" if text else ""
            text += f"{run.error['code']}: {run.error['message']}"
        blocks.append(f"--- {one.title} ---\n{text}")
    return "\n".join(blocks)


def _page(session: Session, prompt: str, strands: list[Strand], line: str, texts: dict[str, str]) -> str:
    parts = [f"{_PRE}{_shown(prompt)}</pre>" if prompt else "", '<div class="acs-grid">']
    for one in strands:
        parts.append(f'<div><div class="acs-name"><b>{text_of(one.title)}</b></div>')
        if one.prompt is not None:
            parts.append(f"{_PRE}{_shown(one.prompt)}</pre>")
        if one.run in session.runs:
            parts.append(run_parts(session, session.runs[one.run], texts))
        parts.append("</div>")
    parts.append(f'</div><div class="acs-line">{text_of(line)}</div>' if line else "</div>")
    return framed("".join(parts))


def _shown(prompt: str) -> str:
    return text_of(prompt if len(prompt) <= LEAD else f"…{prompt[-LEAD:]}").replace("\n", "&#10;")
