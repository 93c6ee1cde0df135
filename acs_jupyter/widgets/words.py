"""What is said about a run, in words; ``js/src/parts/status.ts`` says the same.

Owns the phrases. It must not know markup or widgets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..wire import CLAMPED, parse_clamp

if TYPE_CHECKING:
    from ..log.session import Node, Run, Session


_AT_ONCE = 0.0005
"""Seconds; what came sooner was not waited for: a job's result, which is read whole when it has long ended."""


def finish_words(node: Node, run: Run) -> str:
    """Why a choice ended; ``""`` while it has not."""
    reason, stop = node.finish_reason, node.stop_reason
    if reason == "length":
        clamp = parse_clamp(run.headers.get(CLAMPED))
        limit = clamp.applied if clamp and clamp.applied else run.request.get("max_tokens")
        return f"reached max_tokens ({limit})" if limit else "reached max_tokens"
    if reason == "stop":
        if isinstance(stop, str):
            return f"stop string {json.dumps(stop, ensure_ascii=False)}"
        return "end of text" if stop is None else f"stop token {stop}"
    if reason is not None:
        return reason
    return "" if run.outcome == "open" else outcome_words(run)


def outcome_words(run: Run) -> str:
    """How the run as a whole stands."""
    if run.outcome == "open":
        return "waiting" if run.first_token_at is None else "running"
    if run.outcome == "failed" and run.error is not None:
        return f"failed: {run.error['code']}"
    return run.outcome


def model_name(run: Run) -> str:
    """The model that answered, or the one that was asked."""
    return run.checkpoint or run.request.get("model") or "default model"


def completion_tokens(session: Session, run: Run) -> int:
    """Tokens of the completion: the server's count, or while there is none, those that came."""
    if run.usage_source is not None:
        return run.completion_tokens
    return sum(len(session.nodes[node].tokens) for node in run.nodes)


def figures(session: Session, run: Run, at: float) -> list[str]:
    """Figures for the status line, each ready to show. ``at``: when the last thing happened."""
    shown = []
    tokens = completion_tokens(session, run)
    if tokens:
        prompt = "" if run.usage_source is None else f"{run.prompt_tokens:,} + "
        about = "about " if run.usage_source == "estimate" else ""
        shown.append(f"{about}{prompt}{tokens:,} {'token' if tokens == 1 else 'tokens'}")
    if run.first_token_at is not None:
        if run.first_token_at - run.opened_at >= _AT_ONCE:
            shown.append(f"first token {_seconds(run.first_token_at - run.opened_at)}")
        took = (at if run.closed_at is None else run.closed_at) - run.first_token_at
        if tokens > 1 and took > 0.05:
            rate = (tokens - 1) / took
            shown.append(f"{rate:,.0f} tok/s" if rate >= 100 else f"{rate:.1f} tok/s")
    return shown


def status_words(session: Session, run: Run) -> str:
    """The status line of a run that is shown as it stands."""
    ended = (
        run.closed_at
        if run.closed_at is not None
        else (session.since(len(session) - 1)[0][0] if len(session) else 0.0)
    )
    nodes = [session.nodes[node] for node in run.nodes]
    words = outcome_words(run)
    if len(nodes) == 1 and run.outcome == "done":
        words = finish_words(nodes[0], run) or words
    parts = [words, model_name(run), *figures(session, run, ended)]
    request_id = run.request_id or run.completion_id
    return " · ".join([*parts, f"request {request_id}"] if request_id else parts)


def clamp_words(run: Run) -> str:
    """The server lowered ``max_tokens``: a sentence, or ``""``."""
    clamp = parse_clamp(run.headers.get(CLAMPED))
    if clamp is None:
        return ""
    if clamp.applied is None:
        return "The server lowered max_tokens."
    why = f" ({clamp.reason.replace('_', ' ')})" if clamp.reason else ""
    before = "" if clamp.requested is None else f" from {clamp.requested}"
    return f"The server lowered max_tokens{before} to {clamp.applied}{why}."


def error_words(run: Run) -> str:
    """What went wrong, on one line, or ``""``."""
    if run.error is None:
        return ""
    status = "" if run.error["status"] is None else f" ({run.error['status']})"
    return f"{run.error['code']}{status}: {' '.join(str(run.error['message']).split())}"


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
