"""A refusal as a window says it: whoever reads it sees nodes, not ids, and has asked for nothing by name.

Owns those words. It must not know what was asked for, nor windows.
"""

from __future__ import annotations

import re

from ..errors import InvalidRequest
from ..log.session import Session

_NODE = re.compile(r"\b([Nn])ode (\S+?)(?=[\s,;:.]*(?:\s|$))")


def line_of(error: BaseException, session: Session) -> str:
    """One line, without a node's id; without a code where nothing was sent, since there is nothing to look up."""
    line = str(error)
    if isinstance(error, InvalidRequest) and not error.request_id:
        line = f"{error.message} {error.hint or ''}"

    def named(found: re.Match[str]) -> str:
        known = found[2] in session.nodes
        return f"{'T' if found[1] == 'N' else 't'}his node" if known else found[0]

    return _NODE.sub(named, " ".join(line.split()))
