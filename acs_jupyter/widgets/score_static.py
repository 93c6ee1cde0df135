"""A scored text as a static page part: its tokens in the colours of the other views, its statistics in one line.

Owns the markup of a score and the line. It must not know windows or requests.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..log.tree import Node
from .snapshot import framed
from .tinted import text_of, tinted

if TYPE_CHECKING:
    from ..scores.values import Score

MINUS = str.maketrans("-", "−")
"""A hyphen before a number is a minus for people."""


def score_bundle(score: Score) -> dict[str, str]:
    """What a notebook shows and keeps of a score: the exact text, and the page part. In a terminal, its ``repr``."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if type(shell).__name__ == "TerminalInteractiveShell":
        return {"text/plain": repr(score)}
    page = (
        f'<pre style="white-space:pre-wrap;word-break:normal">{score_markup(score)}</pre>'
        f'<div class="acs-line">{text_of(score_line(score))}</div>'
    )
    return {"text/plain": score.text, "text/html": framed(page, beside_window=False)}


def score_line(score: Score) -> str:
    """The statistics, in one line."""
    size = f"{len(score):,} {'token' if len(score) == 1 else 'tokens'}"
    scored = "" if score.scored == len(score) else f", {score.scored:,} scored"
    figures = (
        f"logprob {score.logprob:.3f} nats · perplexity {score.perplexity:.2f} · "
        f"{score.bits_per_byte:.3f} bits per byte"
    )
    return f"{size}{scored} · {figures.translate(MINUS)} · {score.model or 'model not known'}"


def score_markup(score: Score) -> str:
    """Its tokens with tints and titles; of a long text as many are told in full as 60 bytes a token have room for."""
    tokens = score.tokens
    tops = [{each.text: each.logprob for each in token.top} or None for token in tokens]
    node = Node(
        "n", "r", None, 0, parts=[score.text], tokens=[token.text for token in tokens],
        logprobs=[None if token.logprob is None else max(token.logprob, -9999.0) for token in tokens], top=tops,
    )  # fmt: skip
    return tinted(node, 60_000 + 60.0 * len(tokens))
